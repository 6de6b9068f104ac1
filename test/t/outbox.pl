# The outbox of a workflow: one CloudEvent for each end of a run, whatever ended
# it, in the same transaction.
use strict;
use warnings;

use File::Basename qw(dirname);
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('outbox', "pgqrs.payload_max = '10 kB'\nmax_prepared_transactions = 2\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# How the events of a run tell of its ends, in order.
sub ends
{
	my ($run) = @_;
	return sql("SELECT string_agg(payload->>'type', ', ' ORDER BY message_id) FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) WHERE name = 'out' AND payload->>'subject' = '$run'");
}

sub start
{
	my $run = sql("SELECT pgqrs_trigger('a job')");
	return ($run, sql("SELECT lease FROM pgqrs_dequeue('a job')"));
}

my ($done, $failed, $cancelled) = map { "pgqrs.run.$_" } qw(succeeded failed cancelled);
sql("SELECT pgqrs_create_queue('out'), pgqrs_create_workflow('a job', outbox_queue => 'out', max_crashes => 1, max_attempts => 1)");

# Completed: what the event is.
my $run = sql(q{SELECT pgqrs_trigger('a job', idempotency_key => 'k', tags => '{"t": 1}')});
my $lease = sql("SELECT lease FROM pgqrs_dequeue('a job')");
sql("BEGIN; SELECT pgqrs_complete_run($run, $lease); ROLLBACK");
is(ends($run), '', 'an end that is rolled back sends no event');
is(sqlstate($node, "SELECT pgqrs_complete_run($run, 1)"), 'PQ006', 'an end under a wrong lease is refused');
is(ends($run), '', 'an end that is refused sends no event');
sql("SELECT pgqrs_complete_run($run, $lease, '{\"n\": 1}')");
sql("SELECT pgqrs_complete_run($run, $lease, '{\"n\": 2}')");
is(ends($run), $done, 'a run that is completed by two calls sends one event');
is(sql(q{SELECT payload - 'data' - 'time' - 'id' FROM pgqrs_peek('out')}),
	qq({"type": "$done", "source": "/pgqrs/postgres/a%20job", "subject": "$run", "specversion": "1.0", "datacontenttype": "application/json"}), 'the event has the attributes of a CloudEvent');
is(sql(q{SELECT payload->>'id' = message_id::text FROM pgqrs_peek('out')}), 't', 'the id of the event is that of the message');
is(sql(q{SELECT (payload->>'time')::timestamptz = completed_at AND payload->'data'->>'completed_at' = payload->>'time' FROM pgqrs_peek('out'), pgqrs_runs}), 't', 'the time of the event is that of the end of the run');
is(sql(q{SELECT (payload->'data') - '{created_at,started_at,completed_at}'::text[] FROM pgqrs_peek('out')}),
	qq({"tags": {"t": 1}, "output": {"n": 1}, "run_id": $run, "status": "SUCCESS", "workflow": "a job", "idempotency_key": "k"}), 'the data of the event has the columns of the run');

# Failed, and again after a replay.
($run, $lease) = start();
sql(qq(SELECT pgqrs_fail_run($run, $lease, '{"type": "x"}')));
is(ends($run), $failed, 'a run that fails sends an event');
sql("SELECT pgqrs_replay_message($run)");
is(ends($run), $failed, 'a replay sends no event');
$lease = sql("SELECT lease FROM pgqrs_dequeue('a job')");
sql(qq(SELECT pgqrs_step_fail($run, $lease, 's', '{"type": "y"}')));
is(ends($run), "$failed, $failed", 'a replayed run that fails again sends another event');
is(sql("SELECT count(DISTINCT payload->>'id') || ' ' || string_agg(payload->'data'->'error'->>'type', ' ' ORDER BY message_id) FROM pgqrs_messages WHERE payload->>'subject' = '$run'"),
	'2 x y', 'the second event has an id and an error of its own');

# Cancelled: at once, on request, with the parent, by deletion, purge.
$run = sql("SELECT pgqrs_trigger('a job')");
sql("SELECT pgqrs_cancel_run($run, 'no need')");
is(ends($run), $cancelled, 'a run that is cancelled before a claim sends an event');
is(sql("SELECT payload->'data'->>'cancel_reason' FROM pgqrs_messages WHERE payload->>'subject' = '$run'"), 'no need', 'the event has the reason of the cancellation');
($run, $lease) = start();
my $child = sql("SELECT pgqrs_start_child($run, $lease, 'c', 'a job')");
sql("SELECT pgqrs_cancel_run($run)");
is(ends($run), '', 'a request to cancel a live run sends no event');
sql("SELECT pgqrs_acknowledge_cancel($run, $lease)");
is(ends($run), $cancelled, 'acknowledging the request sends the event');
is(ends($child), $cancelled, 'the child that is cancelled with its parent sends an event');
is(sql("SELECT payload->'data'->>'parent_run_id' FROM pgqrs_messages WHERE payload->>'subject' = '$child'"), $run, 'the event of the child names its parent');
$run = sql("SELECT pgqrs_trigger('a job')");
sql("SELECT pgqrs_delete_run($run)");
is(ends($run), $cancelled, 'a live run that is deleted sends the event of a cancellation');
$run = sql("SELECT pgqrs_trigger('a job')");
sql("SELECT pgqrs_purge_queue('a job')");
is(ends($run), $cancelled, 'a run that is purged with its queue sends the event of a cancellation');

# A transaction that undoes one end of a run and stores another sends the event of
# the other alone; a prepared transaction sends its events with COMMIT PREPARED.
($run, $lease) = start();
sql(qq(BEGIN; SAVEPOINT s; SELECT pgqrs_complete_run($run, $lease); ROLLBACK TO s; SELECT pgqrs_fail_run($run, $lease, '{}'); PREPARE TRANSACTION 'end'));
is(ends($run), '', 'an end in a prepared transaction sends no event yet');
sql("COMMIT PREPARED 'end'");
is(ends($run), $failed, 'COMMIT PREPARED sends the event of the end that was not undone');
($run, $lease) = start();
sql("BEGIN; SELECT pgqrs_complete_run($run, $lease); PREPARE TRANSACTION 'end'; ROLLBACK PREPARED 'end'");
is(ends($run), '', 'ROLLBACK PREPARED sends no event');
sql("SELECT pgqrs_complete_run($run, $lease)");
is(ends($run), $done, 'the end after the rollback sends one event');

# Crashes and deadlines, which a claim or maintenance finds.
for my $finder ("pgqrs_dequeue('a job')", 'pgqrs_maintain()')
{
	($run, $lease) = start();
	sql("UPDATE pgqrs_messages SET visible_after = clock_timestamp() - interval '1 s', exhausted_at = clock_timestamp() - interval '1 s' WHERE message_id = $run");
	sql("SELECT count(*) FROM $finder");
	is(ends($run), $failed, "a run that crashed too often sends an event when $finder ends it");
	$run = sql("SELECT pgqrs_trigger('a job', timeout => '1 h')");
	sql("UPDATE pgqrs_messages SET deadline_at = clock_timestamp() - interval '1 s' WHERE message_id = $run");
	sql("SELECT count(*) FROM $finder");
	is(ends($run), $failed, "a run past its deadline sends an event when $finder ends it");
}

# Large values are left out where they would be too much for a message.
($run, $lease) = start();
sql("SELECT pgqrs_complete_run($run, $lease, to_jsonb(repeat('x', 9000)))");
is(sql("SELECT (payload->'data' ? 'output') || ' ' || (payload->'data' ? 'truncated') FROM pgqrs_messages WHERE payload->>'subject' = '$run'"), 'true false', 'a large output is left out of the event, which says so');
$run = sql(q{SELECT pgqrs_trigger('a job', tags => jsonb_build_object('a', repeat('x', 9000)))});
$lease = sql("SELECT lease FROM pgqrs_dequeue('a job')");
sql("SELECT pgqrs_complete_run($run, $lease, to_jsonb(repeat('x', 9000)))");
is(sql("SELECT (payload->'data' ? 'output') || ' ' || (payload->'data'->>'truncated') FROM pgqrs_messages WHERE payload->>'subject' = '$run'"), 'false true', 'an output that fits only without the large tags is left out, and the event says so');

# All of them against the schema, and something that is not.
my $events = sql(q{SELECT payload FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) WHERE name = 'out'});
my $verdicts = '';
IPC::Run::run([ 'python3', dirname(__FILE__) . '/../cloudevents/validate.py' ], '<', \"$events\n{\"id\": \"\"}\n", '>', \$verdicts) or die;
my @verdicts = split /\n/, $verdicts;
isnt(pop @verdicts, 'valid', 'the schema refuses an object that is no event');
is(scalar(@verdicts), scalar(split /\n/, $events), 'the validator judges each event');
is((grep { $_ ne 'valid' } @verdicts), 0, 'the schema accepts all events') or diag($verdicts);

# An ordinary queue: worked off, paused.
is(sql(q{WITH d AS (SELECT message_id, lease FROM pgqrs_dequeue('out')) SELECT count(pgqrs_archive_message(message_id, lease)) FROM d}), 1, 'events are worked off like any message');
sql("SELECT pgqrs_pause_queue('out')");
($run, $lease) = start();
sql("SELECT pgqrs_complete_run($run, $lease)");
is(ends($run), $done, 'a paused outbox accepts events');
sql("SELECT pgqrs_resume_queue('out')");

# Roles that may set the outbox, and queues that may be one.
sql(q{CREATE ROLE ada; SELECT pgqrs_grant('ada.*', 'ada', 'admin'), pgqrs_create_queue('own'), pgqrs_create_queue('ada.out')});
for my $call ("pgqrs_create_workflow('ada.job', outbox_queue => '%s')", "pgqrs_alter_workflow('ada.job', outbox_queue => '%s')")
{
	is(sqlstate($node, "SET ROLE ada; SELECT " . sprintf($call, 'own')), 'PQ001', "$call: a queue without the privilege is refused as absent");
	is(sqlstate($node, "SELECT " . sprintf($call, 'nowhere')), 'PQ001', "$call: a missing queue is refused");
	is(sqlstate($node, "SELECT " . sprintf($call, 'a job')), 'PQ016', "$call: the queue of a workflow is refused");
	is(sqlstate($node, "SET ROLE ada; SELECT " . sprintf($call, 'ada.out')), '', "$call: a queue with the privilege admin is accepted");
}
sql(q{CREATE ROLE bob; SELECT pgqrs_grant('ada.job', 'bob', 'trigger'), pgqrs_grant('ada.job', 'bob', 'work')});
$run = sql(q{SET ROLE bob; SELECT pgqrs_trigger('ada.job')});
$lease = sql(q{SET ROLE bob; SELECT lease FROM pgqrs_dequeue('ada.job')});
sql("SET ROLE bob; SELECT pgqrs_complete_run($run, $lease)");
is(sql(q{SELECT payload->>'subject' FROM pgqrs_peek('ada.out')}), $run, 'a worker needs no privilege on the outbox');

# Gone: refused, or forced, and then the workflow has none, even if another
# queue takes the name.
sql(q{SELECT pgqrs_create_queue('gone'), pgqrs_alter_workflow('a job', outbox_queue => 'gone')});
is(sqlstate($node, q{SELECT pgqrs_delete_queue('gone')}), 'PQ009', 'deleting the outbox of a workflow without force is refused with PQ009');
my ($status, $out, $err) = $node->psql('postgres', q{SET client_min_messages = notice; SELECT pgqrs_delete_queue('gone', force => true)});
like($err, qr/NOTICE:  workflow "a job" has no outbox any more/, 'forced deletion of the outbox tells that the workflow has none any more');
sql(q{SELECT pgqrs_create_queue('gone')});
($run, $lease) = start();
sql("SELECT pgqrs_complete_run($run, $lease)");
is(sql("SELECT status FROM pgqrs_runs WHERE run_id = $run"), 'SUCCESS', 'a run ends although the outbox of its workflow was deleted');
is(sql(q{SELECT count(*) FROM pgqrs_peek('gone')}), 0, 'a later queue of that name gets no event');
is(sql(q{SELECT pgqrs_delete_queue('gone')}), 't', 'a queue that is no outbox any more is deleted');

# Setting an outbox and deleting it, at the same time: one comes after the other.
sql(q{SELECT pgqrs_create_queue('gone')});
my $setter = $node->background_psql('postgres', on_error_stop => 0);
$setter->query_safe(q{BEGIN; SELECT pgqrs_alter_workflow('a job', outbox_queue => 'gone')});
is(sqlstate($node, q{SET lock_timeout = '20 ms'; SELECT pgqrs_delete_queue('gone')}), '55P03', 'deleting a queue waits for the transaction that makes it an outbox');
$setter->query_safe('COMMIT');
$setter->quit;
is(sqlstate($node, q{SELECT pgqrs_delete_queue('gone')}), 'PQ009', 'deleting a queue that has become an outbox is refused with PQ009');
sql(q{SELECT pgqrs_alter_workflow('a job', reset => '{outbox_queue}')});
is(sql(q{SELECT pgqrs_delete_queue('gone')}), 't', 'a queue is deleted after the workflow was altered to have no outbox');

# The workflow is deleted: its live runs are told of, the ended ones were.
sql(q{SELECT pgqrs_alter_workflow('a job', outbox_queue => 'out')});
$run = sql("SELECT pgqrs_trigger('a job')");
my $before = sql(q{SELECT count(*) FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) WHERE name = 'out'});
sql("SELECT pgqrs_delete_workflow('a job', force => true)");
sql('SELECT pgqrs_maintain()');
is(ends($run), $cancelled, 'a live run that is deleted with its workflow sends the event of a cancellation');
is(sql(q{SELECT count(*) FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) WHERE name = 'out'}), $before + 1, 'deleting the workflow sends no event for ended runs');

$node->stop;
done_testing();
