# Silent workers, and heartbeats that wait for no lock.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('workers');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'pgqrs'
pgqrs.paused = on
fsync = off
pgqrs.worker_timeout = '10 min'
client_min_messages = error
CONF
$node->start;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Moves the clock of the extension, in a time that no test takes.
sub clock
{
	my ($offset) = @_;
	sql("ALTER SYSTEM SET pgqrs.time_passed = '$offset'");
	sql("ALTER SYSTEM SET pgqrs.clock_offset = '$offset'");
	sql('SELECT pg_reload_conf()');
	$node->poll_query_until('postgres',
		"SELECT current_setting('pgqrs.clock_offset')::interval = '$offset'")
	  or die 'the setting does not arrive';
	return;
}

sub register
{
	my ($name) = @_;
	return sql("SELECT pgqrs_register_worker('$name', '{*}')");
}

# What a pass did, and the workers that live.
sub maintain
{
	return sql('SELECT string_agg(key || \' \' || value, \', \' ORDER BY key)
		FROM jsonb_each(pgqrs_maintain()) WHERE value <> \'0\'');
}

sub live
{
	return sql("SELECT string_agg(name, ' ' ORDER BY name) FROM pgqrs_workers WHERE status <> 'STOPPED'");
}

sub claim
{
	my ($worker) = @_;
	return split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('jobs', $worker, 1, '1 hour')");
}

sql('CREATE EXTENSION pgqrs');
sql("SELECT pgqrs_create_queue('jobs', max_attempts => 2), pgqrs_create_workflow('flow')");

# Silence.
my ($dead, $calls, $works, $extends) = map { register($_) } qw(dead calls works extends);
sql("SELECT count(pgqrs_enqueue('jobs', to_jsonb(g))) FROM generate_series(1, 4) g");
sql('UPDATE pgqrs_messages SET failures = 1 WHERE message_id = 2');
my ($m1, $lease1) = claim($dead);
my ($m2, $lease2) = claim($dead);
my ($m3, $lease3) = claim($works);
my ($m4, $lease4) = claim($extends);
clock('8 min');
is(maintain(), '', 'a pass stops no worker before the timeout');
is(sql("SELECT pgqrs_heartbeat($calls)"), 'READY', 'a heartbeat of a worker succeeds');
is(sql("SELECT extended FROM pgqrs_extend_lease($m3, $lease3, '1 hour')"), 't', 'an extension of one lease succeeds');
is(sql("SELECT extended FROM pgqrs_extend_worker($extends, '1 hour')"), 't', 'an extension of all leases succeeds');
clock('11 min');
is(sql("SELECT pgqrs_trigger('flow', require_worker => true) > 0"), 't', 'live workers serve a workflow');
is(maintain(), 'leases_reaped 1, messages_dead 1, workers_stopped 1', 'a pass stops the silent worker');
is(live(), 'calls extends works', 'workers that called, extended or worked stay live');
is(sql("SELECT ROW(failures, lease, worker_id) FROM pgqrs_messages WHERE message_id = $m1"), '(1,,)',
	'a message of the stopped worker has one failure and is claimable');
is(sql("SELECT outcome FROM pgqrs_archive WHERE message_id = $m2"), 'DEAD', 'an exhausted message of the stopped worker is a dead letter');
is($node->psql('postgres', "SELECT pgqrs_archive_message($m1, $lease1)"), 3, 'a lease of the stopped worker is lost');
is($node->psql('postgres', "SELECT pgqrs_heartbeat($dead)"), 3, 'a heartbeat of the stopped worker fails');
sql("SELECT pgqrs_archive_message($m3, $lease3), pgqrs_archive_message($m4, $lease4)");
is(maintain(), '', 'another pass finds nothing');
is(register('dead') > $dead, 1, 'the name of the stopped worker is free');

# A workflow whose workers are silent has no worker, stopped or not.
clock('30 min');
is($node->psql('postgres', "SELECT pgqrs_trigger('flow', require_worker => true)"), 3, 'no live worker serves the workflow when all are silent');
is(maintain(), 'workers_stopped 4', 'a pass stops all silent workers');

# Silence counts from the server's start.
clock('0');
register('old');
sql("UPDATE pgqrs_workers SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE stopped_at IS NULL");
$node->restart;
is(maintain(), 'messages_realigned 1', 'a start of the server counts as a call of each worker, and messages claimed in the future are realigned');
is(live(), 'old', 'the worker is live after the start');
clock('11 min');
is(maintain(), 'workers_stopped 1', 'the worker is stopped when the start is worker_timeout ago');
clock('0');

# A flush interval that is longer than a third of the time-out.
sql("ALTER SYSTEM SET pgqrs.heartbeat_flush = '1 h'");
my $often = register('often');
clock('4 min');
is(sql('SHOW pgqrs.heartbeat_flush'), '1h', 'the flush interval is longer than worker_timeout');
sql("SELECT pgqrs_heartbeat($often)");
clock('11 min');
is(live() . maintain(), 'often', 'calls are written at least every third of worker_timeout');
sql('ALTER SYSTEM RESET pgqrs.heartbeat_flush');
clock('0');
sql("SELECT pgqrs_stop_worker($often), pgqrs_purge_queue('jobs'), pgqrs_purge_queue('flow')");

# An open step transaction that wrote the worker's row.
my $busy = register('busy');
my $run = sql("SELECT pgqrs_trigger('flow')");
my (undef, $lease) = split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('flow', $busy, 1, '1 hour')");
clock('5 min');
my $step = $node->background_psql('postgres');
$step->query_safe('BEGIN');
$step->query_safe("SELECT pgqrs_step_begin($run, $lease, 'slow')");
is(sql("SELECT count(*) FROM (SELECT FROM pgqrs_workers WHERE worker_id = $busy FOR UPDATE SKIP LOCKED) w"), '0',
	'an open step transaction has the row of its worker');
for my $call ("pgqrs_heartbeat($busy)", "pgqrs_extend_worker($busy, '1 hour')", "pgqrs_extend_lease($run, $lease, '1 hour')",
	"pgqrs_dequeue('jobs', $busy)")
{
	is($node->psql('postgres', "SET statement_timeout = '180 s'; SELECT count(*) FROM $call"), 0, "$call does not wait for it");
}
clock('20 min');
is(maintain(), '', 'a pass does not stop a worker with an open step');
$step->query_safe("SELECT pgqrs_step_complete($run, $lease, 'slow')");
$step->query_safe('COMMIT');
is(live() . maintain(), 'busy', 'the end of the step counts as a heartbeat');
is(sql("SELECT pgqrs_complete_run($run, $lease)"), 't', 'the run completes after the pass');

# Stopping skips what an open step has locked; the next pass gets it.
$run = sql("SELECT pgqrs_trigger('flow')");
(undef, $lease) = split /\|/, sql("SELECT message_id, lease FROM pgqrs_dequeue('flow', $busy, 1, '1 hour')");
$step->query_safe('BEGIN');
$step->query_safe("SELECT pgqrs_step_begin($run, $lease, 'slow')");
is(sql("SET statement_timeout = '180 s'; SELECT pgqrs_stop_worker($busy)"), '0', 'stop does not wait for a step');
is(maintain(), '', 'a pass does not wait for a step');
$step->query_safe("SELECT pgqrs_step_complete($run, $lease, 'slow')");
$step->query_safe('COMMIT');
is(maintain(), 'leases_reaped 1', 'a pass after the step releases the run');
is($node->psql('postgres', "SELECT pgqrs_complete_run($run, $lease)"), 3, 'the lease of the released run is lost');
$step->quit;

# Many registrations of one name at once.
my @clients;
for my $i (1 .. 8)
{
	my $script = join '', map { "SELECT pgqrs_register_worker('same', '{*}');\n" } 1 .. 25;
	my ($in, $out, $err) = ($script, '', '');
	my $harness = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') ],
		'<', \$in, '>', \$out, '2>', \$err);
	push @clients, $harness;
}
is(scalar(grep { !$_->finish } @clients), 0, 'registrations of one name at once all succeed');
is(live(), 'same', 'one of many registrations of a name is live');
is(sql("SELECT count(*) FROM pgqrs_workers WHERE name = 'same'"), '200', 'each registration has stored a worker');

# Several connections of one worker extend what it holds: none hears of a lease
# that is lost.
sql(q{SELECT pgqrs_enqueue_batch('jobs', array_fill('1'::jsonb, '{50}')) \g /dev/null
	CREATE TABLE lost (message_id bigint)});
my $many = register('many');
is(sql("SELECT count(*) FROM pgqrs_dequeue('jobs', $many, 50, '1 hour')"), '50', 'a worker holds many messages');
$node->pgbench('-n -c 8 -j 2 -t 100', 0, [ qr{processed: 800/800} ], [ qr{^(?!.*ERROR)}s ], 'many connections of a worker extend its leases at the same time',
	{ extend => "INSERT INTO lost SELECT message_id FROM pgqrs_extend_worker($many, '1 hour') WHERE NOT extended" });
is(sql('SELECT count(*) FROM lost'), '0', 'concurrent extensions lose no lease');
is(sql("SELECT pgqrs_stop_worker($many)"), '50', 'a stop releases all messages of the worker');

done_testing();
