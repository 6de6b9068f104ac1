# Without shared_preload_libraries the same SQL works on the tables alone; and
# what a transaction that may not write, a standby and a parallel query get.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "fsync = off\nclient_min_messages = error\nmax_prepared_transactions = 5\nhot_standby_feedback = on\n");
$node->start;

sub sql
{
	my ($query, $on) = @_;
	return ($on // $node)->safe_psql('postgres', $query);
}

is(sql('SHOW shared_preload_libraries'), '', 'the server preloads no library');
sql('CREATE EXTENSION pgqrs');

# The main path, each call in a session of its own.
sql("SELECT pgqrs_create_queue('jobs', max_attempts => 2), pgqrs_create_workflow('flow', initial_interval => '1 us')");
my $worker = sql("SELECT pgqrs_register_worker('w', '{*}')");
my $m = sql("SELECT pgqrs_enqueue('jobs', '\"first\"')");
is(sql("SELECT payload FROM pgqrs_peek('jobs')"), '"first"', 'a peek shows a message that was sent');
my (undef, $lease) = split /\|/, sql("SELECT payload, lease FROM pgqrs_dequeue(NULL, $worker)");
is(sql("SELECT extended FROM pgqrs_extend_lease($m, $lease, '1 hour')"), 't', 'a worker extends the lease of a claimed message');
is(sqlstate($node, "SELECT pgqrs_archive_message($m, $lease + 1)"), 'PQ006', 'an archive call under a stale lease raises PQ006');
is(sqlstate($node, "SELECT pgqrs_archive_message($m, $lease)"), '', 'an archive call under the current lease succeeds');
sql("SELECT pgqrs_enqueue_batch('jobs', '{1,2,3}', priority => 5), pgqrs_enqueue('jobs', '4', priority => 9)");
is(sql("SELECT string_agg(payload::text, ' ') FROM pgqrs_dequeue('jobs', batch_size => 10, visibility_timeout => '1 us')"), '4 1 2 3', 'a claim returns messages by priority, then by age');
is(sql("SELECT string_agg(attempt || ' ' || failures, ', ') FROM pgqrs_dequeue('*', batch_size => 10, visibility_timeout => '1 us')"),
	'2 1, 2 1, 2 1, 2 1', 'a second claim counts one failure for each lease that ran out');
is(sql("SELECT count(*) FROM pgqrs_dequeue('jobs', batch_size => 10)"), '0', 'a claim returns no message that has used up max_attempts');
is(sql("SELECT count(*) FROM pgqrs_dead_letters"), '4', 'each exhausted message is a dead letter');
is(sql("SELECT pgqrs_replay_queue('jobs')"), '4', 'pgqrs_replay_queue() replays all dead letters of the queue');
like(sql("SELECT pgqrs_nack_message(message_id, lease, '{}', '0') FROM pgqrs_dequeue('jobs')"), qr/^\d{4}-/, 'a nack of a replayed message returns the time of the retry');

my $run = sql("SELECT pgqrs_trigger('flow', '{\"a\": 1}', idempotency_key => 'key')");
is(sql("SELECT pgqrs_trigger('flow', idempotency_key => 'key')"), $run, 'a second trigger with the same idempotency key returns the same run');
(undef, $lease) = split /\|/, sql("SELECT input, lease FROM pgqrs_dequeue('flow', $worker)");
is(sql("SELECT should_execute, attempt FROM pgqrs_step_begin($run, $lease, 'a')"), 't|1', 'a step that begins for the first time is to be executed as attempt 1');
sql("SELECT pgqrs_step_complete($run, $lease, 'a', '\"done\"')");
is(sql("SELECT outcome FROM pgqrs_step_fail($run, $lease, 'b', '{}')"), 'RETRY', 'a failed step schedules a retry of the run');
(undef, $lease) = split /\|/, sql("SELECT attempt, lease FROM pgqrs_dequeue('flow', $worker)");
is(sql("SELECT should_execute, output FROM pgqrs_step_begin($run, $lease, 'a')"), 'f|"done"', 'a step that is done returns its output instead of being executed');
sql("SELECT pgqrs_complete_run($run, $lease, '\"output\"')");
is(sql("SELECT status, output FROM pgqrs_result($run)"), 'SUCCESS|"output"', 'pgqrs_result() returns status and output of the completed run');
like(sql('SELECT pgqrs_maintain()'), qr/"workers_stopped": 0/, 'a pass of pgqrs_maintain() runs and stops no live worker');
is(sql("BEGIN; SELECT pgqrs_enqueue('jobs', '\"prepared\"') > 0; PREPARE TRANSACTION 'p'"), 't', 'a transaction that sends a message can be prepared');
$node->restart;
sql("COMMIT PREPARED 'p'");
is(sql("SELECT count(*) FROM pgqrs_peek('jobs') WHERE payload = '\"prepared\"'"), '1', 'a message of a prepared transaction is claimable after a restart and COMMIT PREPARED');
is(sql("SELECT pgqrs_stop_worker($worker)"), '0', 'a worker without messages stops and releases none');

# Settings.
is(sql("LOAD 'pgqrs'; SELECT string_agg(name || '=' || setting || coalesce(unit, ''), ' ' ORDER BY name) FROM pg_settings
	WHERE name IN ('pgqrs.worker_timeout', 'pgqrs.heartbeat_flush', 'pgqrs.payload_warn', 'pgqrs.payload_max', 'pgqrs.clock_offset')"),
	'pgqrs.clock_offset=0ms pgqrs.heartbeat_flush=10000ms pgqrs.payload_max=2097152B pgqrs.payload_warn=1048576B pgqrs.worker_timeout=60000ms',
	'after LOAD the settings have their defaults');
is(sqlstate($node, "LOAD 'pgqrs'; SET pgqrs.payload_max = '1 MB'"), '55P02', 'a session may not set payload_max');
is(sqlstate($node, "LOAD 'pgqrs'; SET pgqrs.nonsense = '1'"), '42602', 'a session may not set a setting that does not exist');
is(sqlstate($node, "LOAD 'pgqrs'; ALTER SYSTEM SET pgqrs.payload_max = '1 B'"), '22023', 'ALTER SYSTEM refuses a value out of bounds');
sql("LOAD 'pgqrs'; ALTER SYSTEM SET pgqrs.payload_max = '1 kB'");
sql('SELECT pg_reload_conf()');
$node->poll_query_until('postgres', "SELECT pgqrs_version() <> '' AND current_setting('pgqrs.payload_max') = '1kB'")
  or die 'the setting does not arrive';
is(sqlstate($node, "SELECT pgqrs_enqueue('jobs', to_jsonb(repeat('x', 2000)))"), 'PQ008', 'a changed payload_max limits the next message');
sql("LOAD 'pgqrs'; ALTER SYSTEM RESET pgqrs.payload_max");
sql("LOAD 'pgqrs'; ALTER SYSTEM SET pgqrs.worker_timeout = '1 h'"); # the worker lives while it calls nothing
$node->reload;

# Every function, by what it may do where nothing may be written.
sql("SELECT pgqrs_schedule('daily', '\@daily', 'flow')");
$worker = sql("SELECT pgqrs_register_worker('live', '{*}')");
my @writers = (
	"pgqrs_create_queue('new')", "pgqrs_alter_queue('jobs', '1 min')", "pgqrs_delete_queue('jobs', true)", "pgqrs_purge_queue('jobs')",
	"pgqrs_pause_queue('jobs')", "pgqrs_resume_queue('jobs')", "pgqrs_enqueue('jobs', '1')", "pgqrs_enqueue_batch('jobs', '{1}')",
	"pgqrs_dequeue('jobs')", "pgqrs_dequeue('jobs', $worker)", "pgqrs_archive_message($m, 1)", "pgqrs_archive_messages('{$m}', '{1}')",
	"pgqrs_delete_message($m, 1)", "pgqrs_release_message($m, 1)", "pgqrs_nack_message($m, 1)", "pgqrs_extend_lease($m, 1)",
	"pgqrs_extend_leases('{$m}', '{1}')", "pgqrs_set_visibility($m, now())", "pgqrs_replay_message($m)", "pgqrs_replay_queue('jobs')", "pgqrs_dismiss_dead_letter($m)",
	"pgqrs_purge_dead_letters('jobs', '0')", "pgqrs_register_worker('new', '{*}')", "pgqrs_heartbeat($worker)", "pgqrs_extend_worker($worker)",
	"pgqrs_suspend_worker($worker)", "pgqrs_resume_worker($worker)", "pgqrs_stop_worker($worker)", "pgqrs_create_workflow('new')",
	"pgqrs_alter_workflow('flow', max_attempts => 5)", "pgqrs_delete_workflow('flow', true)", "pgqrs_trigger('flow')",
	"pgqrs_trigger_batch('flow', '{1}')", "pgqrs_step_begin($run, 1, 'a')", "pgqrs_step_complete($run, 1, 'a')", "pgqrs_step_fail($run, 1, 'a', '{}')",
	"pgqrs_next(queue => 'jobs')", "pgqrs_start('flow')", "pgqrs_step_next($run, 1, 'a', '1', 'b')",
	"pgqrs_complete_run($run, 1)", "pgqrs_fail_run($run, 1, '{}')", "pgqrs_set_progress($run, 1, '1')", "pgqrs_maintain()", "pgqrs_apply_retention()", "pgqrs_install_cron()",
	"pgqrs_pause_run($run, 1, 'p')", "pgqrs_resume_run($run)", "pgqrs_sleep($run, 1, 'z', '1 s')", "pgqrs_await_signal($run, 1, 'a', 'go')",
	"pgqrs_signal($run, 'go')", "pgqrs_cancel_run($run)", "pgqrs_cancel_runs('flow')", "pgqrs_replay_runs('flow')", "pgqrs_rerun_runs('flow')", "pgqrs_acknowledge_cancel($run, 1)", "pgqrs_delete_run($run)", "pgqrs_advance($run, '1 s')",
	"pgqrs_schedule('new', '\@daily', 'flow')", "pgqrs_unschedule('daily')", "pgqrs_enable_schedule('daily', false)", "pgqrs_trigger_schedule('daily')",
	"pgqrs_start_child($run, 1, 'c', 'flow')", "pgqrs_start_children($run, 1, 'm', 'flow', '{1}')", "pgqrs_await_child($run, 1, 'c')",
	"pgqrs_await_children($run, 1, 'm')", "pgqrs_await_any($run, 1, 'y', '{go}')", "pgqrs_rerun($run)", "pgqrs_consume('jobs', 'nothing')",
	"pgqrs_grant('jobs', 'public', 'work')", "pgqrs_revoke('jobs', 'public', 'work')", "pgqrs_sync_grants()", "pgqrs_advance_sequence('pgqrs_queue_id_seq', 1, 1000)",
	"pgqrs_advance_sequences()");
my %readers = (
	"pgqrs_get_run($run)" => "(pgqrs_get_run($run)).status", "pgqrs_result($run)" => "(pgqrs_result($run)).output",
	"pgqrs_find_run('flow', 'key')" => undef, 'pgqrs_list_runs()' => '(pgqrs_list_runs()).run_id',
	"pgqrs_list_steps($run)" => "string_agg((s).step_id || (s).status, ' ') FROM pgqrs_list_steps($run) s", "pgqrs_peek('jobs')" => '(pgqrs_peek(\'jobs\')).message_id',
	'pgqrs_version()' => undef, "pgqrs_why('jobs')" => "reason FROM pgqrs_why('jobs') WHERE reason = 'ready'", 'pgqrs_readable_queues()' => undef, 'pgqrs_readable_workers()' => undef, 'pgqrs_may_monitor(1)' => undef, 'pgqrs_schedule_may_fire(1)' => undef, 'pgqrs_queue_name(1)' => undef, 'pgqrs_run_crashes(1)' => undef, "pgqrs_function_privileges('pgqrs_peek')" => undef,
	"pgqrs_background_stats()" => undef, "pgqrs_floor_stats()" => undef, "pgqrs_count_messages(1)" => '(pgqrs_count_messages(1)).ready', "pgqrs_counters_of(1)" => undef, "pgqrs_live_workers(1)" => undef, "pgqrs_holder_of(1)" => "(pgqrs_holder_of(1)).pid", "pgqrs_count_runs(2)" => '(pgqrs_count_runs(2)).success', "pgqrs_role_of(0, 'none')" => undef, "pgqrs_now()" => 'pgqrs_now() > \'2020-01-01\'',
	"pgqrs_report()" => "pgqrs_report() LIKE '%</html>'", "pgqrs_report_run($run)" => "pgqrs_report_run($run) LIKE '%</html>'",
	"pgqrs_report_hour(now())" => "pgqrs_report_hour(now()) LIKE '<h2 id=\"hour\">%'", "pgqrs_html('%s', '{a}')" => undef, "pgqrs_html_duration('1 s')" => undef, "pgqrs_html_error('1')" => undef,
	"pgqrs_html_document('a', 'b', 'c')" => undef, "pgqrs_html_figures(1, '1 s', 1, 1, 1, 1)" => undef, "pgqrs_html_health()" => "(pgqrs_html_health()) IS NOT NULL",
	"pgqrs_html_page('a', '2030-01-01', 'b')" => undef, "pgqrs_html_plot('a', 'b', 'c', '{1}', '{1}', 'd', 'e', 'f')" => undef,
	"pgqrs_report_page('')" => "(pgqrs_report_page('')) IS NOT NULL", "pgqrs_report_style()" => undef, "pgqrs_report_action('{}')" => undef,
	"pgqrs_report_answer('{}', 'a', true, 'b', NULL)" => "(pgqrs_report_answer('{}', 'a', true, 'b', NULL)) IS NOT NULL", "pgqrs_html_style()" => undef, "pgqrs_html_url('a', '{}')" => undef,
	"pgqrs_html_link('a', '{}', 'b')" => undef, "pgqrs_html_tags('a=b')" => undef, "pgqrs_html_view('a', 'b', '{}', 'c')" => "(pgqrs_html_view('a', 'b', '{}', 'c')) IS NOT NULL",
	"pgqrs_html_act('cancel', '{}', 'a', 'b')" => undef, "pgqrs_html_fields('cancel')" => undef, "pgqrs_html_form('{}', 'a', false)" => "(pgqrs_html_form('{}', 'a', false)) IS NOT NULL",
	"pgqrs_html_family($run, true, NULL)" => "(pgqrs_html_family($run, true, NULL)) IS NOT NULL", "pgqrs_html_letters('jobs', 1)" => undef, "pgqrs_html_live_runs(true)" => "(pgqrs_html_live_runs(true)) IS NOT NULL",
	"pgqrs_html_workflows(true)" => "(pgqrs_html_workflows(true)) IS NOT NULL", "pgqrs_html_runs_before('flow', '2030-01-01')" => undef, "pgqrs_html_matches('{\"workflow\": \"flow\"}', 1, 1)" => undef,
	"pgqrs_html_statement('{}')" => undef, "pgqrs_html_count('{\"workflow\": \"flow\"}')" => undef, "pgqrs_html_overview('{}', NULL)" => "(pgqrs_html_overview('{}', NULL)) IS NOT NULL", "pgqrs_html_queues('{}', NULL)" => "(pgqrs_html_queues('{}', NULL)) IS NOT NULL",
	"pgqrs_html_runs('{}', NULL)" => "(pgqrs_html_runs('{}', NULL)) IS NOT NULL", "pgqrs_html_run_list('{\"workflow\": \"flow\"}')" => "(pgqrs_html_run_list('{\"workflow\": \"flow\"}')) IS NOT NULL", "pgqrs_html_live_list('{\"workflow\": \"flow\"}')" => "(pgqrs_html_live_list('{\"workflow\": \"flow\"}')) IS NOT NULL",
	"pgqrs_html_workers('{}', NULL)" => "(pgqrs_html_workers('{}', NULL)) IS NOT NULL", "pgqrs_html_schedules('{}', NULL)" => "(pgqrs_html_schedules('{}', NULL)) IS NOT NULL", "pgqrs_html_dead('{\"queue\": \"jobs\"}', NULL)" => "(pgqrs_html_dead('{\"queue\": \"jobs\"}', NULL)) IS NOT NULL",
	"pgqrs_html_messages('jobs')" => "(pgqrs_html_messages('jobs')) IS NOT NULL", "pgqrs_html_queue('{\"queue\": \"jobs\"}', NULL)" => "(pgqrs_html_queue('{\"queue\": \"jobs\"}', NULL)) IS NOT NULL",
	"pgqrs_html_run($run, true, NULL)" => "(pgqrs_html_run($run, true, NULL)) IS NOT NULL", "pgqrs_html_run_page('{\"run\": \"$run\"}', NULL)" => "(pgqrs_html_run_page('{\"run\": \"$run\"}', NULL)) IS NOT NULL",
	"pgqrs_html_large(65537)" => undef, "pgqrs_html_size('1')" => undef, "pgqrs_html_unread(1, 1, 'a')" => "(pgqrs_html_unread(1, 1, 'a')) IS NULL",
	"pgqrs_html_json('1')" => undef, "pgqrs_old_sessions()" => 'count(*) >= 0 FROM pgqrs_old_sessions()', "pgqrs_elapsed('2030-01-01', '2030-01-02')" => undef, "pgqrs_html_status('DONE')" => undef, "pgqrs_html_table('{a}', '{{b}}', 'c')" => undef,
	"pgqrs_verify()" => "count(*) FROM pgqrs_verify() WHERE ok", "pgqrs_below_floors()" => "count(*) FROM pgqrs_below_floors()",
	"pgqrs_next_firings('\@daily')" => "(SELECT f FROM pgqrs_next_firings('\@daily', after => '2026-01-01') f LIMIT 1)");
my @views = split /\n/, sql("SELECT relname FROM pg_class WHERE relkind = 'v' AND relname LIKE 'pgqrs%'");
my $tested = join ' ', sort 'pgqrs_poll', 'pgqrs_wait', 'pgqrs_wait_any', 'pgqrs_wait_for_work', map { /^(\w+)/ } @writers, keys %readers;
is(sql("SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
	WHERE proname LIKE 'pgqrs%' AND prorettype <> 'trigger'::regtype AND proname <> ALL ('{pgqrs_dequeue}')"),
	join(' ', grep { $_ ne 'pgqrs_dequeue' } split / /, $tested), 'each function of the extension is in one of the lists above');

sub contents
{
	my ($on) = @_;
	my $tables = sql("SELECT string_agg(format('SELECT %L, r::text FROM %s AS r', relname, oid::regclass), ' UNION ALL ')
		FROM pg_class WHERE relname LIKE 'pgqrs%' AND relkind = 'r'", $on);
	return sql("$tables ORDER BY 1, 2", $on);
}

my $before = contents($node);
for my $call (@writers)
{
	is(sqlstate($node, "BEGIN READ ONLY; SELECT $call"), '25006', "read only: $call is refused");
}
is(contents($node), $before, 'read only: refused calls have written no row');
for my $call (sort keys %readers)
{
	my $query = 'SELECT ' . ($readers{$call} // $call);
	is(sql("BEGIN READ ONLY; $query"), sql($query), "read only: $call answers as elsewhere");
}
is(sqlstate($node, "BEGIN READ ONLY; SELECT * FROM $_"), '', "read only: the view $_ can be read") for @views;

# A parallel query never runs one of ours in a worker.
sql('CREATE TABLE many AS SELECT g FROM generate_series(1, 10000) g; ALTER TABLE many SET (parallel_workers = 2); ANALYZE many');
my $parallel = "SET force_parallel_mode = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0";
$parallel =~ s/force_parallel_mode/debug_parallel_query/ if $node->pg_version >= 16;
like(sql("$parallel; EXPLAIN SELECT count(*) FROM many"), qr/Gather/, 'the planner makes a parallel plan for a count');
unlike(sql("$parallel; EXPLAIN SELECT count(*) FROM many WHERE pgqrs_enqueue('jobs', '1') > 0"), qr/Gather/, 'the planner makes no parallel plan for a query that calls pgqrs_enqueue()');
is(sql("$parallel; SELECT count(pgqrs_enqueue('jobs', '1')) FROM many WHERE g <= 10"), '10', 'that query sends its messages in the leader');
like(sql("$parallel; EXPLAIN SELECT count(*) FROM many WHERE pgqrs_now() > '2020-01-01'"), qr/Gather/, 'the planner makes a parallel plan for a query that calls pgqrs_now()');
is(sql("$parallel; SELECT count(*) FROM many WHERE pgqrs_now() > '2020-01-01'"), '10000', 'pgqrs_now() returns a time in parallel workers');
is(sqlstate($node, "$parallel; SELECT * FROM $_"), '', "parallel: the view $_ can be read") for @views;
is(sql("$parallel; SELECT (pgqrs_get_run($run)).status"), 'SUCCESS', 'pgqrs_get_run() answers where parallel plans are forced');

# A standby.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
$before = contents($node);
is(contents($standby), $before, 'standby: all tables have the rows of the primary');
for my $call (@writers)
{
	is(sqlstate($standby, "SELECT $call"), '25006', "standby: $call is refused");
}
for my $call (sort keys %readers)
{
	my $query = 'SELECT ' . ($readers{$call} // $call);
	is(sql($query, $standby), sql($query), "standby: $call answers as on the primary");
}
is(sql("SELECT count(*) FROM $_", $standby), sql("SELECT count(*) FROM $_"), "standby: the view $_ has as many rows as on the primary") for @views;

# The procedures: one reads only, the other's worker gives signs of life.
my $waits = sql("SELECT pgqrs_trigger('flow')");
my $flow = sql("SELECT lease FROM pgqrs_dequeue('flow')");
$node->wait_for_catchup($standby);
is(sqlstate($standby, "CALL pgqrs_wait($waits, '50 ms')"), 'PQ012', 'standby: pgqrs_wait() raises PQ012 when its run has not ended in time');
my $waiter = start_client($standby, "CALL pgqrs_wait($waits);\n");
sql("SELECT pgqrs_complete_run($waits, $flow, '1')");
is(finish_client($waiter), 'SUCCESS|1|', 'standby: pgqrs_wait() returns the result of a run that ends on the primary');
is(sqlstate($standby, "CALL pgqrs_poll(1)"), '25006', 'standby: pgqrs_poll() is refused since it writes');
is(sqlstate($node, "SET default_transaction_read_only = on; CALL pgqrs_poll(1)"), '25006', 'read only: pgqrs_poll() is refused since it writes');
is(sqlstate($standby, "CALL pgqrs_wait_for_work('jobs')"), '25006', 'standby: pgqrs_wait_for_work() is refused since it writes');
is(sqlstate($node, "SET default_transaction_read_only = on; CALL pgqrs_wait_for_work('jobs')"), '25006', 'read only: pgqrs_wait_for_work() is refused since it writes');
is(sql("SET default_transaction_read_only = on; CALL pgqrs_wait($waits)"), 'SUCCESS|1|', 'read only: pgqrs_wait() returns the result of an ended run');

# What a session of the standby remembers follows the primary.
sql('CREATE ROLE tom');
$node->wait_for_catchup($standby);
my $tom = $standby->background_psql('postgres', on_error_stop => 0);
$tom->query_safe('SET SESSION AUTHORIZATION tom');
is($tom->query("SELECT count(*) FROM pgqrs_peek('later')"), '', 'standby: a peek fails before the queue and the privilege arrive');
sql("SELECT pgqrs_create_queue('later'), pgqrs_enqueue('later', '1'), pgqrs_grant('later', 'tom', 'work')");
$node->wait_for_catchup($standby);
is($tom->query("SELECT count(*) FROM pgqrs_peek('later')"), '1', 'standby: the same session peeks after queue and privilege have arrived');
is($tom->query('SELECT queue FROM pgqrs_queue_stats'), 'later', 'standby: the views show the queue to the same session');

# Promoted it goes on where the primary was.
my $last = sql("SELECT pgqrs_enqueue('later', '2', priority => -5)");
my $held = sql("SELECT message_id || ', ' || lease FROM pgqrs_dequeue('later', visibility_timeout => '1 hour')");
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
is(sqlstate($standby, "SELECT pgqrs_archive_message($held)"), '', 'promoted: a lease of the old primary archives its message');
cmp_ok(sql("SELECT pgqrs_enqueue('later', '3')", $standby), '>', $last, 'promoted: a new message has a higher id than the last one of the old primary');
is($tom->query("SELECT payload FROM pgqrs_dequeue('later')"), '3', 'promoted: a session of the standby claims a new message');
is($tom->query("SELECT payload FROM pgqrs_dequeue('later')"), '2', 'promoted: the same session claims a message of the old primary');
$tom->quit;

done_testing();
