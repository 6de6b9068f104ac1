# Failed runs of a workflow are replayed in batches of a transaction each, and
# the server crashes in the middle of a batch: what was committed stays, and when
# two sessions go on, each run is replayed once.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $runs = $ENV{REPLAY_CRASH_RUNS} || 600;
my $batch = $runs / 30;
my $before = 2 * $batch;    # replayed and committed before the crash

my $node = new_node('replay_crash', "pgqrs.audit = on\n");
$node->safe_psql('postgres', qq{
	SELECT pgqrs_create_workflow('ship', visibility_timeout => '1 hour');
	SELECT pgqrs_trigger_batch('ship', array_fill('1'::jsonb, ARRAY[$runs]));
	SELECT pgqrs_fail_run(run_id, lease, '{"type": "KeyError"}') FROM pgqrs_dequeue('ship', batch_size => $runs);
	CREATE TABLE replays (changed bigint);
});
my $replayed = q{SELECT count(*), count(DISTINCT run_id) FROM pgqrs_events WHERE event = 'replayed'};

# stop_at: the batch that waits for a lock before it commits.
sub loop
{
	my ($stop_at) = @_;
	return qq{
		DO \$\$
		DECLARE
			last_id bigint;
			replay record;
			batches int := 0;
		BEGIN
			LOOP
				SELECT * INTO replay FROM pgqrs_replay_runs('ship', error_type => 'KeyError', after_run_id => last_id, max_rows => $batch);
				INSERT INTO replays VALUES (replay.changed);
				batches := batches + 1;
				IF batches = $stop_at THEN
					PERFORM pg_advisory_lock(1);
				END IF;
				last_id := replay.last_run_id;
				EXIT WHEN last_id IS NULL;
				COMMIT;
			END LOOP;
		END
		\$\$};
}

my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
my $client = start_client($node, loop(3));
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)}),
	'the third batch has been replayed and is not committed');
$node->stop('immediate');
$client->{harness}->finish;
eval { $holder->quit };
$node->start;

is($node->safe_psql('postgres', $replayed), "$before|$before", 'the batches that were committed before the crash are replayed, and no other');
is($node->safe_psql('postgres', 'SELECT sum(changed) FROM replays'), $before, 'the caller can tell how many');
my @clients = map { start_client($node, loop(0)) } 1, 2;
is(finish_client($_), '', 'a session goes on after the crash') foreach @clients;
is($node->safe_psql('postgres', $replayed), "$runs|$runs", 'each run was replayed once');
is($node->safe_psql('postgres', 'SELECT sum(changed) FROM replays'), $runs, 'the sessions count each run once');
is($node->safe_psql('postgres', q{SELECT status, count(*) FROM pgqrs_runs GROUP BY 1}), "QUEUED|$runs", 'each run is queued again');
is_well($node, 'after the replays');
done_testing();
