# What the background worker sends to those that LISTEN.  F9: when it cannot,
# no transaction fails.  F10: nothing keeps a transaction from being
# prepared.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node("main", "fsync = off\nmax_prepared_transactions = 5\npgqrs.paused = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# A session that listens; received() is what it got since the last call.
my $listener = $node->background_psql('postgres');

sub received
{
	my @all;
	my $out = $listener->query('SELECT 1');
	push @all, defined $2 ? "$1 $2" : $1
	  while $out =~ /Asynchronous notification "(\w+)"(?: with payload "([^"]*)")? received/g;
	return @all;
}

# Waits until something matches that came since the last call; all that came.
sub await
{
	my ($pattern) = @_;
	my @all;
	for (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
	{
		push @all, received();
		return @all if grep { /$pattern/ } @all;
		select undef, undef, undef, 0.05;
	}
	die "nothing comes like $pattern";
}

my ($q, $wf) = split /\|/, sql("SELECT pgqrs_create_queue('q'), pgqrs_create_workflow('wf')");
$listener->query_safe("LISTEN pgqrs_queue_$q; LISTEN pgqrs_queue_$wf; LISTEN pgqrs_runs");

#
# Queues
#

my $queue = qr/^pgqrs_queue_$q$/;
sql("SELECT pgqrs_enqueue('q', '1')");
is_deeply([ await($queue) ], [ "pgqrs_queue_$q" ], 'a message notifies the listeners of its queue');
sql("SELECT pgqrs_enqueue('q', '2', delay => '500 ms')");
await($queue);
is(sql("SELECT count(*) FROM pgqrs_dequeue('q', batch_size => 10, visibility_timeout => '500 ms')"), 2, 'the end of a delay notifies, and both messages are claimed');
await($queue);
# the second of them perhaps for itself
sql('SELECT pg_sleep(0.1)');
received();
is(sql("SELECT count(*) FROM pgqrs_dequeue('q', batch_size => 10)"), 2, 'the end of leases notifies, and both messages are claimed again');
is(scalar(received()), 0, 'a claim sends no notification');
sql("SELECT pgqrs_set_visibility(message_id, now()) FROM pgqrs_peek('q')");
await($queue);
sql("SELECT pgqrs_pause_queue('q')");
sql("SELECT pgqrs_resume_queue('q')");
await($queue);
pass('moved messages and a resumed queue notify');
sql("BEGIN; SELECT pgqrs_enqueue('q', '3'); ROLLBACK; SELECT pg_sleep(0.2)");
is(scalar(received()), 0, 'a rolled back message sends no notification');
$node->command_ok([ 'pgbench', '-n', '-c', 8, '-t', 1250, '-f', write_script("SELECT pgqrs_enqueue('q', '1');"), $node->connstr('postgres') ],
	'clients send 10,000 messages');
my $notifications = grep { /$queue/ } await($queue);
cmp_ok($notifications, '<', 1000, '10,000 messages send less than 1,000 notifications');
note("$notifications notifications");
# What is left of them.
sql('SELECT pg_sleep(0.1)');
received();

sub write_script
{
	my $file = $node->basedir . '/script.sql';
	append_to_file($file, "$_[0]\n");
	return $file;
}

# A queue of which is told though it is not there any more, here because a claim
# from it is rolled back with its creation, has no place for long.
sub pause
{
	my ($paused) = @_;
	sql("ALTER SYSTEM SET pgqrs.paused = $paused");
	sql('SELECT pg_reload_conf()');
	return;
}
pause('on');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}) or die 'the worker stays';
my ($gone) = sql("BEGIN; SELECT pgqrs_create_queue('gone'); SELECT pgqrs_enqueue('gone', '1'); SELECT count(*) FROM pgqrs_dequeue('gone'); ROLLBACK") =~ /^(\d+)\n\d+\n1$/;
$listener->query_safe("LISTEN pgqrs_queue_$gone");
sql("SELECT pgqrs_maintain(); SELECT pgqrs_enqueue('q', '4')");
pause('off');
is_deeply([ await($queue) ], [ "pgqrs_queue_$q" ], 'a queue of a rolled back transaction is not notified');

#
# Runs
#

my $run = sql("SELECT pgqrs_trigger('wf')");
await(qr/^pgqrs_queue_$wf$/);
$listener->query_safe("LISTEN workflow_run_$run");
my (undef, $lease) = split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('wf')");
sql("SELECT pgqrs_complete_run($run, $lease)");
is_deeply([ sort(await(qr/pgqrs_runs/)) ], [ "pgqrs_runs $run:SUCCESS", "workflow_run_$run SUCCESS" ], 'the end of a run notifies on both channels with its status');

# More of them at once than are remembered one by one.
my $many = 20_000;
sql("SELECT pgqrs_trigger_batch('wf', array_fill(NULL::jsonb, '{10000}'))") for 1 .. $many / 10_000;
sql("SELECT pgqrs_purge_queue('wf')");
my %told;
while (keys %told < $many)
{
	$told{$_} = 1 for grep { /^pgqrs_runs \d+:CANCELLED/ } await(qr/pgqrs_runs/);
}
is(scalar(keys %told), $many, "each of $many cancelled runs is notified");

#
# F10
#

await(qr/./) if received();
sql("BEGIN; SELECT pgqrs_enqueue('q', '1'), pgqrs_trigger('wf'); PREPARE TRANSACTION 'p'; SELECT pg_sleep(0.2)");
is(scalar(received()), 0, 'a prepared transaction sends no notification');
sql("COMMIT PREPARED 'p'");
await(qr/^pgqrs_queue_$wf$/);
$run = sql("SELECT message_id FROM pgqrs_dequeue('wf')");
$lease = sql("SELECT lease FROM pgqrs_messages WHERE message_id = $run");
sql("BEGIN; SELECT pgqrs_complete_run($run, $lease); PREPARE TRANSACTION 'p'");
sql("COMMIT PREPARED 'p'");
await(qr/^pgqrs_runs $run:SUCCESS/);
pass('COMMIT PREPARED sends the notification of the ended run');
sql("SELECT pgqrs_trigger('wf') FROM generate_series(1, 100)");
received();
sql("BEGIN; SELECT pgqrs_cancel_runs('wf'); PREPARE TRANSACTION 'p'");
sql("COMMIT PREPARED 'p'");
%told = ();
while (keys %told < 100)
{
	$told{$_} = 1 for grep { /^pgqrs_runs \d+:CANCELLED/ } await(qr/pgqrs_runs/);
}
is(scalar(keys %told), 100, 'COMMIT PREPARED notifies of each of 100 cancelled runs');
my ($kept, $ended);
($kept, $lease) = split /\|/, sql("SELECT pgqrs_trigger('wf'); SELECT message_id, lease FROM pgqrs_dequeue('wf')") =~ s/^\d+\n//r;
sql("BEGIN; SELECT pgqrs_complete_run($kept, $lease); PREPARE TRANSACTION 'p'");
sql("ROLLBACK PREPARED 'p'");
($ended, $lease) = split /\|/, sql("SELECT pgqrs_trigger('wf'); SELECT message_id, lease FROM pgqrs_dequeue('wf')") =~ s/^\d+\n//r;
sql("SELECT pgqrs_complete_run($ended, $lease)");
is_deeply([ grep { /^pgqrs_runs/ } await(qr/^pgqrs_runs $ended:SUCCESS/) ], [ "pgqrs_runs $ended:SUCCESS" ], 'ROLLBACK PREPARED sends no notification of the ended run');
sql("BEGIN; SELECT pgqrs_trigger('wf'); PREPARE TRANSACTION 'p'");
$listener->quit;
$node->restart;
$listener = $node->background_psql('postgres');
$listener->query_safe("LISTEN pgqrs_queue_$wf");
sql("SELECT count(*) FROM pgqrs_dequeue('wf')");
sql('SELECT pg_sleep(0.2)');
received();
sql("COMMIT PREPARED 'p'");
await(qr/^pgqrs_queue_$wf$/);
pass('COMMIT PREPARED after a restart notifies');

#
# A signal that comes while its run begins to wait: neither sees the other, the worker
# looks after both have committed.
#

sql("SELECT pgqrs_purge_queue('wf')");
for my $order ('sender first', 'run first')
{
	my $signalled = sql("SELECT pgqrs_trigger('wf')");
	my (undef, $held) = split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('wf')");
	my $sender = $node->background_psql('postgres');
	my $handler = $node->background_psql('postgres');
	$sender->query_safe("BEGIN; SELECT pgqrs_signal($signalled, 's')");
	$handler->query_safe("BEGIN; SELECT received FROM pgqrs_await_signal($signalled, $held, 'step', 's')");
	$_->query_safe('COMMIT') for $order eq 'sender first' ? ($sender, $handler) : ($handler, $sender);
	my $before = time;
	is(sql("CALL pgqrs_wait_for_work('wf', timeout => '50 s')"), 't', "$order: a run that begins to wait while its signal comes is woken");
	cmp_ok(time - $before, '<', 20, '$order: the run is woken within 20 seconds');
	is(sql("SELECT run_id FROM pgqrs_dequeue('wf')"), $signalled, '$order: the run is claimed after that');
	$_->quit for $sender, $handler;
	sql("SELECT pgqrs_cancel_run($signalled)");
}

#
# A worker that is terminated in the middle of a pass: what it had taken is
# sent all the same.  It comes to look at the run that was signalled and waits
# for a lock, which its holder got when the sender committed.
#

$listener->query_safe('LISTEN pgqrs_runs');
$run = sql("SELECT pgqrs_trigger('wf')");
$lease = sql("SELECT lease FROM pgqrs_dequeue('wf')");
my $signalled = sql("SELECT pgqrs_trigger('wf')");
my $sender = $node->background_psql('postgres');
$sender->query_safe("BEGIN; SELECT pgqrs_complete_run($run, $lease), pgqrs_signal($signalled, 's')");
my $locker = start_client($node, "SET application_name = 'locker';\nBEGIN; LOCK TABLE pgqrs_workflow_steps; SELECT pg_sleep(600);\n");
waits_for_lock($node, 'locker');
$sender->query_safe('COMMIT');
my $waiting = "FROM pg_stat_activity WHERE backend_type = 'pgqrs worker' AND wait_event_type = 'Lock' AND query = 'rechecking waiting runs'";
$node->poll_query_until('postgres', "SELECT count(*) = 1 $waiting") or die 'the worker does not wait';
my $terminated = sql("SELECT pid $waiting");
sql("SELECT pg_terminate_backend($terminated)");
$node->poll_query_until('postgres', "SELECT count(*) = 1 $waiting AND pid <> $terminated") or die 'no other worker comes';
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'locker'");
finish_client($locker);
await(qr/^pgqrs_runs $run:SUCCESS/);
pass('a background worker that is terminated in a pass loses no notification');
$sender->quit;
sql("SELECT pgqrs_cancel_run($signalled)");

#
# F9
#

# One listens and never reads; so pages of the queue have to be kept in files.
my $stuck = $node->background_psql('postgres');
$stuck->query_safe('LISTEN pgqrs_runs; BEGIN; SELECT 1');
$listener->query_safe("LISTEN pgqrs_runs");
my $offset = -s $node->logfile;
sub cancel_many
{
	sql("SELECT cardinality(pgqrs_trigger_batch('wf', array_fill(NULL::jsonb, '{5000}')))");
	return sql("SELECT pgqrs_purge_queue('wf')");
}
rename $node->data_dir . '/pg_notify', $node->data_dir . '/pg_notify_away' or die;
for (1 .. 3)
{
	cmp_ok(cancel_many(), '>=', 5000, 'a session that ends runs does not notice that no client can be notified');
}
ok($node->wait_for_log(qr/LOG:  pgqrs cannot send notifications/, $offset), 'the log tells that notifications cannot be sent');
cmp_ok(cancel_many(), '>=', 5000, 'a session ends runs after that report');
rename $node->data_dir . '/pg_notify_away', $node->data_dir . '/pg_notify' or die;
ok($node->wait_for_log(qr/LOG:  pgqrs can send notifications again/, $offset), 'the log tells when notifications can be sent again');
is(scalar(() = slurp_file($node->logfile, $offset) =~ /pgqrs cannot send notifications/g), 1, 'the log reports the failure once');
%told = ();
while (keys %told < 20_000)
{
	$told{$_} = 1 for grep { /^pgqrs_runs \d+:CANCELLED/ } await(qr/pgqrs_runs/);
}
pass('notifications that could not be sent are sent later');
$stuck->query_safe('COMMIT');
$_->quit for $stuck, $listener;
$node->stop;
done_testing();
