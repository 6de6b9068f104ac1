# Which transactions are flushed at commit: all but those that only claim.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('async_claims');
$node->init(allows_streaming => 1);
# Nothing but commits flushes the WAL, nor the eviction of a dirty page.
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'pgqrs'
pgqrs.paused = on
shared_buffers = 32MB
fsync = off
autovacuum = off
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
bgwriter_delay = 10s
checkpoint_timeout = 1h
wal_log_hints = off
max_prepared_transactions = 5
client_min_messages = error
CONF
$node->start;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Runs the statements in a session of its own, and tells whether the WAL up to
# their end was flushed before anything else was done.
sub flushed
{
	my ($statements) = @_;
	return sql(<<SQL);
\\set QUIET on
\\o /dev/null
$statements
SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn() AS flushed \\gset
\\o
\\echo :flushed
SQL
}

sql(<<'SQL');
CREATE EXTENSION pgqrs;
CREATE TABLE mine (n int);
SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour'), pgqrs_create_queue('dying', max_attempts => 1),
	pgqrs_create_workflow('w', visibility_timeout => '1 hour');
SELECT pgqrs_enqueue_batch('q', array_fill('1'::jsonb, '{100}')), pgqrs_trigger_batch('w', array_fill('1'::jsonb, '{20}'));
SQL
my $worker = sql(q{SELECT pgqrs_register_worker('w', '{*}')});
my $run = sql(q{SELECT run_id || ', ' || lease FROM pgqrs_dequeue('w')});
my $message = sql(q{SELECT message_id || ', ' || lease FROM pgqrs_dequeue('q')});
my $claim = q{SELECT count(*) FROM pgqrs_dequeue('q');};

# What CREATE EXTENSION left dead would be pruned, with WAL, by the first reader.
sql('VACUUM');

# What only claims.
is(flushed($claim), 'f', 'a claim is not waited for');
my $poller = sql(q{SELECT pgqrs_register_worker('poller', '{q}')});
my ($held) = $message =~ /(\d+), (\d+)/ ? "'{$1}', '{$2}'" : die;
is(flushed("SELECT pgqrs_extend_lease($message, '1 min'); CALL pgqrs_poll($poller, '0', 1, $held);"), 'f',
	'a poll that extends and claims is not waited for');
is(flushed("CALL pgqrs_poll($poller, '0', 0, $held);"), 'f', 'a poll that releases what was not received is not waited for');
is(flushed(qq{BEGIN; $claim $claim COMMIT;}), 'f', 'a commit does not wait for two claims');
is(flushed(qq{SELECT count(*) FROM pgqrs_dequeue('q', worker_id => $worker);}), 'f', 'a commit does not wait for the claim of a worker');
is(flushed(q{SELECT count(*) FROM pgqrs_dequeue('w');}), 'f', 'a commit does not wait for the claim of a run');
is(flushed(qq{SELECT pgqrs_step_begin($run, 'a');}), 'f', 'a commit does not wait for the begin of a step');
is(flushed(qq{SELECT pgqrs_extend_lease($message);}), 'f', 'a commit does not wait for the extension of a lease');
is(flushed(qq{SELECT count(*) FROM pgqrs_extend_worker($worker);}), 'f', 'a commit does not wait for the extension of all leases of a worker');
is(flushed(qq{BEGIN; $claim SAVEPOINT s; $claim RELEASE s; COMMIT;}), 'f', 'a commit does not wait for claims around a savepoint');
is(flushed(qq{BEGIN ISOLATION LEVEL SERIALIZABLE; $claim COMMIT;}), 'f', 'a commit under SERIALIZABLE does not wait for a claim');

is(flushed(q{SELECT count(*) FROM pgqrs_next(queue => 'q');}), 'f', 'a commit does not wait for a claim by pgqrs_next()');

# A session that looks at catalogs prunes their pages, which writes WAL that
# belongs to no transaction.
sql(q{DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		CREATE TABLE short_lived (a int PRIMARY KEY, b text, c text, d text);
		DROP TABLE short_lived;
	END LOOP;
END $$});
is(flushed($claim), 'f', 'a commit does not wait for the first claim of a session after many tables were created and dropped');

# What does more.
is(flushed(q{SELECT pgqrs_enqueue('q', '1');}), 't', 'the commit of a new message is flushed');
is(flushed(qq{SELECT pgqrs_step_complete($run, 'a');}), 't', 'the commit of a completed step is flushed');
is(flushed(qq{BEGIN; INSERT INTO mine VALUES (1); $claim COMMIT;}), 't', 'the commit of a row that was written before a claim is flushed');
is(flushed(qq{BEGIN; $claim INSERT INTO mine VALUES (1); COMMIT;}), 't', 'the commit of a row that was written after a claim is flushed');
is(flushed(qq{BEGIN; $claim INSERT INTO mine VALUES (1); $claim COMMIT;}), 't', 'the commit of a row that was written between claims is flushed');
is(flushed(qq{BEGIN; $claim SAVEPOINT s; INSERT INTO mine VALUES (1); RELEASE s; COMMIT;}), 't', 'the commit of a row that was written under a savepoint is flushed');
is(flushed(qq{WITH c AS MATERIALIZED (SELECT message_id FROM pgqrs_dequeue('q')) INSERT INTO mine SELECT 1 FROM c;}), 't', 'the commit of a row that the claiming statement wrote is flushed');
is(flushed(q{SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('q');}), 't', 'the commit of an archived message is flushed');
is(flushed(qq{BEGIN; $claim PREPARE TRANSACTION 'p';}), 't', 'PREPARE TRANSACTION of a claim is flushed');
is(flushed(q{COMMIT PREPARED 'p';}), 't', 'COMMIT PREPARED of a claim is flushed');
sql(q{SELECT pgqrs_enqueue('dying', '1'), pgqrs_dequeue('dying', visibility_timeout => '1 us')});
is(flushed(q{SELECT count(*) FROM pgqrs_dequeue('dying');}), 't', 'the commit of a claim that ends an exhausted message is flushed');
is(sql('SELECT count(*) FROM pgqrs_dead_letters'), 1, 'that claim has made a dead letter');

# Calls that do what two others do.  A run of three steps, from the claim to the
# end, is four flushes; so is the end of one run with the claim of the next.
my $flushes = 0;
my $done = '';
my $next = q{FROM pgqrs_next(queue => 'w'};
($run, my $run_lease) = split /\|/, sql("SELECT run_id, lease $next)");
foreach my $call ("SELECT pgqrs_step_begin($run, $run_lease, 'a');", map({ "SELECT pgqrs_step_next($run, $run_lease, $_);" }
		"'a', '1', 'b'", "'b', '2', 'c'"), "SELECT pgqrs_step_complete($run, $run_lease, 'c', '3');",
	"SELECT count(*) $next, done_ids => '{$run}', done_leases => '{$run_lease}');")
{
	$flushes++ if flushed($call) eq 't';
}
is($flushes, 4, 'a run of n steps by pgqrs_step_next and pgqrs_next is n + 1 flushes');
is(sql("SELECT status FROM pgqrs_result($run)"), 'SUCCESS', 'that run has succeeded');
is(flushed(q{SELECT count(*) FROM pgqrs_start('w');}), 't', 'the commit of a run by pgqrs_start() is flushed');

# Ten runs of three steps by the Python client: what its worker flushes besides does not count.
my $program = <<'PYTHON';
import sys, pgqrs, pgqrs.testing
app = pgqrs.App()

@app.workflow(name='steps')
def steps(ctx):
    for i in range(3):
        ctx.step(f'step {i}', lambda: i)

app.install()
for _ in range(int(sys.argv[1])):
    app.start(steps)
pgqrs.testing.drain(app, concurrency=1)
app.close()
PYTHON

# From PostgreSQL 18 on in another view.
my $writes = sql('SHOW server_version_num') >= 180000
  ? "SELECT sum(writes) FROM pg_stat_io WHERE object = 'wal'" : 'SELECT wal_write FROM pg_stat_wal';

sub flushes_of
{
	my ($runs) = @_;
	my $before = sql($writes);
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres',
		PYTHONDONTWRITEBYTECODE => 1, PYTHONPATH => "$FindBin::RealBin/../../clients/python");
	system_or_bail('/usr/bin/python3', '-c', $program, $runs);
	$node->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgqrs')})
	  or die 'the client has connections still';
	return sql($writes) - $before;
}
flushes_of(0);
my $idle = flushes_of(0);
my $busy = flushes_of(10);
is(sql(q{SELECT count(*) FROM pgqrs_runs WHERE workflow = 'steps' AND status = 'SUCCESS'}), 10, 'the Python client makes ten runs');
# Once in many runs a sequence is flushed, too.
cmp_ok(($busy - $idle) / 10, '<', 3 + 2.5, "each of them takes n + 2 flushes ($busy in all, $idle without runs)");

# The user's setting.
is(sql(qq{$claim SHOW synchronous_commit}), "1\non", 'synchronous_commit is on again after the commit of a claim');
is(sql(qq{SET synchronous_commit = local; $claim SHOW synchronous_commit}), "1\nlocal", 'synchronous_commit = local is back after the commit of a claim');
is(sql(qq{BEGIN; SET LOCAL synchronous_commit = remote_apply; $claim COMMIT; SHOW synchronous_commit}), "1\non", 'SET LOCAL synchronous_commit ends with the transaction that claimed');
is($node->psql('postgres', <<SQL), 3, 'a deferred constraint fails the commit of a claim');
\\set ON_ERROR_STOP on
CREATE TEMP TABLE t (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO t VALUES (1), (1);
$claim
COMMIT;
SQL

# Synchronous standbys: there is none, so a commit that waits for one waits.
sql(q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
sql('SELECT pg_reload_conf()');
$node->poll_query_until('postgres', q{SELECT current_setting('synchronous_standby_names') = 'nobody'})
  or die 'the setting does not arrive';
my ($waits, $claimed);
$node->psql('postgres', $claim, stdout => \$claimed, timeout => 30, timed_out => \$waits);
is($waits ? 'waits' : $claimed, 1, 'a claim does not wait for a standby');
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->{stdin} .= "SELECT pgqrs_enqueue('q', '1');\n";
$session->{run}->pump_nb;
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%enqueue%')}), 'the commit of a message waits for the synchronous standby');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
$node->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')})
  or die 'the wait does not end';
$session->{stdin} .= "\\q\n";
$session->{run}->finish;
$node->adjust_conf('postgresql.auto.conf', 'synchronous_standby_names', "''");
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('synchronous_standby_names') = ''})
  or die 'the setting does not arrive';

# Off.
sql(q{ALTER SYSTEM SET pgqrs.async_claims = off});
sql('SELECT pg_reload_conf()');
$node->poll_query_until('postgres', q{SELECT current_setting('pgqrs.async_claims') = 'off'})
  or die 'the setting does not arrive';
is(flushed($claim), 't', 'with async_claims off a claim is flushed');
sql(q{ALTER SYSTEM RESET pgqrs.async_claims});
sql('SELECT pg_reload_conf()');
$node->poll_query_until('postgres', q{SELECT current_setting('pgqrs.async_claims') = 'on'})
  or die 'the setting does not arrive';

# A crash loses the claim: the next one is another lease, and the first is stale.
sql('SELECT pgqrs_purge_queue(\'q\'); SELECT pgqrs_enqueue(\'q\', \'"lost"\'); CHECKPOINT');
my $first = sql(q{SELECT message_id, lease, attempt FROM pgqrs_dequeue('q')});
$node->stop('immediate');
$node->start;
my $second = sql(q{SELECT message_id, lease, attempt FROM pgqrs_dequeue('q')});
my @first = split /\|/, $first;
my @second = split /\|/, $second;
is("$second[0] $second[2]", "$first[0] $first[2]", 'the claim was lost in the crash');
isnt($second[1], $first[1], 'the claim after the crash has another lease');
my ($code, $out, $error) = $node->psql('postgres', "SELECT pgqrs_archive_message($first[0], $first[1])", on_error_stop => 1);
like($error, qr/lease .* is not the current one/, 'an archive call under the lost lease is refused as stale');
is(flushed(q{SELECT pgqrs_enqueue('q', '1'), pgqrs_enqueue('q', '2');} . $claim), 't', 'after a crash the commit of a claim is flushed');
$node->stop('fast');
$node->start;
is(flushed($claim), 'f', 'after a clean restart a commit does not wait for a claim');

done_testing();
