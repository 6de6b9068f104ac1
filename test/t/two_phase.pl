# Two-phase commit.  F10: what a prepared transaction did is there with COMMIT
# PREPARED and gone with ROLLBACK PREPARED, also across a restart and a
# promotion; until then it blocks others only where it must.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = new_node('two_phase', "max_prepared_transactions = 20\nfsync = off\n", allows_streaming => 1);

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Runs statements in a transaction that is prepared under a name.
sub prepare
{
	my ($name, $query) = @_;
	return sql("BEGIN; $query; PREPARE TRANSACTION '$name'");
}

sub commit
{
	my ($name) = @_;
	return sql("COMMIT PREPARED '$name'");
}

sub rollback
{
	my ($name) = @_;
	return sql("ROLLBACK PREPARED '$name'");
}

# Claims one and returns it as id|lease|attempt|failures; empty: nothing.
sub claim
{
	my ($queue, $timeout) = @_;
	$timeout = $timeout ? "'$timeout'" : 'NULL';
	return sql("SELECT message_id, lease, attempt, failures FROM pgqrs_dequeue('$queue', visibility_timeout => $timeout)");
}

# Claims one at a time: how many there were.
sub claim_all
{
	my ($queue) = @_;
	my @claims = split /\n/, sql("SELECT message_id FROM pgqrs_dequeue('$queue', visibility_timeout => '1 hour');\n" x 50);
	return scalar @claims;
}

sub status
{
	my ($run) = @_;
	return sql("SELECT status FROM pgqrs_result($run)");
}

sql("SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 hour'), pgqrs_create_workflow('flow'),
	pgqrs_create_queue('limited', max_in_flight => 2)");

# Enqueue, trigger, and what a worker does; the server is restarted or not.
for my $restart ('', 'fast', 'immediate')
{
	my $how = $restart ? " after a restart ($restart)" : '';

	my $working = sql("SELECT pgqrs_trigger('flow')");
	my (undef, $lease) = split /\|/, claim('flow', '1 hour');
	my $ending = sql("SELECT pgqrs_trigger('flow')");
	my (undef, $ending_lease) = split /\|/, claim('flow', '1 hour');
	my $done = sql("SELECT pgqrs_enqueue('jobs', '\"done\"')");
	my (undef, $done_lease) = split /\|/, claim('jobs');
	for my $name ('stays', 'goes')
	{
		prepare("sent $name", "SELECT pgqrs_enqueue('jobs', '\"$name\"'), pgqrs_enqueue_batch('jobs', '{\"1\",\"2\"}'),
			pgqrs_trigger('flow', '\"$name\"'), pgqrs_create_queue('new $name')");
	}
	prepare('step stays', "SELECT pgqrs_step_begin($working, $lease, 'a'), pgqrs_step_complete($working, $lease, 'a', '\"kept\"')");
	prepare('step goes', "SELECT pgqrs_step_complete($working, $lease, 'b', '\"lost\"')");
	prepare('end goes', "SELECT pgqrs_complete_run($ending, $ending_lease, '1'), pgqrs_archive_message($done, $done_lease)");

	is(claim('jobs'), '', "a message of a prepared transaction is not delivered");
	is(claim('flow'), '', "a run of a prepared transaction is not delivered");
	if ($restart)
	{
		$node->stop($restart);
		$node->start;
		is(sql("SELECT count(*) FROM pg_prepared_xacts"), '5', "the prepared transactions are there$how");
	}
	is(claim('jobs'), '', "a message is still not delivered$how");
	is(sql("SELECT count(*) FROM pgqrs_list_steps($working)"), '0', "a step of a prepared transaction is not seen$how");

	rollback('sent goes');
	rollback('step goes');
	rollback('end goes');
	is(claim('jobs'), '', "a message that was rolled back is not delivered$how");
	is(claim('flow'), '', "a run that was rolled back is not delivered$how");
	is(status($ending), 'RUNNING', "a completion that was rolled back leaves the run RUNNING$how");
	is(sqlstate($node, "SELECT pgqrs_enqueue('new goes', '1')"), 'PQ001', "a queue whose creation was rolled back does not exist$how");
	sql("SELECT pgqrs_complete_run($ending, $ending_lease, '1'), pgqrs_archive_message($done, $done_lease)");

	commit('sent stays');
	is(sql("SELECT string_agg(payload::text, ' ' ORDER BY message_id) FROM pgqrs_dequeue('jobs', batch_size => 10)"), '"stays" 1 2',
		"the messages of a committed transaction are delivered in order$how");
	is(sql("SELECT pgqrs_enqueue('new stays', '1') > 0"), 't', "the queue of a committed transaction accepts messages$how");
	my ($run, $run_lease) = split /\|/, sql("SELECT run_id, lease, input FROM pgqrs_dequeue('flow')");
	is(sql("SELECT input FROM pgqrs_get_run($run)"), '"stays"', "the run of a committed transaction is delivered$how");
	sql("SELECT pgqrs_complete_run($run, $run_lease)");

	commit('step stays');
	is(sql("SELECT should_execute, output FROM pgqrs_step_begin($working, $lease, 'a')"), 'f|"kept"', "the step of a committed transaction keeps its output$how");
	is(sql("SELECT should_execute, attempt FROM pgqrs_step_begin($working, $lease, 'b')"), 't|1', "the step that was rolled back begins with attempt 1$how");

	prepare('end stays', "SELECT pgqrs_complete_run($working, $lease, '2')");
	is(status($working), 'RUNNING', 'a prepared completion leaves the run RUNNING');
	commit('end stays');
	is(sql("SELECT status, output FROM pgqrs_result($working)"), 'SUCCESS|2', 'COMMIT PREPARED ends the run');
	sql("SELECT pgqrs_purge_queue('jobs'), pgqrs_purge_queue('flow'), pgqrs_delete_queue('new stays', force => true)");
	sql('SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_messages WHERE lease IS NOT NULL');
}

# However much is claimed meanwhile, what is prepared is not passed by for good.
for my $restart (0, 1)
{
	prepare('early', "SELECT pgqrs_enqueue('jobs', '\"early\"')");
	prepare('early claim', "SELECT pgqrs_enqueue('jobs', '\"claimed\"', priority => 1), (SELECT message_id FROM pgqrs_dequeue('jobs'))");
	sql("SELECT count(pgqrs_enqueue('jobs', '1')) FROM generate_series(1, 40)");
	is(claim_all('jobs'), 40, 'later messages are delivered before those of prepared transactions');
	$node->restart if $restart;
	is(claim_all('jobs'), 0, 'no further message is delivered while earlier ones are prepared');
	commit('early');
	rollback('early claim');
	is(sql("SELECT payload FROM pgqrs_dequeue('jobs')"), '"early"', 'a message is delivered after COMMIT PREPARED though later ones were claimed before');
	sql('SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_messages WHERE lease IS NOT NULL');
}

# A claim that is prepared.
my $m = sql("SELECT pgqrs_enqueue('jobs', '1')");
prepare('claim', "SELECT message_id FROM pgqrs_dequeue('jobs')");
is(claim('jobs'), '', 'a message that a prepared transaction has claimed is passed over');
$node->restart;
is(claim('jobs'), '', 'the message stays claimed by the prepared transaction after a restart');
clock($node, '2 h');
is(claim('jobs'), '', 'the message stays claimed after its lease would have ended');
clock($node, '0');
rollback('claim');
my ($id, $lease, $attempt, $failures) = split /\|/, claim('jobs');
is("$id $attempt $failures", "$m 1 0", 'after ROLLBACK PREPARED the message has never been claimed');
sql("SELECT pgqrs_release_message($id, $lease)");

$lease = prepare('claim', "SELECT lease FROM pgqrs_dequeue('jobs')");
is(sqlstate($node, "SET lock_timeout = '10s'; SELECT pgqrs_archive_message($m, $lease)"), 'PQ006', 'a lease of a prepared claim is refused with PQ006');
commit('claim');
is(claim('jobs'), '', 'the message of a committed claim is not delivered again');
is(sqlstate($node, "SELECT pgqrs_archive_message($m, $lease)"), '', 'the lease of the committed claim archives the message');

# A limit counts the claims that are prepared.
sql("SELECT pgqrs_enqueue_batch('limited', '{1,2,3,4}')");
my ($first, $first_lease) = split /\|/, claim('limited', '1 hour');
prepare('limited', "SELECT message_id FROM pgqrs_dequeue('limited', visibility_timeout => '1 hour')");
is(claim('limited'), '', 'no claim gets past a limit while a claim is prepared');
$node->restart;
is(claim('limited'), '', 'the prepared claim counts against the limit after a restart');
commit('limited');
is(claim('limited'), '', 'a claim that was prepared and committed counts against the limit');
sql("SELECT pgqrs_archive_message($first, $first_lease)");
prepare('limited', "SELECT message_id FROM pgqrs_dequeue('limited', visibility_timeout => '1 hour')");
rollback('limited');
isnt(claim('limited', '1 hour'), '', 'a claim that was prepared and rolled back does not count against the limit');

# A step that is prepared when its lease has run out.
my $run = sql("SELECT pgqrs_trigger('flow')");
(undef, $lease) = split /\|/, claim('flow', '1 hour');
prepare('step', "SELECT pgqrs_step_complete($run, $lease, 'a', '1')");
clock($node, '2 h');
is(claim('flow'), '', 'a run with a prepared step is passed over by claims');
is(sql("SELECT extended FROM pgqrs_extend_lease($run, $lease, '1 us')"), 't', 'the extension of a lease does not wait for a prepared step');
commit('step');
my ($run2, $lease2, $attempt2) = split /\|/, claim('flow', '1 hour');
is("$run2 $attempt2", "$run 2", 'the next claim after COMMIT PREPARED delivers the run');
is(sql("SELECT should_execute, output FROM pgqrs_step_begin($run, $lease2, 'a')"), 'f|1', 'the next attempt finds the step that was prepared');
clock($node, '0');

# Idempotency keys: the second waits for the first.
for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	for my $call ("pgqrs_enqueue('jobs', '1', idempotency_key => 'KEY')", "pgqrs_trigger('flow', idempotency_key => 'KEY')")
	{
		my ($function) = $call =~ /(\w+)/;

		for my $outcome ('COMMIT', 'ROLLBACK')
		{
			(my $keyed = $call) =~ s/KEY/$level $outcome/;
			my $first_id = prepare('key', "SELECT $keyed");
			is(sqlstate($node, "SET lock_timeout = '10ms'; SELECT $keyed"), '55P03', "$function $level: a second call waits for the prepared key");
			my $client = start_client($node, "SET application_name = 'second';
				BEGIN ISOLATION LEVEL $level; SELECT 1 \\g /dev/null\nSELECT $keyed; COMMIT;");
			waits_for_lock($node, 'second');
			sql("$outcome PREPARED 'key'");
			my $second_id = finish_client($client);
			if ($outcome eq 'COMMIT')
			{
				is($second_id, $first_id, "$function $level: after COMMIT PREPARED the second call returns the id of the first");
			}
			else
			{
				like($second_id, qr/^\d+$/, "$function $level: after ROLLBACK PREPARED the second call returns an id");
				isnt($second_id, $first_id, "$function $level: that id is not the one that was rolled back");
			}
			is(sql("SELECT $keyed"), $second_id, "$function $level: a third call returns the id of the second");
		}
	}
}

# What a session remembers of queues and grants follows a prepared transaction.
sql("CREATE ROLE tom; GRANT CONNECT ON DATABASE postgres TO tom");
my $warm = $node->background_psql('postgres');
my $tom = $node->background_psql('postgres', on_error_stop => 0);
$tom->query_safe('SET SESSION AUTHORIZATION tom');
sql("SELECT pgqrs_grant('other', 'tom', 'trigger')");
$warm->query_safe("SELECT count(*) FROM pgqrs_dequeue('*', batch_size => 100)");
unlike($tom->query("SELECT pgqrs_enqueue('late', '1')"), qr/\d/, 'a role without a privilege on the missing queue cannot enqueue');
prepare('late', "SELECT pgqrs_create_queue('late'), pgqrs_grant('late', 'tom', 'trigger')");
is($warm->query_safe("SELECT count(*) FROM pgqrs_dequeue('*', batch_size => 100)"), '0', 'a pattern claims nothing from a queue that is only prepared');
unlike($tom->query("SELECT pgqrs_enqueue('late', '1')"), qr/\d/, 'the prepared queue and its privilege do not exist for the role');
commit('late');
my $late = $tom->query("SELECT pgqrs_enqueue('late', '1')");
like($late, qr/^\d+$/, 'after COMMIT PREPARED the role may enqueue');
is($warm->query_safe("SELECT message_id FROM pgqrs_dequeue('*')"), $late, 'a pattern claims the message from the committed queue');

# The session that prepared it forgets what it did.
$warm->query_safe("BEGIN; SELECT pgqrs_create_queue('mine'), pgqrs_enqueue('mine', '1'); PREPARE TRANSACTION 'mine'");
is($warm->query_safe("SELECT count(*) FROM pgqrs_queue_stats WHERE queue = 'mine'"), '0', 'the session that prepared a queue does not see it');
$warm->query_safe("SELECT pgqrs_alter_queue('late', max_attempts => 9)");
$warm->query_safe("BEGIN; SELECT pgqrs_alter_queue('late', max_attempts => 1), pgqrs_peek('late'); PREPARE TRANSACTION 'alter'");
$warm->query_safe("SELECT pgqrs_release_message(message_id, lease) FROM pgqrs_messages WHERE message_id = $late");
my (undef, $late_lease) = split /\|/, $warm->query_safe("SELECT message_id, lease FROM pgqrs_dequeue('late')");
isnt($warm->query_safe("SELECT pgqrs_nack_message($late, $late_lease, delay => '0')"), '', 'a prepared max_attempts does not end the message');
commit('alter');
(undef, $late_lease) = split /\|/, $warm->query_safe("SELECT message_id, lease FROM pgqrs_dequeue('late')");
is($late_lease // '', '', 'the committed max_attempts ends the message');
rollback('mine');
$warm->quit;
$tom->quit;
is(sql("SELECT outcome FROM pgqrs_archive WHERE message_id = $late"), 'DEAD', 'the message is archived as DEAD');

is(sql('SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is left prepared');

# A standby that is promoted.  Sessions have asked it for work before, which
# must not make it believe that it knows what is prepared.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
sql("SELECT pgqrs_create_queue('moved')");
$node->wait_for_catchup($standby);
is(sqlstate($standby, "SELECT pgqrs_dequeue('moved')"), '25006', 'a claim on a standby fails with 25006');
prepare('moved', "SELECT pgqrs_enqueue('moved', '\"prepared\"'), pgqrs_trigger('flow', '\"prepared\"')");
prepare('moved away', "SELECT pgqrs_enqueue('moved', '\"gone\"')");
sql("SELECT count(pgqrs_enqueue('moved', '1')), count(pgqrs_trigger('flow', '1')) FROM generate_series(1, 40)");
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
$node = $standby;
is(claim_all('moved'), 40, 'the promoted standby delivers all messages that are not prepared');
is(claim_all('flow'), 40, 'the promoted standby delivers all runs that are not prepared');
is(claim_all('moved') + claim_all('flow'), 0, 'the promoted standby delivers nothing twice');
commit('moved');
rollback('moved away');
is(sql("SELECT payload FROM pgqrs_dequeue('moved')"), '"prepared"', 'the message that was prepared on the primary is delivered after its commit');
is(sql("SELECT input FROM pgqrs_dequeue('flow')"), '"prepared"', 'the run that was prepared on the primary is delivered after its commit');
is(claim('moved'), '', 'the message whose transaction was rolled back is not delivered');
done_testing();
