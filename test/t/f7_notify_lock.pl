# NOTIFY holds a lock of the whole cluster until its commit.  F7: with 64
# clients that send and work, and a session that listens, no client ever waits
# for that lock.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', "fsync = off\npgqrs.paused = off\nmax_connections = 120\nautovacuum = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT pgqrs_create_queue('q'), pgqrs_create_workflow('wf')");
# Counts the waits of others for the lock until 64 clients have come and gone.
sql(q{CREATE FUNCTION watch() RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE seen bigint := 0; here boolean := false; deadline timestamptz := clock_timestamp() + '1 min';
	BEGIN
		LOOP
			PERFORM pg_stat_clear_snapshot();
			seen := seen + (SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted
				AND l.locktype = 'object' AND l.classid = 'pg_database'::regclass AND l.objid = 0 AND a.application_name = 'pgbench');
			here := here OR (SELECT count(*) >= 32 FROM pg_stat_activity WHERE application_name = 'pgbench');
			EXIT WHEN here AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgbench');
			ASSERT clock_timestamp() < deadline, 'they do not end';
			PERFORM pg_sleep(0.002);
		END LOOP;
		RETURN seen;
	END $$});

# How often clients that run a script were seen to wait.
my $scripts = 0;

sub waits
{
	my ($name, $script) = @_;
	my $file = $node->basedir . '/script' . ++$scripts . '.sql';
	append_to_file($file, $script);
	my $watcher = start_client($node, "SELECT watch();\n");
	local $ENV{PGAPPNAME} = 'pgbench';
	$node->command_ok([ 'pgbench', '-n', '-M', 'prepared', '-c', 64, '-t', 40, '-f', $file, $node->connstr('postgres') ], $name);
	return finish_client($watcher);
}

my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN pgqrs_runs; LISTEN pgqrs_queue_1; LISTEN pgqrs_queue_2');
my $cycle = "SELECT pgqrs_enqueue('q', '1');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('q');
SELECT pgqrs_trigger('wf');
SELECT pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('wf');
";
is(waits('64 clients', $cycle), 0, 'none of 64 clients waits');
my $told = 0;
for my $try (1 .. 600)
{
	last if $told = $listener->query('SELECT pg_sleep(0.1)') =~ /Asynchronous notification "pgqrs_runs"/;
}
ok($told, 'the session that listens is notified');
# The watcher sees what there is to see; on a busy machine it looks seldom.
my $seen = 0;
for my $try (1 .. 10)
{
	last if $seen = waits('64 clients that notify by themselves', "${cycle}NOTIFY something;\n");
}
cmp_ok($seen, '>', 0, 'a client that notifies by itself waits');
$listener->quit;
$node->stop;
done_testing();
