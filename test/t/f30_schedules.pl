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
is($first->query_safe("SELECT pgqrs_maintain()->>'schedules_fired'"), '3', 'the first ticker fires');
is(sql("SET lock_timeout = '1 ms'; SELECT pgqrs_maintain()->>'schedules_fired'"), '0', 'the second one does not, meanwhile');
$first->query_safe('ROLLBACK');
is(runs(), '0|0', 'it was rolled back');
is(tick(), '3', 'so the second does');
is(runs(), '3|3', 'once each');

# Many at once.
missed(50);
$node->pgbench('-n -c 6 -j 2 -t 40', 0, [qr{processed: 240/240}], [qr{^(?!.*ERROR)}s], 'six tickers', { 'tick@1' => 'SELECT pgqrs_maintain();' });
is(runs(), '50|50', 'one run for each slot');
is(sql('SELECT count(*), count(DISTINCT run_id) FROM pgqrs_schedule_firings'), '50|50', 'and one firing');

# A schedule that a transaction is changing is left to the next tick; a caller that wants
# to delete it waits for the tick.
missed(1);
$first->query_safe('BEGIN');
$first->query_safe("SELECT pgqrs_schedule('s', '$cron', 'flow', '1')");
is(tick(), '0', 'it is being changed');
$first->query_safe('COMMIT');
is(tick(), '1', 'it fires as it was changed');
is(sql('SELECT input FROM pgqrs_runs'), '1', 'with the new input');
missed(1);
$first->query_safe('BEGIN');
is($first->query_safe("SELECT pgqrs_maintain()->>'schedules_fired'"), '1', 'a tick is open');
my $deleting = start_client($node, "SET application_name = 'deleting'; SELECT pgqrs_unschedule('s');");
ok(waits_for_lock($node, 'deleting'), 'deleting waits');
$first->query_safe('COMMIT');
is(finish_client($deleting), 't', 'and deletes');
is(sql('SELECT (SELECT count(*) FROM pgqrs_runs), (SELECT count(*) FROM pgqrs_schedule_firings)'), '1|0', 'the run is there');
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
	is($first->query_safe("SELECT pgqrs_trigger('flow') > 0"), 't', "a trigger after $call");
	$first->query_safe('COMMIT');
	is(finish_client($deleting), 't', 'the workflow is deleted');
	sql("SELECT pgqrs_maintain(), pgqrs_create_workflow('flow'), pgqrs_schedule('s', '$cron', 'flow')");
	is(sql('SELECT count(*) FROM pgqrs_runs'), '0', 'with its runs');
}
sql("SELECT pgqrs_unschedule('s')");

# A run that is to be cancelled and that is locked: its slot waits,
# and nothing else does.
sql("SELECT pgqrs_schedule('s', '$cron', 'flow', overlap => 'cancel'), pgqrs_create_workflow('busy'), pgqrs_schedule('b', '$cron', 'busy')");
missed(1);
is(tick(), '2', 'two schedules');
my ($held, $lease) = split /\|/, sql("SELECT run_id, lease FROM pgqrs_dequeue('flow')");
sql("DELETE FROM pgqrs_schedule_firings; UPDATE pgqrs_schedules SET next_fire_at = '$next'::timestamptz - interval '1 hour'");
$first->query_safe('BEGIN');
$first->query_safe("SELECT pgqrs_complete_run($held, $lease)");
is(tick(), '1', 'the other one fires');
is(sql("SELECT next_fire_at < pgqrs_now() FROM pgqrs_schedule_list WHERE name = 's'"), 't', 'this one is still due');
$first->query_safe('COMMIT');
is(tick(), '1', 'and fires when it can');
is(sql("SELECT status FROM pgqrs_get_run($held)"), 'SUCCESS', 'the run had ended by then');
sql("SELECT pgqrs_delete_workflow('busy', force => true), pgqrs_schedule('s', '$cron', 'flow')");

# The clock goes forward by five hours, and back.
missed(0);
is(tick(), '0', 'nothing is due');
clock($node, '5h');
is(tick(), '5', 'five hours later');
my $ahead = sql('SELECT next_fire_at FROM pgqrs_schedule_list');
is($ahead, sql("SELECT '$next'::timestamptz + interval '5 hours'"), 'it goes on from there');
clock($node, '0');
is(tick(), '0', 'back: nothing fires');
is(sql('SELECT next_fire_at FROM pgqrs_schedule_list'), $next, 'it goes on from now, not in five hours');
clock($node, '1h');
is(tick(), '0', 'a slot that comes again was served');
clock($node, '6h');
is(tick(), '1', 'one that is new was not');
is(runs(), '6|6', 'one run for each slot');
clock($node, '0');
is(tick(), '0', 'back once more');

# The server was down for a day; from then on the background worker fires.
missed(0);
$first->quit;
sql("ALTER SYSTEM SET pgqrs.clock_offset = '24h'");
sql('ALTER SYSTEM SET pgqrs.paused = off');
$node->restart;
ok($node->poll_query_until('postgres', 'SELECT count(*) >= 24 FROM pgqrs_runs'), 'a day later: what was missed is made up for');
is(runs(), '24|24', 'each slot once');
is(sql('SELECT array_agg(schedule_slot ORDER BY run_id) = array_agg(schedule_slot ORDER BY schedule_slot) FROM pgqrs_runs'), 't', 'in order');

sql("SELECT pgqrs_create_workflow('minutely'), pgqrs_schedule('m', '* * * * *', 'minutely')");
clock($node, '1441min');
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pgqrs_runs WHERE workflow = 'minutely'"), 'a new schedule fires on its own');
cmp_ok(sql("SELECT max(created_at - schedule_slot) FROM pgqrs_runs WHERE workflow = 'minutely'"), 'lt', '00:01:30', 'at its time');

# One that cannot fire says so in the log and is in no other's way.
sql("CREATE ROLE gone; SELECT pgqrs_grant('minutely', 'gone', 'trigger'), pgqrs_grant('theirs', 'gone', 'trigger')");
sql("SET ROLE gone; SELECT pgqrs_schedule('theirs', '* * * * *', 'minutely')");
sql("SELECT pgqrs_revoke('minutely', 'gone', 'trigger')");
my $log = -s $node->logfile;
clock($node, '1442min');
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pgqrs_schedule_firings JOIN pgqrs_schedules USING (schedule_id) WHERE name = 'theirs' AND run_id IS NULL"),
	'a slot of a role that may not');
like(slurp_file($node->logfile, $log), qr/WARNING:  schedule "theirs" did not fire for .*\n.*DETAIL:  The schedule's owner "gone" lacks privilege "trigger" on workflow "minutely"\./, 'is in the log');
$node->stop;

done_testing();
