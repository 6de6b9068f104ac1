# The view pgqrs_health, and what it says of floors: messages below them are
# seen at once where the trigger tells of them, else found by the sweep.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('health', "fsync = off\nmax_prepared_transactions = 10\nautovacuum = off\n");

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

# An item as value|ok|hint.
sub health
{
	my ($item, $database) = @_;
	return sql("SELECT value, ok, hint FROM pgqrs_health WHERE item = '$item'", $database);
}

sub maintain
{
	return sql("SELECT coalesce(string_agg(key || ' ' || value, ', '), '') FROM jsonb_each(pgqrs_maintain()) WHERE value <> '0'");
}

# What a queue delivers, each message in a transaction of its own, as payloads.
sub claim
{
	my ($queue, $count) = @_;
	return join ' ', split /\n/,
	  sql(join '', "SELECT payload #>> '{}' FROM pgqrs_dequeue('$queue', visibility_timeout => '1 hour');\n" x ($count // 1));
}

# Works off so many messages that the floor is raised.
sub raise_floor
{
	my ($queue, $priority, $database) = @_;
	sql(join('', "SELECT pgqrs_enqueue('$queue', '\"gone\"', priority => $priority);
		SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('$queue');\n" x 20), $database);
	return;
}

# Stores messages past the functions, due long ago.
sub store
{
	my ($queue, $priority, @payloads) = @_;
	return join '', map {
		"INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
			SELECT nextval('pgqrs_message_id_seq'), queue_id, '2020-01-01', now(), 0, 0, $priority, '\"$_\"'
			FROM pgqrs_queues WHERE name = '$queue';\n"
	} @payloads;
}

# The same with the trigger off, in a way of which no backend is told.
sub hide
{
	return hide_inserts(store(@_));
}

sub hide_inserts
{
	my ($inserts) = @_;
	sql("UPDATE pg_trigger SET tgenabled = 'D' WHERE tgname = 'pgqrs_messages_written'");
	sql($inserts);
	sql("UPDATE pg_trigger SET tgenabled = 'A' WHERE tgname = 'pgqrs_messages_written'");
	return;
}

# A fresh server.
is(sql('SELECT string_agg(item, \', \') FROM pgqrs_health WHERE ok IS DISTINCT FROM true OR hint IS NOT NULL'), 'background worker',
	'on a fresh server only the paused background worker is not ok');
is(sql('SELECT string_agg(item, \', \') FROM pgqrs_health'),
	'version, preloaded, background worker, last pass, duties, clock, work sent from the future, done in the background, floors, floors raised, floors lowered, index entries per claim, oldest xmin, notification queue, dead messages, triggers, tables readable by others, schedules that cannot fire, queues that stand still, oldest parked run', 'pgqrs_health has these items in this order');
is(health('version'), sql('SELECT extversion FROM pg_extension WHERE extname = \'pgqrs\'') . '|t|', 'the item version shows the installed version');
is(health('preloaded'), 'yes|t|', 'the item preloaded says yes');
is(health('background worker'), 'none: paused|f|Set pgqrs.paused to off and reload the configuration.', 'a paused background worker is not ok');
is(health('last pass'), 'none since the server started|t|', 'no pass has run since the start');
is(health('done in the background'), 'nothing|t|', 'no background work was done');
is(health('floors'), '0 of 4096|t|', 'a fresh server has no floors');
is(health('floors raised'), '0|t|', 'no floor was raised');
is(health('floors lowered'), '0|t|', 'no floor was lowered');
is(health('index entries per claim'), 'nothing was claimed yet|t|', 'no message was claimed');
is(health('oldest xmin'), 'none|t|', 'no session holds back vacuum');
is(health('notification queue'), '0.0 % full|t|', 'no listener keeps notifications');
is(health('dead messages'), '0|t|', 'no message row is dead');

# Floors are raised.
sql("SELECT pgqrs_create_queue('a', visibility_timeout => '1 hour'), pgqrs_create_queue('b'), pgqrs_create_queue('c')");
raise_floor('a', 0);
raise_floor('a', 7);
raise_floor('b', 0);
is(health('floors'), '3 of 4096|t|', 'claims make a floor for each queue and priority');
like(health('floors raised'), qr/^[1-9]\d*\|t\|$/, 'claims have raised floors');
like(health('index entries per claim'), qr/^[1-9]\d?\.\d\|t\|$/, 'claims read few index entries');
is(maintain(), '', 'a sweep finds no message below the floors');

# Written past the functions, below the floor: seen at once, also by a claim of the same transaction.
is(claim('a'), '', 'an empty queue has nothing to claim');
sql(store('a', 0, 'inserted'));
is(claim('a'), 'inserted', 'a claim finds an inserted row at once');
sql('UPDATE pgqrs_messages SET visible_after = \'2020-01-01\', lease = NULL');
is(claim('a'), 'inserted', 'a claim finds an updated row at once');
append_to_file("$PostgreSQL::Test::Utils::tmp_check/copy",
	join("\t", 9000000, 1, '2020-01-01', '2020-01-01', 0, 0, 0, '"copied"') . "\n");
sql("COPY pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	FROM '$PostgreSQL::Test::Utils::tmp_check/copy'");
is(claim('a'), 'copied', 'a claim finds a copied row at once');
is(sql('BEGIN;' . store('a', 0, 'mine') . "SELECT payload #>> '{}' FROM pgqrs_dequeue('a'); COMMIT"), 'mine', 'a claim finds a row that its own transaction inserted');
is(sql('SET session_replication_role = replica;' . store('a', 0, 'replicated')), '', 'a subscriber inserts a row');
is(claim('a'), 'replicated', 'a claim finds a replicated row at once');
my $open = $node->background_psql('postgres');
$open->query_safe('BEGIN;' . store('a', 0, 'late'));
raise_floor('a', 0);
$open->query_safe('COMMIT');
$open->quit;
is(claim('a'), 'late', 'a claim finds a row of a transaction that was open during other claims');
is(health('floors lowered'), '0|t|', 'no sweep has lowered a floor for these rows');

# Hidden from the claims.
sub hidden
{
	my ($name, $queue, $priority, @payloads) = @_;
	raise_floor($queue, $priority);
	hide($queue, $priority, @payloads);
	is(claim($queue, 2), '', "$name: claims do not find a hidden message");
	is(maintain(), 'floors_lowered 1', "$name: a pass lowers the floor");
	is(claim($queue, scalar(@payloads) + 1), join(' ', @payloads), "$name: after the pass a claim delivers the messages");
	is(maintain(), '', "$name: the next pass has nothing to do");
	return;
}
hidden('one', 'a', 0, 'hidden');
hidden('at another priority', 'a', 7, 'seven');
hidden('many', 'b', 0, map { "h$_" } 1 .. 20);
like(health('floors lowered'), qr/^3\|f\|Claims did not find some messages/, 'lowered floors are counted and not ok');
raise_floor($_, 0) for 'a', 'b', 'c';
hide($_, 0, "in $_") for 'a', 'b', 'c';
is(maintain(), 'floors_lowered 3', 'a pass lowers all floors that hide messages');
is(claim('a') . claim('b') . claim('c'), 'in ain bin c', 'claims deliver the messages of all queues');

# The trigger as pg_restore --disable-triggers leaves it, or a user that forgets to
# enable it.
raise_floor('a', 0);
sql('ALTER TABLE pgqrs_messages DISABLE TRIGGER ALL');
like(health('triggers'), qr/^pgqrs_messages_written\|f\|.*pgqrs_maintain/, 'health reports a disabled trigger');
sql(store('a', 0, 'restored'));
is(claim('a'), '', 'claims do not find a row that the disabled trigger did not report');
sql('ALTER TABLE pgqrs_messages ENABLE TRIGGER ALL');
is(claim('a'), 'restored', 'claims find the row once triggers are enabled');
is(health('triggers'), 'as they should be|t|', 'the enabled trigger is ok');
raise_floor('a', 0);
sql('ALTER TABLE pgqrs_messages DISABLE TRIGGER USER');
sql(store('a', 0, 'forgotten'));
is(maintain(), 'floors_lowered 1', 'a pass enables a trigger that is left disabled');
is(health('triggers'), 'as they should be|t|', 'the trigger that a pass enabled is ok');
is(claim('a'), 'forgotten', 'claims find the row after the pass');

# Many dead entries that a snapshot keeps: a pass is bounded, the next goes on.
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$holder->query_safe('SELECT count(*) FROM pgqrs_messages');
for my $i (1 .. 3)
{
	sql("SELECT cardinality(pgqrs_enqueue_batch('a', array_agg(to_jsonb(g)))) FROM generate_series(1, 10000) g");
	sql("SELECT count(*) FROM (SELECT unnest(pgqrs_archive_messages(array_agg(message_id), array_agg(lease)))
		FROM pgqrs_dequeue('a', batch_size => 10000)) d");
}
my $late = sql('SELECT pgqrs_now()');
raise_floor($_, 0) for 'a', 'b';
hide_inserts(store('a', 0, 'far away') =~ s/2020-01-01/$late/r);
hide('b', 0, 'near');
is(claim('a') . claim('b'), '', 'claims do not find two hidden messages');
is(join(' ', sort map { maintain() } 1 .. 3), join(' ', sort('', 'floors_lowered 1', 'floors_lowered 1')), 'three bounded passes lower both floors');
is(claim('a') . claim('b'), 'far awaynear', 'claims find both messages');

# Sessions that hold back vacuum.
my $pid = $holder->query_safe('SELECT pg_backend_pid()');
like(health('oldest xmin'), qr/^pid $pid \(client backend\), role \w+, \w[^,]*, idle in transaction, SELECT pg_backend_pid\(\) ?;?, open for [\d:]+, \d+ transactions ago\|t\|$/, 'oldest xmin names the session');
sql("CREATE ROLE reader LOGIN; SELECT pgqrs_grant('c', 'reader', 'trigger')");
like(sql("SET SESSION AUTHORIZATION reader; SELECT value, ok, hint FROM pgqrs_health WHERE item = 'oldest xmin'"), qr/^another session, open for [\d:]+, \d+ transactions ago\|t\|$/,
	'a role without rights on the session does not see its name');
is(sql("SET SESSION AUTHORIZATION reader; SELECT count(*) FILTER (WHERE ok) FROM pgqrs_health WHERE item <> 'oldest xmin'"), '17',
	'that role sees all other items');
sql('GRANT pg_read_all_stats TO reader');
like(sql("SET SESSION AUTHORIZATION reader; SELECT value FROM pgqrs_health WHERE item = 'oldest xmin'"), qr/^pid $pid /, 'a member of pg_read_all_stats sees the session');
is(sqlstate($node, "CREATE ROLE other; SET SESSION AUTHORIZATION other; SELECT * FROM pgqrs_health"), '42501', 'a role without a privilege may not read health');
$holder->quit;
sql("BEGIN; SELECT pgqrs_enqueue('c', '1'); PREPARE TRANSACTION 'two phases'");
like(health('oldest xmin'), qr/^prepared transaction 'two phases', open for [\d:]+, \d+ transactions ago\|t\|$/, 'oldest xmin names the prepared transaction');
like(sql("REVOKE pg_read_all_stats FROM reader; SET SESSION AUTHORIZATION reader; SELECT value FROM pgqrs_health WHERE item = 'oldest xmin'"), qr/^a prepared transaction, open for/,
	'another role does not see the name of the prepared transaction');
sql("ROLLBACK PREPARED 'two phases'");
like(health('dead messages'), qr/^[1-9]\d{4,}\|t\|$/, 'dead messages are counted');

# A listener that stays in a transaction keeps notifications.
my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN c');
$listener->query_safe('BEGIN');
sql("SELECT count(pg_notify('c', repeat('x', 7900) || n)) FROM generate_series(1, 2000) AS n");
is(health('notification queue'), '0.2 % full|t|', 'a listener in a transaction fills the notification queue');
$listener->quit;

# Each database for itself, but the floors are all taken from one pot.
sql('CREATE DATABASE other');
sql("CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('a')", 'other');
is(health('floors lowered', 'other'), '0|t|', 'counts of lowered floors are per database');
is(health('floors', 'other'), health('floors'), 'all databases share the floors');
raise_floor('a', 0, 'other');
like(health('floors raised', 'other'), qr/^[1-9]\|t\|$/, 'another database counts its own raised floors');
sql('VACUUM pgqrs_messages');
is(health('dead messages'), '0|t|', 'vacuum removes the dead messages');

# What is not well.
sql("UPDATE pg_extension SET extversion = '0.0.1' WHERE extname = 'pgqrs'");
like(health('version'), qr/^library \S+, installed objects 0\.0\.1\|f\|ALTER EXTENSION/, 'older installed objects are not ok');
sql("UPDATE pg_extension SET extversion = pgqrs_version() WHERE extname = 'pgqrs'");
$node->append_conf('postgresql.conf', 'pgqrs.max_floors = 2');
$node->restart;
is(health('floors lowered'), '0|t|', 'a restart resets the counts');
raise_floor($_, 0) for 'a', 'b', 'c';
like(health('floors'), qr/^2 of 2\|f\|Raise pgqrs\.max_floors/, 'the third queue has taken the floor of the first');
hide('a', 0, 'a');
is(claim('a'), 'a', 'without a floor a claim finds a hidden message');
$node->append_conf('postgresql.conf', 'pgqrs.max_floors = 0');
$node->restart;
raise_floor('a', 0);
is(health('floors'), '0 of 0|t|', 'max_floors 0 leaves no floors');
is(maintain(), '', 'without floors a pass has nothing to sweep');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
like(health('preloaded'), qr/^no\|f\|Add pgqrs to shared_preload_libraries/, 'a library that is not preloaded is not ok');
is(sql("SELECT string_agg(item, ', ') FROM pgqrs_health WHERE value IS NULL AND ok IS NULL AND hint IS NULL"),
	'last pass, duties, clock, done in the background, floors, floors raised, floors lowered, index entries per claim', 'items of shared memory are unknown without preloading');
is(maintain(), '', 'without preloading a pass has nothing to sweep');

# A transaction that is open for long.
is(sql("SELECT count(*) FROM pgqrs_why('c') WHERE reason = 'old snapshot'"), '0', 'pgqrs_why() tells no snapshot that is young');
my $old = $node->background_psql('postgres');
$old->query_safe("SET application_name = 'left open'");
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$pid = $old->query_safe('SELECT pg_backend_pid()');
$node->append_conf('postgresql.conf', "pgqrs.clock_offset = '11min'");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('pgqrs.clock_offset') = '11min'");
like(sql("SELECT detail FROM pgqrs_why('c') WHERE reason = 'old snapshot'"), qr/^vacuum removes nothing that has ended since .*: pid $pid, role \w+, left open$/,
	'pgqrs_why() names the session of an old snapshot');
like(sql("SET SESSION AUTHORIZATION reader; SELECT detail FROM pgqrs_why('c') WHERE reason = 'old snapshot'"), qr/^vacuum removes nothing that has ended for more than 10 minutes: another session$/,
	'to a role that may not see it neither the session nor its begin is named');
$old->quit;

done_testing();
