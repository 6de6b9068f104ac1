# Background processes through what happens to databases, to the extension and
# to themselves.  Each wait polls for what it waits for, with a deadline.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('lifecycle', "fsync = off\npgqrs.paused = off\nmax_prepared_transactions = 2\nrestart_after_crash = on\nlog_statement = none\n");

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

sub idle_reason
{
	my ($database) = @_;
	return sql('SELECT idle_reason FROM pgqrs_background_stats()', $database);
}

sub gone
{
	my ($pid) = @_;
	return poll("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
}

# The extension comes and goes.
ok(is_served($node, 'postgres'), 'the database is served after CREATE EXTENSION');
ok(poll("SELECT backend_xmin IS NULL AND wait_event_type = 'Extension' FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'"),
	'F41: a background worker that sleeps holds no snapshot');
sql('CREATE DATABASE a');
my $extension = 'CREATE EXTENSION pgqrs;';
sql("BEGIN; $extension SELECT pgqrs_create_workflow('deadline'), pgqrs_trigger('deadline', timeout => '1 ms'); ROLLBACK", 'a');
sql("$extension SELECT 1", 'a');
ok(is_served($node, 'a'), 'a database whose first CREATE EXTENSION was rolled back is served after the second');
my $worker = background_pid($node, 'a');
sql('BEGIN; DROP EXTENSION pgqrs; ROLLBACK', 'a');
ok(is_served($node, 'a'), 'a database is still served after a DROP EXTENSION that was rolled back');
is(background_pid($node, 'a'), $worker, 'the rolled back DROP EXTENSION does not end the background worker');
sql('DROP EXTENSION pgqrs', 'a');
ok(gone($worker), 'the background worker ends after DROP EXTENSION');
sql($extension, 'a');
ok(is_served($node, 'a'), 'the database is served after the extension is created again');
sql("DROP EXTENSION pgqrs; $extension", 'a');
ok(is_served($node, 'a'), 'the database is served after the extension was dropped and created in one session');
sql("BEGIN; DROP EXTENSION pgqrs; $extension SELECT pgqrs_create_workflow('deadline'), pgqrs_trigger('deadline', timeout => '1 ms'); COMMIT", 'a');
ok(poll("SELECT status = 'ERROR' FROM pgqrs_result(1)", 'a'), 'a run past its deadline ends after the extension was dropped and created in one transaction');
sql('CREATE SCHEMA s', 'a');
sql("DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs SCHEMA s; SET search_path = s; SELECT pgqrs_create_workflow('deadline'), pgqrs_trigger('deadline', timeout => '1 ms')", 'a');
ok(poll("SELECT status = 'ERROR' FROM s.pgqrs_result(1)", 'a'), 'a run past its deadline ends after the extension was created in another schema');
sql('DROP SCHEMA s CASCADE', 'a');
sql("BEGIN; $extension PREPARE TRANSACTION 'two phases'", 'a');
sql("COMMIT PREPARED 'two phases'", 'a');
ok(is_served($node, 'a'), 'the database is served after CREATE EXTENSION in a prepared transaction');

# What was prepared is seen to when it has been committed, too.
sql("BEGIN; SELECT pgqrs_trigger('deadline', timeout => '1 ms') AS late; PREPARE TRANSACTION 'late'", 'a');
ok(is_served($node, 'a'), 'the database is served while the trigger of a run past its deadline is only prepared');
sql("COMMIT PREPARED 'late'", 'a');
ok(poll("SELECT count(*) = 0 FROM pgqrs_messages", 'a'), 'the prepared run ends after COMMIT PREPARED');

# A worker is connected to a database that must be free.
await_worker($node, 'a');
is(sqlstate($node, 'DROP DATABASE a'), '', 'DROP DATABASE succeeds while a background worker is connected');
sql('CREATE DATABASE b');
sql($extension, 'b');
await_worker($node, 'b');
is(sqlstate($node, 'CREATE DATABASE c TEMPLATE b'), '', 'CREATE DATABASE TEMPLATE succeeds while a background worker is connected to the template');
sql("SELECT pgqrs_trigger('deadline', timeout => '1 ms')", 'c');
ok(poll("SELECT count(*) = 0 FROM pgqrs_messages", 'c'), 'a run past its deadline ends in the copy of a database');
ok(is_served($node, 'b'), 'the template is served after it was copied');
await_worker($node, 'b');
is(sqlstate($node, 'ALTER DATABASE b RENAME TO d'), '', 'ALTER DATABASE RENAME succeeds while a background worker is connected');
await_worker($node, 'd');
my $tablespace = PostgreSQL::Test::Utils::tempdir;
sql("CREATE TABLESPACE elsewhere LOCATION '$tablespace'");
is(sqlstate($node, 'ALTER DATABASE d SET TABLESPACE elsewhere'), '', 'ALTER DATABASE SET TABLESPACE succeeds while a background worker is connected');
await_worker($node, 'd');
is(sqlstate($node, 'CREATE ROLE stranger LOGIN; SET SESSION AUTHORIZATION stranger; DROP DATABASE d'), '42501', 'DROP DATABASE by a role without the right to it fails with 42501');
ok(is_served($node, 'd'), 'the refused DROP DATABASE leaves the database served');
is(sqlstate($node, 'ALTER DATABASE d RENAME TO postgres'), '42P04', 'a RENAME to an existing name fails with 42P04');
ok(is_served($node, 'd'), 'the failed RENAME leaves the database served');
sql('BEGIN; ALTER DATABASE d RENAME TO e; ROLLBACK');
ok(is_served($node, 'd'), 'a RENAME that was rolled back leaves the database served');

# A worker that cannot leave is made to: here it waits for a lock.
sql('DROP DATABASE c');
$worker = await_worker($node, 'd');
my $lines = log_count($node, qr/ERROR:  |FATAL:  /);
my $locker = $node->background_psql('d');
$locker->query_safe('BEGIN; LOCK pgqrs_messages');
sql('SELECT pg_reload_conf()');	# after which everything is looked at
ok(poll("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $worker"), 'the background worker waits for the locked table');
is(sqlstate($node, 'ALTER DATABASE d RENAME TO e'), '55006', 'RENAME fails with 55006 because another session is connected');
is(log_count($node, qr/FATAL:  terminating background worker "pgqrs worker"/), 1, 'RENAME terminates the background worker that waits for a lock');
$locker->query_safe('COMMIT');
$locker->quit;
ok(is_served($node, 'd'), 'another background worker is started after the failed RENAME');
is(log_count($node, qr/ERROR:  |FATAL:  /), $lines + 2, 'the log has no other error than that of RENAME and the terminated background worker');

# A worker that would stay, since a session has locked what is due.
$worker = await_worker($node, 'd');
$locker = $node->background_psql('d');
$locker->query_safe("SELECT pgqrs_trigger('deadline', timeout => '3 s')");
$locker->query_safe('BEGIN; SELECT 1 FROM pgqrs_messages FOR UPDATE');
sql('ALTER DATABASE d IS_TEMPLATE true');
ok(gone($worker), 'the background worker leaves a database that became a template');
$locker->query_safe('COMMIT');
$locker->quit;
sql('ALTER DATABASE d IS_TEMPLATE false');
ok(poll('SELECT count(*) = 0 FROM pgqrs_messages', 'd'), 'the locked run ends after the database is no template any more');

# What is not there.
$lines = log_count($node, qr/ERROR:  |FATAL:  /);
sql('CREATE DATABASE without');
ok(poll("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker' AND datname = 'without'"), 'no background worker stays in a database without the extension');
sql('CREATE DATABASE closed ALLOW_CONNECTIONS false');
sql('CREATE DATABASE template IS_TEMPLATE true');

# Another version: one line, and quiet until it is right again.
sql("UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'pgqrs'", 'd');
sql("SELECT pgqrs_trigger('deadline', timeout => '1 ms')", 'd');
ok(await_log($node, qr/LOG:  pgqrs does no background work in database "d"/), 'the log names the database whose extension has another version');
is(idle_reason('d'), 'version', 'pgqrs_background_stats() shows the version as the reason to be idle');
ok(poll("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker' AND datname = 'd'"), 'no background worker stays in the database of another version');
sql("SELECT pgqrs_trigger('deadline', timeout => '1 ms')", 'd') for 1 .. 3;
ok(is_served($node, 'postgres'), 'other databases are served meanwhile');
is(log_count($node, qr/pgqrs does no background work/), 1, 'the other version is logged once');
is(sql('SELECT count(*) FROM pgqrs_messages', 'd'), 4, 'no work is done in the database of another version');
sql("UPDATE pg_extension SET extversion = pgqrs_version() WHERE extname = 'pgqrs'; ALTER EXTENSION pgqrs UPDATE", 'd');
ok(poll('SELECT count(*) = 0 FROM pgqrs_messages', 'd'), 'runs past their deadlines end after the extension is updated');
is(log_count($node, qr/ERROR:  |FATAL:  /), $lines, 'another version causes no error in the log');

# A worker that cannot start is tried again, also after the clock was set back,
# and its database's state shown.
my $inside = $node->background_psql('d');
my $version_file = $node->data_dir . '/' . sql(q{SELECT regexp_replace(pg_relation_filepath('pg_class'), '[^/]*$', 'PG_VERSION')}, 'd');
sub becomes_true_inside
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $answer = $inside->query("DO \$\$ BEGIN FOR i IN 1 .. 1800 LOOP EXIT WHEN ($query); PERFORM pg_sleep(0.1); END LOOP; END \$\$; $query");
	return is($answer, 't', $name);
}
rename $version_file, "$version_file.away" or die "$version_file: $!";
sql(q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'pgqrs worker' AND datname = 'd'});
my $run = $inside->query("SELECT pgqrs_trigger('deadline', timeout => '1 ms')");
becomes_true_inside(q{SELECT NOT ok AND value ~ '^failed \d+ times, next try at ' AND hint ~ 'log' FROM pgqrs_health WHERE item = 'background worker'},
	'pgqrs_health shows the failures of a background worker that cannot start');
ok(is_served($node, 'postgres'), 'other databases are served while one background worker cannot start');
clock($node, '1 h');
becomes_true_inside("SELECT retry_at > clock_timestamp() + interval '30 min' FROM pgqrs_background_stats()", 'the next start of the background worker is shown on the new clock');
rename "$version_file.away", $version_file or die "$version_file: $!";
step_clock($node, '0 s');
ok(poll("SELECT status = 'ERROR' FROM pgqrs_result($run)", 'd'), 'the run past its deadline ends once the background worker can start, also after the clock was set back');
ok(poll("SELECT ok FROM pgqrs_health WHERE item = 'background worker'", 'd'), 'pgqrs_health shows the background worker as ok again');
$inside->quit;

# Settings of databases and roles do not count; the owner need be no superuser.
sql($_) for 'CREATE DATABASE owned', 'CREATE ROLE owner SUPERUSER';
sql('SET ROLE owner; CREATE SCHEMA mine; CREATE EXTENSION pgqrs SCHEMA mine', 'owned');
sql("ALTER DATABASE owned SET default_transaction_read_only = on; ALTER DATABASE owned SET default_transaction_isolation = serializable;
	ALTER DATABASE owned SET search_path = mine; ALTER DATABASE owned SET lock_timeout = '1 ms'; ALTER ROLE owner NOSUPERUSER NOLOGIN");
sql("SET default_transaction_read_only = off; SET lock_timeout = 0; SELECT pgqrs_create_workflow('deadline'), pgqrs_trigger('deadline', timeout => '1 ms')", 'owned');
ok(poll("SELECT status = 'ERROR' FROM mine.pgqrs_result(1)", 'owned'), 'a run past its deadline ends in a database that is read only by default and whose owner may not log in');
sql('DROP DATABASE owned');

# Grants go with their roles, whichever database they are in.
sql("CREATE ROLE gone; CREATE ROLE stays");
sql("SELECT pgqrs_create_queue('q'), pgqrs_grant('*', 'gone', 'work'), pgqrs_grant('q', 'stays', 'work'), pgqrs_grant('q', 'public', 'trigger')", $_) for 'postgres', 'd';
sql('DROP OWNED BY gone', $_) for 'postgres', 'd';
sql('DROP ROLE gone');
for my $database ('postgres', 'd')
{
	ok(poll("SELECT count(*) = 0 FROM pgqrs_grants WHERE grantee = 'gone'", $database), "grants to a role that was dropped are removed in $database");
	is(sql("SELECT string_agg(grantee, ' ' ORDER BY grantee COLLATE \"C\") FROM pgqrs_grants", $database), 'public stays', 'grants to other roles stay');
}

# Paused.
$worker = await_worker($node, 'd');
sql("ALTER SYSTEM SET pgqrs.paused = on; SELECT pg_reload_conf()");
ok(gone($worker), 'pgqrs.paused = on ends the background worker');
is(idle_reason('d'), 'paused', 'pgqrs_background_stats() shows the pause as the reason to be idle');
$run = sql("SELECT pgqrs_trigger('deadline', timeout => '1 ms')", 'd');
is(sql('SELECT count(*) FROM pg_stat_activity WHERE backend_type = \'pgqrs worker\''), 0, 'no background worker is started while pgqrs.paused is on');
is(sql("SELECT status FROM pgqrs_result($run)", 'd'), 'QUEUED', 'a run past its deadline stays as it is while pgqrs.paused is on');
sql("ALTER SYSTEM RESET pgqrs.paused; SELECT pg_reload_conf()");
ok(poll("SELECT status = 'ERROR' FROM pgqrs_result($run)", 'd'), 'the run ends after pgqrs.paused is off again');

# Processes that are terminated, in whatever they do, and come again.
sql("SELECT count(pgqrs_trigger('deadline', timeout => '1 ms')) FROM generate_series(1, 5000)", 'd');
for (1 .. 100)
{
	last if sql('SELECT count(*) FROM pgqrs_messages', 'd') == 0;
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type ~ '^pgqrs'");
	select undef, undef, undef, 0.05 + rand 0.1;
}
ok(poll('SELECT count(*) = 0 FROM pgqrs_messages', 'd'), 'all runs past their deadlines end although background processes are terminated all the time');
is(sql("SELECT string_agg(DISTINCT status, ',') FROM pgqrs_runs", 'd'), 'ERROR', 'each of the runs has ended with ERROR');
is(sql('SELECT count(*) - count(DISTINCT message_id) FROM pgqrs_archive', 'd'), 0, 'no run ended twice');
ok(poll("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pgqrs launcher'"), 'one launcher runs after many were terminated');
my $launcher = background_pid($node);
sql("SELECT pg_terminate_backend($launcher)");
ok(gone($launcher), 'a terminated launcher ends');
ok(is_served($node, $_), "database $_ is served") for 'postgres', 'd';
for my $process ('worker', 'launcher')
{
	my $pid = $process eq 'worker' ? await_worker($node, 'd') : background_pid($node);
	kill 'KILL', $pid;
	ok(await_log($node, qr/\(PID $pid\) was terminated by signal 9/), "the server log reports the kill -9 of the $process");
	ok(await_log($node, qr/database system is ready to accept connections/, $process eq 'worker' ? 2 : 3), 'the server restarts after the kill -9');
	ok(is_served($node, $_), "database $_ is served") for 'postgres', 'd';
}

# Fast shutdown with workers connected.
await_worker($node, $_) for 'postgres', 'd';
ok($node->stop('fast'), 'a fast shutdown ends background workers that are connected');

done_testing();
