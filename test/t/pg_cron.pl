# pg_cron drives everything in a server that is not preloaded with the library.
# It wakes once a minute, so that one of its passes has to do for the test.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('pg_cron');
$node->init;
$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'pg_cron'
cron.use_background_workers = on
client_min_messages = error
fsync = off
CONF
$node->start;

sub sql
{
	return $node->safe_psql('postgres', @_);
}

sub jobs
{
	return sql("SELECT string_agg(jobname || ' ' || username, ', ' ORDER BY jobname) FROM cron.job");
}

sub await
{
	my ($query, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT $query"), $what);
}

# Without pg_cron, or the privilege.
sql('CREATE EXTENSION pgqrs; CREATE ROLE owner; CREATE ROLE other');
is(sqlstate($node, 'SELECT pgqrs_install_cron()'), '55000', 'pgqrs_install_cron() is refused in a database without pg_cron');
my (undef, undef, $err) = $node->psql('postgres', 'SELECT pgqrs_install_cron()');
like($err, qr/HINT:  Create it here with CREATE EXTENSION pg_cron/, 'the hint names CREATE EXTENSION pg_cron');
sql('CREATE EXTENSION pg_cron; GRANT EXECUTE ON FUNCTION pgqrs_install_cron() TO other');
is(sqlstate($node, 'SET ROLE other; SELECT pgqrs_install_cron()'), '42501', 'pgqrs_install_cron() is refused for a role that does not own the extension');
is(jobs(), '', 'refused calls leave no job');

# Work for every duty, with none of it done but by the job.
sql(<<'SQL');
SELECT pgqrs_create_queue('jobs', max_attempts => 1), pgqrs_create_workflow('flow'), pgqrs_create_workflow('nightly');
SELECT pgqrs_enqueue('jobs', '"expires"'), pgqrs_enqueue('jobs', '"old"');
SELECT pgqrs_register_worker('silent', '{*}') AS worker \gset
SELECT count(*) FROM pgqrs_dequeue('jobs', visibility_timeout => '1 us');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs', visibility_timeout => '1 min');
UPDATE pgqrs_archive SET archived_at = archived_at - interval '7 days';
SELECT pgqrs_trigger('flow', timeout => '1 hour');
SELECT count(*) FROM pgqrs_dequeue('flow', visibility_timeout => '1 hour');
UPDATE pgqrs_messages SET deadline_at = clock_timestamp() WHERE run_id IS NOT NULL;
SELECT pgqrs_enqueue('jobs', '"held"');
SELECT count(*) FROM pgqrs_dequeue('jobs', :worker, visibility_timeout => '1 hour');
UPDATE pgqrs_workers SET heartbeat_at = heartbeat_at - interval '1 hour';
SELECT pgqrs_schedule('every minute', '* * * * *', 'nightly');
UPDATE pgqrs_schedules SET next_fire_at = date_trunc('minute', clock_timestamp());
SQL
# All of it happens beside a snapshot that is older.
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $pid = $old->query_safe('SELECT pg_backend_pid()');
my @installed = split /\n/, sql('SELECT pgqrs_install_cron()');
is($installed[0] =~ s/(?:1 second|\* \* \* \* \*)$/often/r, 'pgqrs_maintain: often', 'pgqrs_install_cron() installs the job of passes');
is($installed[1], 'pgqrs_history: 13 * * * *', 'pgqrs_install_cron() installs the job that cuts the history');
my $jobs = jobs();
my $user = sql('SELECT current_user');
is($jobs, "pgqrs_history $user, pgqrs_maintain $user", 'both jobs belong to the owner of the extension');

await(q{EXISTS (SELECT FROM pgqrs_runs WHERE workflow = 'nightly')}, 'the job fires the schedule');
await(q{status = 'ERROR' AND error->>'type' = 'timeout' FROM pgqrs_runs WHERE workflow = 'flow'}, 'the job ends the run at its deadline');
await(q{status = 'STOPPED' FROM pgqrs_workers}, 'the job stops the silent worker');
await(q{EXISTS (SELECT FROM pgqrs_dead_letters WHERE payload = '"held"')}, 'the job makes a dead letter of the message that the stopped worker held');
await(q{NOT EXISTS (SELECT FROM pgqrs_archive WHERE payload = '"old"')}, 'the job removes a message whose retention is over');
is(sql("SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = $pid"), 't', 'the older snapshot was open all the time');
$old->quit;
is(sql("SELECT status FROM cron.job_run_details ORDER BY runid LIMIT 1"), 'succeeded', 'pg_cron has recorded success');

# What others create where the owner would find it is not called.
sql(q{CREATE FUNCTION format(text, name) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'hijacked'; END$$});
for my $job ('pgqrs_maintain', 'pgqrs_history')
{
	is(sqlstate($node, sql("SELECT command FROM cron.job WHERE jobname = '$job'")), '', "$job calls no function of another role");
}
sql('DROP FUNCTION format(text, name)');

# Again, by another superuser, for another owner.
is(sql("SELECT string_agg(j, ', ') FROM pgqrs_install_cron() j"), join(', ', @installed), 'a second pgqrs_install_cron() names the same jobs');
is(jobs(), $jobs, 'a second pgqrs_install_cron() adds no job');
sql("INSERT INTO cron.job_run_details (jobid, runid, username, end_time) SELECT jobid, 1000000, username, now() - interval '2 days' FROM cron.job WHERE jobname = 'pgqrs_maintain'");
$node->safe_psql('postgres', sql("SELECT command FROM cron.job WHERE jobname = 'pgqrs_history'"));
is(sql('SELECT count(*) FROM cron.job_run_details WHERE runid = 1000000'), '0', 'the job of the history removes old records of the pass');

# DROP EXTENSION; the jobs are run by hand.
my @commands = map { sql("SELECT command FROM cron.job WHERE jobname = '$_'") } qw(pgqrs_maintain pgqrs_history);
sql('DROP EXTENSION pgqrs');
sql($_) for @commands;
is(jobs(), '', 'after DROP EXTENSION each job removes itself when it runs');

done_testing();
