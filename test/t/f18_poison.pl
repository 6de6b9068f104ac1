# F18: a poison message.  A worker that claims it dies: by its session's end the
# message is dead after exactly max_attempts claims, and the next in the queue
# is delivered; a server crash adds at most one claim each.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('poison', "fsync = off\nrestart_after_crash = on\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# A worker's session that dies right after a claim: what it was given, as
# id|attempt|failures, or nothing.
sub die_after_claim
{
	my ($queue, $how) = @_;
	my $session = $node->background_psql('postgres');
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	my $claim = $session->query_safe("SELECT message_id, attempt, failures FROM pgqrs_dequeue('$queue', visibility_timeout => '1 us')");

	if ($how eq 'terminate')
	{
		sql("SELECT pg_terminate_backend($pid)");
	}
	else
	{
		kill 'KILL', $pid or die "kill: $!";
	}
	$session->{run}->finish;
	await_end($pid);
	return $claim;
}

# The session is gone, and the server answers again if it crashed with it.
sub await_end
{
	my ($pid) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		# While the server recovers, psql ends before it reads its input, of
		# which IPC::Run dies.
		my ($status, $out) = eval { $node->psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") };
		return if defined $status && $status == 0 && $out eq '0';
		select undef, undef, undef, 0.05;
	}
	die 'the session does not end';
}

# Without claims that a crash took back: the next one was the same again.
sub kept
{
	my @claims = @_;
	return @claims[ grep { $_ == $#claims || $claims[$_] ne $claims[ $_ + 1 ] } 0 .. $#claims ];
}

# The claims until something else is delivered, or nothing.
sub claims_of
{
	my ($queue, $how, $id) = @_;
	my @claims;

	while (1)
	{
		my ($claimed, $attempt, $failures) = split /\|/, die_after_claim($queue, $how) || '0';
		return ($claimed, $how eq 'kill' ? kept(@claims) : @claims) if $claimed != $id;
		push @claims, "$attempt $failures";
		die 'it is never dead' if @claims > 20;
	}
}

sql("SELECT pgqrs_create_queue('jobs', max_attempts => 4), pgqrs_create_queue('once', max_attempts => 1), pgqrs_create_workflow('flow', max_crashes => 3)");

for my $how ('terminate', 'kill')
{
	my $poison = sql("SELECT pgqrs_enqueue('jobs', '\"poison\"', priority => 1)");
	my $good = sql("SELECT pgqrs_enqueue('jobs', '\"good\"')");
	my ($next, @claims) = claims_of('jobs', $how, $poison);
	is_deeply(\@claims, [ '1 0', '2 1', '3 2', '4 3' ], "$how: claims deliver a poisonous message max_attempts times");
	is($next, $good, "$how: then a claim delivers the next message");
	is(sql("SELECT outcome, attempt, failures, last_error->>'type' FROM pgqrs_archive WHERE message_id = $poison"), 'DEAD|4|4|max_attempts',
		"$how: the poisonous message is archived as DEAD");
	is(sql("SELECT queue, payload FROM pgqrs_dead_letters WHERE message_id = $poison"), 'jobs|"poison"', "$how: the poisonous message is listed as a dead letter");
	sql("SELECT pgqrs_purge_queue('jobs')");

	# replayed it is as poisonous as before
	sql("SELECT pgqrs_replay_message($poison)");
	($next, @claims) = claims_of('jobs', $how, $poison);
	is(scalar(@claims), 4, "$how: after a replay claims deliver it max_attempts times again");
	is($next, 0, "$how: then no message is left");

	$poison = sql("SELECT pgqrs_enqueue('once', '1')");
	($next, @claims) = claims_of('once', $how, $poison);
	is_deeply(\@claims, ['1 0'], "$how: with max_attempts 1 a claim delivers it once");

	my $run = sql("SELECT pgqrs_trigger('flow')");
	($next, @claims) = claims_of('flow', $how, $run);
	is_deeply(\@claims, [ '1 0', '2 1', '3 2' ], "$how: a run is delivered max_crashes times");
	is(sql("SELECT status, error->>'type' FROM pgqrs_result($run)"), 'ERROR|max_crashes', "$how: after max_crashes the run has status ERROR");
}

# A crash that takes an uncommitted claim with it counts for nothing.
my $poison = sql("SELECT pgqrs_enqueue('jobs', '1')");
for (1 .. 2)
{
	my $session = $node->background_psql('postgres');
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe('BEGIN');
	is($session->query_safe("SELECT message_id, attempt FROM pgqrs_dequeue('jobs', visibility_timeout => '1 us')"), "$poison|1", 'a transaction claims the message and is killed before its commit');
	kill 'KILL', $pid or die "kill: $!";
	$session->{run}->finish;
	await_end($pid);
}
is(sql("SELECT attempt, failures FROM pgqrs_messages WHERE message_id = $poison"), '0|0', 'an uncommitted claim counts neither an attempt nor a failure');

# The background duty agrees: the message is exhausted without another claim.
die_after_claim('jobs', 'terminate') for 1 .. 4;
like(sql('SELECT pgqrs_maintain()'), qr/"messages_dead": 1/, 'pgqrs_maintain() ends an exhausted message');
is(sql("SELECT outcome, attempt, failures FROM pgqrs_archive WHERE message_id = $poison"), 'DEAD|4|4', 'pgqrs_maintain() archives it with the counts of a claim');

done_testing();
