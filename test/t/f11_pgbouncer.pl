# Poolers.  F11: the work of queues and workflows through pgbouncer in
# transaction mode, where each transaction may have another server connection;
# waits too, with the simple and the extended query protocol.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $program = (grep { -x } map { "$_/pgbouncer" } '/usr/sbin', split /:/, $ENV{PATH})[0];
plan skip_all => 'pgbouncer is not installed' unless defined $program;

my $node = new_node('main', "fsync = off\n");
my ($dir, $port) = ($node->basedir, PostgreSQL::Test::Cluster::get_free_port());
my $user = getpwuid($<);
append_to_file("$dir/bouncer.ini", sprintf(<<'INI', $node->host, $node->port, $user, $port, $node->host, $dir, $dir));
[databases]
postgres = host=%s port=%s user=%s
[pgbouncer]
listen_addr =
listen_port = %s
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
logfile = %s/bouncer.log
pidfile = %s/bouncer.pid
stats_users = nobody
ignore_startup_parameters = options
INI
my $bouncer = IPC::Run::start([ $program, "$dir/bouncer.ini" ], '<', '/dev/null', '>', "$dir/out", '2>', "$dir/out",
	IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
my $through = sprintf "host=%s port=%s user=%s dbname=postgres", $node->host, $port, $user;

sub sql
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $through ], '<', \$query, '>', \$out, '2>', \$err)
	  or die "$query: $err";
	chomp $out;
	return $out;
}

for (1 .. 100)
{
	last if eval { sql('SELECT 1') };
	select undef, undef, undef, 0.1;
}
sql("SELECT pgqrs_create_queue('q'), pgqrs_create_workflow('wf' || n), pgqrs_create_queue('q' || n) FROM generate_series(0, 7) AS n");
my $worker = sql("SELECT pgqrs_register_worker('w', '{*}')");

# The whole of it, each statement a transaction of its own, for each client a
# workflow and a queue of its own.
for my $mode ('simple', 'extended')
{
	append_to_file("$dir/$mode.sql", <<'SQL');
SELECT pgqrs_trigger('wf' || :client_id, '1');
SELECT run_id, lease FROM pgqrs_dequeue('wf' || :client_id) \gset
SELECT should_execute FROM pgqrs_step_begin(:run_id, :lease, 'step');
BEGIN;
SELECT pgqrs_step_complete(:run_id, :lease, 'step', '"done"');
COMMIT;
SELECT pgqrs_complete_run(:run_id, :lease, '"done"');
CALL pgqrs_wait(:run_id);
SELECT pgqrs_enqueue('q' || :client_id, '1');
CALL pgqrs_wait_for_work('q' || :client_id);
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('q' || :client_id);
SQL
	command_ok([ 'pgbench', '-n', '-M', $mode, '-c', 8, '-t', 25, '-f', "$dir/$mode.sql", $through ], "$mode protocol: 8 clients share 4 connections without an error");
}
is(sql("SELECT count(*) FROM pgqrs_runs WHERE status = 'SUCCESS'"), 400, 'all runs have succeeded');
is(sql('SELECT count(*) FROM pgqrs_messages'), 0, 'all messages are archived');
is(sql("SELECT pgqrs_heartbeat($worker)"), 'READY', 'a worker is one of the database, not of a connection');

# A wait that is woken through another connection.
my $sleeper = { out => "$dir/sleeper.out" };
$sleeper->{harness} = IPC::Run::start([ 'psql', '-XAtq', '-d', $through, '-c', "CALL pgqrs_wait_for_work('q', $worker, '1 hour')" ],
	'<', '/dev/null', '>', $sleeper->{out}, '2>', "$dir/sleeper.err", IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'CALL%' AND state = 'active' AND backend_xmin IS NULL
	AND wait_event_type = 'Extension'") or die 'it does not sleep';
sql("SELECT pgqrs_enqueue('q', '1')");
$sleeper->{harness}->finish;
is(slurp_file($sleeper->{out}), "t\n", 'a client that waits through the pooler is woken');

kill 'INT', $1 if slurp_file("$dir/bouncer.pid") =~ /^(\d+)/;
eval { $bouncer->finish };
$node->stop;
done_testing();
