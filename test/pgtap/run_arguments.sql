-- Every argument of every function of workflows, runs and steps: NULL, and
-- values that are refused.  Each refusal has a HINT and writes nothing.
\ir include/runs.sql
SELECT * FROM no_plan();

SELECT pgqrs_create_workflow('job', max_attempts => -1) \g /dev/null
SELECT * FROM pg_temp.start('job') \gset
SELECT pgqrs_start_child(:run, :lease, 'one child', 'job'), pgqrs_start_children(:run, :lease, 'children', 'job',
	'{1,2}'), run AS ended, pgqrs_complete_run(run, lease) FROM pg_temp.start('job') \gset
SELECT run AS asked, lease AS asked_lease, pgqrs_cancel_run(run) FROM pg_temp.start('job') \gset
SELECT pgqrs_trigger('job', idempotency_key => 'k') AS keyed \gset

-- A call that is accepted, by argument.  NULL is, too, for an argument with a
-- default, and clears the progress; a sleep needs one of two.
CREATE TEMP TABLE arguments (function text, position int, argument text, value text, PRIMARY KEY (function,
	argument));
INSERT INTO arguments
	SELECT function, n, btrim(a[1], E' \n\t'),
		replace(replace(replace(replace(replace(btrim(a[2], E' \n\t'), 'ENDED', :'ended'), 'ASKED_LEASE', :'asked_lease'),
		'ASKED', :'asked'), 'RUN', :'run'), 'LEASE', :'lease')
	FROM (VALUES
		('pgqrs_create_workflow',
			$$workflow = 'new' | handler = NULL | max_attempts = 3 | initial_interval = '1 s'
				| backoff_coefficient = 2 | max_interval = '1 s' | jitter = 0 | non_retryable = '{a}'
				| timeout = '1 s' | visibility_timeout = '1 s' | max_crashes = 1 | key_scope = 'active'
				| outbox_queue = NULL | on_cancel = 'end' | max_per_key = NULL | ordered = false | fair = false
				| rate_limit = NULL | rate_period = '1 s' | rate_per_key = false | replace = false$$),
		('pgqrs_alter_workflow',
			$$workflow = 'job' | handler = NULL | max_attempts = 3 | initial_interval = '1 s'
				| backoff_coefficient = 2 | max_interval = '1 s' | jitter = 0 | non_retryable = '{a}'
				| timeout = '1 s' | visibility_timeout = '1 s' | max_crashes = 1 | key_scope = 'active'
				| outbox_queue = NULL | on_cancel = 'end' | max_per_key = NULL | ordered = false | fair = false
				| rate_limit = NULL | rate_period = '1 s' | rate_per_key = false | reset = '{}'$$),
		('pgqrs_delete_workflow', $$workflow = 'nothing' | force = false$$),
		('pgqrs_trigger',
			$$workflow = 'job' | input = '1' | idempotency_key = 'key' | delay = '0' | run_at = '2100-01-01'
				| priority = 1 | timeout = '1 s' | tags = '1' | headers = '1' | retry_policy = '{}'
				| on_duplicate = 'raise' | require_worker = false | concurrency_key = NULL$$),
		('pgqrs_trigger_batch',
			$$workflow = 'job' | inputs = '{1}' | idempotency_keys = '{key}' | delay = '0'
				| run_at = '2100-01-01' | priority = 1 | tags = '1'$$),
		('pgqrs_get_run', $$run_id = RUN$$),
		('pgqrs_find_run', $$workflow = 'job' | idempotency_key = 'k'$$),
		('pgqrs_result', $$run_id = RUN$$),
		('pgqrs_step_begin', $$run_id = RUN | lease = LEASE | step_id = 's' | input = '1'$$),
		('pgqrs_step_complete',
			$$run_id = RUN | lease = LEASE | step_id = 's' | output = '1' | started_at = '2000-01-01'$$),
		('pgqrs_step_fail',
			$$run_id = RUN | lease = LEASE | step_id = 's' | error = '{}' | retryable = true
				| retry_after = '1 s' | max_attempts = 2 | fail_run = true$$),
		('pgqrs_complete_run', $$run_id = RUN | lease = LEASE | output = '1'$$),
		('pgqrs_fail_run', $$run_id = RUN | lease = LEASE | error = '{}' | retryable = true | retry_after = '1 s'$$),
		('pgqrs_set_progress', $$run_id = RUN | lease = LEASE | progress = '1'$$),
		('pgqrs_pause_run', $$run_id = RUN | lease = LEASE | step_id = 's' | check_after = '1 s' | reason = '1'$$),
		('pgqrs_resume_run', $$run_id = RUN | step_id = 's' | output = '1'$$),
		('pgqrs_sleep', $$run_id = RUN | lease = LEASE | step_id = 's' | duration = '1 s' | until = NULL$$),
		('pgqrs_await_signal', $$run_id = RUN | lease = LEASE | step_id = 's' | signal = 'go' | timeout = '1 s'$$),
		('pgqrs_signal', $$run_id = RUN | signal = 'go' | payload = '1' | idempotency_key = 'key' | headers = '1'$$),
		('pgqrs_cancel_run', $$run_id = RUN | reason = 'why'$$),
		('pgqrs_cancel_runs',
			$$workflow = 'job' | status = 'QUEUED' | tags = '1' | max_rows = 10 | reason = 'why'
				| error_type = 'timeout' | created_after = '2000-01-01' | created_before = '2100-01-01'
				| after_run_id = 0$$),
		('pgqrs_replay_runs',
			$$workflow = 'job' | status = 'ERROR' | tags = '1' | error_type = 'timeout' | created_after = '2000-01-01'
				| created_before = '2100-01-01' | after_run_id = 0 | max_rows = 10$$),
		('pgqrs_rerun_runs',
			$$workflow = 'job' | status = 'ERROR' | tags = '1' | error_type = 'timeout' | created_after = '2000-01-01'
				| created_before = '2100-01-01' | after_run_id = 0 | max_rows = 10 | from_failed = true$$),
		('pgqrs_acknowledge_cancel', $$run_id = ASKED | lease = ASKED_LEASE | output = '1'$$),
		('pgqrs_delete_run', $$run_id = RUN | reason = 'why'$$),
		('pgqrs_rerun', $$run_id = ENDED | input = '1' | from_step = NULL | keep_finished = false$$),
		('pgqrs_start_child',
			$$run_id = RUN | lease = LEASE | step_id = 's' | workflow = 'job' | input = '1'
				| idempotency_key = 'key' | delay = '0' | run_at = '2100-01-01' | priority = 1 | timeout = '1 s'
				| tags = '1' | headers = '1' | retry_policy = '{}' | on_duplicate = 'raise' | require_worker = false
				| concurrency_key = NULL | on_parent_end = 'abandon'$$),
		('pgqrs_start_children',
			$$run_id = RUN | lease = LEASE | step_id = 's' | workflow = 'job' | inputs = '{1}'
				| idempotency_keys = '{key}' | priority = 1 | timeout = '1 s' | tags = '1'
				| on_parent_end = 'abandon'$$),
		('pgqrs_await_child', $$run_id = RUN | lease = LEASE | step_id = 'one child'$$),
		('pgqrs_await_children', $$run_id = RUN | lease = LEASE | step_id = 'children' | mode = 'any'$$),
		('pgqrs_await_any',
			$$run_id = RUN | lease = LEASE | step_id = 's' | signals = '{go}' | children = '{one child}'
				| timeout = '1 s'$$)
	) f (function, list), regexp_split_to_table(list, '\|') WITH ORDINALITY s (item, n), regexp_split_to_array(item,
		'=') a;

SELECT results_eq('SELECT function, argument FROM arguments ORDER BY 1, position',
	$$SELECT proname::text COLLATE "default", a::text COLLATE "default" FROM pg_proc p,
		unnest(proargnames[:pronargs]) WITH ORDINALITY u (a, n) WHERE proname IN (SELECT function FROM arguments)
		ORDER BY 1, n$$,
	'the table of this test has every argument, and no function is overloaded');

ALTER TABLE arguments ADD null_allowed boolean;
UPDATE arguments SET null_allowed = (position > pronargs - pronargdefaults AND argument <> 'duration')
	OR argument = 'progress' FROM pg_proc WHERE proname = function;

CREATE FUNCTION pg_temp.call(f text, argument text, value text) RETURNS text LANGUAGE sql AS
$$
	SELECT format('SELECT %s(%s)', f, string_agg(format('%s => %s', a.argument, CASE a.argument
		WHEN call.argument THEN call.value ELSE a.value END), ', ' ORDER BY position))
	FROM arguments a WHERE function = f AND NOT (a.argument = 'run_at' AND call.argument = 'delay')
$$;
SELECT is(pg_temp.answer(pg_temp.call(function, '', '')) ~ '^(PQ|[0-9]{2}[0-9A-Z]{3}( |$))', false,
	'the call of this test is accepted: ' || pg_temp.call(function, '', '')) FROM (SELECT DISTINCT function
	FROM arguments) f;
SELECT is(pg_temp.answer(pg_temp.call(function, argument, 'NULL')) ~ '^(PQ|[0-9]{2}[0-9A-Z]{3}( |$))', false,
	'NULL is accepted by ' || function || ' for ' || argument) FROM arguments WHERE null_allowed;
SELECT pg_temp.contents() AS contents \gset
SELECT format('SELECT is(pg_temp.refusal(%L), ''22004'', %L)', pg_temp.call(function, argument, 'NULL'),
	'NULL refused: ' || function || ' ' || argument) FROM arguments WHERE NOT null_allowed \gexec

-- Values that are refused wherever an argument has that name.
CREATE TEMP TABLE bad (argument text, value text, state text, function text);
INSERT INTO bad (argument, value, state) VALUES
	('workflow', $$''$$, '22023'), ('workflow', $$' a'$$, '22023'), ('workflow', $$'a '$$, '22023'),
		('workflow', $$'a*'$$, '22023'), ('workflow', $$'*'$$, '22023'), ('workflow', $$'a.*'$$, '22023'),
		('workflow', $$'pgqrs.a'$$, '22023'),
	('workflow', $$E'a\nb'$$, '22023'), ('workflow', $$E'a\x7f'$$, '22023'), ('workflow', $$E'\t'$$, '22023'),
		('workflow', $$repeat('x', 256)$$, '22023'), ('workflow', $$repeat('ä', 128)$$, '22023'),
	('idempotency_key', $$''$$, '22023'), ('idempotency_key', $$repeat('x', 256)$$, '22023'),
		('idempotency_key', $$E'a\nb'$$, '22023'),
	('idempotency_keys', $$'{""}'$$, '22023'), ('idempotency_keys', $$'{a,b}'$$, '22023'),
		('idempotency_keys', $$'{}'$$, '22023'), ('idempotency_keys', $$ARRAY[repeat('x', 256)]$$, '22023'),
		('idempotency_keys', $$'{{a}}'$$, '22023'),
	('started_at', $$'infinity'$$, '22023'), ('inputs', $$'{{1}}'$$, '22023'),
		('inputs', $$array_fill('1'::jsonb, '{10001}')$$, '22023'), ('inputs', $$'{1,2}'$$, '22023'),
	('step_id', $$''$$, '22023'), ('step_id', $$repeat('x', 256)$$, '22023'), ('step_id', $$E'a\nb'$$, '22023'),
	('delay', $$'-1 us'$$, '22023'), ('delay', $$'1 month'$$, '22023'), ('delay', $$'1 year'$$, '22023'),
		('delay', $$'366001 days'$$, '22023'), ('delay', $$'1 month -29 days'$$, '22023'),
		('delay', $$'2000000000 days 2000000000 h'$$, '22023'),
	('run_at', $$'infinity'$$, '22023'),
	('priority', '-101', '22023'), ('priority', '101', '22023'), ('priority', '2147483647', '22023'),
		('priority', '-2147483648', '22023'),
	('timeout', $$'0'$$, '22023'), ('timeout', $$'-1 s'$$, '22023'), ('timeout', $$'1 month'$$, '22023'),
		('timeout', $$'366001 days'$$, '22023'),
	('retry_policy', $$'[]'$$, '22023'), ('retry_policy', $$'{"x": 1}'$$, '22023'),
	('on_duplicate', $$''$$, '22023'), ('on_duplicate', $$'Raise'$$, '22023'), ('on_duplicate', $$'ignore'$$,
		'22023'),
	('concurrency_key', $$'x'$$, '0A000'), ('handler', $$'public.f'$$, '0A000'), ('outbox_queue', $$''$$, '22023'),
		('outbox_queue', $$'nowhere'$$, 'PQ001'),
	('require_worker', 'true', 'PQ013'),
	('retry_after', $$'-1 s'$$, '22023'), ('retry_after', $$'1 month'$$, '22023'), ('retry_after', $$'366001 days'$$,
		'22023'),
	('max_attempts', '0', '22023'), ('max_attempts', '-2', '22023'), ('max_attempts', '-2147483648', '22023'),
	('initial_interval', $$'-1 s'$$, '22023'), ('initial_interval', $$'1 month'$$, '22023'),
		('initial_interval', $$'366001 days'$$, '22023'),
	('max_interval', $$'-1 s'$$, '22023'), ('max_interval', $$'1 month'$$, '22023'),
		('max_interval', $$'366001 days'$$, '22023'),
	('backoff_coefficient', '0', '22023'), ('backoff_coefficient', '-1', '22023'), ('backoff_coefficient', $$'NaN'$$,
		'22023'), ('backoff_coefficient', $$'Infinity'$$, '22023'), ('backoff_coefficient', $$'-Infinity'$$, '22023'),
	('jitter', '-0.01', '22023'), ('jitter', '1.01', '22023'), ('jitter', $$'NaN'$$, '22023'),
		('jitter', $$'Infinity'$$, '22023'),
	('non_retryable', $$'{""}'$$, '22023'), ('non_retryable', $$'{a,NULL}'$$, '22004'), ('non_retryable', $$'{{a}}'$$,
		'22023'),
	('visibility_timeout', $$'0'$$, '22023'), ('visibility_timeout', $$'-1 s'$$, '22023'), ('visibility_timeout',
		$$'1 month'$$, '22023'), ('visibility_timeout', $$'367 days'$$, '22023'),
	('max_crashes', '0', '22023'), ('max_crashes', '-1', '22023'),
	('key_scope', $$''$$, '22023'), ('key_scope', $$'ACTIVE'$$, '22023'),
	('reset', $$'{nothing}'$$, '22023'), ('reset', $$'{NULL}'$$, '22004'), ('reset', $$'{{timeout}}'$$, '22023'),
		('reset', $$'{jitter}'$$, '22023'),
	('run_id', '0', 'PQ003'), ('run_id', '-1', 'PQ003'), ('run_id', '9007199254740991', 'PQ003'),
		('run_id', '9223372036854775807', 'PQ003'), ('run_id', '-9223372036854775808', 'PQ003'),
	('input', 'to_jsonb(repeat(''x'', 3000000))', 'PQ008'), ('output', 'to_jsonb(repeat(''x'', 3000000))', 'PQ008'),
		('tags', 'to_jsonb(repeat(''x'', 3000000))', 'PQ008'), ('headers', 'to_jsonb(repeat(''x'', 3000000))',
		'PQ008'),
	('progress', 'to_jsonb(repeat(''x'', 3000000))', 'PQ008'), ('payload', 'to_jsonb(repeat(''x'', 3000000))',
		'PQ008'),
	('check_after', $$'-1 s'$$, '22023'), ('check_after', $$'1 month'$$, '22023'), ('check_after', $$'366001 days'$$,
		'22023'),
	('duration', $$'-1 s'$$, '22023'), ('duration', $$'1 month'$$, '22023'), ('duration', $$'366001 days'$$, '22023'),
		('until', $$'infinity'$$, '22023'), ('until', 'now()', '22023'),
	('from_step', $$''$$, '22023'), ('from_step', $$repeat('x', 256)$$, '22023'), ('from_step', $$'nothing'$$,
		'22023'), ('on_parent_end', $$''$$, '22023'), ('on_parent_end', $$'ABANDON'$$, '22023'),
		('mode', $$''$$, '22023'), ('mode', $$'All'$$, '22023'),
	('signal', $$''$$, '22023'), ('signal', $$repeat('x', 256)$$, '22023'), ('signal', $$E'a\nb'$$, '22023'),
	('signals', $$'{""}'$$, '22023'), ('signals', $$'{a,a}'$$, '22023'), ('signals', $$'{a,NULL}'$$, '22004'),
		('signals', $$'{{a}}'$$, '22023'), ('signals', $$ARRAY[repeat('x', 256)]$$, '22023'),
		('signals', $$array_fill('a'::text, '{10001}')$$, '22023'),
	('children', $$'{""}'$$, '22023'), ('children', $$'{a,a}'$$, '22023'), ('children', $$'{a,NULL}'$$, '22004'),
		('children', $$'{{a}}'$$, '22023'),
	('status', $$''$$, '22023'), ('status', $$'running'$$, '22023'), ('max_rows', '-1', '22023'),
	('on_cancel', $$''$$, '22023'), ('on_cancel', $$'END'$$, '22023'),
		('max_per_key', '1', '0A000'), ('ordered', 'true', '0A000'), ('fair', 'true', '0A000'),
		('rate_limit', '1', '0A000'),
	('rate_period', $$'2 s'$$, '0A000'), ('rate_period', $$'1 month'$$, '22023'), ('rate_per_key', 'true', '0A000'),
	('created_after', $$'infinity'$$, '22023'), ('created_before', $$'infinity'$$, '22023'),
		('error_type', $$repeat('x', 8193)$$, '22023');
INSERT INTO bad VALUES ('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_start_child'), ('workflow', $$'nothing'$$, 'PQ002',
	'pgqrs_start_children'), ('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_trigger'), ('workflow', $$'nothing'$$,
	'PQ002', 'pgqrs_trigger_batch'), ('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_find_run'),
	('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_alter_workflow'),
	('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_cancel_runs'),
	('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_replay_runs'), ('workflow', $$'nothing'$$, 'PQ002', 'pgqrs_rerun_runs'),
	('reason', 'to_jsonb(repeat(''x'', 3000000))', 'PQ008',
		'pgqrs_pause_run'),
	('reason', $$repeat('x', 8193)$$, '22023', 'pgqrs_cancel_run'), ('reason', $$repeat('x', 8193)$$, '22023',
		'pgqrs_cancel_runs'), ('reason', $$repeat('x', 8193)$$, '22023', 'pgqrs_delete_run'),
	('idempotency_key', $$'k'$$, '23505', 'pgqrs_trigger');

SELECT is_empty($$SELECT argument FROM arguments WHERE argument NOT IN (SELECT argument FROM bad)
	AND argument NOT IN ('force', 'retryable', 'fail_run', 'keep_finished', 'error', 'lease', 'after_run_id',
	'from_failed',
	'replace')$$, 'the table of bad values has each argument that can have one');
SELECT is_empty($$SELECT argument FROM bad WHERE argument NOT IN (SELECT argument FROM arguments)$$,
	'each bad value is for an argument that exists');
SELECT format('SELECT is(pg_temp.refusal(%L), %L, %L)', pg_temp.call(a.function, argument, bad.value), state,
	format('%s %s => %s', a.function, argument, left(bad.value, 40)))
	FROM bad JOIN arguments a USING (argument) WHERE a.function = coalesce(bad.function, a.function)
		AND (a.function, argument, bad.value) NOT IN (('pgqrs_await_signal', 'timeout', '''0'''),
			('pgqrs_await_any', 'timeout', '''0'''),
			-- takes what is there
			('pgqrs_start_child', 'require_worker', 'true')) -- looked for under the lock of the message
	ORDER BY a.function, position \gexec

-- A lease is looked at under the lock of the message, which is no write of ours.
SELECT is(pg_temp.answer(pg_temp.call(function, 'lease', lease)), 'PQ006', function || ' refuses the lease ' || lease)
	FROM arguments a, unnest('{0,-1,1,9007199254740991,9223372036854775807,-9223372036854775808}'::text[]) lease
		WHERE argument = 'lease';
SELECT is(pg_temp.contents(), :'contents', 'refused calls write nothing');

-- What is on the edge is accepted.
CREATE TEMP TABLE good (argument text, value text);
INSERT INTO good VALUES ('delay', $$'366000 days'$$), ('delay', $$'8784000 h'$$), ('run_at', $$'-infinity'$$),
	('run_at', $$'294276-12-31'$$), ('priority', '-100'), ('priority', '100'), ('timeout', $$'0.000001 s'$$),
	('idempotency_key', $$repeat('x', 255)$$), ('idempotency_key', $$' *'$$), ('step_id', $$repeat('x', 255)$$),
		('retry_after', $$'0'$$), ('retry_after', $$'366000 days'$$), ('max_attempts', '-1'), ('max_attempts', '1'),
		('max_attempts', '2147483647'),
	('initial_interval', $$'0'$$), ('initial_interval', $$'366000 days'$$), ('max_interval', $$'0'$$),
		('max_interval', $$'366000 days'$$), ('backoff_coefficient', '1e-300'), ('backoff_coefficient', '1e300'),
		('jitter', '1'), ('non_retryable', $$'{}'$$),
	('visibility_timeout', $$'0.000001 s'$$), ('visibility_timeout', $$'366 days'$$), ('max_crashes', '2147483647'),
		('key_scope', $$'retained'$$), ('reset', $$'{outbox_queue,handler}'$$), ('on_duplicate', $$'return'$$),
		('force', 'true');
SELECT is(pg_temp.answer(pg_temp.call(function, argument, g.value)) ~ '^(PQ|[0-9]{2}[0-9A-Z]{3}( |$))', false,
	format('the value is accepted: %s %s => %s', function, argument, g.value))
	FROM arguments a JOIN good g USING (argument)
	WHERE (function, argument) NOT IN (('pgqrs_await_child', 'step_id'), ('pgqrs_await_children', 'step_id'),
		('pgqrs_start_children', 'step_id')); -- of a step that is there, or leaves room for a number

SELECT * FROM finish();
