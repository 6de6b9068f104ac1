# F51: every documented way out of a database and back in, with work in every state;
# then the copy goes on working: each piece of work comes once, ids and keys go on,
# and the tables are well.  F45: a copy by logical replication, and the cut-over to it.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump_matrix', "fsync = off\nautovacuum = off\nmax_prepared_transactions = 5\n", allows_streaming => 'logical');
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'source', $query);
}

# All rows of all tables, sorted; and where the sequences are.
sub contents
{
	my ($database, $kinds) = @_;
	my $query = sql("SELECT string_agg(format('SELECT %L, %s::text FROM %s AS r', relname,
			CASE relkind WHEN 'S' THEN '(last_value, is_called)' ELSE 'r' END, oid::regclass), ' UNION ALL ')
		FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind IN ($kinds)", $database);
	# the ids of roles are taken anew where a grant is made or synced
	return sql("$query ORDER BY 1, 2", $database) =~ s/^(pgqrs_grants\|\("[^"]*",)-?\d*/$1/mgr;
}

my $tables = sql("SELECT string_agg(relname, ', ') FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind = 'r'", 'postgres');

# Work in every state.
sql('CREATE ROLE tom; CREATE DATABASE source', 'postgres');
sql(<<'SQL');
CREATE EXTENSION pgqrs;
SELECT pgqrs_create_queue('jobs', '1 hour', max_attempts => 2), pgqrs_create_workflow('flow', visibility_timeout => '1 hour'), pgqrs_create_workflow('child');
SELECT pgqrs_grant('jobs', 'tom', 'trigger'), pgqrs_register_worker('w', '{*}');
SELECT pgqrs_schedule('nightly', '@daily', 'child', '"scheduled"');
CREATE TABLE held (state text, message_id bigint, run_id bigint, lease bigint);
CREATE PROCEDURE claim(state text, queue text, timeout interval = NULL) LANGUAGE sql AS
	$$ INSERT INTO held SELECT state, message_id, run_id, lease FROM pgqrs_dequeue(queue, visibility_timeout => timeout) $$;

SELECT pgqrs_enqueue('jobs', '"dead"');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '0') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '0') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"archived"');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"retry"');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "x"}', '1 hour') FROM pgqrs_dequeue('jobs');
SELECT pgqrs_enqueue('jobs', '"held"');
SELECT message_id FROM pgqrs_dequeue('jobs', worker_id => (SELECT worker_id FROM pgqrs_workers)) AS d;
SELECT pgqrs_enqueue('jobs', '"finishes"');
CALL claim('finishes', 'jobs');
SELECT pgqrs_enqueue('jobs', '"expired"');
CALL claim('expired', 'jobs', '1 us');
SELECT pgqrs_enqueue('jobs', '"ready"'), pgqrs_enqueue('jobs', '"urgent"', priority => 9), pgqrs_enqueue('jobs', '"key"', idempotency_key => 'k'),
	pgqrs_enqueue('jobs', '"delayed"', delay => '1 hour');

SELECT pgqrs_trigger('flow', '"failed"'); CALL claim('failed', 'flow');
SELECT pgqrs_fail_run(run_id, lease, '{"type": "x"}') FROM held WHERE state = 'failed';
SELECT pgqrs_trigger('flow', '"ended"', idempotency_key => 'ended'); CALL claim('ended', 'flow');
SELECT pgqrs_step_complete(run_id, lease, 'a', '1'), pgqrs_complete_run(run_id, lease, '"output"') FROM held WHERE state = 'ended';
SELECT pgqrs_trigger('flow', '"running"'); CALL claim('running', 'flow');
SELECT pgqrs_step_complete(run_id, lease, 'a', '"stored"'), pgqrs_step_begin(run_id, lease, 'b'), pgqrs_signal(run_id, 'unconsumed', '1') FROM held WHERE state = 'running';
SELECT pgqrs_trigger('flow', '"cancelled"'); CALL claim('cancelled', 'flow');
SELECT pgqrs_cancel_run(run_id) FROM held WHERE state = 'cancelled';
SELECT pgqrs_trigger('flow', '"run expired"'); CALL claim('run expired', 'flow', '1 us');
SELECT pgqrs_trigger('flow', '"sleep"', priority => 1); CALL claim('sleep', 'flow');
SELECT pgqrs_sleep(run_id, lease, 's', '1 hour') FROM held WHERE state = 'sleep';
SELECT pgqrs_trigger('flow', '"signal"', priority => 1); CALL claim('signal', 'flow');
SELECT pgqrs_await_signal(run_id, lease, 's', 'go') FROM held WHERE state = 'signal';
SELECT pgqrs_trigger('flow', '"pause"', priority => 1); CALL claim('pause', 'flow');
SELECT pgqrs_pause_run(run_id, lease, 'p') FROM held WHERE state = 'pause';
SELECT pgqrs_trigger('flow', '"parent"', priority => 1); CALL claim('parent', 'flow');
SELECT pgqrs_start_child(run_id, lease, 'c', 'child', '"child"') FROM held WHERE state = 'parent';
SELECT pgqrs_await_child(run_id, lease, 'c') FROM held WHERE state = 'parent';
SELECT pgqrs_trigger('flow', '"run retry"', priority => 1); CALL claim('run retry', 'flow');
SELECT pgqrs_step_fail(run_id, lease, 'f', '{"type": "x"}', retry_after => '1 hour') FROM held WHERE state = 'run retry';
SELECT pgqrs_trigger('flow', '"queued"', idempotency_key => 'queued');
-- the highest id of a message is one that was taken in vain
BEGIN; SELECT pgqrs_enqueue('jobs', '"undone"'); ROLLBACK;
SQL
sql("BEGIN; SELECT pgqrs_enqueue('jobs', '\"prepared\"'); PREPARE TRANSACTION 'prepared'");
my @live = sort split /\n/, sql('SELECT COALESCE(payload, input) FROM pgqrs_messages LEFT JOIN pgqrs_workflow_runs USING (run_id)');
my $rows = contents('source', "'r'");
my $sequences = contents('source', "'S'");
is(sql('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '', 'pgqrs_verify() finds no fault in the source');

# The copy is what the source was; then it goes on working until nothing is left.
sub goes_on
{
	my ($name, $database, @expected) = @_;
	subtest $name => sub {
		is(sql('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok', $database), '', 'pgqrs_verify() finds no fault in the copy');
		my ($key, $id) = split /\n/, sql(q{SELECT pgqrs_enqueue('jobs', '1', idempotency_key => 'k') = (SELECT message_id FROM pgqrs_messages WHERE payload = '"key"')
				AND pgqrs_trigger('flow', idempotency_key => 'ended') = (SELECT run_id FROM pgqrs_workflow_runs WHERE input = '"ended"');
			SELECT pgqrs_enqueue('jobs', '"new"') > GREATEST((SELECT max(message_id) FROM pgqrs_archive), (SELECT max(run_id) FROM pgqrs_workflow_runs))}, $database);
		is($key, 't', 'keys of live and ended work are as unique as before');
		is($id, 't', 'a new message of the copy has a higher id than all before');
		is(sqlstate($node, q{SELECT pgqrs_archive_message(message_id, lease) FROM held WHERE state = 'finishes';
			SELECT pgqrs_complete_run(run_id, lease, '1') FROM held WHERE state = 'cancelled'}, $database), '', 'a lease is as good as before');
		is(sqlstate($node, q{SET SESSION AUTHORIZATION tom; SELECT pgqrs_enqueue('jobs', '"tom"')}, $database), '', 'a role with the privilege trigger sends a message in the copy');

		# without a pass, which would lower floors
		my $claimed = sql(q{SELECT payload #>> '{}' FROM pgqrs_dequeue('jobs', batch_size => 3, visibility_timeout => '1 us')}, $database);
		is($claimed, "urgent\nexpired\nready", 'claims in the copy return the messages that were ready');
		sql(q{SELECT count(pgqrs_set_visibility(message_id, now())) FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) LEFT JOIN pgqrs_workflow_runs USING (run_id)
				WHERE pgqrs_messages.waiting_for IS NULL AND name <> 'child';
			SELECT pgqrs_signal(run_id, 'go'), pgqrs_resume_run((SELECT run_id FROM held WHERE state = 'pause'), 'p') FROM held WHERE state = 'signal';
			CREATE TABLE drained (what jsonb)}, $database);
		my $drain = q{INSERT INTO drained SELECT COALESCE(input, payload) FROM (SELECT d.payload, d.input,
				CASE WHEN run_id IS NULL THEN pgqrs_archive_message(message_id, lease)::text ELSE pgqrs_complete_run(run_id, lease, '1')::text END FROM pgqrs_dequeue('*', batch_size => 100) AS d) AS e;
			SELECT pgqrs_maintain() IS NULL};
		sql($drain, $database) for 1 .. 3;
		is(sql('SELECT what FROM drained ORDER BY what::text COLLATE "C"', $database), join("\n", sort '"new"', '"tom"', grep { !/"(?:finishes|cancelled)"/ } @expected), 'the copy delivers each message and run once');
		is(sql('SELECT count(*) FROM pgqrs_messages', $database), '0', 'no message is left in the copy');
		is(sql(q{SELECT count(pgqrs_replay_message(message_id)) FROM pgqrs_dead_letters WHERE queue = 'jobs' AND run_id IS NULL;
			SELECT payload FROM pgqrs_dequeue('jobs'); SELECT pgqrs_trigger_schedule('nightly') > 0}, $database), "1\n\"dead\"\nt", 'a dead letter and a schedule go on');
		is(sql('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok', $database), '', 'pgqrs_verify() finds no fault in the copy after all work is done');
		is(sql(q{SELECT count(bt_index_parent_check(c.oid, true)) >= 20 FROM pg_class c JOIN pg_am a ON a.oid = relam AND amname = 'btree' WHERE relname LIKE 'pgqrs%' AND relkind = 'i'}, $database), 't', 'amcheck finds no fault in the indexes of the copy');
		is(sql(q{SELECT count(v.msg) FROM pg_class c, verify_heapam(c.oid) v WHERE relname LIKE 'pgqrs%' AND relkind = 'r'}, $database), '0', 'amcheck finds no fault in the tables of the copy');
	};
	return;
}

sub is_copy
{
	my ($name, $database, @expected) = @_;
	is(contents($database, "'r'"), $rows, "$name: the copy has all rows of the source");
	is(contents($database, "'S'"), $sequences, "$name: the copy has the sequences of the source");
	sql('CREATE EXTENSION IF NOT EXISTS amcheck', $database);
	goes_on($name, $database, @live);
	return;
}

sub run
{
	my ($name, @command) = @_;
	return command_ok(\@command, $name);
}

# Out.
my $source = $node->connstr('source');
run('pg_dump, plain', 'pg_dump', '-f', "$dir/plain", $source);
run('pg_dump -Fc', 'pg_dump', '-Fc', '-f', "$dir/custom", $source);
run('pg_dump -Fd -j', 'pg_dump', '-Fd', '-j', '2', '-f', "$dir/directory", $source);
run('pg_dump -n', 'pg_dump', '-Fc', '-n', 'public', '-f', "$dir/schema", $source);
run('pg_dump --data-only --inserts --disable-triggers', 'pg_dump', '-a', '--inserts', '--disable-triggers', '-f', "$dir/inserts", $source);
run('pg_dumpall', 'pg_dumpall', '-f', "$dir/all", '-d', $node->connstr('postgres'));
like(slurp_file("$dir/all"), qr/CREATE ROLE tom;.*\\connect source.*CREATE EXTENSION IF NOT EXISTS pgqrs.*COPY public\.pgqrs_messages/s, 'pg_dumpall writes the roles and a plain dump of each database');

# In, where nothing is.
my @restore = ('pg_restore', '-e', '-d');
my @ways = (
	[ 'plain', sub { run('psql', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $_[0], '-f', "$dir/plain") } ],
	[ 'serial', sub { run('pg_restore', @restore, $_[0], "$dir/custom") } ],
	[ 'single', sub { run('pg_restore --single-transaction', @restore, $_[0], '-1', "$dir/custom") } ],
	[ 'directory', sub { run('pg_restore -j of a folder', @restore, $_[0], '-j', '4', "$dir/directory") } ],
	[ 'sections', sub { run("pg_restore --section=$_", @restore, $_[0], '-j', '4', "--section=$_", "$dir/custom") for 'pre-data', 'data', 'post-data' } ],
	[ 'schema', sub { sql("CREATE EXTENSION pgqrs", 'schema'); run('pg_restore of pg_dump -n', @restore, $_[0], '-n', 'public', "$dir/schema"); sql('SELECT pgqrs_sync_grants()', 'schema') } ],
	map { [ "parallel$_", sub { run('pg_restore -j', @restore, $_[0], '-j', '4', "$dir/custom") } ] } 1 .. 3);
for my $way (@ways)
{
	my ($name, $restore) = @$way;
	sql("CREATE DATABASE $name", 'postgres');
	$restore->($node->connstr($name));
	is_copy($name, $name);
	sql("DROP DATABASE $name", 'postgres') unless $name eq 'serial';
}

# In, where work was done: a session remembers the queues, and floors are raised.
# The data of other tables come along.
my $work = "SELECT pgqrs_enqueue('jobs', '\"gone\"'); SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs');\n" x 20;
my @data = ('pg_restore', '-e', '-a', '-d', $node->connstr('serial'));
for my $way (
	[ '--data-only', @data, "$dir/custom" ],
	[ '--data-only -j', @data, '-j', '4', "$dir/custom" ],
	[ '--data-only --disable-triggers', @data, '--disable-triggers', "$dir/custom" ],
	[ '--data-only --disable-triggers -1', @data, '-1', '--disable-triggers', "$dir/custom" ],
	[ '--inserts --disable-triggers', 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('serial'), '-f', "$dir/inserts" ],
	[ '--clean', 'pg_restore', '-e', '-c', '--if-exists', '-d', $node->connstr('serial'), "$dir/custom" ])
{
	my ($name, @command) = @$way;
	sql($work, 'serial');
	my $session = $node->background_psql('serial');
	$session->query_safe("SELECT pgqrs_dequeue('jobs'), pgqrs_dequeue('*'), pgqrs_find_run('flow', 'x')");
	sql('DROP TABLE drained', 'serial');
	sql("TRUNCATE $tables, held", 'serial') unless $name eq '--clean';
	sql('DROP TABLE held; DROP PROCEDURE claim', 'serial') if $name eq '--clean';
	run($name, @command);
	is($session->query_safe(q{BEGIN; SELECT payload FROM pgqrs_dequeue('jobs'); ROLLBACK}), '"urgent"', "$name: a session from before sees what was restored");
	is($session->query_safe(q{SELECT pgqrs_find_run('flow', 'queued') > 0}), 't', "$name: a session from before sees a run that was restored");
	$session->quit;
	is_copy($name, 'serial');
}

# As a template.
sql("COMMIT PREPARED 'prepared'");
push @live, '"prepared"';
$rows = contents('source', "'r'");
sql('CREATE DATABASE template TEMPLATE source', 'postgres');
is_copy('CREATE DATABASE TEMPLATE', 'template');

# By logical replication.  While a subscription writes the tables, nothing else does.
sub health
{
	return sql("SELECT value FROM pgqrs_health WHERE item = 'background worker'", 'copy');
}
sub catch_up
{
	$node->wait_for_catchup('copied');
	return is(contents('copy', "'r'"), contents('source', "'r'"), "$_[0]: the subscriber has the same rows");
}
run('pg_dump of other tables', 'pg_dump', '-Fc', '-t', 'held', '-f', "$dir/held", $source);
sql('CREATE DATABASE copy', 'postgres');
sql('CREATE EXTENSION pgqrs; CREATE EXTENSION amcheck', 'copy');
run('pg_restore of other tables', @restore, $node->connstr('copy'), "$dir/held");
sql("CREATE PUBLICATION everything FOR ALL TABLES; SELECT pg_create_logical_replication_slot('copied', 'pgoutput')");
sql('TRUNCATE held', 'copy');
my $reader = $node->background_psql('copy');
is($reader->query_safe('SELECT count(*) FROM pgqrs_queue_stats'), '0', 'a session looks at a subscriber before anything is there');
sql("CREATE SUBSCRIPTION copied CONNECTION '" . $node->connstr . " dbname=source' PUBLICATION everything WITH (create_slot = false)", 'copy');
$node->wait_for_subscription_sync(undef, 'copied', 'copy');
catch_up('copied');
is(health(), 'none, as a subscription writes the tables', 'pgqrs_health tells of the subscription');
for my $call ("pgqrs_enqueue('jobs', '1')", "pgqrs_dequeue('jobs')", "pgqrs_trigger('flow')", 'pgqrs_maintain()', 'pgqrs_apply_retention()', "pgqrs_create_queue('x')")
{
	is(sqlstate($node, "SELECT $call", 'copy'), '55000', "$call is refused on a subscriber");
}
is($reader->query_safe(q{SELECT count(*) FROM pgqrs_peek('jobs'); SELECT status FROM pgqrs_result(pgqrs_find_run('flow', 'ended'))}), sql(q{SELECT count(*) FROM pgqrs_peek('jobs'); SELECT 'SUCCESS'}), 'functions that read answer on a subscriber');

# Background work on both sides, and a run that both would end.
sql("ALTER SYSTEM SET pgqrs.paused = off", 'postgres');
sql('SELECT pg_reload_conf()', 'postgres');
is(is_served($node, 'source') ? 1 : 0, 1, 'the publisher ends the run at its deadline');
catch_up('background work');
is(sql('SELECT count(*) FROM pg_stat_subscription_stats WHERE apply_error_count > 0', 'copy'), '0', 'the subscriber does not end the run, which would end the replication');
is(log_count($node, 'duplicate key'), 0, 'the log has no conflict of a row that was written twice');
sql("ALTER SYSTEM SET pgqrs.paused = on", 'postgres');
sql('SELECT pg_reload_conf()', 'postgres');
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'");

# The cut-over.
catch_up('the cut-over');
sql('DROP SUBSCRIPTION copied', 'copy');
like(health(), qr/paused/, 'a dropped subscription does not keep the background worker away');
is(sql('SELECT sequence, last_id FROM pgqrs_advance_sequences() ORDER BY 1', 'copy'),
	sql(q{SELECT * FROM (VALUES ('pgqrs_event_id_seq', 0), ('pgqrs_message_id_seq', (SELECT max(i) FROM (SELECT message_id FROM pgqrs_messages UNION ALL SELECT message_id FROM pgqrs_archive) a (i))),
		('pgqrs_queue_id_seq', (SELECT max(queue_id) FROM pgqrs_queues)), ('pgqrs_schedule_id_seq', 1), ('pgqrs_signal_id_seq', (SELECT max(signal_id) FROM pgqrs_run_signals)), ('pgqrs_worker_id_seq', 1)) v ORDER BY 1}),
	'each sequence is at the largest id');
my $before = contents('copy', "'S'");
is(sql('SELECT count(*) FROM pgqrs_advance_sequences(); SELECT pgqrs_sync_grants()', 'copy'), "6\n", 'pgqrs_advance_sequences() may be called again');
is(contents('copy', "'S'"), $before, 'a second pgqrs_advance_sequences() changes no sequence');
sql(q{SELECT pgqrs_delete_workflow('deadline', true)}, 'copy');
goes_on('the subscriber after the cut-over', 'copy', @live);
is($reader->query_safe(q{SELECT pgqrs_trigger('flow', '"reader"') > 0}), 't', 'a session from before the cut-over triggers a run');
$reader->quit;

# Sequences advance while ids are taken, and never go back.
my $taker = $node->background_psql('copy');
$taker->query_safe('BEGIN');
my $taken = $taker->query_safe("SELECT pgqrs_enqueue('jobs', '1')");
sql(q{SELECT setval('pgqrs_message_id_seq', 1); INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome, priority)
	SELECT 1000000, queue_id, now(), now(), now(), 1, 0, 'DONE', 0 FROM pgqrs_queues WHERE name = 'jobs'}, 'copy');
my @advancing = map { start_client($node, "SET application_name = 'advancing'; SELECT last_id FROM pgqrs_advance_sequences() WHERE sequence LIKE '%message%'", database => 'copy') } 1, 2;
is(waits_for_lock($node, 'advancing'), 1, 'a sequence that is behind is not set while a transaction takes ids');
$taker->query_safe("SELECT setval('pgqrs_message_id_seq', 2000000); COMMIT");
is(join(' ', map { finish_client($_) } @advancing), '2000000 2000000', 'pgqrs_advance_sequences() does not set a sequence back behind ids that were taken meanwhile');
$taker->quit;

done_testing();
