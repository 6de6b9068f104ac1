# CALL pgqrs_poll: what it claims, what ends its sleep, what it does with leases,
# and that the polls of a worker follow each other.  All of it on a server that is
# preloaded with the library; the main path also where nothing can wake a poll.
use strict;
use warnings;

use JSON::PP;
use List::Util qw(min);
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('main', "fsync = off\nmax_prepared_transactions = 5\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# The answer of a poll, from what psql printed.
sub answer
{
	my ($line) = @_;
	my ($rest, $status) = $line =~ /(.*)\|(\w+)$/s or return { error => $line };
	my $decoder = JSON::PP->new->allow_bignum;
	my $work = $decoder->incr_parse($rest);
	my $held = $decoder->incr_text =~ s/^\|//r;
	return { work => $work, held => JSON::PP->new->decode($held), status => $status };
}

sub list { return "'{" . join(',', @_) . "}'" }

# The arguments of a poll that names claims.
sub holding
{
	my (@claims) = @_;
	return list(map { $_->{message_id} } @claims) . ', ' . list(map { $_->{lease} } @claims);
}

sub call { return 'pgqrs_poll(' . join(', ', @_) . ')' }
sub poll { return answer(sql('CALL ' . call(@_))) }

my $clients = 0;

# Starts a poll and returns once it sleeps.
sub sleeping_poll
{
	my (@arguments) = @_;
	my $name = 'poll' . ++$clients;
	my $client = start_client($node, "SET application_name = '$name';\nCALL " . call(@arguments) . ";\n");
	$client->{name} = $name;
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity
		WHERE application_name = '$name' AND wait_event_type = 'Extension' AND query LIKE 'CALL%'")
	  or die 'the poll does not sleep';
	return $client;
}

sub finish { return answer(finish_client($_[0])) }

sub states { return join ' ', map { $_->{state} } @{ $_[0]{held} } }
sub ids { return join ' ', map { $_->{message_id} } @{ $_[0]{work} } }

# What the tables say of a message.
sub lease_of { return sql("SELECT coalesce(lease::text, 'none'), failures FROM pgqrs_messages WHERE message_id = $_[0]") }

sub send_message { return sql("SELECT pgqrs_enqueue('q', '1')") }
sub archive { return sql("SELECT pgqrs_archive_message($_[0]{message_id}, $_[0]{lease})") }

sql("SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour'), pgqrs_create_workflow('wf', visibility_timeout => '1 hour')");
my $worker = sql("SELECT pgqrs_register_worker('main', '{q,wf}')");

sub whole_poll
{
	my ($what) = @_;
	is_deeply(poll($worker, q('0')), { work => [], held => [], status => 'READY' }, "$what: nothing is due");

	my $id = send_message();
	my $a = poll($worker, q('60 s'));
	is(ids($a), $id, "$what: a message that is due is claimed at once");
	is(lease_of($id), "$a->{work}[0]{lease}|0", "$what: under the lease that the answer names");
	is(archive($a->{work}[0]), 't', "$what: a message is archived under the lease of the answer");

	my $client = sleeping_poll($worker, q('60 s'));
	my $since = time;
	$id = send_message();
	$a = finish($client);
	is(ids($a), $id, "$what: a message that comes ends the sleep");
	cmp_ok(time - $since, '<', 5, "$what: the poll returns within 5 seconds of the message");

	$client = sleeping_poll($worker, q('60 s'), 0, holding($a->{work}[0]));
	$since = time;
	archive($a->{work}[0]);
	is(states(finish($client)), 'gone', "$what: the end of a message that is held ends the sleep");
	cmp_ok(time - $since, '<', 5, "$what: the poll returns within 5 seconds of the end");

	my $older = sleeping_poll($worker, q('60 s'));
	my $newer = sleeping_poll($worker, q('60 s'));
	is_deeply(finish($older), { work => [], held => [], status => 'READY' }, "$what: a newer poll ends the older one, with nothing");
	$id = send_message();
	$a = finish($newer);
	is(ids($a), $id, "$what: the newer poll claims the next message");
	archive($a->{work}[0]);
	return;
}

whole_poll('preloaded');

#
# What it claims
#

my $message = sql(q(SELECT pgqrs_enqueue('q', '{"a": 1}', priority => 3, headers => '{"h": 2}')));
my $run = sql(q(SELECT pgqrs_trigger('wf', '{"in": 1}')));
my $a = poll($worker, q('0'), 10);
my %by_id = map { $_->{message_id} => $_ } @{ $a->{work} };
my @columns = split /,/, sql("SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute
	WHERE attrelid = 'pgqrs_delivery'::regclass AND attnum > 0");
is(join(',', sort keys %{ $by_id{$run} }), join(',', sort @columns, 'steps'),
	'a run has the columns of pgqrs_dequeue() and its steps');
is_deeply([ @{ $by_id{$message} }{qw(queue attempt failures priority payload headers)} ],
	[ 'q', 1, 0, 3, { a => 1 }, { h => 2 } ], 'a message is told with its payload, headers and numbers');
is_deeply([ @{ $by_id{$run} }{qw(run_id workflow input payload steps)} ],
	[ $run, 'wf', { in => 1 }, { run_id => $run }, {} ], 'a run is told with its input');

my @held = @{ $a->{work} };
my $lease = $by_id{$run}{lease};
sql(qq(SELECT pgqrs_step_begin($run, $lease, 'done'), pgqrs_step_complete($run, $lease, 'done', '[1]')));
sql(qq(SELECT pgqrs_step_begin($run, $lease, 'failed'), pgqrs_step_fail($run, $lease, 'failed', '{"type": "e"}', false, fail_run => false)));
sql(qq(SELECT pgqrs_step_begin($run, $lease, 'open')));
sql(qq(SELECT pgqrs_release_message($run, $lease)));
$a = poll($worker, q('0'), 10, holding($by_id{$message}));
is_deeply($a->{work}[0]{steps},
	{ done => { kind => 'FUNCTION', status => 'SUCCESS', output => [1], error => undef, undo => JSON::PP::false },
		failed => { kind => 'FUNCTION', status => 'ERROR', output => undef, error => { type => 'e' }, undo => JSON::PP::false } },
	'the steps that have finished come with the run, an open one does not');

# As much as is said, oldest first.
$lease = $a->{work}[0]{lease};
sql("DO \$\$BEGIN FOR i IN 1 .. 6 LOOP
	PERFORM pgqrs_step_complete($run, $lease, 'big' || 7 - i, to_jsonb(repeat('x', 900000)), now() + i * interval '1 ms');
	END LOOP; END\$\$");
sql("SELECT pgqrs_release_message($run, $lease)");
$a = poll($worker, q('0'), 10, holding($by_id{$message}));
is(join(' ', sort keys %{ $a->{work}[0]{steps} }), 'big2 big3 big4 big5 big6 done failed',
	'of more than 4 MB the steps that began last are left out');
ok($a->{work}[0]{steps_truncated}, 'the answer says that steps are left out');

# The steps of many runs are no more than an answer can hold.
sql(qq(CREATE TABLE many AS SELECT pgqrs_trigger('wf') AS run_id FROM generate_series(1, 13);
	CREATE TABLE many_leases AS SELECT message_id, lease FROM many m, pgqrs_dequeue('wf', batch_size => 20) d WHERE m.run_id = d.message_id;
	SELECT pgqrs_step_complete(message_id, lease, 's' || i, to_jsonb(repeat('x', 2000000))) FROM many_leases, generate_series(1, 3) i;
	SELECT pgqrs_release_message(message_id, lease) FROM many_leases));
sql(q(SELECT pgqrs_register_worker('many', '{wf}') AS w \gset
	SET my.worker = :'w';
	CREATE TABLE many_answer (work jsonb);
	DO $$ DECLARE w jsonb; h jsonb; s text; BEGIN
		CALL pgqrs_poll(current_setting('my.worker')::bigint, '0', 20, work => w, held => h, worker_status => s);
		INSERT INTO many_answer VALUES (w);
	END $$;
	SELECT pgqrs_stop_worker(:w), pgqrs_purge_queue('wf')));
is(sql(q(SELECT count(*), count(*) FILTER (WHERE r -> 'steps' ? 's3'), count(*) FILTER (WHERE r -> 'steps' = '{}' AND r ? 'steps_truncated')
	FROM many_answer, jsonb_array_elements(work) r)), '13|11|1',
	'more steps of all runs than an answer can hold are left out');

sql("SELECT pgqrs_release_message($run, $a->{work}[0]{lease})");
$lease = poll($worker, q('0'), 10, holding($by_id{$message}))->{work}[0]{lease};
sql("SELECT pgqrs_complete_run($run, $lease)");
archive($by_id{$message});

is(poll($worker, q('0'), 0)->{status}, 'READY', 'a poll with batch_size 0 returns the status of the worker');
my $id = send_message();
is(ids(poll($worker, q('200 ms'), 0)), '', 'a poll with batch_size 0 claims no message');
is(ids($a = poll($worker, q('0'))), $id, 'the next poll with a batch_size claims that message');
archive($a->{work}[0]);

my $limited = sql("SELECT pgqrs_register_worker('limited', '{q}', max_concurrent => 2)");
send_message() for 1 .. 3;
my $first = poll($limited, q('0'), 10);
is(scalar @{ $first->{work} }, 2, 'a poll claims no more than max_concurrent messages');
my $client = sleeping_poll($limited, q('60 s'), 10, holding(@{ $first->{work} }));
archive($first->{work}[0]);
$a = finish($client);
is(states($a), 'gone extended', 'the end of a held message wakes a poll at max_concurrent');
is(scalar @{ $a->{work} }, 1, 'that poll claims one more message');
archive($_) for $first->{work}[1], @{ $a->{work} };

#
# Answers that were lost
#

my @ids = map { send_message() } 1 .. 3;
$a = poll($worker, q('0'), 2);
my $other = sql("SELECT lease FROM pgqrs_dequeue('q', $worker)");
my ($kept, $lost) = @{ $a->{work} };
poll($worker, q('0'), 0, holding($kept));
is(lease_of($kept->{message_id}), "$kept->{lease}|0", 'a claim that the next poll names stays');
is(lease_of($lost->{message_id}), 'none|0', 'a claim that the next poll does not name is released without a failure');
is(lease_of($ids[2]), "$other|0", 'a claim of pgqrs_dequeue() stays');
is(ids($a = poll($worker, q('0'), 10, holding($kept))), $lost->{message_id}, 'the next poll claims the released message again');

# Another transaction has the message: it is not waited for.
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT pgqrs_archive_message($a->{work}[0]{message_id}, $a->{work}[0]{lease})");
poll($worker, q('0'), 0, holding($kept));
$holder->query_safe('COMMIT');
is(sql("SELECT count(*) FROM pgqrs_archive WHERE message_id = $a->{work}[0]{message_id} AND outcome = 'DONE'"), '1',
	'a claim that is being ended is left to the one that ends it');
archive($kept);
archive({ message_id => $ids[2], lease => $other });

# A run that was asked to stop, and whose claim was lost, ends.
$run = sql(q(SELECT pgqrs_trigger('wf')));
poll($worker, q('0'));
sql("SELECT pgqrs_cancel_run($run)");
poll($worker, q('0'), 0);
is(sql("SELECT status FROM pgqrs_get_run($run)"), 'CANCELLED', 'a lost claim of a run that was asked to stop ends it');

#
# What is held
#

sub held_run
{
	my $id = sql(q(SELECT pgqrs_trigger('wf')));
	my $claim = poll($worker, q('0'))->{work}[0];
	return ($id, $claim->{lease}, $claim);
}

my @ends = (
	[ 'completes', 'pgqrs_complete_run(%1$d, %2$d)' ],
	[ 'fails', q(pgqrs_fail_run(%1$d, %2$d, '{"type": "e"}')) ],
	[ 'begins to sleep', q(pgqrs_sleep(%1$d, %2$d, 's', '1 hour')) ],
	[ 'is given back', q(pgqrs_release_message(%1$d, %2$d, '1 hour')) ],
	[ 'is retried', q(pgqrs_step_fail(%1$d, %2$d, 's', '{"type": "e"}', retry_after => '1 hour')) ],
	[ 'is moved by an operator', q(pgqrs_set_visibility(%1$d, now() + interval '1 hour')) ],
	[ 'is deleted', q(pgqrs_delete_run(%1$d)) ]);
for (@ends)
{
	my ($end, $statement) = @$_;
	my ($id, $lease, $claim) = held_run();
	my $client = sleeping_poll($worker, q('60 s'), 1, holding($claim));
	my $since = time;
	sql('SELECT ' . sprintf($statement, $id, $lease));
	is(states(finish($client)), 'gone', "a run that $end ends the sleep");
	cmp_ok(time - $since, '<', 5, "a run that $end ends the sleep within 5 seconds");
	sql('SELECT pgqrs_purge_queue(\'wf\')');
}

# An expired lease that another worker takes over
send_message();
my $claim = poll($worker, q('0'))->{work}[0];
$client = sleeping_poll($worker, q('60 s'), 0, holding($claim));
sql("SELECT pgqrs_extend_lease($claim->{message_id}, $claim->{lease}, '1 ms')");
is(sql("SELECT message_id FROM pgqrs_dequeue('q')"), $claim->{message_id}, 'another worker claims a message whose lease expired');
is(states(finish($client)), 'gone', 'that claim ends the sleep of the poll, which reports the lease as gone');
sql(q(SELECT pgqrs_delete_queue('q', true), pgqrs_create_queue('q', visibility_timeout => '1 hour')));

# A lease that is taken away, and whose message the same poll claims again
for (1 .. 5)
{
	my $sent = send_message();
	my $first = poll($worker, q('0'))->{work}[0];
	my $sleeper = sleeping_poll($worker, q('60 s'), 1, holding($first));
	sql("SELECT pgqrs_set_visibility($sent, now() - interval '1 s')");
	my $answer = finish($sleeper);
	is(states($answer), 'gone', 'a lease that an operator ends is gone, also if its message is claimed at once');
	$answer = poll($worker, q('0')) unless @{ $answer->{work} };
	is(ids($answer), $sent, 'the message of the ended lease is claimed again');
	is(archive($answer->{work}[0]), 't', 'the new claim archives the message');
}

($run, $lease, $claim) = held_run();
$client = sleeping_poll($worker, q('60 s'), 1, holding($claim));
sql("SELECT pgqrs_cancel_run($run)");
is(states(finish($client)), 'cancel_requested', 'a run that is asked to stop ends the sleep');

# In one session it is told once; another that was not told tells it at once.
my $session = $node->background_psql('postgres');
my $call = 'CALL ' . call($worker, q('300 ms'), 1, holding($claim));
is(states(answer($session->query_safe($call))), 'cancel_requested', 'a poll of another session reports the request at once');
my $since = time;
is(states(answer($session->query_safe($call))), 'cancel_requested', 'the next poll of that session reports it too');
cmp_ok(time - $since, '>=', 0.29, 'a request that a session has reported does not end its next sleep');
my $sharing = sql(q{SELECT pgqrs_register_worker('sharing', '{q}')});
answer($session->query_safe('CALL ' . call($sharing, q('0'), 1)));
$since = time;
answer($session->query_safe($call));
cmp_ok(time - $since, '>=', 0.29, 'nor does it after a poll of another worker that shares the session');
$session->quit;
sql("SELECT pgqrs_acknowledge_cancel($run, $lease)");
is(states(poll($worker, q('60 s'), 1, holding($claim))), 'gone', 'a poll reports a lease that has ended already at once');
is(states(poll($worker, q('60 s'), 1, q('{1}'), q('{1}'))), 'gone', 'a poll reports a lease that the worker never held as gone');

#
# Extending
#

send_message();
$claim = poll($worker, q('0'))->{work}[0];
my $until = "SELECT visible_after FROM pgqrs_messages WHERE message_id = $claim->{message_id}";
my $before = sql($until);
poll($worker, q('0'), 0, holding($claim));
is(sql($until), $before, 'a lease that has most of its time left is not written');
sql("SELECT pgqrs_extend_lease($claim->{message_id}, $claim->{lease}, '30 min')");
poll($worker, q('0'), 0, holding($claim));
cmp_ok(sql("$until") , 'gt', $before, 'a poll extends a lease that has less of its time left');
archive($claim);

# A lease that ends during the sleep and that no other claim takes is still the worker's, whatever wakes the poll.
sub is_extended
{
	my ($claim, $what) = @_;
	is(sql("SELECT lease, failures, visible_after > clock_timestamp() FROM pgqrs_messages WHERE message_id = $claim->{message_id}"),
		"$claim->{lease}|0|t", $what);
	return;
}

send_message() for 1 .. 2;
my ($late, $ended) = @{ poll($worker, q('0'), 2)->{work} };
my $expire = "SELECT pgqrs_extend_lease($late->{message_id}, $late->{lease}, '1 ms')";
$client = sleeping_poll($worker, q('60 s'), 0, holding($late, $ended));
sql($expire);
$node->poll_query_until('postgres', "SELECT visible_after < clock_timestamp() FROM pgqrs_messages WHERE message_id = $late->{message_id}")
  or die 'the lease does not expire';
archive($ended);
is(states(finish($client)), 'extended gone', 'a poll woken by the end of one lease extends another one that has expired');
is_extended($late, 'that lease is live after the poll');
$client = sleeping_poll($worker, q('60 s'), 10, holding($late));
sql($expire);
$id = send_message();
$a = finish($client);
is(ids($a) . ' ' . states($a), "$id extended", 'a poll that finds a message claims only that one, and extends an expired lease');
is_extended($late, 'that lease is live after the claim');
archive($_) for $late, @{ $a->{work} };

sql("SELECT pgqrs_create_queue('short', visibility_timeout => '3 s')");
my $brief = sql("SELECT pgqrs_register_worker('brief', '{short}')");
sql("SELECT pgqrs_enqueue('short', '1')");
$claim = poll($brief, q('0'))->{work}[0];
$since = time;
for (1 .. 4)
{
	is(states(poll($brief, q('60 s'), 1, holding($claim))), 'extended', 'a poll extends a short lease');
}
cmp_ok(time - $since, '<', 8, 'a poll sleeps for no more than a third of the shortest lease');
cmp_ok(time - $since, '>', 3, 'polls sleep between extensions');
is(sql("SELECT lease, failures FROM pgqrs_messages WHERE message_id = $claim->{message_id}"), "$claim->{lease}|0",
	'the message has its lease for longer than its visibility timeout');
archive($claim);

#
# The worker
#

$client = sleeping_poll($worker, q('60 s'));
sql("SELECT pgqrs_suspend_worker($worker)");
is_deeply(finish($client), { work => [], held => [], status => 'SUSPENDED' }, 'suspending a worker ends the sleep of its poll');
$id = send_message();
is_deeply(poll($worker, q('200 ms')), { work => [], held => [], status => 'SUSPENDED' }, 'a poll of a suspended worker claims nothing');
$client = sleeping_poll($worker, q('60 s'));
sql("SELECT pgqrs_resume_worker($worker)");
$a = finish($client);
is(ids($a) . " $a->{status}", "$id READY", 'resuming a worker ends the sleep, and its poll claims a message');
archive($a->{work}[0]);
my $stopped = sql("SELECT pgqrs_register_worker('stopped', '{q}')");
$client = sleeping_poll($stopped, q('60 s'));
sql("SELECT pgqrs_stop_worker($stopped)");
is(finish($client)->{error}, 'PQ014', 'stopping a worker ends the sleep of its poll with PQ014');
is(sqlstate($node, 'CALL ' . call($stopped, q('0'))), 'PQ014', 'a poll of a stopped worker raises PQ014');
is(sqlstate($node, 'CALL ' . call(4711, q('0'))), 'PQ005', 'a poll of an unknown worker raises PQ005');

#
# What wakes a poll, and what does not
#

# A backend that has looked, and sleeps again, is in a later transaction.
sub since { return sql("SELECT xact_start FROM pg_stat_activity WHERE application_name = '$_[0]{name}'") }

my $own = sql("SELECT pgqrs_register_worker('own', '{wf}', max_concurrent => 3)");
my $start = "SELECT run_id AS r, lease AS l FROM pgqrs_start('wf', '1', $own) \\gset\n";
my $complete = "SELECT pgqrs_step_complete(:r, :l, 's', '1'), pgqrs_complete_run(:r, :l);\n";

$client = sleeping_poll($own, q('60 s'));
$since = since($client);
sql($start . $complete);
sql("BEGIN; SAVEPOINT s; $start RELEASE s; COMMIT; $complete");
sql("BEGIN; SAVEPOINT s; $start ROLLBACK TO s; COMMIT");
sql("BEGIN; $start ROLLBACK");
is(since($client), $since, 'a run that is started and ended in the name of a worker with room does not wake its poll');
($id) = sql("BEGIN; SELECT pgqrs_trigger('wf'); $start COMMIT; $complete") =~ /^(\d+)/;
is(ids($a = finish($client)), $id,
	'a run that is triggered beside it wakes the poll');
sql("SELECT pgqrs_complete_run($a->{work}[0]{run_id}, $a->{work}[0]{lease})");

# A claim that is undone leaves what its transaction has sent.
my @undone = (
	[ 'a savepoint', 'SAVEPOINT s', 'ROLLBACK TO s' ],
	[ 'a savepoint within another one', 'SAVEPOINT r; SAVEPOINT s', 'ROLLBACK TO s; RELEASE r' ],
	[ 'a release', '', "SELECT pgqrs_release_message(:i, :l)" ]);
for (@undone)
{
	my ($what, $before, $after) = @$_;
	$client = sleeping_poll($own, q('60 s'));
	sql("BEGIN; SELECT pgqrs_trigger('wf'); $before; SELECT message_id AS i, lease AS l FROM pgqrs_dequeue('wf') \\gset\n$after; COMMIT");
	is(scalar @{ ($a = finish($client))->{work} }, 1, "a run whose claim is undone by $what wakes a poll");
	sql("SELECT pgqrs_complete_run($a->{work}[0]{run_id}, $a->{work}[0]{lease})");
}

# A poll that fell asleep with room, and whose worker is full by now
$client = sleeping_poll($own, q('60 s'));
sql(join '', map { "$start INSERT INTO many_leases VALUES (:r, :l);\n" } 1 .. 3);
$id = sql(q(SELECT pgqrs_trigger('wf')));
sql('SELECT pgqrs_complete_run(message_id, lease) FROM many_leases m JOIN pgqrs_messages USING (message_id, lease)');
is(ids($a = finish($client)), $id, 'room that is made while a run waits ends the sleep');
sql("SELECT pgqrs_complete_run($a->{work}[0]{run_id}, $a->{work}[0]{lease})");

# At once: a full worker looks a second later, too.
my $one = sql("SELECT pgqrs_register_worker('one', '{wf}', max_concurrent => 1)");
my $shortest = 60;
for (1 .. 5)
{
	my ($run, $lease) = split /\|/, sql("SELECT run_id, lease FROM pgqrs_start('wf', '1', $one)");
	my $client = sleeping_poll($one, q('60 s'));
	sql(q(SELECT pgqrs_trigger('wf')));
	my $since = time;
	sql("SELECT pgqrs_complete_run($run, $lease)");
	my ($next) = @{ finish($client)->{work} };
	$shortest = min($shortest, time - $since);
	sql("SELECT pgqrs_complete_run($next->{run_id}, $next->{lease})");
}
cmp_ok($shortest, '<', 0.5, 'the end of a lease wakes the poll of a full worker');

# Queues as many as the wake-ups of a backend, which a worker has others of
for my $n (14 .. 21)
{
	my $many = sql("SELECT count(pgqrs_create_queue('n$n.' || i)) FROM generate_series(1, $n) i;
		SELECT pgqrs_register_worker('n$n', '{n$n.*}')") =~ s/.*\n//r;
	my $client = sleeping_poll($many, q('60 s'));
	my $since = time;
	my $id = sql("SELECT pgqrs_enqueue('n$n.7', '1')");
	is(ids(finish($client)), $id, "a message in one of $n queues wakes a poll");
	cmp_ok(time - $since, '<', 30, "a message in one of $n queues wakes a poll at once");
}

#
# Arguments and places
#

is(sqlstate($node, 'CALL ' . call($worker, q('0'), -1)), '22023', 'a poll with a negative batch_size is refused');
is(sqlstate($node, 'CALL ' . call($worker, q('-1 s'))), '22023', 'a poll with a negative timeout is refused');
is(sqlstate($node, 'CALL ' . call($worker, q('0'), 1, q('{1,2}'), q('{1}'))), '22023', 'a poll with more ids than leases is refused');
is(sqlstate($node, 'CALL ' . call($worker, q('0'), 1, q('{1,1}'), q('{1,2}'))), '22023', 'a poll that names a message twice is refused');
is(sqlstate($node, 'CALL ' . call($worker, q('0'), 1, q('{1,NULL}'), q('{1,2}'))), '22004', 'a poll with a NULL among the ids is refused');
is(sqlstate($node, 'BEGIN; CALL ' . call($worker, q('0'))), '25001', 'a poll in a transaction block is refused');

#
# A client that is gone
#

$client = sleeping_poll($worker, q('60 s'));
$client->{harness}->kill_kill;
$id = send_message();
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$client->{name}'")
  or die 'the backend stays';
is(lease_of($id), 'none|0', 'a poll whose client has disconnected claims nothing');
is(ids($a = poll($worker, q('60 s'))), $id, 'the next poll of the worker claims that message');
archive($a->{work}[0]);
is_well($node, 'after all this');

# A call whose client is gone, and that begins when a later one has answered: what that
# one claimed is not taken for lost.
$id = send_message();
$a = poll($worker, q('0'));
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK pgqrs_workers IN ACCESS EXCLUSIVE MODE');
$client = start_client($node, "SET application_name = 'late';
CALL " . call($worker, q('0')) . ";
");
waits_for_lock($node, 'late') or die 'the late call does not wait';
$client->{harness}->kill_kill;
$holder->query_safe('COMMIT');
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'late'")
  or die 'the backend stays';
is(lease_of($id), "$a->{work}[0]{lease}|0", 'a late call whose client has disconnected releases nothing');
archive($a->{work}[0]);

# One that does not read its answer holds up no client: what it claimed is committed.
my $big = q(pgqrs_enqueue('q', to_jsonb(repeat('x', 1900000))));
$client = sleeping_poll($worker, q('60 s'), 2);
$client->{harness}->signal('STOP');
sql("SELECT $big, $big");
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pgqrs_peek('q', 100) WHERE leased"),
	'a claim is committed before its answer is sent');
is_deeply(poll($worker, q('0'), 0), { work => [], held => [], status => 'READY' }, 'the next poll does not wait for the client that does not read');
is(sql("SELECT count(*) FROM pgqrs_peek('q', 100) WHERE leased"), '0', 'the next poll releases the claims that the client did not receive');
$client->{harness}->kill_kill;
sql(q(SELECT pgqrs_purge_queue('q')));

#
# Where nothing can wake a poll
#

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
$worker = sql("SELECT pgqrs_register_worker('main', '{q,wf}')");
whole_poll('not preloaded');

done_testing();
