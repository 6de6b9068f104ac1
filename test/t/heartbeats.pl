# Heartbeats in shared memory: the workers they belong to, what becomes
# of it when the server ends, and what happens without it.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('heartbeats', "fsync = off\npgqrs.worker_timeout = '10 min'\npgqrs.heartbeat_flush = '1 h'\n");

sub sql
{
	my ($query, $on, $database) = @_;
	return ($on // $node)->safe_psql($database // 'postgres', $query);
}

# Registers a worker whose row says that it has not called for a day.
sub register
{
	my ($name, $database) = @_;
	my $id = sql("SELECT pgqrs_register_worker('$name', '{*}')", $node, $database);
	sql("UPDATE pgqrs_workers SET heartbeat_at = heartbeat_at - interval '1 day' WHERE worker_id = $id", $node, $database);
	return $id;
}

# A call of which only shared memory knows.
sub call
{
	my ($id, $database) = @_;
	return sql("BEGIN; SELECT pgqrs_heartbeat($id); ROLLBACK", $node, $database);
}

# The workers that are live after a pass.
sub alive
{
	my ($on, $database) = @_;
	sql('SELECT pgqrs_maintain()', $on, $database);
	return sql("SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM pgqrs_workers WHERE stopped_at IS NULL", $on, $database);
}

# Silence counts from the server's first writing call, too; that is over here.
my ($calls, $silent) = map { register($_) } qw(calls silent);
clock($node, '60 min');
is(call($calls), 'READY', 'a heartbeat in a transaction that is rolled back is answered');
is(alive(), 'calls', 'a heartbeat that was rolled back keeps its worker live');
clock($node, '69 min');
is(alive(), 'calls', 'a heartbeat that was rolled back keeps its worker live for the whole of worker_timeout');
is(sql("SELECT heartbeat_at < now() - interval '20 h' FROM pgqrs_workers WHERE worker_id = $calls"), 't', 'the row of the worker still has the old heartbeat');
clock($node, '71 min');
is(alive(), '', 'the worker is stopped when worker_timeout has passed since its last call');

# A clock that was set back.
$calls = register('calls');
call($calls);
clock($node, '30 min');
is(call($calls), 'READY', 'a heartbeat after the clock was set back is answered');
clock($node, '45 min');
is(alive(), '', 'the worker is stopped when worker_timeout has passed since the call on the corrected clock');
clock($node, '60 min');

# The same ids in another extension, and in another database.
$calls = register('calls');
call($calls);
sql('DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs');
sql("ALTER SEQUENCE pgqrs_worker_id_seq RESTART $calls");
is(register('of another extension'), $calls, 'an extension that is created again counts its workers anew');
is(alive(), '', 'heartbeats of the dropped extension do not count for workers with the same ids');
$calls = register('calls');
sql('CREATE DATABASE other TEMPLATE postgres');
is(register('here'), register('there', 'other'), 'a copy of a database goes on counting where it was');
call($calls, 'other');
is(alive(), '', 'a heartbeat in the copy does not count for the same worker id in the original database');
is(alive(undef, 'other'), 'calls', 'the heartbeat counts in the copy');
sql('DROP DATABASE other');

# More workers than there is place for.
sql("SELECT count(pgqrs_register_worker('many ' || g, '{*}')) FROM generate_series(1, 6000) g");
sql("UPDATE pgqrs_workers SET heartbeat_at = heartbeat_at - interval '1 day'");
sql("BEGIN; SELECT count(pgqrs_heartbeat(worker_id)) FROM pgqrs_workers WHERE name LIKE 'many%'; ROLLBACK");
sql('SELECT pgqrs_maintain()') for 1 .. 6;
my $known = sql("SELECT count(*) FROM pgqrs_workers WHERE name LIKE 'many%' AND stopped_at IS NULL");
cmp_ok($known, '>', 3000, "shared memory knows of $known workers");
cmp_ok($known, '<', 5000, 'shared memory has no place for the heartbeats of all 6000 workers');
sql("UPDATE pgqrs_workers SET status = 'READY', stopped_at = NULL WHERE name LIKE 'many%'");
sql("SELECT count(pgqrs_heartbeat(worker_id)) FROM pgqrs_workers WHERE name LIKE 'many%'");
sql('SELECT pgqrs_maintain()') for 1 .. 6;
is(sql("SELECT count(*) FROM pgqrs_workers WHERE name LIKE 'many%' AND stopped_at IS NULL"), '6000', 'committed heartbeats keep all workers live: rows hold those without a place in shared memory');
is(sql("SELECT count(*) FROM pgqrs_workers WHERE heartbeat_at > now()"), 6000 - $known, 'only the rows of workers without a place in shared memory were written');
clock($node, '120 min');
sql('SELECT pgqrs_maintain()') for 1 .. 6;
is(alive(), '', 'all workers are stopped when worker_timeout has passed');
$calls = register('calls');
call($calls);
is(alive(), 'calls', 'a new worker gets a place in shared memory after the silent ones were stopped');

# The end of a server.
for my $how ('fast', 'immediate')
{
	$calls = register("calls $how");
	call($calls);
	$node->stop($how);
	$node->start;
	clock($node, '180 min') if $how eq 'immediate';
	like(alive(), qr/calls $how/, "after a restart ($how) the silence of a worker counts from the start");
	clock($node, $how eq 'fast' ? '131 min' : '191 min');
	is(alive(), '', 'a worker that does not call after the restart is stopped when worker_timeout has passed');
}
$node->stop;

# Without shared memory the rows are all there is.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
my ($commits, $fails) = map { register($_) } qw(commits fails);
sql("SELECT pgqrs_heartbeat($commits)");
call($fails);
is(sql("SELECT string_agg(name, ' ' ORDER BY name) FROM pgqrs_workers WHERE stopped_at IS NULL AND heartbeat_at > now()"),
	'commits', 'a call is written by its transaction');
my $session = $node->background_psql('postgres');
my $row = "SELECT xmin, ctid FROM pgqrs_workers WHERE worker_id = $commits";
my $version = $session->query_safe($row);
$session->query_safe("SELECT pgqrs_heartbeat($commits)") for 1 .. 10;
is(sql("SELECT count(pgqrs_heartbeat($commits))"), '1', 'a heartbeat from another connection counts for the same worker');
is($session->query_safe($row), $version, 'calls within an interval write the row of the worker once');
$session->quit;

done_testing();
