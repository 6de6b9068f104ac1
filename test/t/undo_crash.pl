# Random calls of several sessions on runs of a workflow with on_cancel => 'deliver', a crash of
# the server between them, and what must hold afterwards.
use strict;
use warnings;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('undo_crash', "pgqrs.paused = off\n");
$node->safe_psql('postgres', <<'SQL');
SET client_min_messages = error;
SELECT pgqrs_create_workflow('job', on_cancel => 'deliver', timeout => '1 h', max_attempts => 3, max_crashes => 4);
SELECT pgqrs_create_workflow('kid'), pgqrs_create_workflow('own', on_cancel => 'deliver');
-- The ends that sessions saw, in the transaction of the end.
CREATE TABLE ends (run_id bigint, ended_by text);
CREATE TABLE faults (fault text);
CREATE FUNCTION pick(VARIADIC choices text[]) RETURNS text LANGUAGE sql AS
$$ SELECT choices[1 + floor(random() * cardinality(choices))] $$;
CREATE FUNCTION live() RETURNS bigint LANGUAGE sql AS
$$ SELECT run_id FROM pgqrs_messages WHERE run_id IS NOT NULL ORDER BY random() LIMIT 1 $$;
CREATE FUNCTION work(run bigint, lease bigint, undo boolean) RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
	call text := pick('complete', 'fail', 'retry', 'late', 'park', 'await', 'acknowledge', 'release', 'hold', 'acknowledge');
BEGIN
	IF NOT undo AND EXISTS (SELECT FROM pgqrs_workflow_runs r WHERE r.run_id = run AND cancel_requested_at < now() - interval '1 s') THEN
		INSERT INTO faults VALUES ('a run that was asked to stop was delivered without saying so');
	END IF;
	PERFORM pgqrs_step_complete(run, lease, CASE WHEN undo THEN 'undo ' ELSE '' END || floor(random() * 4), '1');
	IF random() < 0.4 THEN
		PERFORM pgqrs_start_child(run, lease, CASE WHEN undo THEN 'undo ' ELSE '' END || 'child ' || floor(random() * 3), pick('kid', 'own'),
			idempotency_key => CASE WHEN random() < 0.5 THEN 'k' || floor(random() * 5) END);
	END IF;
	CASE call
		WHEN 'complete' THEN
			IF pgqrs_complete_run(run, lease) THEN
				INSERT INTO ends VALUES (run, call);
			END IF;
		WHEN 'fail' THEN PERFORM pgqrs_fail_run(run, lease, '{"type": "no"}');
		WHEN 'retry' THEN PERFORM pgqrs_fail_run(run, lease, '{"type": "again"}', true, '0');
		WHEN 'late' THEN PERFORM pgqrs_fail_run(run, lease, '{"type": "again"}', true, '2 h');
		WHEN 'park' THEN PERFORM pgqrs_sleep(run, lease, CASE WHEN undo THEN 'undo ' ELSE '' END || 'nap', '50 ms');
		WHEN 'await' THEN PERFORM pgqrs_await_signal(run, lease, CASE WHEN undo THEN 'undo ' ELSE '' END || 'go', 'go', '1 s');
		WHEN 'acknowledge' THEN
			PERFORM pgqrs_acknowledge_cancel(run, lease);
			IF undo THEN
				INSERT INTO ends VALUES (run, call);
			END IF;
		WHEN 'release' THEN PERFORM pgqrs_release_message(run, lease);
		ELSE
	END CASE;
END
$$;
CREATE TABLE hand (run_id bigint, lease bigint, undo boolean);
CREATE FUNCTION work_on_one() RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
	h record;
BEGIN
	DELETE FROM hand WHERE ctid = (SELECT ctid FROM hand ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING * INTO h;
	IF h.run_id IS NOT NULL THEN
		PERFORM work(h.run_id, h.lease, h.undo);
	END IF;
END
$$;
CREATE FUNCTION act() RETURNS void LANGUAGE plpgsql AS
$$
DECLARE
	target bigint := live();
	kind text := pick('trigger', 'claim', 'claim', 'claim', 'work', 'work', 'work', 'work', 'work', 'cancel', 'cancel', 'revoke',
		'late', 'signal', 'delete', 'cancel many');
BEGIN
	CASE kind
		WHEN 'claim' THEN
			INSERT INTO hand SELECT run_id, lease, cancel_requested
				FROM pgqrs_dequeue(pick('job', 'job', 'own', 'kid'), visibility_timeout => pick('50 ms', '10 s')::interval);
		WHEN 'work' THEN PERFORM work_on_one();
		WHEN 'trigger' THEN PERFORM pgqrs_trigger('job', timeout => pick('300 ms', '1 h', '1 h')::interval);
		WHEN 'cancel' THEN PERFORM pgqrs_cancel_run(target);
		WHEN 'cancel many' THEN PERFORM pgqrs_cancel_runs('job', max_rows => 2);
		WHEN 'signal' THEN PERFORM pgqrs_signal(target, 'go');
		WHEN 'revoke' THEN PERFORM pgqrs_set_visibility(target, clock_timestamp());
		WHEN 'late' THEN PERFORM pgqrs_advance(target, '1 h');
		WHEN 'delete' THEN
			IF random() < 0.1 THEN
				PERFORM pgqrs_delete_run(target);
			END IF;
	END CASE;
EXCEPTION WHEN OTHERS THEN
	-- calls that came too late are refused; two sessions may join children in different orders
	IF SQLSTATE !~ '^(PQ0..|40P01|40001|22004)$' THEN
		RAISE;
	END IF;
END
$$;
-- Ends all that is live: by an acknowledgement where the handler is asked to undo.
CREATE FUNCTION drain() RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	d record;
BEGIN
	PERFORM pgqrs_maintain();
	PERFORM pgqrs_set_visibility(message_id, clock_timestamp()) FROM pgqrs_messages;
	FOR d IN SELECT q.* FROM unnest('{job,own,kid}'::text[]) w, pgqrs_dequeue(w, batch_size => 1000) q LOOP
		IF d.cancel_requested THEN
			PERFORM pgqrs_acknowledge_cancel(d.run_id, d.lease);
		ELSE
			PERFORM pgqrs_complete_run(d.run_id, d.lease);
		END IF;
	END LOOP;
	RETURN (SELECT count(*) FROM pgqrs_messages);
END
$$;
SQL

my $script = $node->basedir . '/act.sql';
append_to_file($script, "SELECT act();\n");

# Six sessions for so many seconds; a crash in their midst.
sub attack
{
	my ($seconds, $crash) = @_;
	my ($out, $err) = ('', '');
	my $sessions = IPC::Run::start([ 'pgbench', '-n', '-c', 6, '-j', 2, '-T', $seconds, '-f', $script, $node->connstr('postgres') ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	if ($crash)
	{
		my $goal = $node->safe_psql('postgres', 'SELECT count(*) + 20 FROM ends');
		$node->poll_query_until('postgres', "SELECT count(*) >= $goal FROM ends");
		$node->stop('immediate');
	}
	$sessions->finish;
	$node->start if $crash;
	return $crash || $sessions->result(0) == 0 || diag($err);
}

ok(attack(60, 1), 'sessions call until the server crashes');
ok(attack(5, 0), 'sessions call after the crash, and get no error but refusals');
is($node->safe_psql('postgres', 'SELECT DISTINCT fault FROM faults'), '', 'every delivery after a request says that it is an undo');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pgqrs_verify() WHERE NOT ok}), '0', 'every row is consistent after the attack')
  or diag($node->safe_psql('postgres', 'SELECT * FROM pgqrs_verify() WHERE NOT ok'));
ok($node->poll_query_until('postgres', 'SELECT drain() = 0'), 'every run that is live can be brought to its end');
is($node->safe_psql('postgres', <<'SQL'), '', 'no run that was claimed was cancelled without an undo');
SELECT r.run_id, r.cancel_reason FROM pgqrs_workflow_runs r JOIN pgqrs_queues q ON queue_id = workflow_id
WHERE q.on_cancel = 'deliver' AND status = 'CANCELLED' AND started_at IS NOT NULL AND undone IS NULL AND r.deleted_at IS NULL
SQL
is($node->safe_psql('postgres', <<'SQL'), '', 'each end that a session saw is the end of the run');
SELECT e.run_id, e.ended_by, r.status, r.undone FROM ends e JOIN pgqrs_workflow_runs r USING (run_id)
WHERE r.status <> CASE WHEN e.ended_by = 'complete' THEN 'SUCCESS'
	WHEN r.undo_cause = 'timeout' THEN 'ERROR' ELSE 'CANCELLED' END::pgqrs_run_status
	OR e.ended_by = 'acknowledge' AND undone IS NULL
SQL
is($node->safe_psql('postgres', 'SELECT run_id FROM ends GROUP BY run_id HAVING count(*) > 1'), '', 'no run ended twice');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pgqrs_verify() WHERE NOT ok}), '0', 'every row is consistent at the end');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pgqrs_workflow_runs WHERE undone}), '>', 0, 'runs were undone');
done_testing();
