# F28: what runs wait for is not lost: in races of sender and parker, in a
# prepared transaction, over restarts.  No client calls pgqrs_maintain().
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('waits', "pgqrs.paused = off\nmax_prepared_transactions = 5\nfsync = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT pgqrs_create_workflow('flow', visibility_timeout => '1 h'), pgqrs_create_workflow('child', visibility_timeout => '1 h')");

# A run of flow, claimed.
sub start
{
	my $run = sql("SELECT pgqrs_trigger('flow')");
	my $lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
	return ($run, $lease);
}

sub is_woken
{
	my ($run) = @_;
	# 10 seconds, well before all waiting runs are looked at
	for (1 .. 100)
	{
		return 1 if sql("SELECT visible_after <= pgqrs_now() FROM pgqrs_messages WHERE run_id = $run") eq 't';
		select undef, undef, undef, 0.1;
	}
	return 0;
}

# The sender is open when the run looks and is suspended.
my ($run, $lease) = start();
my $sender = $node->background_psql('postgres');
$sender->query_safe("BEGIN; SELECT pgqrs_signal($run, 'go', '1')");
is(sql("SELECT received FROM pgqrs_await_signal($run, $lease, 'w', 'go')"), 'f', 'a run does not see a signal that is not committed');
$sender->query_safe('COMMIT');
ok(is_woken($run), 'a signal that was sent before the run waits and committed afterwards wakes the run');
$lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
is(sql("SELECT payload FROM pgqrs_await_signal($run, $lease, 'w', 'go')"), '1', 'the woken run receives the signal that was committed late');

# The run looks and is suspended, and the signal is sent before that is committed.
my $worker = $node->background_psql('postgres');
$worker->query_safe("BEGIN; SELECT pgqrs_await_signal($run, $lease, 'v', 'go')");
sql("SELECT pgqrs_signal($run, 'go', '2')");
$worker->query_safe('COMMIT');
ok(is_woken($run), 'a signal that is sent while the wait is not committed wakes the run');
$lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
is(sql("SELECT payload FROM pgqrs_await_signal($run, $lease, 'v', 'go')"), '2', 'the woken run receives the signal that was sent meanwhile');

# Two send at once; the first, which has the run locked, rolls back.
sql("SELECT pgqrs_await_signal($run, $lease, 'u', 'go')");
$sender->query_safe("BEGIN; SELECT pgqrs_signal($run, 'go', '3')");
sql("SELECT pgqrs_signal($run, 'go', '4')");
$sender->query_safe('ROLLBACK');
ok(is_woken($run), 'the second of two signals wakes the run although the first one is rolled back');
$lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
is(sql("SELECT payload FROM pgqrs_await_signal($run, $lease, 'u', 'go')"), '4', 'the woken run receives the second signal');

# A prepared sender.
sql("BEGIN; SELECT pgqrs_signal($run, 'go', '5'); PREPARE TRANSACTION 'p'");
sql("SELECT pgqrs_await_signal($run, $lease, 't', 'go')");
sql("COMMIT PREPARED 'p'");
ok(is_woken($run), 'a signal of a prepared transaction wakes the run at COMMIT PREPARED');
$lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
is(sql("SELECT payload FROM pgqrs_await_signal($run, $lease, 't', 'go')"), '5', 'the woken run receives the prepared signal');

# The last two of many children end at once, and neither sees the other.
my $children = sql("SELECT array_to_string(pgqrs_start_children($run, $lease, 'm', 'child', '{1,2}'), ' ')");
my ($c1, $c2) = split / /, $children;
my %leases = map { split /\|/ } split /\n/, sql("SELECT run_id, lease FROM pgqrs_dequeue('child', batch_size => 2)");
sql("SELECT pgqrs_await_children($run, $lease, 'm')");
$sender->query_safe("BEGIN; SELECT pgqrs_complete_run($c1, $leases{$c1})");
$worker->query_safe("BEGIN; SELECT pgqrs_complete_run($c2, $leases{$c2})");
$sender->query_safe('COMMIT');
$worker->query_safe('COMMIT');
ok(is_woken($run), 'two children that end at the same time wake their parent');
$lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
is(sql("SELECT done FROM pgqrs_await_children($run, $lease, 'm')"), 't', 'the woken parent finds that all children have ended');

# A child that is locked when its parent ends is cancelled afterwards.
my $child = sql("SELECT pgqrs_start_child($run, $lease, 'locked', 'child')");
$leases{$child} = sql("SELECT lease FROM pgqrs_dequeue('child', visibility_timeout => '1 us')");
$sender->query_safe("BEGIN; SELECT pgqrs_step_complete($child, $leases{$child}, 's')");
sql("SELECT pgqrs_fail_run($run, $lease, '{}')");
is(sql("SELECT status FROM pgqrs_result($child)"), 'RUNNING', 'a child whose step is open stays RUNNING when its parent fails');
$sender->query_safe('COMMIT');
ok($node->poll_query_until('postgres', "SELECT status = 'CANCELLED' FROM pgqrs_result($child)"), 'the child is cancelled after the transaction of its step');

# A family that is too large for one pass is cancelled by several of them, one
# right after the other.
($run, $lease) = start();
sql("SELECT pgqrs_start_children($run, $lease, 'many', 'child', array_agg('1'::jsonb)) FROM generate_series(1, 6000)");
sql("SELECT pgqrs_fail_run($run, $lease, '{}')");
ok($node->poll_query_until('postgres', "SELECT bool_and(status = 'CANCELLED') FROM pgqrs_runs WHERE parent_run_id = $run"), 'a family that is too large for one pass is cancelled');
cmp_ok(sql("SELECT count(*) FROM (SELECT completed_at - lag(completed_at) OVER (ORDER BY completed_at) AS pause FROM pgqrs_runs WHERE parent_run_id = $run) p WHERE pause > '0.9 s'"),
	'<', 3, 'the passes that cancel a large family follow each other without pauses');
$sender->quit;
$worker->quit;

# A restart after the time to wake, with a crash.
my ($sleeper, $sleeper_lease) = start();
my ($waiter, $waiter_lease) = start();
my ($silent, $silent_lease) = start();
is(sql("SELECT pgqrs_sleep($sleeper, $sleeper_lease, 's', '1 h')"), 'f', 'a sleep suspends the run');
is(sql("SELECT timed_out FROM pgqrs_await_signal($waiter, $waiter_lease, 's', 'go', '1 h')"), 'f', 'a wait for a signal with a time-out suspends the run');
is(sql("SELECT received FROM pgqrs_await_signal($silent, $silent_lease, 's', 'go')"), 'f', 'a wait for a signal without a time-out suspends the run');
my $until = sql("SELECT input->>'until' FROM pgqrs_steps WHERE run_id = $sleeper");
is(sql("SELECT count(*) FROM pgqrs_dequeue('flow')"), '0', 'no run is claimable before its wait is over');
$node->stop('immediate');
# a signal whose wake-up was lost with the server
$node->append_conf('postgresql.conf', 'pgqrs.paused = on');
$node->start;
sql("INSERT INTO pgqrs_run_signals (signal_id, run_id, sent_at, name) VALUES (nextval('pgqrs_signal_id_seq'), $silent, clock_timestamp(), 'go')");
$node->stop('immediate');
$node->append_conf('postgresql.conf', "pgqrs.paused = off\npgqrs.time_passed = '1 h'\npgqrs.clock_offset = '1 h'");
$node->start;
ok(is_woken($silent), 'after a start the background worker looks at all waiting runs');
my %claimed = map { split /\|/ } split /\n/, sql("SELECT run_id, lease FROM pgqrs_dequeue('flow', batch_size => 10)");
is(join(' ', sort { $a <=> $b } keys %claimed), "$sleeper $waiter $silent", 'claims deliver all three runs');
is(sql("SELECT pgqrs_sleep($sleeper, $claimed{$sleeper}, 's', '1 h')"), 't', 'the run whose sleep is over goes on');
is(sql("SELECT completed_at >= '$until' FROM pgqrs_steps WHERE run_id = $sleeper"), 't', 'the sleep lasted as long as it was to');
is(sql("SELECT timed_out FROM pgqrs_await_signal($waiter, $claimed{$waiter}, 's', 'go')"), 't', 'the run whose wait is over times out');
is(sql("SELECT received FROM pgqrs_await_signal($silent, $claimed{$silent}, 's', 'go')"), 't', 'the run receives the signal that was written before the start');

$node->stop;
done_testing();
