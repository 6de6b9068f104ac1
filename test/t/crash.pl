# A killed server loses nothing that it acknowledged.  Five times clients
# enqueue, trigger and work, each writing down what it was told, until the
# server is stopped with -m immediate; what they wrote down must then be true.
# Clients are told of a commit before they write, so that at most the one call
# that each was in the middle of is in doubt.
use strict;
use warnings;

use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { ROUNDS => 5, SENDERS => 4, WORKERS => 3 };

my $node = new_node('crash', "fsync = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;
note('seed ' . srand);

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql(<<'SQL');
SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 hour'), pgqrs_create_workflow('flow', visibility_timeout => '1 hour');
-- what a step writes in its own transaction
CREATE TABLE effects (run_id bigint, step_id text, output jsonb, PRIMARY KEY (run_id, step_id));
-- what clients were told
CREATE TABLE enqueued (round int, client int, n int);
CREATE TABLE triggered (run_id bigint, input jsonb);
CREATE TABLE claimed (message_id bigint, lease bigint, attempt int);
CREATE TABLE archived (message_id bigint);
CREATE TABLE stored (run_id bigint, step_id text, output jsonb);
CREATE TABLE completed (run_id bigint, output jsonb);
CREATE VIEW everything AS
	SELECT message_id, payload, run_id, lease, attempt, failures, NULL AS outcome FROM pgqrs_messages
	UNION ALL SELECT message_id, payload, run_id, lease, attempt, failures, outcome FROM pgqrs_archive;
SQL

append_to_file("$dir/send.sql", <<'SQL');
\set n :n + 1
SELECT pgqrs_enqueue('jobs', jsonb_build_object('round', :round, 'client', :client_id, 'n', :n));
SQL

my $work = <<'SQL';
SELECT d.message_id, d.lease, d.attempt, d.lease IS NOT NULL AS got FROM (SELECT) AS one LEFT JOIN pgqrs_dequeue('jobs') d ON true \gset
\if :got
\echo claimed :message_id :lease :attempt
SELECT pgqrs_archive_message(:message_id, :lease) \g /dev/null
\echo archived :message_id
\endif
SQL

my $run = <<'SQL';
SELECT d.run_id, d.lease, d.attempt, d.lease IS NOT NULL AS got FROM (SELECT) AS one LEFT JOIN pgqrs_dequeue('flow') d ON true \gset
\if :got
\echo claimed :run_id :lease :attempt
SELECT * FROM pgqrs_step_begin(:run_id, :lease, 'first') \g /dev/null
SELECT to_jsonb(random()) AS output \gset
BEGIN;
INSERT INTO effects VALUES (:run_id, 'first', :'output');
SELECT pgqrs_step_complete(:run_id, :lease, 'first', :'output') \g /dev/null
COMMIT;
\echo stored :run_id first :output
SELECT * FROM pgqrs_step_begin(:run_id, :lease, 'second') \g /dev/null
SELECT to_jsonb(random()) AS output \gset
BEGIN;
SELECT pgqrs_step_complete(:run_id, :lease, 'second', :'output') \g /dev/null
INSERT INTO effects VALUES (:run_id, 'second', :'output');
COMMIT;
\echo stored :run_id second :output
SELECT pgqrs_complete_run(:run_id, :lease, :'output') \g /dev/null
\echo completed :run_id :output
\endif
SQL

# Starts everybody; returns the clients that print, and pgbench.
sub start_load
{
	my ($round) = @_;
	my @clients;

	push @clients, start_client($node, $work x 20000) for 1 .. WORKERS;
	push @clients, start_client($node, $run x 5000) for 1 .. WORKERS;
	push @clients, start_client($node, join '', map {
		"SELECT pgqrs_trigger('flow', '\"$round $_\"') AS run_id \\gset\n\\echo triggered :run_id '\"$round $_\"'\n"
	} 1 .. 20000);
	my $pgbench = IPC::Run::start(
		[ 'pgbench', '-n', '-c', SENDERS, '-j', 2, '-T', 300, '-D', 'n=0', '-D', "round=$round",
			'-f', "$dir/send.sql", '-l', "--log-prefix=$dir/round$round", $node->connstr('postgres') ],
		'<', '/dev/null', '>', "$dir/pgbench", '2>', "$dir/pgbench");
	return ($pgbench, @clients);
}

# Waits until that much was done since the start of the round.
sub await_progress
{
	my ($messages, $runs) = @_;
	my $before = sql("SELECT count(*) FILTER (WHERE run_id IS NULL) + $messages, count(*) FILTER (WHERE run_id IS NOT NULL) + $runs
		FROM pgqrs_archive");
	my ($archived, $completed) = split /\|/, $before;
	return $node->poll_query_until('postgres',
		"SELECT count(*) FILTER (WHERE run_id IS NULL) >= $archived AND count(*) FILTER (WHERE run_id IS NOT NULL) >= $completed
		FROM pgqrs_archive");
}

# Brings what the clients wrote down into the tables of those names.
sub load_notes
{
	my ($round, @clients) = @_;
	my %notes = map { $_ => '' } qw(enqueued triggered claimed archived stored completed);

	for my $client (@clients)
	{
		for my $line (split /\n/, slurp_file($client->{out}))
		{
			my ($table, $values) = $line =~ /^(\w+) (.*)$/ or die "what is $line?";
			# the only blanks inside of a value are those of a JSON string
			$values =~ s/ (?=[^"]*(?:"[^"]*"[^"]*)*$)/\t/g;
			$notes{$table} .= "$values\n";
		}
	}
	my %sent;
	for my $log (glob "$dir/round$round.*")
	{
		for my $line (split /\n/, slurp_file($log))
		{
			# a line that was being written when pgbench ended would say less
			my ($client) = $line =~ /^(\d+) \d+ \d+ \d+ \d+ \d+/ or next;
			$notes{enqueued} .= join "\t", $round, $client, ++$sent{$client} . "\n";
		}
	}
	for my $table (sort keys %notes)
	{
		append_to_file("$dir/$table.$round", $notes{$table});
		sql("\\copy $table FROM '$dir/$table.$round'");
	}
	return;
}

# The claims that nothing acknowledged followed.
my $open_claims = 'SELECT * FROM claimed c WHERE NOT EXISTS (SELECT FROM archived a WHERE a.message_id = c.message_id)
	AND NOT EXISTS (SELECT FROM completed d WHERE d.run_id = c.message_id)';

for my $round (1 .. ROUNDS)
{
	my ($pgbench, @clients) = start_load($round);
	await_progress(100 + int rand 1000, 10 + int rand 100) or BAIL_OUT('nothing gets done');
	if ($round % 2 == 0)
	{
		sql('CHECKPOINT');
		await_progress(100, 10) or BAIL_OUT('nothing gets done after a checkpoint');
	}
	$node->stop('immediate');
	$_->{harness}->finish for @clients;
	$pgbench->finish;
	$node->start;
	load_notes($round, @clients);
	note(sql("SELECT 'acknowledged so far: ' || concat_ws(', ', (SELECT count(*) FROM enqueued) || ' enqueued',
		(SELECT count(*) FROM archived) || ' archived', (SELECT count(*) FROM triggered) || ' triggered',
		(SELECT count(*) FROM stored) || ' stored', (SELECT count(*) FROM completed) || ' completed')"));

	is(sql("SELECT count(*) > 0 FROM enqueued WHERE round = $round AND client = 3"), 't', "round $round: every client has sent");
	is(sql("SELECT count(*) FROM enqueued e WHERE NOT EXISTS (SELECT FROM everything WHERE payload = to_jsonb(e))"), '0',
		"round $round: what was enqueued is there");
	is(sql('SELECT count(*) - count(DISTINCT payload) FROM everything WHERE run_id IS NULL'), '0',
		"round $round: nothing is there twice");
	cmp_ok(sql("SELECT count(*) - (SELECT count(*) FROM enqueued WHERE round = $round) FROM everything
		WHERE payload->>'round' = '$round'"), '<=', SENDERS, "round $round: each sender may have been in the middle of one");
	is(sql("SELECT count(*) FROM archived a WHERE NOT EXISTS (SELECT FROM pgqrs_archive WHERE message_id = a.message_id AND outcome = 'DONE')
		OR EXISTS (SELECT FROM pgqrs_messages WHERE message_id = a.message_id)"), '0', "round $round: what was archived is done");

	is(sql('SELECT count(*) FROM triggered t WHERE NOT EXISTS (SELECT FROM pgqrs_workflow_runs WHERE run_id = t.run_id AND input = t.input)'), '0',
		"round $round: what was triggered is there");
	is(sql('SELECT count(*) - count(DISTINCT input) FROM pgqrs_workflow_runs'), '0', "round $round: no run was triggered twice");
	is(sql("SELECT count(*) FROM (SELECT run_id, outcome FROM everything WHERE run_id IS NOT NULL) e FULL JOIN pgqrs_workflow_runs r USING (run_id)
		WHERE outcome IS DISTINCT FROM CASE WHEN status = 'SUCCESS' THEN 'DONE'::pgqrs_outcome END OR r.run_id IS NULL OR status > 'SUCCESS'"), '0',
		"round $round: a live run has a message, one that ended has not");
	is(sql("SELECT count(*) FROM stored s WHERE NOT EXISTS (SELECT FROM pgqrs_workflow_steps
		WHERE run_id = s.run_id AND step_id = s.step_id AND output = s.output AND status = 'SUCCESS')"), '0',
		"round $round: what a step has stored is what it stored");
	is(sql("SELECT count(*) FROM effects e FULL JOIN (SELECT * FROM pgqrs_workflow_steps WHERE status = 'SUCCESS') s USING (run_id, step_id)
		WHERE s.output IS DISTINCT FROM e.output"), '0', "round $round: a step and what it wrote itself are there both or neither");
	is(sql("SELECT count(*) FROM completed c WHERE NOT EXISTS (SELECT FROM pgqrs_workflow_runs
		WHERE run_id = c.run_id AND status = 'SUCCESS' AND output = c.output)"), '0', "round $round: what was completed is");

	# Its lease is current; or its end, which was in doubt, did happen; or the
	# claim never did.
	cmp_ok(sql("SELECT count(*) FROM ($open_claims) c"), '<=', $round * 2 * WORKERS, "round $round: few claims are open");
	is(sql("SELECT count(*) FROM ($open_claims) c LEFT JOIN everything e USING (message_id)
		WHERE NOT coalesce((e.lease = c.lease AND e.attempt = c.attempt AND (outcome IS NULL OR outcome = 'DONE'))
			OR (outcome IS NULL AND e.attempt = c.attempt - 1), false)"), '0', "round $round: and each is accounted for");
	is(sql("SELECT count(*) FROM ($open_claims) c JOIN pgqrs_messages m USING (message_id, lease), pgqrs_extend_lease(message_id, lease, '1 hour')
		WHERE NOT extended"), '0', "round $round: a lease goes on");
	sql('DELETE FROM claimed c WHERE EXISTS (SELECT FROM pgqrs_messages WHERE message_id = c.message_id AND lease IS DISTINCT FROM c.lease)');
}

# When they run out, what was held is delivered again, once more failed.
clock($node, '2 h');
sql('CREATE TABLE before AS SELECT message_id, attempt, failures, lease FROM pgqrs_messages');
isnt(sql('SELECT count(*) FROM before WHERE lease IS NOT NULL'), '0', 'before the crash a worker held a message');
sql('CREATE TABLE delivered AS SELECT * FROM pgqrs_dequeue(NULL, pgqrs_register_worker(\'last\', \'{*}\'), 10000) WITH NO DATA');
my $worker = sql("SELECT pgqrs_register_worker('last', '{*}')");
1 while sql("WITH d AS (INSERT INTO delivered SELECT * FROM pgqrs_dequeue(NULL, $worker, 10000, '1 hour') RETURNING 1) SELECT count(*) FROM d") > 0;
is(sql('SELECT count(*) FROM before b FULL JOIN delivered d USING (message_id)
	WHERE (d.attempt, d.failures) IS DISTINCT FROM (b.attempt + 1, b.failures + (b.lease IS NOT NULL)::int)'), '0',
	'claims deliver each message that was left, a held one with one more failure');
is(sqlstate($node, "SELECT pgqrs_archive_message(message_id, lease) FROM before WHERE message_id IN
	(SELECT message_id FROM claimed) AND message_id NOT IN (SELECT run_id FROM triggered) AND lease IS NOT NULL"), 'PQ006', 'a lease from before is refused after the next claim');

# All of it ends.
is(sql('SELECT count(*) FROM delivered d, pgqrs_step_begin(d.run_id, d.lease, \'first\') b JOIN effects e ON e.output = b.output
	WHERE d.run_id IS NOT NULL AND e.run_id = d.run_id AND b.should_execute'), '0', 'a step that was stored is not to be done again');
sql('SELECT pgqrs_complete_run(run_id, lease) FROM delivered WHERE run_id IS NOT NULL;
	SELECT pgqrs_archive_message(message_id, lease) FROM delivered WHERE run_id IS NULL');
is(sql('SELECT count(*) FROM pgqrs_messages'), '0', 'workers leave no message');
is(sql("SELECT count(*) FROM pgqrs_archive WHERE outcome <> 'DONE'"), '0', 'each archived message is DONE');
is(sql('SELECT count(*) FROM enqueued') - sql('SELECT count(*) FROM enqueued e WHERE EXISTS
	(SELECT FROM pgqrs_archive WHERE payload = to_jsonb(e))'), 0, 'each acknowledged message is in the archive');

done_testing();
