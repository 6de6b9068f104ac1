# Background processes and settings: reloads, a pool that is too small, a
# server without room, binary upgrade.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('settings', "fsync = off\npgqrs.paused = off\npgqrs.max_workers = 4\nlog_statement = none\n");
my @databases = qw(a b c);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

sub poll
{
	my ($query, $database) = @_;
	return $node->poll_query_until($database // 'postgres', $query);
}

sub set
{
	my ($name, $value) = @_;
	sql("ALTER SYSTEM SET $name = $value");
	sql('SELECT pg_reload_conf()');
	return;
}

sub workers
{
	return sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'});
}

for my $database (@databases)
{
	sql("CREATE DATABASE $database");
	sql('CREATE EXTENSION pgqrs', $database);
}

# Every setting that can be reloaded, while a worker is at work.
my $launcher = background_pid($node);
my $worker = await_worker($node, 'postgres');
my %values = ('pgqrs.async_claims' => 'off', 'pgqrs.audit' => 'on', 'pgqrs.heartbeat_flush' => "'1 s'", 'pgqrs.payload_max' => "'1 MB'",
	'pgqrs.payload_warn' => "'100 kB'", 'pgqrs.max_workers' => 5, 'pgqrs.clock_offset' => "'1 s'", 'pgqrs.time_passed' => "'1 s'");
set($_, $values{$_}) for sort keys %values;
is(sql(q{SELECT string_agg(name, ', ' ORDER BY name) FROM pg_settings WHERE name LIKE 'pgqrs.%' AND context = 'sighup'
		AND name NOT IN ('pgqrs.databases', 'pgqrs.paused', 'pgqrs.worker_timeout')}),
	join(', ', sort keys %values), 'the test reloads every setting that can be reloaded');
ok(is_served($node, 'postgres'), 'a background worker still works after all settings were reloaded');
is(background_pid($node, 'postgres'), $worker, 'a reload does not restart the background worker');
is(background_pid($node), $launcher, 'a reload does not restart the launcher');
sql('SELECT pgqrs_register_worker(name, \'{*}\') FROM unnest(\'{x,y}\'::text[]) name', 'b');
is(sql('SELECT count(*) FROM pgqrs_workers WHERE status = \'READY\'', 'b'), 2, 'two workers are registered');
set('pgqrs.worker_timeout', "'1 s'");
ok(poll('SELECT count(*) = 2 FROM pgqrs_workers WHERE status = \'STOPPED\'', 'b'), 'a shorter worker_timeout stops silent workers');
set('pgqrs.worker_timeout', "'60 s'");
for my $list (q{'a,,b'}, q{'a, "b'})
{
	is(sqlstate($node, "ALTER SYSTEM SET pgqrs.databases = $list"), '22023', "pgqrs.databases refuses $list");
}
is(sqlstate($node, "SET pgqrs.databases = '*'"), '55P02', 'a session cannot set pgqrs.databases');

# Which databases.
$worker = await_worker($node, 'a');
set('pgqrs.databases', 'b, c');
ok(poll("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $worker"), 'the background worker of a database outside of the list exits');
is(sql('SELECT idle_reason FROM pgqrs_background_stats()', 'a'), 'not in pgqrs.databases', 'pgqrs_background_stats() shows that the database is not listed');
like(sql('SELECT value || \'|\' || ok || \'|\' || hint FROM pgqrs_health WHERE item = \'background worker\'', 'a'),
	qr/^none: not in pgqrs.databases\|false\|Add the database/, 'health says how to add the database');
my $run = sql("SELECT pgqrs_create_workflow('deadline'); SELECT pgqrs_trigger('deadline', timeout => '1 ms')", 'a') =~ s/.*\n//r;
ok(is_served($node, $_), "$_ is served") for 'b', 'c';
is(sql("SELECT status FROM pgqrs_result($run)", 'a'), 'QUEUED', 'a run in a database that is not listed stays QUEUED');
sql('ALTER DATABASE a RENAME TO "D d"');
set('pgqrs.databases', q{b, '"D d"'});
ok(poll("SELECT status = 'ERROR' FROM pgqrs_result($run)", 'D d'), 'a database with a quoted name in the list is served');
sql('ALTER DATABASE "D d" RENAME TO a');
set('pgqrs.databases', q{'*'});
ok(is_served($node, $_), "$_ is served") for 'a', 'c';

# One worker for four databases.
set('pgqrs.max_workers', 1);
ok(poll(q{SELECT count(*) <= 1 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}), 'background workers above max_workers exit');
# the only background worker leaves databases without due duties
for (1 .. 3)
{
	for my $database ('postgres', @databases)
	{
		is_served($node, $database) or fail("$database is not served");
		cmp_ok(workers(), '<=', 1, "at most one background worker runs, here in $database");
	}
}
my @runs = map { [ $_, sql("SELECT max(pgqrs_trigger('deadline', timeout => '1 ms')) FROM generate_series(1, 3000)", $_) ] } 'postgres', @databases;
ok(poll("SELECT status = 'ERROR' FROM pgqrs_result($_->[1])", $_->[0]), "3000 runs past their deadline end in $_->[0]") for @runs;
set('pgqrs.max_workers', 2);

# A background worker that is needed at once is needed since the request, not since the
# last pass.
sub health
{
	return sql(q{SELECT ok || ' ' || value FROM pgqrs_health WHERE item = 'background worker'}, 'a');
}
sql("SELECT pgqrs_create_queue('busy')", 'a');
await_worker($node, 'a');
# a reload would have a worker look
ok(poll(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}), 'background workers without due duties exit');
$launcher = background_pid($node);
kill 'STOP', $launcher;
clock($node, '1 h');
like(health(), qr/^true (?:not needed|needed next at)/, 'health is true while no background worker is needed');
sql("SELECT pgqrs_enqueue('busy', '1')", 'a');
like(health(), qr/^true needed next at/, 'health is true right after a background worker became needed');
clock($node, '2 h');
like(health(), qr/^false needed since/, 'health is false when none came for an hour');
kill 'CONT', $launcher;
ok(poll(q{SELECT ok FROM pgqrs_health WHERE item = 'background worker'}, 'a'), 'health is true once the background worker runs');

# Nor since the last request.
ok(poll(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}), 'background workers without due duties exit again');
kill 'STOP', $launcher;
sql("SELECT pgqrs_enqueue('busy', '1', delay => '10 minutes')", 'a');
clock($node, '3 h');
like(health(), qr/^false needed since/, 'health is false when a delayed message is long due');
sql("SELECT pgqrs_enqueue('busy', '1')", 'a');
like(health(), qr/^false needed since/, 'a new request does not hide the earlier one');
kill 'CONT', $launcher;
ok(poll(q{SELECT ok FROM pgqrs_health WHERE item = 'background worker'}, 'a'), 'health is true once the background worker has come');
clock($node, '0 s');

# No room: said once, and everything else works.
$node->append_conf('postgresql.conf', "max_worker_processes = 3\n");
set('pgqrs.paused', 'on');
$node->restart;
my $setting = sql("SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')");
my $blocker = start_client($node, "SET application_name = 'blocker'; SET $setting = on; SET max_parallel_workers_per_gather = 1; SELECT pg_sleep(600)");
ok(poll(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker'}), 'the last slot is taken by a parallel worker');
set('pgqrs.paused', 'off');
$run = sql("SELECT pgqrs_trigger('deadline', timeout => '1 ms')");
ok(await_log($node, qr/LOG:  no free slot for a background worker of pgqrs\n.*HINT:  Raise max_worker_processes/), 'the launcher logs that no slot is free');
is(sql('SELECT payload FROM pgqrs_dequeue(\'jobs\')', 'a') // '', '1', 'claims work without a background worker') if sql("SELECT pgqrs_create_queue('jobs'); SELECT pgqrs_enqueue('jobs', '1')", 'a');
is(sql("SELECT status FROM pgqrs_result($run)"), 'QUEUED', 'a run past its deadline waits for the background worker');
# more attempts
clock($node, '1 h');
select undef, undef, undef, 3.5;
is(log_count($node, qr/no free slot for a background worker/), 1, 'the missing slot is logged once');
step_clock($node, '0 s');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'blocker' AND backend_type = 'client backend'});
finish_client($blocker);
ok(poll("SELECT status = 'ERROR' FROM pgqrs_result($run)"), 'the run ends once a slot is free');
ok(is_served($node, $_), "$_ is served") for @databases;

# More databases than there is place for: most of them rows without anything
# behind them, in which no background worker starts.
sub idle_reason
{
	return sql('SELECT idle_reason FROM pgqrs_background_stats()', $_[0]);
}
sub becomes_idle
{
	my ($database, $reason, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(poll("SELECT idle_reason = '$reason' FROM pgqrs_background_stats()", $database), $name);
}
$node->append_conf('postgresql.conf', "max_worker_processes = 8\nautovacuum = off\n");
set('pgqrs.paused', 'on');
$node->restart;
sql(q{SET allow_system_table_mods = on;
	INSERT INTO pg_database SELECT (jsonb_populate_record(d, jsonb_build_object('oid', 100000 + g, 'datname', 'none' || g))).*
	FROM pg_database d, generate_series(1, 1021) g WHERE datname = 'a'});
sql('SELECT pg_reload_conf()');
ok(await_log($node, qr/LOG:  there are more databases than pgqrs can serve\n.*DETAIL:  At most 1024 databases are served. No background work is done in "none\d+"\.\n.*HINT:  List the databases/),
	'one database above the limit is logged');
sql('CREATE DATABASE late');
ok(await_log($node, qr/No background work is done in ("none\d+", )?"late"(, "none\d+")?\.\n/), 'a further database above the limit is logged');
sql('CREATE EXTENSION pgqrs', 'late');
like(sql('SELECT concat_ws(\'|\', value, ok, hint) FROM pgqrs_health WHERE item = \'background worker\'', 'late'),
	qr/^none: too many databases\|f\|List the databases that have the extension in pgqrs\.databases/, 'health of that database tells that it is not served');
is(sql(q{SELECT pgqrs_create_queue('q') > 0; SELECT pgqrs_enqueue('q', '1') > 0; CALL pgqrs_wait_for_work('q')}, 'late'), "t\nt\nt", 'sending and waiting work in a database that is not served');
is(idle_reason('b'), 'paused', 'a database within the limit has an entry');
my $said = log_count($node, qr/there are more databases than pgqrs can serve/);
sql('SELECT pg_reload_conf(); SELECT pg_sleep(0.5)') for 1 .. 3;
is(log_count($node, qr/there are more databases than pgqrs can serve/), $said, 'the same databases are not logged again');
my ($none) = slurp_file($node->logfile) =~ /No background work is done in "(none\d+)"\.\n/;
sql("SET allow_system_table_mods = on; UPDATE pg_database SET oid = 200000, datname = 'none0' WHERE datname = '$none'");
sql('SELECT pg_reload_conf()');
ok(await_log($node, qr/No background work is done in ("late", "none0"|"none0", "late")\.\n/), 'another database above the limit is logged');

# Those that are not to be served make room, and so does what is dropped.
my @displaced = map { $node->background_psql($_) } @databases;	# one of these
$_->query_safe("SELECT pgqrs_create_queue('jobs'); SELECT pgqrs_enqueue('jobs', '1')") for @displaced;
set('pgqrs.databases', 'late, postgres');
becomes_idle('late', 'paused', 'a listed database gets an entry');
set('pgqrs.paused', 'off');
ok(is_served($node, 'late'), 'a listed database is served');
my $listener = $node->background_psql('late');
$listener->query_safe('LISTEN pgqrs_queue_' . sql(q{SELECT queue_id FROM pgqrs_queues WHERE name = 'q'}, 'late'));
ok(poll(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}), 'the background worker exits when no duty is due');
$_->query_safe("SELECT pgqrs_enqueue('jobs', '1')") for @displaced;
sql(q{SELECT pgqrs_enqueue('q', '1')}, 'late');
my $told = 0;
for (my $tries = 0; !$told && $tries < 10 * $PostgreSQL::Test::Utils::timeout_default; $tries++)
{
	$told = $listener->query('SELECT pg_sleep(0.1)') =~ /Asynchronous notification/;
}
ok($told, 'work in databases without an entry does not hide its notification');
$_->quit for $listener, @displaced;
set('pgqrs.paused', 'on');
set('pgqrs.databases', "'*'");
sql('CREATE DATABASE later');
sql('CREATE EXTENSION pgqrs', 'later');
is(idle_reason('later'), 'too many databases', 'the next database gets no entry');
sql("DROP DATABASE $_") for @databases;
becomes_idle('later', 'paused', 'a dropped database frees its entry for the next one');
sql("DELETE FROM pg_database WHERE datname ~ '^none\\d'");
set('pgqrs.paused', 'off');
ok(is_served($node, 'later'), 'the database with the freed entry is served');
$node->stop;

# Binary upgrade.
my @pg_ctl = ('pg_ctl', '-D', $node->data_dir, '-l', $node->logfile, '-w');
command_ok([ @pg_ctl, '-o', '-b', 'start' ], 'a server in binary upgrade mode starts');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pgqrs%'}), 0, 'no process of pgqrs starts in binary upgrade mode');
is(sql('SELECT idle_reason FROM pgqrs_background_stats()'), 'no launcher', 'pgqrs_background_stats() shows that there is no launcher');
command_ok([ @pg_ctl, 'stop' ], 'a server in binary upgrade mode stops');

done_testing();
