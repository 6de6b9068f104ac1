# A session's memory does not grow, however many calls it makes: each in its
# own transaction, many in one, many in one statement, failing ones.
#
# PGQRS_MEMORY_CALLS: how many calls of enqueue, dequeue and archive are made
# in transactions of their own.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { SESSION_LIMIT => 4 * 1024 * 1024, STATEMENT_LIMIT => 512 * 1024 };

my $calls = $ENV{PGQRS_MEMORY_CALLS} || 100000;
my $few = 1000;
my $node = new_node('memory', "fsync = off\nsynchronous_commit = off\nautovacuum_naptime = 5s\nmax_wal_size = 4GB\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# The memory of a session by its own account and by that of the system.
sql(<<'SQL');
SELECT pgqrs_create_queue('jobs'), pgqrs_create_workflow('flow');
CREATE TABLE samples (at int, contexts bigint, anonymous bigint);
CREATE FUNCTION contexts() RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN (SELECT sum(total_bytes) FROM pg_backend_memory_contexts); END $$;
CREATE FUNCTION anonymous() RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN 1024 * substring(pg_read_file('/proc/' || pg_backend_pid() || '/status', 0, 10000) FROM 'RssAnon:\s*(\d+) kB')::bigint; END $$;
CREATE FUNCTION sample(at int) RETURNS void LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO samples VALUES (at, contexts(), anonymous()); END $$;
SQL

# How much the samples have grown since the first ones, while caches filled up.
sub growth
{
	my ($name, $limit) = @_;
	my ($count, $contexts, $anonymous) = split /\|/, sql("WITH s AS (SELECT *, row_number() OVER (ORDER BY at) AS n FROM samples)
		SELECT count(*), max(contexts) - max(contexts) FILTER (WHERE n = 2), max(anonymous) - max(anonymous) FILTER (WHERE n = 2)
		FROM s WHERE n >= 2");
	note("$name: " . sql("SELECT string_agg(format('%s: %s kB %s kB', at, contexts / 1024, anonymous / 1024), ', ' ORDER BY at) FROM samples"));
	cmp_ok($count, '>=', 8, "$name: memory was sampled at least 8 times");
	cmp_ok($contexts, '<', $limit, "$name: memory contexts grow by $contexts bytes");
	cmp_ok($anonymous, '<', $limit, "$name: anonymous memory grows by $anonymous bytes");
	sql('TRUNCATE samples');
	return;
}

# What one client of pgbench does, a transaction per statement.
sub growth_of_session
{
	my ($name, $count, $script) = @_;
	my $file = "$dir/$name.sql";
	$file =~ s/ /_/g;
	append_to_file($file, "\\set n :n + 1\n$script\\if :n % " . int($count / 10) . " = 0\nSELECT sample(:n);\n\\endif\n");
	command_ok([ 'pgbench', '-n', '-c', 1, '-M', 'prepared', '-t', $count, '-D', 'n=0', '-f', $file, $node->connstr('postgres') ],
		"$name: a session repeats the calls $count times");
	growth($name, SESSION_LIMIT);
	return;
}

# Runs a block in a loop of one statement.
sub growth_of_loop
{
	my ($name, $count, $body) = @_;
	sql("DO \$\$ DECLARE m record; BEGIN FOR i IN 1 .. $count LOOP $body;
		IF i % ($count / 10) = 0 THEN PERFORM sample(i); END IF; END LOOP; END \$\$");
	growth($name, STATEMENT_LIMIT);
	return;
}

# A procedure keeps a little of each commit until it ends, so it ends often.
sql(<<'SQL');
CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $$
DECLARE m record;
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM pgqrs_enqueue('jobs', '{"some": "payload"}');
		COMMIT;
		SELECT message_id, lease INTO m FROM pgqrs_dequeue('jobs');
		COMMIT;
		PERFORM pgqrs_archive_message(m.message_id, m.lease);
		COMMIT;
	END LOOP;
END $$;
SQL
my $messages = int($calls / 300) * 100;
growth_of_session('own transactions', $messages / 100, "CALL work(100);\n");
is(sql("SELECT count(*) FROM pgqrs_archive WHERE outcome = 'DONE'"), $messages, "$calls calls: all messages are done");

growth_of_session('messages', $few, <<'SQL');
SELECT pgqrs_enqueue('jobs', '{"some": "payload"}');
SELECT message_id AS m, lease AS l FROM pgqrs_dequeue('jobs') \gset
SELECT pgqrs_archive_message(:m, :l);
SQL
growth_of_session('runs', $few, <<'SQL');
SELECT pgqrs_trigger('flow', '{"some": "input"}', idempotency_key => 'key ' || :n);
SELECT run_id AS r, lease AS l FROM pgqrs_dequeue('flow') \gset
SELECT * FROM pgqrs_step_begin(:r, :l, 'step');
SELECT pgqrs_step_complete(:r, :l, 'step', '{"some": "output"}');
SELECT pgqrs_complete_run(:r, :l, '{"some": "output"}');
SELECT status FROM pgqrs_result(:r);
SELECT count(*) FROM pgqrs_list_runs('flow', page_size => 10);
SELECT count(*) FROM pgqrs_list_steps(:r);
SQL
is(sql("SELECT count(*) FROM pgqrs_workflow_runs WHERE status = 'SUCCESS'"), $few, 'all runs have succeeded');

# A name is looked up anew after each change of a queue or a grant.
growth_of_session('changes', $few, <<'SQL');
SELECT pgqrs_alter_queue('jobs', max_attempts => 1 + (:n % 5));
SELECT count(*) FROM pgqrs_dequeue('*');
SELECT pgqrs_register_worker('w', '{*}') AS w \gset
SELECT pgqrs_heartbeat(:w);
SQL

growth_of_loop('one transaction', $few, "PERFORM pgqrs_enqueue('jobs', '1'); SELECT message_id, lease INTO m FROM pgqrs_dequeue('jobs');
	PERFORM pgqrs_archive_message(m.message_id, m.lease)");
growth_of_loop('failures', $few, "BEGIN PERFORM pgqrs_archive_message(1, 1); EXCEPTION WHEN SQLSTATE 'PQ006' THEN NULL; END;
	BEGIN PERFORM pgqrs_enqueue('none', '1'); EXCEPTION WHEN SQLSTATE 'PQ001' THEN NULL; END");

# In one statement.
for my $case (
	[ 'enqueue', "pgqrs_enqueue('jobs', '{\"a\": 1}', idempotency_key => 'key ' || g)" ],
	[ 'batches', "CASE WHEN g % 100 = 0 THEN pgqrs_enqueue_batch('jobs', array_fill('{\"a\": 1}'::jsonb, ARRAY[100])) END" ],
	[ 'dequeue', "(SELECT array_agg(message_id) FROM pgqrs_dequeue('jobs', batch_size => 1 + g % 2))" ],
	[ 'get_run', "(SELECT r.status FROM pgqrs_get_run(run) r WHERE g > 0)" ],
	[ 'peek', "(SELECT count(*) FROM pgqrs_peek('jobs', 1 + g % 2))" ])
{
	my ($name, $call) = @$case;
	sql("SELECT count($call), count(CASE WHEN g % ($few / 10) = 0 THEN sample(g) END)
		FROM generate_series(1, $few) g, (SELECT max(run_id) FROM pgqrs_workflow_runs) r (run)");
	growth($name, STATEMENT_LIMIT);
}

done_testing();
