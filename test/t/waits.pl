# CALL pgqrs_wait and pgqrs_wait_for_work: what wakes them, what ends them, and
# that they hold nothing while they sleep.  Where nothing can wake them they
# poll; so all of it is done on a server that is preloaded with the library,
# and the main path on one that is not and on a standby.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# A sign of life is not written meanwhile: that would lock the worker's row.
my $node = new_node('main', "fsync = off\nmax_prepared_transactions = 5\npgqrs.worker_timeout = '10 min'\npgqrs.heartbeat_flush = '3 min'\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Starts a CALL and returns once it sleeps.
my $clients = 0;

sub sleeper
{
	my ($call, $on) = @_;
	my $name = 'sleeper' . ++$clients;
	my $client = start_client($on // $node, "SET application_name = '$name';\nCALL $call;\n");
	$client->{name} = $name;
	($on // $node)->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity
		WHERE application_name = '$name' AND wait_event_type = 'Extension' AND query LIKE 'CALL%'")
	  or die "$call does not sleep";
	return $client;
}

# How long a part of the test took.
my $since;
sub start { $since = time; return; }
sub passed { return time - $since; }

sub claim
{
	my ($queue, $more) = @_;
	return split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('$queue'" . ($more // '') . ')');
}

# No lease ends unless that is what is tested; nor does a wait, of which a test that a wake-up
# is lost would wait for the end in vain.
sql("SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour'), pgqrs_create_queue('other', visibility_timeout => '1 hour'),
	pgqrs_create_workflow('wf', visibility_timeout => '1 hour'), pgqrs_create_queue('limited', visibility_timeout => '1 hour', max_in_flight => 1)");

#
# Results
#

my $run = sql("SELECT pgqrs_trigger('wf', '1')");
my $client = sleeper("pgqrs_wait($run, '1 hour')");
is(sql("SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE application_name = '$client->{name}'"),
	't', 'a sleeping backend has no snapshot');
is(sql("SELECT count(*) FROM pg_locks WHERE pid = (SELECT pid FROM pg_stat_activity WHERE application_name = '$client->{name}')
	AND locktype <> 'virtualxid'"), '0', 'a sleeping backend has no lock');
my ($message, $lease) = claim('wf');
sql("SELECT pgqrs_complete_run($run, $lease, '{\"a\": 1}')");
is(finish_client($client), 'SUCCESS|{"a": 1}|', 'pgqrs_wait returns the output of a run that succeeds');
is(sql("CALL pgqrs_wait($run)"), 'SUCCESS|{"a": 1}|', 'pgqrs_wait returns the output of a run that has ended before');
is(sql("CALL pgqrs_wait($run, '0')"), 'SUCCESS|{"a": 1}|', 'pgqrs_wait with a time-out of 0 returns the output of a run that has ended');

# From PostgreSQL 18 on such a value cannot be read without a snapshot; before, mostly.
$run = sql("SELECT pgqrs_trigger('wf')");
my @large = (sleeper("pgqrs_wait($run)"), sleeper("pgqrs_wait_any('{$run}')"));
($message, $lease) = claim('wf');
my $large = sql(q{SELECT '"' || string_agg(md5(i::text), '') || '"' FROM generate_series(1, 10000) AS i});
sql("SELECT pgqrs_complete_run($run, $lease, '$large')");
is(finish_client($large[0]), "SUCCESS|$large|", 'pgqrs_wait returns an output that is stored out of line');
is(finish_client($large[1]), "$run|SUCCESS|$large|", 'so does pgqrs_wait_any');

$run = sql("SELECT pgqrs_trigger('wf')");
start;
is(sqlstate($node, "CALL pgqrs_wait($run, '200 ms')"), 'PQ012', 'a wait for a run that does not end fails with PQ012');
cmp_ok(passed(), '>=', 0.2, 'the wait fails no earlier than its time-out');
is(sqlstate($node, "CALL pgqrs_wait($run, '0')"), 'PQ012', 'a wait with a time-out of 0 for a live run fails with PQ012');
my @both = (sleeper("pgqrs_wait($run)"), sleeper("pgqrs_wait($run)"));
(undef, $lease) = claim('wf');
sql("SELECT pgqrs_fail_run($run, $lease, '{\"type\": \"x\"}')");
is(finish_client($_), 'ERROR||{"type": "x"}', 'all clients that wait for a run get its failure') for @both;

$run = sql("SELECT pgqrs_trigger('wf')");
$client = sleeper("pgqrs_wait($run)");
sql("SELECT pgqrs_purge_queue('wf')");
is(finish_client($client), 'CANCELLED||', 'pgqrs_wait returns the status of a run that is cancelled');
$run = sql("SELECT pgqrs_create_workflow('gone'), pgqrs_trigger('gone')") =~ s/.*\|//r;
$client = sleeper("pgqrs_wait($run)");
sql("SELECT pgqrs_delete_workflow('gone', force => true)");
is(finish_client($client), 'PQ003', 'a wait for a run that is deleted fails with PQ003');
is(sqlstate($node, "CALL pgqrs_wait(987654321)"), 'PQ003', 'a wait for a run that does not exist fails with PQ003');

#
# The first of several results
#

is(sql("CALL pgqrs_wait_any('{}')"), '|||', 'pgqrs_wait_any of no runs returns NULLs at once');
my @runs = map { sql("SELECT pgqrs_trigger('wf', '$_')") } 1 .. 3;
my $any = sub { my ($more) = @_; return sprintf "pgqrs_wait_any('{%s}'%s)", join(',', @runs), $more // ''; };
is(sqlstate($node, 'CALL ' . $any->(", '200 ms'")), 'PQ012', 'pgqrs_wait_any of runs that do not end fails with PQ012');
is(sqlstate($node, "CALL pgqrs_wait_any('{$runs[0],987654321}', '1 hour')"), 'PQ003', 'pgqrs_wait_any of a run that does not exist fails with PQ003 before it sleeps');
is(sqlstate($node, "CALL pgqrs_wait_any('{$runs[0],NULL}')"), '22004', 'pgqrs_wait_any refuses NULL among the ids');
$client = sleeper($any->(", '1 hour'"));
is(sql("SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE application_name = '$client->{name}'"),
	't', 'a backend that waits for any of several runs has no snapshot');
my %leases = map { claim('wf') } @runs;
sql("SELECT pgqrs_complete_run($runs[1], $leases{$runs[1]}, '2')");
is(finish_client($client), "$runs[1]|SUCCESS|2|", 'pgqrs_wait_any returns the first run that ends');
sql("SELECT pgqrs_fail_run($runs[0], $leases{$runs[0]}, '{}')");
is(sql('CALL ' . $any->(", '0'")), "$runs[1]|SUCCESS|2|", 'pgqrs_wait_any of ended runs returns the one that ended first');
sql("UPDATE pgqrs_workflow_runs SET completed_at = '2026-01-01' WHERE run_id IN ($runs[0], $runs[1])");
is(sql("CALL pgqrs_wait_any('{$runs[2],$runs[1],$runs[0]}')"), "$runs[1]|SUCCESS|2|", 'of two that ended at the same time pgqrs_wait_any returns the first in the array');
is(sql("CALL pgqrs_wait_any('{$runs[0],$runs[1]}')"), "$runs[0]|ERROR||{}", 'pgqrs_wait_any returns the error of a run that failed');
is(sql("CALL pgqrs_wait_any('{$runs[0],$runs[0]}')"), "$runs[0]|ERROR||{}", 'pgqrs_wait_any accepts an id twice');

# More than a backend has wake-ups.
my @many = split /,/, sql("SELECT array_to_string(pgqrs_trigger_batch('wf', array_fill('1'::jsonb, ARRAY[500])), ',')");
my $outside = sql("SELECT pgqrs_trigger('wf')");
$client = sleeper(sprintf "pgqrs_wait_any('{%s}', '1 hour')", join ',', @many);
sql("SELECT pgqrs_cancel_run($outside), pgqrs_cancel_run($runs[2])");
ok($client->{harness}->pumpable, 'the end of another run ends no wait');
sql("SELECT pgqrs_cancel_run($many[400])");
is(finish_client($client), "$many[400]|CANCELLED||", 'pgqrs_wait_any of 500 runs returns the first that ends');
$client = sleeper(sprintf "pgqrs_wait_any('{%s}', '1 hour')", join ',', @many[0 .. 399]);
sql("SELECT pgqrs_purge_queue('wf')");
like(finish_client($client), qr/^\d+\|CANCELLED\|\|$/, 'pgqrs_wait_any returns one of many runs that end in one transaction');

#
# Ends of a wait
#

my %ends = (
	statement_timeout => [ "SET statement_timeout = '300 ms'", undef, '57014' ],
	cancel => [ '', 'pg_cancel_backend', '57014' ],
	terminate => [ '', 'pg_terminate_backend', '57P01' ]);
for my $call ("pgqrs_wait_for_work('q', timeout => '1 hour')", "pgqrs_wait(" . sql("SELECT pgqrs_trigger('wf')") . ')',
	"pgqrs_wait_any('{" . sql("SELECT pgqrs_trigger('wf')") . "}')")
{
	is(sqlstate($node, "$ends{statement_timeout}[0]; CALL $call"), '57014', "statement_timeout ends $call with 57014");
	for my $end (qw(cancel terminate))
	{
		$client = sleeper($call);
		sql("SELECT $ends{$end}[1](pid) FROM pg_stat_activity WHERE application_name = '$client->{name}'");
		$client->{harness}->finish;
		like(slurp_file($client->{err}), qr/(?:ERROR|FATAL):  $ends{$end}[2]:/, "the end of $call by $end is reported by its SQLSTATE");
	}
}

#
# Where it may not be called
#

my %inner = ('pgqrs_wait(1)' => q{pgqrs_wait(1, '1 s', s, o, e)}, q{pgqrs_wait_any('{}')} => q{pgqrs_wait_any('{}', '1 s', r, s, o, e)}, q{pgqrs_wait_for_work('q')} => q{pgqrs_wait_for_work('q', available => a)});
for my $call (sort keys %inner)
{
	is(sqlstate($node, "BEGIN; CALL $call"), '25001', "$call is refused in a transaction block");
	is(sqlstate($node, "SELECT 1\\; CALL $call"), '25001', "$call is refused among several statements of one message");
	is(sqlstate($node, "CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE plpgsql AS \$\$DECLARE r bigint; s text; o jsonb; e jsonb; a boolean;
		BEGIN CALL $inner{$call}; END\$\$; SELECT pg_temp.f()"), '25001', "$call is refused in a function");
	is(sqlstate($node, "DO \$\$DECLARE r bigint; s text; o jsonb; e jsonb; a boolean;
		BEGIN BEGIN CALL $inner{$call}; EXCEPTION WHEN division_by_zero THEN NULL; END; END\$\$"), '25001', "$call is refused in a subtransaction");
}
is(sqlstate($node, "DO 'DECLARE a boolean; BEGIN
	CALL pgqrs_wait_for_work(''q'', timeout => ''50 ms'', available => a); ASSERT NOT a;
	PERFORM pgqrs_enqueue(''q'', ''1'');
	CALL pgqrs_wait_for_work(''q'', timeout => ''50 ms'', available => a); ASSERT a; END'"), '', 'a DO block outside a transaction may wait, finds nothing, and then what it enqueued');
claim('q', ", visibility_timeout => '1 hour'");
is(sqlstate($node, "CALL pgqrs_wait_for_work()"), '22004', 'a wait without queue and worker is refused');
is(sqlstate($node, "CALL pgqrs_wait_for_work('nowhere')"), 'PQ001', 'a wait for a queue that does not exist fails with PQ001');
is(sqlstate($node, "CALL pgqrs_wait_for_work('q', 4711)"), 'PQ005', 'a wait by a worker that does not exist fails with PQ005');
is(sqlstate($node, "CALL pgqrs_wait_for_work('q', timeout => '-1 s')"), '22023', 'a negative time-out is refused');

#
# What makes work
#

is(sql("CALL pgqrs_wait_for_work('q', timeout => '100 ms')"), 'f', 'a wait for an empty queue returns false at its time-out');

# Runs a statement while a client sleeps, which has to wake long before its time-out,
# and no earlier than in so many seconds.
sub wakes
{
	my ($name, $call, $statement, $answer, $min) = @_;
	my $sleeper = sleeper($call);
	start;
	sql($statement);
	is(finish_client($sleeper), $answer, $name);
	cmp_ok(passed(), '>=', $min, "$name: the wait ends no earlier than $min s") if $min;
	return;
}

my $q = "pgqrs_wait_for_work('q', timeout => '1 hour')";
my $take = "SELECT count(*) FROM pgqrs_dequeue('q', batch_size => 100, visibility_timeout => '1 hour')";
wakes('a message', $q, "SELECT pgqrs_enqueue('q', '1')", 't');
is(sql("CALL $q"), 't', 'a wait returns true where a message is claimable already');
sql($take);
wakes('a delay', $q, "SELECT pgqrs_enqueue('q', '1', delay => '1 s')", 't', 0.9);
sql($take);
sql("SELECT pgqrs_enqueue('q', '1', delay => '1 s')");
is(sql("CALL $q"), 't', 'a wait returns true when the delay of an earlier message ends');
sql("SELECT message_id FROM pgqrs_dequeue('q', visibility_timeout => '1 s')");
is(sql("CALL $q"), 't', 'a wait returns true when a lease runs out');
sql("SELECT message_id FROM pgqrs_dequeue('q', visibility_timeout => '10 min')");
$client = sleeper($q);
sql("SELECT pgqrs_set_visibility(message_id, now()) FROM pgqrs_peek('q', 100) WHERE visible_after < now() + interval '30 min'");
is(finish_client($client), 't', 'a wait returns true when an operator makes a leased message claimable');
($message, $lease) = claim('q');
wakes('a release', $q, "SELECT pgqrs_release_message($message, $lease)", 't');
($message, $lease) = claim('q');
wakes('a nack', $q, "SELECT pgqrs_nack_message($message, $lease, delay => '300 ms')", 't', 0.2);
($message, $lease) = claim('q', ", visibility_timeout => '1 hour'");
wakes('a shorter lease', $q, "SELECT pgqrs_extend_lease($message, $lease, '300 ms')", 't', 0.2);
sql($take);

# Messages that become claimable by no commit of what was written.
$client = start_client($node, "BEGIN; SELECT 1 FROM pgqrs_enqueue('q', '1');\n\\! true\nCOMMIT;\n");
finish_client($client);
my $holder = $node->background_psql("postgres");
$holder->query_safe("BEGIN; SELECT message_id FROM pgqrs_dequeue('q')");
$client = sleeper($q);
$holder->query_safe('ROLLBACK');
is(finish_client($client), 't', 'a wait returns true when a claim is rolled back');
sql($take);
sql("SELECT pgqrs_enqueue('q', '1')");
$holder->query_safe("BEGIN; SAVEPOINT s; SELECT message_id FROM pgqrs_dequeue('q')");
$client = sleeper($q);
$holder->query_safe('ROLLBACK TO s');
is(finish_client($client), 't', 'a wait returns true when a claim is rolled back to a savepoint');
$holder->query_safe('COMMIT');
sql($take);
$client = sleeper($q);
$holder->query_safe("BEGIN; SELECT pgqrs_enqueue('q', '1')");
is(sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$client->{name}'"), '1', 'a message of an open transaction ends no wait');
$holder->query_safe('ROLLBACK; BEGIN; SAVEPOINT s; SELECT pgqrs_enqueue(\'q\', \'1\'); ROLLBACK TO s; COMMIT');
is(sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$client->{name}'"), '1', 'a message that was rolled back ends no wait');
$holder->query_safe("BEGIN; SELECT pgqrs_enqueue('q', '1'); PREPARE TRANSACTION 'p'");
is(sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$client->{name}'"), '1', 'a message of a prepared transaction ends no wait');
sql("COMMIT PREPARED 'p'");
is(finish_client($client), 't', 'COMMIT PREPARED ends the wait');
$holder->query_safe("BEGIN; SELECT message_id FROM pgqrs_dequeue('q'); PREPARE TRANSACTION 'p'");
$client = sleeper($q);
sql("ROLLBACK PREPARED 'p'");
is(finish_client($client), 't', 'ROLLBACK PREPARED of a claim ends the wait');
sql($take);
$client = sleeper($q);
sql("INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
	SELECT nextval('pgqrs_message_id_seq'), queue_id, now(), now(), 0, 0, 0, '1' FROM pgqrs_queues WHERE name = 'q'");
is(finish_client($client), 't', 'an INSERT into pgqrs_messages ends the wait');
sql($take);

# A step's transaction that outlives the lease.
sql("SELECT pgqrs_purge_queue('wf')");
$run = sql("SELECT pgqrs_trigger('wf')");
(undef, $lease) = claim('wf', ", visibility_timeout => '500 ms'");
$holder->query_safe("BEGIN; SELECT pgqrs_step_begin($run, $lease, 'long')");
$client = sleeper("pgqrs_wait_for_work('wf', timeout => '1 hour')");
sql("SELECT pg_sleep(0.7)");
is(sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$client->{name}'"), '1', 'a run whose lease has run out, but whose message a transaction has locked, ends no wait');
$holder->query_safe('COMMIT');
is(finish_client($client), 't', 'the end of that transaction ends the wait');

#
# Queues and patterns
#

sql("SELECT pgqrs_pause_queue('q'), pgqrs_enqueue('q', '1')");
is(sql("CALL pgqrs_wait_for_work('q', timeout => '50 ms')"), 'f', 'a paused queue has nothing');
wakes('a resumed queue', $q, "SELECT pgqrs_resume_queue('q')", 't');
sql($take);
$client = sleeper("pgqrs_wait_for_work('team.*', timeout => '1 hour')");
sql("SELECT pgqrs_create_queue('team.new')");
sql("SELECT pgqrs_enqueue('team.new', '1')");
is(finish_client($client), 't', 'a message in a new queue that matches the pattern ends the wait');
sql("SELECT pgqrs_purge_queue('team.new'); SELECT pgqrs_create_queue('team.' || g) FROM generate_series(1, 30) g");
$client = sleeper("pgqrs_wait_for_work('team.*', timeout => '1 hour')");
sql("SELECT pgqrs_enqueue('other', '1')");
is(sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$client->{name}'"), '1', 'a message in a queue outside the pattern ends no wait');
sql("SELECT pgqrs_enqueue('team.23', '1')");
is(finish_client($client), 't', 'a message in one of many queues that match the pattern ends the wait');
$client = sleeper("pgqrs_wait_for_work('team.1', timeout => '1 hour')");
sql("SELECT pgqrs_delete_queue('team.1')");
is(finish_client($client), 'PQ001', 'a wait for a queue that is deleted fails with PQ001');
sql("SELECT pgqrs_enqueue('limited', '1'), pgqrs_enqueue('limited', '2')");
($message, $lease) = claim('limited');
wakes('room in a queue with a limit', "pgqrs_wait_for_work('limited', timeout => '1 hour')", "SELECT pgqrs_archive_message($message, $lease)", 't');
($message, $lease) = claim('limited');
sql("SELECT pgqrs_enqueue('limited', '3')");
wakes('a higher limit', "pgqrs_wait_for_work('limited', timeout => '1 hour')", "SELECT pgqrs_alter_queue('limited', max_in_flight => 2)", 't');

#
# Workers
#

my $w = sql("SELECT pgqrs_register_worker('w', '{q,other}', max_concurrent => 1)");
my $by_worker = "pgqrs_wait_for_work(worker_id => $w, timeout => '1 hour')";
sql("SELECT pgqrs_purge_queue('other')");
wakes('what a worker subscribes to', $by_worker, "SELECT pgqrs_enqueue('other', '1')", 't');
sql("SELECT pgqrs_suspend_worker($w)");
is(sql("CALL pgqrs_wait_for_work('other', $w, '50 ms')"), 'f', 'nothing is there for a suspended worker');
wakes('a worker that is resumed', $by_worker, "SELECT pgqrs_resume_worker($w)", 'f');
is(sql("CALL $by_worker"), 't', 'the resumed worker finds the message when it waits again');
sql("SELECT message_id FROM pgqrs_dequeue('other', $w)");
wakes('a worker that is suspended', $by_worker, "SELECT pgqrs_suspend_worker($w)", 'f');
wakes('a worker that is resumed and suspended at once', $by_worker, "SELECT pgqrs_resume_worker($w), pgqrs_suspend_worker($w)", 'f');
sql("SELECT pgqrs_resume_worker($w); SELECT pgqrs_set_visibility(message_id, now()) FROM pgqrs_peek('other', 1)");

# What happens in the middle of the first look wakes, too.
sql("SELECT pgqrs_suspend_worker($w)");
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE pgqrs_queues');
$client = start_client($node, "SET application_name = 'looks'; CALL $by_worker");
waits_for_lock($node, 'looks') or die 'it does not look';
sql("SELECT pgqrs_resume_worker($w)");
$locker->query_safe('COMMIT');
$locker->quit;
is(finish_client($client), 'f', 'resuming a worker during the first look of its wait ends the wait');
($message, $lease) = split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('other', $w)");
sql("SELECT pgqrs_enqueue('other', '2')");
is(sql("CALL pgqrs_wait_for_work('other', $w, '50 ms')"), 'f', 'a wait returns false for a worker that holds as much as it may');
wakes('a worker that has room', $by_worker, "SELECT pgqrs_archive_message($message, $lease)", 't');
sql("SELECT pgqrs_purge_queue('other')");
wakes('a worker that is stopped', $by_worker, "SELECT pgqrs_stop_worker($w)", 'f');
is(sqlstate($node, "CALL $by_worker"), 'PQ014', 'a wait by a stopped worker fails with PQ014');
$w = sql("SELECT pgqrs_register_worker('w', '{q}')");
wakes('a worker that is superseded', "pgqrs_wait_for_work('q', $w, '1 hour')", "SELECT pgqrs_register_worker('w', '{q}')", 'f');

# A session without a worker serves its queue while it waits, and for worker_timeout.
my $alone = $node->background_psql('postgres', on_error_stop => 0);
sql("SELECT pgqrs_create_queue('ends'), pgqrs_create_queue('fails'), pgqrs_enqueue('ends', '1')");
like($alone->query("CALL pgqrs_wait_for_work('ends', timeout => '1 day')"), qr/t$/, 'a wait of a day finds a message');
$alone->query("SET statement_timeout = '200 ms'; CALL pgqrs_wait_for_work('fails', timeout => '1 day')");
is(sql("SELECT string_agg(live_workers::text, ' ') FROM pgqrs_queue_stats WHERE queue IN ('ends', 'fails')"), '1 1',
	'a session that waited without a worker serves the queues');

# A worker that waits is not silent, whenever the setting came.
$w = sql("SELECT pgqrs_register_worker('patient', '{q}')");
$client = sleeper("pgqrs_wait_for_work('q', $w, '1 hour')");
my $begun = sql('SELECT pgqrs_now()');
sql("ALTER SYSTEM SET pgqrs.worker_timeout = '2 s'");
sql("ALTER SYSTEM SET pgqrs.heartbeat_flush = '100 ms'");
sql('SELECT pg_reload_conf()');
ok($node->poll_query_until('postgres', "SELECT heartbeat_at > '$begun'::timestamptz + interval '3 s' FROM pgqrs_worker_stats WHERE worker_id = $w"),
	'a worker that waits for longer than worker_timeout calls meanwhile');
$alone->query($_) for "SET statement_timeout = 0; CALL pgqrs_wait_for_work('ends', timeout => '1 day')",
	"SET statement_timeout = '200 ms'; CALL pgqrs_wait_for_work('fails', timeout => '1 day')";
ok($node->poll_query_until('postgres', "SELECT sum(live_workers) = 0 FROM pgqrs_queue_stats WHERE queue IN ('ends', 'fails')"),
	'a session whose wait of a day has ended, or failed, serves its queue for worker_timeout and no longer');
$alone->quit;
sql('ALTER SYSTEM RESET pgqrs.worker_timeout');
sql('ALTER SYSTEM RESET pgqrs.heartbeat_flush');
sql('SELECT pg_reload_conf(); SELECT pgqrs_stop_worker(' . $w . ')');
is(finish_client($client), 'f', 'a worker that waits for longer than worker_timeout waits until it is stopped');

#
# Privileges
#

sql("CREATE ROLE reader LOGIN; CREATE ROLE worker LOGIN; CREATE ROLE stranger LOGIN;
	SELECT pgqrs_grant('wf', 'reader', 'read'), pgqrs_grant('q', 'worker', 'work'), pgqrs_grant('other', 'stranger', 'admin'),
		pgqrs_grant('wf', 'worker', 'monitor')");
$run = sql("SELECT pgqrs_trigger('wf')");
is(sqlstate($node, "SET ROLE reader; CALL pgqrs_wait($run, '0')"), 'PQ012', 'the privilege read allows to wait for a run');
is(sqlstate($node, "SET ROLE stranger; CALL pgqrs_wait($run, '0')"), 'PQ003', 'a role without a privilege on the workflow gets PQ003');
is(sqlstate($node, "SET ROLE reader; CALL pgqrs_wait_any('{$run}', '0')"), 'PQ012', 'the privilege read allows to wait for any of several');
is(sqlstate($node, "SET ROLE worker; CALL pgqrs_wait($run, '0')"), '42501', 'the privilege monitor does not allow to wait for a run');
is(sqlstate($node, "SET ROLE stranger; CALL pgqrs_wait_any('{$run}', '0')"), 'PQ003', 'wait_any: a role without a privilege on the workflow gets PQ003');
is(sqlstate($node, "SET ROLE worker; CALL pgqrs_wait_for_work('q', timeout => '0')"), '', 'the privilege work on a queue allows to wait for its messages');
is(sqlstate($node, "SET ROLE stranger; CALL pgqrs_wait_for_work('q', timeout => '0')"), 'PQ001', 'a role without a privilege on the queue gets PQ001');
is(sqlstate($node, "SET ROLE reader; CALL pgqrs_wait_for_work('wf', timeout => '0')"), '42501', 'the privilege read does not allow to wait for work');

#
# A wake-up is not lost with the backend that got it
#

my @crowd = map { sleeper($q) } 1 .. 4;
my $asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL pgqrs_wait_for_work%' AND state = 'active'";
start;
sql("SELECT pgqrs_enqueue('q', '1')");
$node->poll_query_until('postgres', "SELECT ($asleep) <= 3") or die 'no backend woke';
# as long as the second has passed after which another one looks
cmp_ok(sql($asleep), '>=', 3 - int passed(), 'one message wakes one of the waiting backends');
# That backend does not claim it; another backend looks again.
$node->poll_query_until('postgres', "SELECT ($asleep) < 3") or die 'no backend looks again';
pass('another backend wakes if the first one does not claim the message');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sleeper%'");
eval { $_->{harness}->finish } for @crowd;

#
# What a subtransaction had claimed wakes as many when it is rolled back, and
# the messages that its transaction has claimed no other backend
#

sql("SELECT pgqrs_create_queue('nested')");
my @herd = map { sleeper("pgqrs_wait_for_work('nested', timeout => '1 hour')") } 1 .. 6;
my $herd = "FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND application_name IN (" . join(',', map { "'$_->{name}'" } @herd) . ')';

# A backend that looked and sleeps again is in another transaction.
sub look
{
	my ($count, $statements, $name) = @_;
	my $before = sql('SELECT clock_timestamp()');
	my $looked = "SELECT count(*) $herd AND xact_start > '$before'";
	$holder->query_safe($statements);
	$node->poll_query_until('postgres', "SELECT ($looked) >= $count AND (SELECT count(*) $herd) = 6") or die "$name: no backend looks";
	is(sql($looked), $count, $name);
	return;
}
my $one = "SELECT count(*) FROM pgqrs_dequeue('nested')";
look(1, "BEGIN; SELECT pgqrs_enqueue_batch('nested', array_fill('1'::jsonb, '{9}')); SELECT count(*) FROM pgqrs_dequeue('nested', batch_size => 5);
	SAVEPOINT s; ROLLBACK TO s; SAVEPOINT s; $one; ROLLBACK TO s", 'the rollback to a savepoint wakes one backend for one claim');
look(2, "SAVEPOINT s; $one; SAVEPOINT t; SAVEPOINT u; $one; RELEASE u; RELEASE t; SAVEPOINT t; ROLLBACK TO t; ROLLBACK TO s",
	'the rollback to a savepoint wakes a backend for each claim in its subtransactions');
# The savepoints are released first: a rollback would end them before the
# transaction, and one that was woken for them may get one of its wake-ups, too.
look(6, "RELEASE s; RELEASE s; RELEASE s; SAVEPOINT s; $one; RELEASE s; ROLLBACK", 'the rollback of the transaction wakes a backend for each of its claims');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sleeper%'");
eval { $_->{harness}->finish } for @herd;

#
# The extension is dropped, and its waiting clients wake
#

my $create = q{SELECT pgqrs_create_queue('q'), pgqrs_create_workflow('wf')};
my %drops = (
	'dropped' => [ 'DROP EXTENSION pgqrs', '55000', '55000' ],
	'dropped with its schema' => [ 'DROP SCHEMA mine CASCADE', '55000', '55000' ],
	'dropped in two phases' => [ "BEGIN; DROP EXTENSION pgqrs; PREPARE TRANSACTION 'drop'; COMMIT PREPARED 'drop'", '55000', '55000' ],
	'made anew' => [ 'BEGIN; DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs; COMMIT', 'PQ001', 'PQ003' ]);
for my $how (sort keys %drops)
{
	my ($drop, $work, $result) = @{ $drops{$how} };
	sql('DROP EXTENSION pgqrs; CREATE SCHEMA IF NOT EXISTS mine; CREATE EXTENSION pgqrs SCHEMA mine');
	sql('ALTER ROLE CURRENT_USER SET search_path = public, mine');
	sql($create);
	@both = (sleeper('pgqrs_wait_for_work(\'q\', timeout => \'1 hour\')'), sleeper('pgqrs_wait(' . sql("SELECT pgqrs_trigger('wf')") . ", '1 hour')"));
	sql("BEGIN; DROP EXTENSION pgqrs; ROLLBACK");
	$node->safe_psql('postgres', $_) for split /(?<=TRANSACTION 'drop'); /, $drop;
	is(finish_client($both[0]), $work, "a client that waits for work when the extension is $how");
	is(finish_client($both[1]), $result, 'a client that waits for a run gets an error as well');
	sql('CREATE SCHEMA IF NOT EXISTS mine; CREATE EXTENSION IF NOT EXISTS pgqrs SCHEMA mine');
}
sql($create);

$holder->quit;
$node->stop;

#
# Without wake-ups
#

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->append_conf('postgresql.conf', "hot_standby = on\n");
$node->start;
sql("SELECT pgqrs_purge_queue('q'), pgqrs_purge_queue('wf')");
wakes('not preloaded: a message', $q, "SELECT pgqrs_enqueue('q', '1')", 't');
sql($take);
# The pauses between looks are a second in the end, so that a wait that did not know of the delay
# would be late by two thirds of a second each time; one that knows is late where the machine is slow.
my $late;
for (1 .. 20)
{
	my $sent = sql("SELECT pgqrs_enqueue('q', '1', delay => '1600 ms')");
	(my $found, $late) = split /\n/, sql("CALL $q; SELECT extract(epoch FROM clock_timestamp() - visible_after) FROM pgqrs_messages WHERE message_id = $sent");
	is($found, 't', 'not preloaded: a wait returns true when a delay ends');
	sql($take);
	last if $late < 0.5;
}
cmp_ok($late, '<', 0.5, 'not preloaded: the wait does not sleep much longer than the delay');
$run = sql("SELECT pgqrs_trigger('wf')");
(undef, $lease) = claim('wf');
wakes('not preloaded: a result', "pgqrs_wait($run)", "SELECT pgqrs_complete_run($run, $lease, '1')", 'SUCCESS|1|');
is(sqlstate($node, "CALL pgqrs_wait(" . sql("SELECT pgqrs_trigger('wf')") . ", '100 ms')"), 'PQ012', 'not preloaded: a wait for a run that does not end fails with PQ012');
$run = sql("SELECT pgqrs_trigger('wf')");
wakes('not preloaded: any of several', "pgqrs_wait_any('{$run}')", "SELECT pgqrs_cancel_run($run)", "$run|CANCELLED||");

done_testing();
