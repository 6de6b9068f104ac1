# F51: every documented way out of a database and back in, with work in every state;
# then the copy goes on working: each piece of work comes once, ids and keys go on,
# and the tables are well.  F45: a copy by logical replication, and the cut-over to it.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use EveryState;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump_matrix', "fsync = off\nautovacuum = off\nmax_prepared_transactions = 5\n", allows_streaming => 'logical');
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'source', $query);
}

my $tables = sql("SELECT string_agg(relname, ', ') FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind = 'r'", 'postgres');

sql('CREATE ROLE tom; CREATE DATABASE source', 'postgres');
work_in_every_state($node, 'source');
sql("BEGIN; SELECT pgqrs_enqueue('jobs', '\"prepared\"'); PREPARE TRANSACTION 'prepared'");
my @live = undelivered($node, 'source');
my $rows = contents($node, 'source', "'r'");
my $sequences = contents($node, 'source', "'S'");
is(sql('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '', 'pgqrs_verify() finds no fault in the source');

sub is_copy
{
	my ($name, $database, @expected) = @_;
	is(contents($node, $database, "'r'"), $rows, "$name: the copy has all rows of the source");
	is(contents($node, $database, "'S'"), $sequences, "$name: the copy has the sequences of the source");
	sql('CREATE EXTENSION IF NOT EXISTS amcheck', $database);
	goes_on($node, $name, $database, @live);
	return;
}

sub run
{
	my ($name, @command) = @_;
	return command_ok(\@command, $name);
}

# Out.
my $source = $node->connstr('source');
run('pg_dump, plain', 'pg_dump', '-f', "$dir/plain", $source);
run('pg_dump -Fc', 'pg_dump', '-Fc', '-f', "$dir/custom", $source);
run('pg_dump -Fd -j', 'pg_dump', '-Fd', '-j', '2', '-f', "$dir/directory", $source);
run('pg_dump -n', 'pg_dump', '-Fc', '-n', 'public', '-f', "$dir/schema", $source);
run('pg_dump --data-only --inserts --disable-triggers', 'pg_dump', '-a', '--inserts', '--disable-triggers', '-f', "$dir/inserts", $source);
run('pg_dumpall', 'pg_dumpall', '-f', "$dir/all", '-d', $node->connstr('postgres'));
like(slurp_file("$dir/all"), qr/CREATE ROLE tom;.*\\connect source.*CREATE EXTENSION IF NOT EXISTS pgqrs.*COPY public\.pgqrs_messages/s, 'pg_dumpall writes the roles and a plain dump of each database');

# In, where nothing is.
my @restore = ('pg_restore', '-e', '-d');
my @ways = (
	[ 'plain', sub { run('psql', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $_[0], '-f', "$dir/plain") } ],
	[ 'serial', sub { run('pg_restore', @restore, $_[0], "$dir/custom") } ],
	[ 'single', sub { run('pg_restore --single-transaction', @restore, $_[0], '-1', "$dir/custom") } ],
	[ 'directory', sub { run('pg_restore -j of a folder', @restore, $_[0], '-j', '4', "$dir/directory") } ],
	[ 'sections', sub { run("pg_restore --section=$_", @restore, $_[0], '-j', '4', "--section=$_", "$dir/custom") for 'pre-data', 'data', 'post-data' } ],
	[ 'schema', sub { sql("CREATE EXTENSION pgqrs", 'schema'); run('pg_restore of pg_dump -n', @restore, $_[0], '-n', 'public', "$dir/schema"); sql('SELECT pgqrs_sync_grants()', 'schema') } ],
	map { [ "parallel$_", sub { run('pg_restore -j', @restore, $_[0], '-j', '4', "$dir/custom") } ] } 1 .. 3);
for my $way (@ways)
{
	my ($name, $restore) = @$way;
	sql("CREATE DATABASE $name", 'postgres');
	$restore->($node->connstr($name));
	is_copy($name, $name);
	sql("DROP DATABASE $name", 'postgres') unless $name eq 'serial';
}

# In, where work was done: a session remembers the queues, and floors are raised.
# The data of other tables come along.
my $work = "SELECT pgqrs_enqueue('jobs', '\"gone\"'); SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs');\n" x 20;
my @data = ('pg_restore', '-e', '-a', '-d', $node->connstr('serial'));
for my $way (
	[ '--data-only', @data, "$dir/custom" ],
	[ '--data-only -j', @data, '-j', '4', "$dir/custom" ],
	[ '--data-only --disable-triggers', @data, '--disable-triggers', "$dir/custom" ],
	[ '--data-only --disable-triggers -1', @data, '-1', '--disable-triggers', "$dir/custom" ],
	[ '--inserts --disable-triggers', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('serial'), '-f', "$dir/inserts" ],
	[ '--clean', 'pg_restore', '-e', '-c', '--if-exists', '-d', $node->connstr('serial'), "$dir/custom" ])
{
	my ($name, @command) = @$way;
	sql($work, 'serial');
	my $session = $node->background_psql('serial');
	$session->query_safe("SELECT pgqrs_dequeue('jobs'), pgqrs_dequeue('*'), pgqrs_find_run('flow', 'x')");
	sql('DROP TABLE drained', 'serial');
	sql("TRUNCATE $tables, held", 'serial') unless $name eq '--clean';
	sql('DROP TABLE held; DROP PROCEDURE claim', 'serial') if $name eq '--clean';
	run($name, @command);
	is($session->query_safe(q{BEGIN; SELECT payload FROM pgqrs_dequeue('jobs'); ROLLBACK}), '"urgent"', "$name: a session from before sees what was restored");
	is($session->query_safe(q{SELECT pgqrs_find_run('flow', 'queued') > 0}), 't', "$name: a session from before sees a run that was restored");
	$session->quit;
	is_copy($name, 'serial');
}

# As a template.
sql("COMMIT PREPARED 'prepared'");
push @live, '"prepared"';
$rows = contents($node, 'source', "'r'");
sql('CREATE DATABASE template TEMPLATE source', 'postgres');
is_copy('CREATE DATABASE TEMPLATE', 'template');

# By logical replication.  While a subscription writes the tables, nothing else does.
sub health
{
	return sql("SELECT value FROM pgqrs_health WHERE item = 'background worker'", 'copy');
}
sub catch_up
{
	$node->wait_for_catchup('copied');
	return is(contents($node, 'copy', "'r'"), contents($node, 'source', "'r'"), "$_[0]: the subscriber has the same rows");
}
run('pg_dump of other tables', 'pg_dump', '-Fc', '-t', 'held', '-f', "$dir/held", $source);
sql('CREATE DATABASE copy', 'postgres');
sql('CREATE EXTENSION pgqrs; CREATE EXTENSION amcheck', 'copy');
run('pg_restore of other tables', @restore, $node->connstr('copy'), "$dir/held");
sql("CREATE PUBLICATION everything FOR ALL TABLES; SELECT pg_create_logical_replication_slot('copied', 'pgoutput')");
sql('TRUNCATE held', 'copy');
my $reader = $node->background_psql('copy');
is($reader->query_safe('SELECT count(*) FROM pgqrs_queue_stats'), '0', 'a session looks at a subscriber before anything is there');
sql("CREATE SUBSCRIPTION copied CONNECTION '" . $node->connstr . " dbname=source' PUBLICATION everything WITH (create_slot = false)", 'copy');
$node->wait_for_subscription_sync(undef, 'copied', 'copy');
catch_up('copied');
is(health(), 'none, as a subscription writes the tables', 'pgqrs_health tells of the subscription');
for my $call ("pgqrs_enqueue('jobs', '1')", "pgqrs_dequeue('jobs')", "pgqrs_trigger('flow')", 'pgqrs_maintain()', 'pgqrs_apply_retention()', "pgqrs_create_queue('x')")
{
	is(sqlstate($node, "SELECT $call", 'copy'), '55000', "$call is refused on a subscriber");
}
is($reader->query_safe(q{SELECT count(*) FROM pgqrs_peek('jobs'); SELECT status FROM pgqrs_result(pgqrs_find_run('flow', 'ended'))}), sql(q{SELECT count(*) FROM pgqrs_peek('jobs'); SELECT 'SUCCESS'}), 'functions that read answer on a subscriber');

# Background work on both sides, and a run that both would end.
sql("ALTER SYSTEM SET pgqrs.paused = off", 'postgres');
sql('SELECT pg_reload_conf()', 'postgres');
is(is_served($node, 'source') ? 1 : 0, 1, 'the publisher ends the run at its deadline');
catch_up('background work');
is(sql('SELECT count(*) FROM pg_stat_subscription_stats WHERE apply_error_count > 0', 'copy'), '0', 'the subscriber does not end the run, which would end the replication');
is(log_count($node, 'duplicate key'), 0, 'the log has no conflict of a row that was written twice');
sql("ALTER SYSTEM SET pgqrs.paused = on", 'postgres');
sql('SELECT pg_reload_conf()', 'postgres');
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'");

# The cut-over.
catch_up('the cut-over');
sql('DROP SUBSCRIPTION copied', 'copy');
like(health(), qr/paused/, 'a dropped subscription does not keep the background worker away');
is(sql('SELECT sequence, last_id FROM pgqrs_advance_sequences() ORDER BY 1', 'copy'),
	sql(q{SELECT * FROM (VALUES ('pgqrs_event_id_seq', 0), ('pgqrs_message_id_seq', (SELECT max(i) FROM (SELECT message_id FROM pgqrs_messages UNION ALL SELECT message_id FROM pgqrs_archive) a (i))),
		('pgqrs_queue_id_seq', (SELECT max(queue_id) FROM pgqrs_queues)), ('pgqrs_schedule_id_seq', 1), ('pgqrs_signal_id_seq', (SELECT max(signal_id) FROM pgqrs_run_signals)), ('pgqrs_worker_id_seq', 1)) v ORDER BY 1}),
	'each sequence is at the largest id');
my $before = contents($node, 'copy', "'S'");
is(sql('SELECT count(*) FROM pgqrs_advance_sequences(); SELECT pgqrs_sync_grants()', 'copy'), "6\n", 'pgqrs_advance_sequences() may be called again');
is(contents($node, 'copy', "'S'"), $before, 'a second pgqrs_advance_sequences() changes no sequence');
sql(q{SELECT pgqrs_delete_workflow('deadline', true)}, 'copy');
goes_on($node, 'the subscriber after the cut-over', 'copy', @live);
is($reader->query_safe(q{SELECT pgqrs_trigger('flow', '"reader"') > 0}), 't', 'a session from before the cut-over triggers a run');
$reader->quit;

# Sequences advance while ids are taken, and never go back.
my $taker = $node->background_psql('copy');
$taker->query_safe('BEGIN');
my $taken = $taker->query_safe("SELECT pgqrs_enqueue('jobs', '1')");
sql(q{SELECT setval('pgqrs_message_id_seq', 1); INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome, priority)
	SELECT 1000000, queue_id, now(), now(), now(), 1, 0, 'DONE', 0 FROM pgqrs_queues WHERE name = 'jobs'}, 'copy');
my @advancing = map { start_client($node, "SET application_name = 'advancing'; SELECT last_id FROM pgqrs_advance_sequences() WHERE sequence LIKE '%message%'", database => 'copy') } 1, 2;
is(waits_for_lock($node, 'advancing'), 1, 'a sequence that is behind is not set while a transaction takes ids');
$taker->query_safe("SELECT setval('pgqrs_message_id_seq', 2000000); COMMIT");
is(join(' ', map { finish_client($_) } @advancing), '2000000 2000000', 'pgqrs_advance_sequences() does not set a sequence back behind ids that were taken meanwhile');
$taker->quit;

done_testing();
