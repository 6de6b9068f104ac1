# What one tenant can take of the floors from which claims start:
# F53 (queues that come and go by the thousand) and F1 (dead entries), with a
# transaction that was forgotten.  A cost is the number of index entries that
# claims look at, on average; under a snapshot, so that nothing dead goes away.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use Test::More;

my $max_floors = 64;
my $node = new_node('f53_floors', "fsync = off\nautovacuum = off\nmax_prepared_transactions = 10\npgqrs.max_floors = $max_floors\n");

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

# So many messages go through a queue one by one, each in transactions of its own.
sub pass
{
	my ($queue, $count) = @_;
	return sql(qq{
		DO \$\$
		BEGIN
			FOR i IN 1..$count LOOP
				PERFORM pgqrs_enqueue('$queue', '1');
				COMMIT;
				PERFORM pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('$queue', visibility_timeout => '1 hour');
				COMMIT;
			END LOOP;
		END
		\$\$});
}

# What a claim of the queue costs.
sub cost
{
	my ($queue, $count) = @_;
	my $sum = "SELECT looked || ' ' || claimed FROM pgqrs_floor_stats()";
	my ($looked, $claimed) = split / /, sql($sum);
	pass($queue, $count // 200);
	my ($looked_then, $claimed_then) = split / /, sql($sum);
	return ($looked_then - $looked) / ($claimed_then - $claimed);
}

sub floors
{
	return sql('SELECT floors FROM pgqrs_floor_stats()');
}

sql("SELECT pgqrs_create_queue(q) FROM unnest('{quiet,busy,a,b,c}'::text[]) AS q");
sql("SELECT pgqrs_create_queue('many.' || g) FROM generate_series(1, 40) AS g");
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgqrs_messages');
pass('busy', 100);
my $alone = cost('busy');
note("alone: $alone");
cmp_ok($alone, '<', 10, 'a claim looks at few entries though nothing dead goes away');

sub is_as_alone
{
	my ($what, $queue) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $cost = cost($queue // 'busy');
	# the first claims pay for a gap, and each looks at what the transaction wrote
	my $max = $what =~ /the queue.*stays/ ? 3 : 1.5;
	note("$what: $cost");
	return cmp_ok($cost, '<=', $max * $alone, "$what: a claim costs at most $max times as much as alone");
}

# Transactions that stay open, or prepared, while others go on.
my %forgotten = (
	'sent to two other queues' => "SELECT pgqrs_enqueue('a', '1'), pgqrs_enqueue('b', '1')",
	'claimed from two other queues' => "SELECT count(*) FROM pgqrs_dequeue('c', batch_size => 2) AS c, pgqrs_dequeue('many.1') AS m",
	'claimed from many other queues' => "SELECT count(*) FROM pgqrs_dequeue('many.*', batch_size => 40)",
	'sent to many other queues' => "SELECT count(pgqrs_enqueue('many.' || g, '1')) FROM generate_series(1, 40) AS g",
	'sent to the queue' => "SELECT pgqrs_enqueue('busy', '1')",
	'sent to the queue, also for later' => "SELECT pgqrs_enqueue('busy', '1'), pgqrs_enqueue('busy', '1', delay => '1 hour')",
	'claimed from the queue' => "SELECT count(*) FROM pgqrs_dequeue('busy', visibility_timeout => '1 second')",
);
for my $what (sort keys %forgotten)
{
	sql("SELECT pgqrs_enqueue(q, '1') FROM unnest('{a,b,c,c}'::text[]) AS q");
	sql("SELECT pgqrs_enqueue('busy', '1')") if $what =~ /claimed from the queue/;
	sql("SELECT pgqrs_enqueue('many.' || g, '1') FROM generate_series(1, 40) AS g") if $what =~ /claimed from/;
	my $session = $node->background_psql('postgres');
	$session->query_safe("BEGIN; $forgotten{$what}");
	is_as_alone("a transaction that $what stays open");
	$session->query_safe("PREPARE TRANSACTION 'forgotten'");
	is_as_alone("a transaction that $what stays prepared");
	$session->query_safe("ROLLBACK PREPARED 'forgotten'");
	is_as_alone("after its end");
	$session->quit;
}

# What was written meanwhile in a transaction that goes on is found at its end.
my $writer = $node->background_psql('postgres');
sql("SELECT pgqrs_purge_queue('busy')");
$writer->query_safe(qq{BEGIN; SELECT pgqrs_enqueue('busy', '"first"')});
pass('busy', 100);
$writer->query_safe(qq{SELECT pgqrs_enqueue('busy', '"second"'), pgqrs_enqueue('busy', '"later"', delay => '1 us')});
pass('busy', 100);
$writer->query_safe('COMMIT');
is(sql("SELECT string_agg(payload #>> '{}', ' ') FROM pgqrs_dequeue('busy', batch_size => 10, visibility_timeout => '1 hour')"), 'first second later',
	'claims find all messages of a transaction when it commits');
$writer->quit;

# What claims do not look at, neither below the floor nor above.
my $gap = $node->background_psql('postgres');
$gap->query_safe(q{BEGIN; SELECT pgqrs_enqueue('a', '1')});
sql("SELECT pgqrs_purge_queue('a')");
pass('a', 30);
my $instant = sql('SELECT pgqrs_now()');
pass('a', 100);
my $insert = "INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	SELECT nextval('pgqrs_message_id_seq'), queue_id, '$instant', now(), 0, 0, 0, '\"by hand\"' FROM pgqrs_queues WHERE name = 'a'";
my $claim = "SELECT payload FROM pgqrs_dequeue('a', visibility_timeout => '1 hour')";
sql($insert);
is(sql($claim), '"by hand"', 'a message that is written by hand where no claim looked is seen');
pass('a', 100);
for my $enabled ('D', 'A')
{
	sql("UPDATE pg_trigger SET tgenabled = '$enabled' WHERE tgname = 'pgqrs_messages_written'");
	sql($insert) if $enabled eq 'D';
}
is(sql($claim), '', 'claims do not find a message that was written with the trigger disabled');
is(sql('SELECT count(*) FROM pgqrs_below_floors()'), '1', 'pgqrs_below_floors() lists that message');
is(sql("SELECT pgqrs_maintain() ->> 'floors_lowered'"), '1', 'a pass lowers the floor for that message');
is(sql($claim), '"by hand"', 'a claim delivers the message after the pass');
$gap->query_safe('ROLLBACK');
$gap->quit;

# Queues that are looked at but have nothing take no floor.
my $before = floors();
sql("SELECT pgqrs_create_queue('empty.' || g) FROM generate_series(1, 4 * $max_floors) AS g");
sql("SELECT count(*) FROM pgqrs_dequeue('empty.*')");
is(floors(), $before, 'empty queues take no floors');

# Queues that come and go give theirs back.
sql(qq{
	DO \$\$
	BEGIN
		FOR i IN 1..300 LOOP
			PERFORM pgqrs_create_queue('gone');
			PERFORM pgqrs_enqueue('gone', '1', priority => p) FROM generate_series(1, 2) AS p;
			COMMIT;
			PERFORM pgqrs_dequeue('gone') FROM generate_series(1, 2);
			COMMIT;
			PERFORM pgqrs_delete_queue('gone', force => true);
			COMMIT;
		END LOOP;
	END
	\$\$});
is(floors(), $before, 'queues that were deleted take no floors');

# So do databases and extensions.
for my $drop ('DROP EXTENSION pgqrs CASCADE', 'DROP DATABASE other')
{
	sql('CREATE DATABASE other') if $drop =~ /EXTENSION/;
	sql("CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('q.' || g) FROM generate_series(1, 20) AS g;
		SELECT pgqrs_enqueue('q.' || g, '1') FROM generate_series(1, 20) AS g", 'other');
	sql("SELECT count(*) FROM pgqrs_dequeue('q.*', batch_size => 20)", 'other');
	cmp_ok(floors(), '>', $before, 'queues of another database take floors');
	sql($drop, $drop =~ /EXTENSION/ ? 'other' : 'postgres');
	is(floors(), $before, "$drop gives them back");
}
sql('DROP DATABASE IF EXISTS other');

# More queues than floors: a busy one keeps or takes its own.
sql("SELECT pgqrs_create_queue('full.' || g) FROM generate_series(1, 2 * $max_floors) AS g");
sql("SELECT pgqrs_enqueue('full.' || g, '1') FROM generate_series(1, 2 * $max_floors) AS g");
sql("SELECT count(*) FROM pgqrs_dequeue('full.*', batch_size => 1000)");
is(floors(), $max_floors, 'more queues than max_floors take all floors');
is_as_alone('all floors are taken');
pass('quiet', 100);
is_as_alone('a queue that had none', 'quiet');
sql("SELECT pgqrs_delete_queue('full.' || g, force => true) FROM generate_series(1, 2 * $max_floors) AS g");
cmp_ok(floors(), '<', $max_floors, 'floors are given back without a restart');

$holder->quit;
is_well($node, 'at the end');
done_testing();
