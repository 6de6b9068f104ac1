# A session that knows of no urgent message in a queue claims without looking for
# one.  Whatever brings one into the queue is seen by the next claim all the same.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $node = new_node('levels', "max_prepared_transactions = 20\nfsync = off\nautovacuum = off\nshared_preload_libraries = 'pgqrs'\n");
my $writer = $node->background_psql('postgres');
my $claimer = $node->background_psql('postgres');
my $claim = q{SELECT payload FROM pgqrs_dequeue('jobs')};
my $enqueue = q{SELECT pgqrs_enqueue('jobs', '"urgent"', priority => 1)};
my $insert = q{INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	SELECT nextval('pgqrs_message_id_seq'), queue_id, now(), now(), 0, 0, 1, '"urgent"' FROM pgqrs_queues WHERE name = 'jobs'};

sub buffers_of_claim
{
	my $plan = $claimer->query_safe(q{EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT FROM pgqrs_dequeue('jobs')});

	return $plan =~ /shared hit=(\d+)/ ? $1 : die "no buffers in: $plan";
}

# Only usual messages, and the claimer knows.
sub begin
{
	$writer->query_safe('TRUNCATE pgqrs_messages');
	$writer->query_safe(q{SELECT pgqrs_enqueue_batch('jobs', array_fill('"usual"'::jsonb, ARRAY[5]))});
	is($claimer->query_safe($claim), '"usual"', 'nothing else is there') for 1 .. 2;
	return;
}

sub seen_after
{
	my ($what, @statements) = @_;

	begin();
	$writer->query_safe($_) for @statements;
	is($claimer->query_safe($claim), '"urgent"', "a claim finds the urgent message after $what");
	is($claimer->query_safe($claim), '"usual"', "the next claim returns a usual message");
	return;
}

$node->safe_psql('postgres', q{SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 hour')});

begin();
my $known = buffers_of_claim();
$node->safe_psql('postgres', q{SELECT pgqrs_maintain()});
cmp_ok(buffers_of_claim(), '>', $known, 'maintenance has every session look again');
is(buffers_of_claim(), $known, 'a look is remembered');

seen_after('an enqueue', $enqueue);
seen_after('a batch', q{SELECT pgqrs_enqueue_batch('jobs', '{"\"urgent\""}', priority => 1)});
seen_after('an enqueue with a key', q{SELECT pgqrs_enqueue('jobs', '"urgent"', priority => 1, idempotency_key => gen_random_uuid()::text)});
seen_after('a released savepoint', 'BEGIN', 'SAVEPOINT s', $enqueue, 'RELEASE s', 'COMMIT');
seen_after('COMMIT PREPARED', 'BEGIN', $enqueue, "PREPARE TRANSACTION 'urgent'", "COMMIT PREPARED 'urgent'");
seen_after('an INSERT by hand', $insert);
seen_after('COPY', q{CREATE TEMP TABLE copied AS SELECT * FROM pgqrs_messages LIMIT 0}, $insert =~ s/INTO pgqrs_messages/INTO copied/r,
	"COPY copied TO '@{[ $node->data_dir ]}/copied'", "COPY pgqrs_messages FROM '@{[ $node->data_dir ]}/copied'");
seen_after('an UPDATE by hand', q{UPDATE pgqrs_messages SET priority = 1, payload = '"urgent"' WHERE message_id = (SELECT max(message_id) FROM pgqrs_messages)});

# Where the claimer looks while the other is writing.
for my $end ('COMMIT', "PREPARE TRANSACTION 'urgent'", 'ROLLBACK')
{
	begin();
	$writer->query_safe('BEGIN');
	$writer->query_safe($enqueue);
	$node->safe_psql('postgres', 'SELECT pgqrs_maintain()');
	is($claimer->query_safe($claim), '"usual"', "a claim does not find the urgent message before $end");
	$writer->query_safe($end);
	if ($end =~ /PREPARE/)
	{
		is($claimer->query_safe($claim), '"usual"', 'a claim does not find the urgent message of a prepared transaction');
		$writer->query_safe("COMMIT PREPARED 'urgent'");
	}
	is($claimer->query_safe($claim), $end eq 'ROLLBACK' ? '"usual"' : '"urgent"', "a claim finds the urgent message after its commit only ($end)");
}

# What the session itself has written, and what it takes back.
begin();
$claimer->query_safe('BEGIN');
$claimer->query_safe($enqueue);
is($claimer->query_safe($claim), '"urgent"', 'a claim finds an urgent message of its own transaction');
is($claimer->query_safe($claim), '"usual"', 'the next claim of that transaction returns a usual message');
$claimer->query_safe('ROLLBACK');
is($claimer->query_safe($claim), '"usual"', 'a claim finds no urgent message after the rollback');

for my $end ('ROLLBACK', 'ROLLBACK TO s', "PREPARE TRANSACTION 'truncated'; ROLLBACK PREPARED 'truncated'")
{
	begin();
	$writer->query_safe($enqueue);
	$claimer->query_safe('BEGIN; SAVEPOINT s');
	$claimer->query_safe('TRUNCATE pgqrs_messages');
	is($claimer->query_safe($claim), '', 'a claim finds no message in a truncated table') for 1 .. 2;
	$claimer->query_safe($end);
	is($claimer->query_safe($claim), '"urgent"', "a claim finds the urgent message again after $end");
	$claimer->query_safe('COMMIT') if $end =~ /TO/;
}

# Written past everything: found when the trigger is back, or by maintenance.
my $disable = 'ALTER TABLE pgqrs_messages DISABLE TRIGGER ALL';
my $enable = 'ALTER TABLE pgqrs_messages ENABLE ALWAYS TRIGGER pgqrs_messages_written';
seen_after('DISABLE TRIGGER', $disable, $insert, $enable);
seen_after('DISABLE TRIGGER and maintenance', $disable, $claim, $insert, 'SELECT pgqrs_maintain()');
$writer->query_safe($enable);

# What is known of one queue is not of another, whichever counter they share.
$node->safe_psql('postgres', q{SELECT pgqrs_create_queue('other' || n) FROM generate_series(1, 200) n});
$node->safe_psql('postgres', 'TRUNCATE pgqrs_messages');
$node->safe_psql('postgres', q{SELECT pgqrs_enqueue('other' || n, '"urgent"', priority => 1) FROM generate_series(1, 200) n});
for my $n (1 .. 200)
{
	$claimer->query_safe($claim);
	my $payload = $claimer->query_safe("SELECT payload FROM pgqrs_dequeue('other$n')");
	is($payload, '"urgent"', "urgent in queue $n after a look at another") if $payload ne '"urgent"' || $n == 200;
}

$writer->quit;
$claimer->quit;
$node->stop;
done_testing;
