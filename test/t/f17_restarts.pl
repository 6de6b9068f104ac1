# Recovery that is itself interrupted (F17): the server is stopped
# with -m immediate at random points, often before it has come up, while workers
# claim and work; in the end all runs have ended as they should.
#   RESTARTS  how often; 15 unless given
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $restarts = $ENV{RESTARTS} // 15;
my $runs = 20 * $restarts;
my $seed = srand;
note("seed $seed");

my $node = new_node('f17_restarts', "fsync = off\npgqrs.paused = off\n");
my $data = $node->data_dir;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql(<<"SQL");
SELECT pgqrs_create_workflow('flow', visibility_timeout => '200 ms', max_crashes => 1000000);
CREATE TABLE effects (run_id bigint, step_id text, PRIMARY KEY (run_id, step_id));
SELECT count(pgqrs_trigger('flow', to_jsonb(n))) FROM generate_series(1, $runs) AS n;
SQL

# A worker's turn; the effects are in the transaction that stores the step.
my $work = <<'SQL';
SELECT d.run_id, d.lease, d.lease IS NOT NULL AS got FROM (SELECT) AS one LEFT JOIN pgqrs_dequeue('flow') d ON true \gset
\if :got
SELECT should_execute AS go FROM pgqrs_step_begin(:run_id, :lease, 'first') \gset
\if :go
BEGIN;
INSERT INTO effects VALUES (:run_id, 'first');
SELECT pgqrs_step_complete(:run_id, :lease, 'first', '1');
COMMIT;
\endif
SELECT should_execute AS go FROM pgqrs_step_begin(:run_id, :lease, 'second') \gset
\if :go
BEGIN;
SELECT pgqrs_step_complete(:run_id, :lease, 'second', '2');
INSERT INTO effects VALUES (:run_id, 'second');
COMMIT;
\endif
SELECT pgqrs_complete_run(:run_id, :lease, '3');
\endif
SQL

# pg_ctl finds no server to stop before that has written its pid.
sub stop_at_once
{
	for (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if system_log('pg_ctl', '-w', '-D', $data, '-m', 'immediate', 'stop') == 0;
		usleep(10_000);
	}
	die 'cannot stop';
}

my $interrupted = 0;
for my $n (1 .. $restarts)
{
	# two workers, which may find no server, or one that is going
	my @workers = map { start_client($node, $work x 2000) } 1 .. 2;
	usleep(rand 300_000);
	$node->stop('immediate');
	$_->{harness}->finish for @workers;

	# starts, and is stopped again before it has come up
	while (rand() < 0.5)
	{
		system_log('pg_ctl', '-W', '-D', $data, '-l', $node->logfile, 'start') == 0 or die 'cannot start';
		usleep(rand 150_000);
		stop_at_once();
		$interrupted++;
	}
	$node->start;
}
cmp_ok($interrupted, '>', 0, 'some starts were interrupted');
note("$interrupted of the starts were interrupted; "
	  . sql("SELECT count(*) FILTER (WHERE status = 'SUCCESS') FROM pgqrs_workflow_runs") . " of $runs runs have ended");

# what is left is worked off
my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
until (sql("SELECT count(*) FROM pgqrs_messages") == 0)
{
	die 'runs do not end' if time > $deadline;
	finish_client(start_client($node, $work x 50));
}
is(sql("SELECT status, count(*) FROM pgqrs_workflow_runs GROUP BY status"), "SUCCESS|$runs", 'all runs have succeeded after the restarts');
is(sql('SELECT count(*) FROM effects'), 2 * $runs, 'the rows that steps wrote are there once');
is(sql("SELECT count(*) FROM pgqrs_workflow_steps WHERE status = 'SUCCESS'"), 2 * $runs, 'each step is stored once as a success');
is_well($node, 'after all that');

done_testing();
