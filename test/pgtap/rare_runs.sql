-- Lists of runs by a status or tags that few of many have: what they show, and
-- that it is found without a look at the others, in buffers.
SELECT * FROM no_plan();
SET client_min_messages = error;

SELECT count(pgqrs_create_workflow('rare.' || n)) FROM generate_series(1, 4) AS n \g /dev/null

-- 100,000 runs that succeeded, of four workflows, and among them a few that
-- did not.
CREATE TEMP VIEW runs AS
	SELECT n AS run_id, w.workflow_id, CASE
			WHEN n IN (10, 50010, 100010, 50014) THEN 'ERROR'
			WHEN n IN (22, 50022) THEN 'CANCELLED'
			WHEN n IN (30, 50030) THEN 'QUEUED'
			WHEN n IN (42, 43, 50042) THEN 'RUNNING'
			WHEN n IN (62, 63, 50062) THEN 'PAUSED'
			ELSE 'SUCCESS' END::pgqrs_run_status AS status
	FROM generate_series(1, 100010) AS n JOIN pgqrs_workflows AS w ON w.name = 'rare.' || 1 + n % 4;
INSERT INTO pgqrs_workflow_runs (run_id, workflow_id, created_at, started_at, completed_at, deleted_at, attempt,
	failures, status, priority, tags)
SELECT run_id, workflow_id, now(), now(), CASE WHEN status IN ('SUCCESS', 'ERROR', 'CANCELLED') THEN now() END, CASE
	WHEN run_id = 50014 THEN now() END,
	1, 0, status, 0, CASE
		WHEN run_id IN (10, 14, 50003, 50014, 100001) THEN '{"even": true, "rare": [1, 2]}'::jsonb
		WHEN run_id <= 60000 AND run_id % 10 = 0 THEN '{"even": true, "old": {"very": true}, "tenth": true}'
		WHEN run_id <= 60000 AND run_id % 2 = 0 THEN '{"even": true, "old": {"very": true}}'
		WHEN run_id % 2 = 0 THEN '{"even": true}' END
FROM runs ORDER BY run_id;
INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, run_id, attempt, failures,
	outcome, priority)
SELECT run_id, workflow_id, now(), now(), now(), run_id, 1, 0,
	CASE WHEN run_id = 50010 THEN 'DELETED' ELSE CASE status WHEN 'SUCCESS' THEN 'DONE' WHEN 'ERROR' THEN 'DEAD'
		ELSE 'CANCELLED' END END::pgqrs_outcome, 0
FROM runs WHERE status IN ('SUCCESS', 'ERROR', 'CANCELLED') ORDER BY run_id;
-- Of 43 and 63 the message does not say: they wait for their next claim.
INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, dequeued_at, lease, run_id, attempt,
	failures, priority, waiting_for)
SELECT run_id, workflow_id, now() + interval '1 hour', now(), CASE WHEN held THEN now() END, CASE WHEN held THEN 1
	END, run_id,
	(status <> 'QUEUED')::int, 0, 0, CASE WHEN status = 'PAUSED' AND run_id <> 63 THEN 'pause' END
FROM runs CROSS JOIN LATERAL (SELECT status = 'RUNNING' AND run_id <> 43 AS held) AS h
	WHERE status IN ('QUEUED', 'RUNNING', 'PAUSED');
SELECT setval('pgqrs_message_id_seq', 200000) \g /dev/null
VACUUM (ANALYZE) pgqrs_workflow_runs, pgqrs_archive, pgqrs_messages;

\ir include/buffers.sql

CREATE TEMP TABLE lists (arguments text, condition text);
INSERT INTO lists
	SELECT format('%L, %L', workflow, status), format('%s AND r.status = %L', in_workflow, status)
	FROM unnest('{QUEUED,RUNNING,PAUSED,ERROR,CANCELLED}'::text[]) AS status,
		(VALUES (NULL, 'true'), ('rare.*', 'true'), ('rare.3', 'w.name = ''rare.3''')) AS p (workflow, in_workflow);
INSERT INTO lists VALUES
	('NULL, ''ERROR'', page_size => 2', 'r.status = ''ERROR'''),
	('NULL, ''PAUSED'', page_size => 2', 'r.status = ''PAUSED'''),
	('NULL, ''ERROR'', before_run_id => 50010', 'r.status = ''ERROR'' AND r.run_id < 50010'),
	('NULL, ''CANCELLED'', before_run_id => 50022', 'r.status = ''CANCELLED'' AND r.run_id < 50022'),
	('NULL, ''RUNNING'', before_run_id => 43', 'r.status = ''RUNNING'' AND r.run_id < 43'),
	('NULL, ''PAUSED'', ''{"even": true}''', 'r.status = ''PAUSED'' AND r.run_id % 2 = 0'),
	('NULL, ''ERROR'', ''{"even": true}''', 'r.status = ''ERROR'' AND r.run_id % 2 = 0'),
	('tags => ''{"even": true}''', 'r.tags @> ''{"even": true}'''),
	('tags => ''{"rare": [2]}''', 'r.tags ? ''rare'''),
	('tags => ''{"rare": [2]}'', page_size => 2', 'r.tags ? ''rare'''),
	('''rare.3'', tags => ''{"rare": [2]}''', 'r.tags ? ''rare'' AND w.name = ''rare.3'''),
	('NULL, ''ERROR'', ''{"rare": [2]}''', 'r.tags ? ''rare'' AND r.status = ''ERROR'''),
	('''rare.*'', ''SUCCESS'', tags => ''{"rare": [1]}'', before_run_id => 100001',
		'r.tags ? ''rare'' AND r.status = ''SUCCESS'' AND r.run_id < 100001'),
	('tags => ''{"old": {"very": true}}''', 'r.tags ? ''old'''),
	('''rare.3'', tags => ''{"old": {"very": true}}'', before_run_id => 59999',
		'r.tags ? ''old'' AND r.run_id < 59999 AND w.name = ''rare.3''');

-- What a list has to show, by a look at all runs.
CREATE FUNCTION pg_temp.expected(arguments text, condition text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	ids text;
BEGIN
	EXECUTE format('SELECT string_agg(r.run_id::text, '','') FROM (
		SELECT r.run_id FROM pgqrs_workflow_runs AS r JOIN pgqrs_workflows AS w USING (workflow_id)
		WHERE r.deleted_at IS NULL AND %s ORDER BY r.run_id DESC LIMIT %s) AS r',
		condition, COALESCE(substring(arguments FROM 'page_size => (\d+)'), '50')) INTO ids;
	RETURN ids;
END
$$;
CREATE FUNCTION pg_temp.listed(arguments text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	ids text;
BEGIN
	EXECUTE format('SELECT string_agg(run_id::text, '','') FROM pgqrs_list_runs(%s)', arguments) INTO ids;
	RETURN ids;
END
$$;

SELECT is(pg_temp.listed(arguments), pg_temp.expected(arguments, condition), 'pgqrs_list_runs(' || arguments
	|| ') shows the runs that a look at all of them finds') FROM lists;
SELECT is(count(*), 0::bigint, 'every list of this test has a run') FROM lists
	WHERE pg_temp.listed(arguments) IS NULL;
SELECT cmp_ok(buffers('SELECT * FROM pgqrs_list_runs(NULL, ''SUCCESS'', page_size => 10000)'), '>', 2000,
	'buffers() counts the buffers of a list of 10,000 runs');
SELECT cmp_ok(buffers(format('SELECT * FROM pgqrs_list_runs(%s)', arguments)), '<', 700, 'pgqrs_list_runs('
	|| arguments || ') reads few buffers') FROM lists;

-- Neither a lack of memory for TIDs, nor how exact other searches are, nor the
-- isolation level changes what is listed.
CREATE TEMP TABLE by_tags AS SELECT arguments, pg_temp.expected(arguments, condition) FROM lists
	WHERE condition ~ 'tags'
	UNION ALL SELECT a, pg_temp.expected(a, c)
		FROM (VALUES ('tags => ''{"old": {"very": true}}'', page_size => 10000', 'r.tags ? ''old'''),
		('tags => ''{"tenth": true}'', page_size => 10000', 'r.tags ? ''tenth''')) AS l (a, c);
SET work_mem = '64kB';
SELECT is(pg_temp.listed(arguments), expected, 'with little memory for TIDs the list is the same: pgqrs_list_runs('
	|| arguments || ')') FROM by_tags;
RESET work_mem;
SET gin_fuzzy_search_limit = 5;
SELECT is(pg_temp.listed(arguments), expected, 'gin_fuzzy_search_limit does not change the list: pgqrs_list_runs('
	|| arguments || ')') FROM by_tags;
RESET gin_fuzzy_search_limit;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pg_temp.listed(arguments), expected, 'at SERIALIZABLE the list is the same: pgqrs_list_runs(' || arguments
	|| ')') FROM by_tags;
SELECT is(count(*), 0::bigint, 'lists at SERIALIZABLE leave no predicate lock on runs') FROM pg_locks
	WHERE mode = 'SIReadLock' AND relation::regclass::text ~ '^pgqrs_workflow_runs';
COMMIT;

-- The index is asked for tags unless very many have them.
CREATE FUNCTION pg_temp.asked(tags jsonb) RETURNS bigint LANGUAGE plpgsql AS
$$
DECLARE
	before bigint = pg_stat_get_xact_numscans('pgqrs_workflow_runs_tags_idx'::regclass);
BEGIN
	PERFORM pgqrs_list_runs(tags => tags);
	RETURN pg_stat_get_xact_numscans('pgqrs_workflow_runs_tags_idx'::regclass) - before;
END
$$;
SELECT is(pg_temp.asked('{"rare": [1]}'), 1::bigint, 'a list by rare tags asks the index');
SELECT is(pg_temp.asked('{"old": {}}'), 1::bigint, 'a list by tags that the newest runs lack asks the index');
SELECT is(pg_temp.asked('{"even": true}'), 0::bigint,
	'a list by tags that the newest runs have does not ask the index');
BEGIN;
UPDATE pg_class SET reltuples = 20 * reltuples WHERE relname = 'pgqrs_workflow_runs';
SELECT is(pg_temp.asked('{"rare": [1]}'), 1::bigint, 'of very many runs, a list by rare tags asks the index');
SELECT is(pg_temp.asked('{"old": {}}'), 0::bigint,
	'of very many runs, a list by tags that very many have does not ask the index');
SELECT is(pg_temp.listed('tags => ''{"old": {}}'''), (SELECT expected FROM by_tags
	WHERE arguments = 'tags => ''{"old": {"very": true}}'''),
	'a list that does not ask the index shows the same runs');
ROLLBACK;

-- An index that was left behind half made is not asked.
BEGIN;
DROP INDEX pgqrs_workflow_runs_tags_idx;
CREATE INDEX pgqrs_workflow_runs_tags_idx ON pgqrs_workflow_runs USING gin (tags jsonb_path_ops) WHERE run_id < 0;
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pgqrs_workflow_runs_tags_idx'::regclass;
SELECT is(pg_temp.listed(arguments), expected, 'an invalid index is not asked: pgqrs_list_runs(' || arguments || ')')
	FROM by_tags;
ROLLBACK;

-- The view walks from the newest on, whatever the planner thinks of a condition.
SELECT is(string_agg(run_id::text, ','), '100010,100006,100002', 'the view shows the newest runs of a workflow first')
	FROM (SELECT run_id FROM pgqrs_runs WHERE workflow = 'rare.3' ORDER BY run_id DESC LIMIT 3) AS r;
SELECT cmp_ok(buffers(format('SELECT * FROM pgqrs_runs WHERE %s ORDER BY run_id DESC LIMIT 20', condition)), '<', 500,
	'the view reads few buffers for ' || condition)
	FROM unnest('{true,workflow = ''rare.3'',workflow LIKE ''rare%'',status = ''SUCCESS'',run_id = 50010}'::text[]) AS
		condition;

-- So does the report, of workflows of which nothing was heard for long.
SELECT count(pgqrs_create_workflow('rare.old.' || n)) FROM generate_series(1, 5) AS n \g /dev/null
UPDATE pgqrs_workflow_runs SET workflow_id = w.workflow_id FROM pgqrs_workflows AS w WHERE w.name = 'rare.old.'
	|| run_id AND run_id <= 5;
UPDATE pgqrs_archive SET queue_id = w.workflow_id FROM pgqrs_workflows AS w WHERE w.name = 'rare.old.' || message_id
	AND message_id <= 5;
ANALYZE pgqrs_workflow_runs;
SELECT cmp_ok(buffers('SELECT pgqrs_report()'), '<', 7000,
	'pgqrs_report() reads few buffers, also for workflows without recent runs');

-- A run that is replayed is QUEUED again.
SELECT pgqrs_replay_message(100010) \g /dev/null
SELECT is(pg_temp.listed('NULL, ''ERROR'''), '50010,10', 'a replayed run is not listed as ERROR');
SELECT is(pg_temp.listed('NULL, ''QUEUED'''), '100010,50030,30', 'a replayed run is listed as QUEUED');

SELECT * FROM finish();
