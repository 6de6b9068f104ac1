# The cost of waiting runs: nothing, but for those whose signal or child came.
# And whichever record of those is lost, no run waits for ever.
# No client calls pgqrs_maintain(), unless there is no background worker.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', "pgqrs.paused = off\nmax_prepared_transactions = 5\nfsync = off\nautovacuum = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub paused
{
	my ($value) = @_;
	sql("ALTER SYSTEM SET pgqrs.paused = $value");
	sql('SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'")
	  if $value eq 'on';
	return;
}

my $setup = "SELECT pgqrs_create_workflow('flow', visibility_timeout => '1 h'), pgqrs_create_workflow('many'), pgqrs_create_workflow('flood')";
sql($setup);

# A run of flow, claimed.
sub start
{
	my $run = sql("SELECT pgqrs_trigger('flow')");
	return ($run, sql("SELECT lease FROM pgqrs_dequeue('flow', batch_size => 100) WHERE run_id = $run"));
}

# A run that waits though its signal is there: it was sent before the run was
# suspended, and committed afterwards.
sub missed
{
	my ($end) = @_;
	my ($run, $lease) = start();
	my $sender = $node->background_psql('postgres');
	$sender->query_safe("BEGIN; SELECT pgqrs_signal($run, 'go')");
	sql("SELECT pgqrs_await_signal($run, $lease, 'w', 'go')");
	$sender->query_safe($end // 'COMMIT');
	$sender->quit;
	return $run;
}

my $is_woken = 'SELECT waiting_for IS NULL FROM pgqrs_messages WHERE run_id = ';

sub is_woken
{
	my ($run, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until('postgres', "$is_woken$run"), "$name is delivered to a worker");
}

sub is_not_woken
{
	my ($run, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql("$is_woken$run"), 'f', "$name is not woken");
}

# All duties have been done that are due.
sub pass_minute
{
	my ($minutes) = @_;
	clock($node, "$minutes min");
	is_served($node, 'postgres') or die 'nothing happens';
	return;
}

#
# Cost
#

my $blocks = q{SELECT pg_stat_clear_snapshot(); SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) FROM pg_statio_all_tables
	WHERE relname IN ('pgqrs_messages', 'pgqrs_workflow_runs', 'pgqrs_workflow_steps', 'pgqrs_run_signals')};
my $suspend = q{DO $$ DECLARE n int := %s - (SELECT count(*) FROM pgqrs_messages WHERE waiting_for IS NOT NULL);
	BEGIN
		WHILE n > 0 LOOP
			PERFORM pgqrs_trigger_batch('many', array_agg('{}'::jsonb)) FROM generate_series(1, least(n, 5000));
			PERFORM pgqrs_await_signal(run_id, lease, 'w', 'a') FROM pgqrs_dequeue('many', batch_size => 5000);
			n := n - 5000;
		END LOOP;
	END $$};

# Buffers that two minutes of maintenance read.
sub cost
{
	my ($from) = @_;
	pass_minute($from);
	my $before = sql($blocks) =~ s/.*\n//sr;
	pass_minute($from + 2 * $_) for 1 .. 2;
	paused('on');
	my $after = sql($blocks) =~ s/.*\n//sr;
	paused('off');
	return $after - $before;
}

my $none = cost(2);

# As many waiting runs as one pass looks at, and twice as many.
for my $count (5000, 10000)
{
	paused('on');
	sql(sprintf $suspend, $count - 1);
	my $session = $node->background_psql('postgres');
	my $maintain = "SELECT sum((pgqrs_maintain() ->> 'runs_woken')::int) FROM generate_series(1, $count / 5000 + 1)";
	for my $time (1, 2)
	{
		missed();
		is($session->query_safe($maintain), '1', "calls of pgqrs_maintain() find the last of $count, time $time");
	}
	$session->quit;
	my $last = missed();
	$node->restart;
	paused('off');
	is_woken($last, "after a start the last of $count");
}

sql(sprintf $suspend, 20000);
is_served($node, 'postgres') or die;
sql('VACUUM pgqrs_messages');
# the look at all of them that follows the start may not be over before the first two minutes
my ($many) = sort { $a <=> $b } map { cost($_) } 20, 30;
note "$none buffers without waiting runs, $many with 20,000";
cmp_ok($many, '<', $none + 1000, 'maintenance reads no more where 20,000 runs wait');
is(sql("SELECT count(*) FROM pgqrs_messages WHERE waiting_for = 'signal a'"), '20000', 'all 20,000 runs still wait');

#
# What is lost
#

paused('on');
my $run = missed();
is_not_woken($run, 'a run whose signal comes while the background worker is away');
paused('off');
is_woken($run, 'after the background worker has come, that run');

# Ends that are told by so many blocks that some are lost.
paused('on');
$run = missed();
sql("ALTER SEQUENCE pgqrs_message_id_seq INCREMENT 1024");
sql("SELECT pgqrs_trigger_batch('flood', array_agg('1'::jsonb)) FROM generate_series(1, 1700)");
my $log = log_count($node, 'pgqrs lost notifications');
is(sql("SELECT pgqrs_purge_queue('flood')"), '1700', 'purging the queue ends all runs');
sql("ALTER SEQUENCE pgqrs_message_id_seq INCREMENT 1");
my $late = missed();
paused('off');
is_woken($_, 'a run whose record was lost for want of room') for $run, $late;
cmp_ok(log_count($node, 'pgqrs lost notifications'), '>', $log, 'the log tells of the lost records');

for my $how (qw(fast immediate))
{
	paused('on');
	$run = missed();
	$node->stop($how);
	$node->start;
	paused('off');
	is_woken($run, "a run whose signal came before a restart ($how)");
}

# A transaction that was prepared before the start, and ends when all waiting
# runs have been looked at; whether or not a claim has asked for such before.
for my $claims (0, 1)
{
	$run = missed("PREPARE TRANSACTION 'before'");
	$node->restart;
	is_served($node, 'postgres') or die if $claims;
	$node->poll_query_until('postgres', q{SELECT value LIKE 'not needed%' OR value LIKE 'running%' FROM pgqrs_health WHERE item = 'background worker'});
	sql("SELECT count(*) FROM pgqrs_dequeue('many')") if $claims;
	is_not_woken($run, 'a run whose signal is only prepared');
	sql("COMMIT PREPARED 'before'");
	is_woken($run, 'a run whose signal was prepared before the start');
}

# One that is locked, over the end of the worker too, and rolled back.
paused('on');
$run = missed();
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT FROM pgqrs_messages WHERE run_id = $run FOR UPDATE");
paused('off');
my $pid = await_worker($node, 'postgres');
is_not_woken($run, 'a run whose message is locked');
sql("SELECT pg_terminate_backend($pid)");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
await_worker($node, 'postgres');
is_not_woken($run, 'a run whose message is locked while another background worker comes');
pass_minute(40);
$holder->query_safe('ROLLBACK');
$holder->quit;
is_woken($run, 'after the lock is released, the run');

# One that it fails at.
paused('on');
my ($parent, $lease) = start();
my $child = sql("SELECT pgqrs_start_child($parent, $lease, 'c', 'many')");
my $cancel = $node->background_psql('postgres');
$cancel->query_safe("BEGIN; SELECT pgqrs_cancel_run($child)");
sql("SELECT pgqrs_await_child($parent, $lease, 'c')");
$cancel->query_safe('COMMIT');
$cancel->quit;
my $spoil = "UPDATE pgqrs_workflow_steps SET input = '{\"run_id\": %s}' WHERE run_id = $parent";
sql(sprintf $spoil, '1e30');
paused('off');
ok(await_log($node, "message or run $parent was skipped"), 'the background worker passes over a run at which it fails');
sql("SET session_replication_role = replica; " . sprintf $spoil, $child);
is_not_woken($parent, 'the run that was mended less than a minute ago');
pass_minute(50);
is_woken($parent, 'a minute after it was mended, the run');
is_well($node, 'at the end of the test');

$node->stop;

done_testing();
