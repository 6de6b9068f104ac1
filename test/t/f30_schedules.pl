# F30: schedules in a server that lives: two tickers at once, the clock stepped
# forward and back, a server that was down, a tick that waits for no lock, and
# the background worker.  What a single tick does is tested in pgtap/schedules.sql.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('schedules', "fsync = off\nlog_min_messages = warning\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub tick
{
	return sql("SELECT pgqrs_maintain()->>'schedules_fired'");
}

sub runs
{
	return sql('SELECT count(*), count(DISTINCT schedule_slot) FROM pgqrs_runs');
}

# Every hour, half an hour from now on.
sql("SELECT pgqrs_create_workflow('flow')");
my $minute = sql("SELECT extract(minute FROM pgqrs_now() + interval '30 min')");
my $cron = "$minute * * * *";
my $next = sql("SELECT pgqrs_next_firings('$cron', n => 1)");
sql("SELECT pgqrs_schedule('s', '$cron', 'flow')");
sub missed
{
	my ($hours) = @_;
	sql("DELETE FROM pgqrs_messages; DELETE FROM pgqrs_workflow_runs; DELETE FROM pgqrs_schedule_firings;
		UPDATE pgqrs_schedules SET next_fire_at = '$next'::timestamptz - interval '$hours hours'");
	return;
}

# Two tickers: the second leaves the schedule to the first, whether or not that
# commits, and does not wait.
missed(3);
my $first = $node->background_psql('postgres');
$first->query_safe('BEGIN');
is($first->query_safe("SELECT pgqrs_maintain()->>'schedules_fired'"), '3', 'a tick fires the three missed slots');
is(sql("SET lock_timeout = '60 s'; SELECT pgqrs_maintain()->>'schedules_fired'"), '0', 'a second tick beside the open first one fires nothing and does not wait');
$first->query_safe('ROLLBACK');
is(runs(), '0|0', 'a tick that is rolled back leaves no run');
is(tick(), '3', 'the next tick fires what was rolled back');
is(runs(), '3|3', 'each slot has one run');

# Many at once.
missed(50);
$node->pgbench('-n -c 6 -j 2 -t 40', 0, [qr{processed: 240/240}], [qr{^(?!.*ERROR)}s], 'six tickers', { 'tick@1' => 'SELECT pgqrs_maintain();' });
is(runs(), '50|50', 'the schedule fires one run for each slot');
is(sql('SELECT count(*), count(DISTINCT run_id) FROM pgqrs_schedule_firings'), '50|50', 'each slot has one firing with a run of its own');

# A schedule that a transaction is changing is left to the next tick; a caller that wants
# to delete it waits for the tick.
missed(1);
$first->query_safe('BEGIN');
$first->query_safe("SELECT pgqrs_schedule('s', '$cron', 'flow', '1')");
is(tick(), '0', 'a tick leaves out a schedule that another transaction is changing');
$first->query_safe('COMMIT');
is(tick(), '1', 'the next tick fires the changed schedule');
is(sql('SELECT input FROM pgqrs_runs'), '1', 'the run has the input of the changed schedule');
missed(1);
$first->query_safe('BEGIN');
is($first->query_safe("SELECT pgqrs_maintain()->>'schedules_fired'"), '1', 'a tick fires the missed slot and stays open');
my $deleting = start_client($node, "SET application_name = 'deleting'; SELECT pgqrs_unschedule('s');");
ok(waits_for_lock($node, 'deleting'), 'pgqrs_unschedule waits for the open tick');
$first->query_safe('COMMIT');
is(finish_client($deleting), 't', 'pgqrs_unschedule deletes the schedule after the tick');
is(sql('SELECT (SELECT count(*) FROM pgqrs_runs), (SELECT count(*) FROM pgqrs_schedule_firings)'), '1|0', 'the run of the deleted schedule stays, its firings go');
sql("SELECT pgqrs_schedule('s', '$cron', 'flow')");

# Deleting the workflow waits for a transaction that has one of its schedules,
# which may go on and send: its run is deleted with the workflow.
for my $call ("pgqrs_enable_schedule('s', false)", "pgqrs_unschedule('s')", "pgqrs_schedule('s', '\@daily', 'flow')", 'pgqrs_maintain()')
{
	missed(1);
	$first->query_safe('BEGIN');
	$first->query_safe("SELECT $call");
	my $deleting = start_client($node, "SET application_name = 'deleting'; SELECT pgqrs_delete_workflow('flow', force => true);");
	ok(waits_for_lock($node, 'deleting'), "deleting waits for $call");
	is($first->query_safe("SELECT pgqrs_trigger('flow') > 0"), 't', "a session triggers a run after $call of another one");
	$first->query_safe('COMMIT');
	is(finish_client($deleting), 't', 'the workflow is deleted after that transaction');
	sql("SELECT pgqrs_maintain(), pgqrs_create_workflow('flow'), pgqrs_schedule('s', '$cron', 'flow')");
	is(sql('SELECT count(*) FROM pgqrs_runs'), '0', 'the runs of the deleted workflow are gone');
}
sql("SELECT pgqrs_unschedule('s')");

# A run that is to be cancelled and that is locked: its slot waits,
# and nothing else does.
sql("SELECT pgqrs_schedule('s', '$cron', 'flow', overlap => 'cancel'), pgqrs_create_workflow('busy'), pgqrs_schedule('b', '$cron', 'busy')");
missed(1);
is(tick(), '2', 'a tick fires both schedules');
my ($held, $lease) = split /\|/, sql("SELECT run_id, lease FROM pgqrs_dequeue('flow')");
sql("DELETE FROM pgqrs_schedule_firings; UPDATE pgqrs_schedules SET next_fire_at = '$next'::timestamptz - interval '1 hour'");
$first->query_safe('BEGIN');
$first->query_safe("SELECT pgqrs_complete_run($held, $lease)");
is(tick(), '1', 'a tick fires the schedule whose run is not locked');
is(sql("SELECT next_fire_at < pgqrs_now() FROM pgqrs_schedule_list WHERE name = 's'"), 't', 'the schedule whose run is locked stays due');
$first->query_safe('COMMIT');
is(tick(), '1', 'the schedule fires once its run is not locked');
is(sql("SELECT status FROM pgqrs_get_run($held)"), 'SUCCESS', 'the run that was to be cancelled had ended by then');
sql("SELECT pgqrs_delete_workflow('busy', force => true), pgqrs_schedule('s', '$cron', 'flow')");

# The clock goes forward by five hours, and back.
missed(0);
is(tick(), '0', 'a tick fires nothing while no slot is due');
clock($node, '5h');
is(tick(), '5', 'a tick after five hours fires five slots');
my $ahead = sql('SELECT next_fire_at FROM pgqrs_schedule_list');
is($ahead, sql("SELECT '$next'::timestamptz + interval '5 hours'"), 'the next slot is the one after those five');
clock($node, '0');
is(tick(), '0', 'a tick after the clock was set back fires nothing');
is(sql('SELECT next_fire_at FROM pgqrs_schedule_list'), $next, 'the next slot is counted from the corrected clock');
clock($node, '1h');
is(tick(), '0', 'a slot that comes again on the corrected clock is not fired twice');
clock($node, '6h');
is(tick(), '1', 'a slot after those that were fired ahead is fired');
is(runs(), '6|6', 'the schedules fire one run for each slot');
clock($node, '0');
is(tick(), '0', 'a tick after the clock was set back once more fires nothing');

# The server was down for a day; from then on the background worker fires.
missed(0);
$first->quit;
sql("ALTER SYSTEM SET pgqrs.clock_offset = '24h'");
sql('ALTER SYSTEM SET pgqrs.paused = off');
$node->restart;
ok($node->poll_query_until('postgres', 'SELECT count(*) >= 24 FROM pgqrs_runs'), 'the background worker fires the slots that were missed while the server was down');
is(runs(), '24|24', 'each missed slot has one run');
is(sql('SELECT array_agg(schedule_slot ORDER BY run_id) = array_agg(schedule_slot ORDER BY schedule_slot) FROM pgqrs_runs'), 't', 'missed slots are fired in their order');

sql("SELECT pgqrs_create_workflow('minutely'), pgqrs_schedule('m', '* * * * *', 'minutely')");
clock($node, '1441min');
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pgqrs_runs WHERE workflow = 'minutely'"), 'a new schedule fires on its own');
cmp_ok(sql("SELECT max(created_at - schedule_slot) FROM pgqrs_runs WHERE workflow = 'minutely'"), 'lt', '00:01:30', 'a run is created within 90 s of its slot');

# One that cannot fire says so in the log and is in no other's way.
sql("CREATE ROLE gone; SELECT pgqrs_grant('minutely', 'gone', 'trigger'), pgqrs_grant('theirs', 'gone', 'trigger')");
sql("SET ROLE gone; SELECT pgqrs_schedule('theirs', '* * * * *', 'minutely')");
sql("SELECT pgqrs_revoke('minutely', 'gone', 'trigger')");
my $log = -s $node->logfile;
clock($node, '1442min');
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pgqrs_schedule_firings JOIN pgqrs_schedules USING (schedule_id) WHERE name = 'theirs' AND run_id IS NULL"),
	'a slot of a schedule whose owner lost the privilege has no run');
like(slurp_file($node->logfile, $log), qr/WARNING:  schedule "theirs" did not fire for .*\n.*DETAIL:  The schedule's owner "gone" lacks privilege "trigger" on workflow "minutely"\./, 'the log says why the schedule did not fire');
$node->stop;

done_testing();
