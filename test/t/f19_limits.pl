# F19: limits are derived from live leases.  For ten seconds clients claim,
# finish, fail, give back, extend, forget, roll back, and workers stop and are
# superseded, at every isolation level, while others look: never are more
# leases live than max_in_flight and max_concurrent allow, and nothing is stuck
# at the end.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { SECONDS => 10, IN_FLIGHT => 5, CONCURRENT => 2 };

my $node = new_node('limits', "fsync = off\nsynchronous_commit = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT pgqrs_create_queue('jobs', '200 ms', max_attempts => 1000, max_in_flight => " . IN_FLIGHT . "),
	pgqrs_create_queue('brief', '1 s', max_attempts => 3, max_in_flight => 1), pgqrs_create_queue('free', '200 ms', max_attempts => 1000),
	pgqrs_create_workflow('flow', visibility_timeout => '200 ms', max_crashes => 1000, max_attempts => -1, initial_interval => '10 ms', max_interval => '50 ms')");
# The live workers' ids are kept in sequences, which no transaction isolates.
sql("CREATE SEQUENCE w$_; SELECT setval('w$_', pgqrs_register_worker('w$_', '{*}', max_concurrent => " . CONCURRENT . '))') for 1 .. 3;
sql('CREATE TABLE observed (jobs int, brief int, worker int); CREATE TABLE sent (id bigint); CREATE TABLE did (what text)');

# Something at random with the message and lease that the client claimed last,
# which may be long lost; returns those that it has then.
sql(<<'SQL');
CREATE FUNCTION act(INOUT m bigint, INOUT l bigint, INOUT r bigint) LANGUAGE plpgsql AS $$
DECLARE
	what int := random() * 100;
	done text;
	name text := 'w' || 1 + what % 3;
	worker bigint;
BEGIN
	IF what < 5 THEN
		done := 'send';
		INSERT INTO sent SELECT CASE WHEN q = 'flow' THEN pgqrs_trigger(q) ELSE pgqrs_enqueue(q, '1', priority => what % 3) END
			FROM unnest('{jobs,jobs,brief,free,flow}'::text[]) q;
	ELSIF what < 50 OR m = 0 THEN
		done := 'claim';
		IF what % 4 > 0 THEN
			worker := pg_sequence_last_value(name);
		END IF;
		SELECT message_id, lease, coalesce(run_id, 0) INTO m, l, r
			FROM pgqrs_dequeue((ARRAY['*', 'jobs', 'brief', 'free', 'jobs', 'flow'])[1 + what % 6], worker, 1 + what % 3) ORDER BY random() LIMIT 1;
		IF NOT FOUND THEN
			m := 0; l := 0; r := 0;
		ELSIF random() < 0.1 THEN
			RAISE SQLSTATE 'PQ006';
		END IF;
	ELSIF what < 65 AND r = 0 THEN
		done := 'archive';
		PERFORM pgqrs_archive_message(m, l);
	ELSIF what < 65 THEN
		done := 'complete';
		PERFORM pgqrs_step_complete(r, l, 's'), pgqrs_complete_run(r, l);
	ELSIF what < 70 AND r = 0 THEN
		done := 'nack';
		PERFORM pgqrs_nack_message(m, l, delay => '10 ms');
	ELSIF what < 70 THEN
		done := 'fail';
		PERFORM pgqrs_step_fail(r, l, 's', '{}');
	ELSIF what < 75 THEN
		done := 'release';
		PERFORM pgqrs_release_message(m, l);
	ELSIF what < 90 THEN
		done := 'extend';
		IF NOT (SELECT extended FROM pgqrs_extend_lease(m, l, '300 ms')) THEN
			done := 'extend in vain';
		END IF;
	ELSIF what < 93 THEN
		done := 'extend worker';
		PERFORM pgqrs_extend_worker(pg_sequence_last_value(name), '200 ms');
	ELSIF what < 95 THEN
		done := 'revoke';
		PERFORM pgqrs_set_visibility(m, now());
	ELSIF what < 96 THEN
		done := 'supersede';
		PERFORM setval(name, pgqrs_register_worker(name, '{*}', max_concurrent => 2));
	ELSIF what < 97 THEN
		done := 'stop';
		PERFORM pgqrs_stop_worker(pg_sequence_last_value(name)), setval(name, pgqrs_register_worker(name, '{*}', max_concurrent => 2));
	ELSIF what < 98 THEN
		done := 'pass';
		PERFORM pgqrs_maintain();
	ELSE
		done := 'forget';
	END IF;
	INSERT INTO did VALUES (done);
EXCEPTION WHEN SQLSTATE 'PQ003' OR SQLSTATE 'PQ004' OR SQLSTATE 'PQ005' OR SQLSTATE 'PQ006' OR SQLSTATE 'PQ007' OR SQLSTATE 'PQ014' OR SQLSTATE 'PQ016' THEN
	INSERT INTO did VALUES (done || ' refused');
END $$;
SQL

append_to_file("$dir/act.sql", "SELECT * FROM act(:m, :l, :r) \\gset\n");

# What a snapshot holds that is live now was live when it was taken.
append_to_file("$dir/observe.sql", <<'SQL');
INSERT INTO observed
WITH n AS MATERIALIZED (SELECT pgqrs_now() AS now),
	live AS MATERIALIZED (SELECT m.*, q.name FROM n, pgqrs_messages m JOIN pgqrs_queues q USING (queue_id) WHERE lease IS NOT NULL AND visible_after > now)
SELECT (SELECT count(*) FROM live WHERE name = 'jobs'), (SELECT count(*) FROM live WHERE name = 'brief'),
	(SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM live WHERE worker_id IS NOT NULL GROUP BY worker_id) w);
SQL

sub start_pgbench
{
	my ($name, $clients, @options) = @_;
	my $level = $name =~ s/_/ /gr;
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=" . ($name =~ /observe/ ? 'read\\ committed' : $level =~ s/ /\\ /gr);
	return IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-T', SECONDS, @options, $node->connstr('postgres') ],
		'<', '/dev/null', '>', "$dir/$name.out", '2>', "$dir/$name.err");
}

my @state = map { ('-D', "$_=0") } qw(m l r);
my %running = map { $_ => start_pgbench($_, 3, '-f', "$dir/act.sql", @state) } 'read_committed', 'repeatable_read', 'serializable';
$running{observe} = start_pgbench('observe', 1, '-f', "$dir/observe.sql");
for my $name (sort keys %running)
{
	$running{$name}->finish;
	my $err = slurp_file("$dir/$name.err");
	$err =~ s/^pgbench \(.*\n//gm;
	is($err, '', "$name: the clients report no error");
	like(slurp_file("$dir/$name.out"), qr/number of failed transactions: 0 /, "$name: no transaction of the clients fails");
}

note(sql("SELECT string_agg(what || ' ' || n, ', ' ORDER BY n DESC) FROM (SELECT what, count(*) AS n FROM did GROUP BY what) d"));
my ($observations, $jobs, $brief, $worker) = split /\|/, sql('SELECT count(*), max(jobs), max(brief), max(worker) FROM observed');
cmp_ok($observations, '>', 100, "the observer looked $observations times");
is($jobs, IN_FLIGHT, 'the highest number of live leases in the queue is max_in_flight');
is($brief, 1, 'the highest number of live leases in a queue with max_in_flight 1 is 1');
is($worker, CONCURRENT, 'the highest number of live leases of the worker is max_concurrent');

# Nothing is stuck: when all leases have run out, everything can be claimed.
clock($node, '1 h');
is(sql("SELECT count(*) FROM pgqrs_dequeue('jobs', batch_size => 100)"), sql('SELECT least(' . IN_FLIGHT . ", count(*)) FROM pgqrs_messages WHERE queue_id =
	(SELECT queue_id FROM pgqrs_queues WHERE name = 'jobs')"), 'a limit leaves room again');
clock($node, '2 h');
sql(<<'SQL');
CREATE PROCEDURE drain() LANGUAGE plpgsql AS $$
DECLARE
	d record;
	empty int := 0;
BEGIN
	-- one look after another at queues in turn, of which one may be empty
	WHILE empty < 10 LOOP
		empty := empty + 1;
		FOR d IN SELECT * FROM pgqrs_dequeue('*', batch_size => 100, visibility_timeout => '1 hour') LOOP
			IF d.run_id IS NULL THEN
				PERFORM pgqrs_archive_message(d.message_id, d.lease);
			ELSE
				PERFORM pgqrs_complete_run(d.run_id, d.lease);
			END IF;
			empty := 0;
		END LOOP;
		COMMIT;
	END LOOP;
END $$;
CALL drain();
SQL
is_well($node, 'after the load');
is(sql('SELECT count(*) FROM pgqrs_messages'), '0', 'the messages that are left can be claimed and archived');
is(sql('SELECT count(*) FROM sent FULL JOIN pgqrs_archive ON id = message_id WHERE id IS NULL OR message_id IS NULL'), '0',
	'each message that was sent is in the archive');
is(sql("SELECT count(*) FROM pgqrs_archive a JOIN pgqrs_workflow_runs r USING (run_id) WHERE (a.outcome, r.status) NOT IN (('DONE', 'SUCCESS'))"), '0',
	'each run with its message');
is(sql("SELECT count(*) FROM pgqrs_archive WHERE outcome = 'DEAD' AND failures < 3"), '0', 'each dead letter has max_attempts failures');

# A transaction that ends frees its locks one after the other: calls that waited for
# a message of it find the limit free, too.
sql("SELECT pgqrs_create_queue('next', '1 hour', max_in_flight => 1), cardinality(pgqrs_enqueue_batch('next', '{1,2}'));
	CREATE TABLE held AS SELECT message_id, lease FROM pgqrs_dequeue('next')");
append_to_file("$dir/next.sql", <<'SQL');
BEGIN;
SELECT n.payload FROM held, pgqrs_next(queue => 'next', done_ids => ARRAY[held.message_id], done_leases => ARRAY[held.lease]) n \gset
ROLLBACK;
SQL
$node->command_checks_all([ 'pgbench', '-n', '-c', 4, '-t', 500, '-f', "$dir/next.sql", $node->connstr('postgres') ],
	0, [qr/processed: 2000\/2000/], [qr/^(?!.*expected one row)/s], 'no call passes by the limit of a transaction that has ended');

done_testing();
