-- What was done to the tables past the functions: what these would bypass is
-- refused, what is missing is reported.
SELECT * FROM no_plan();
SET client_min_messages = error;

SELECT pgqrs_create_queue('jobs'), pgqrs_create_workflow('flow'), pgqrs_enqueue('jobs', '1'),
	pgqrs_trigger('flow') AS run \gset
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;

-- The SQLSTATE and message of a query after an alteration, which is undone.
CREATE FUNCTION pg_temp.refusal(alteration text, query text) RETURNS text LANGUAGE plpgsql AS
$$
DECLARE
	hint text;
BEGIN
	EXECUTE alteration;
	EXECUTE query;
	RAISE 'accepted' USING ERRCODE = 'AAAAA';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || SQLERRM || CASE WHEN hint = '' AND SQLSTATE <> 'AAAAA' THEN ', without a hint' ELSE ''
		END;
END
$$;

CREATE TEMP TABLE alterations (alteration text, answer text);
INSERT INTO alterations VALUES
	('ANALYZE %s', 'AAAAA accepted'),
	('CREATE INDEX ON %s ((1))', 'AAAAA accepted'),
	('CREATE TRIGGER mine BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION nothing()',
		'55000 table "%s" has triggers'),
	('CREATE TRIGGER mine AFTER UPDATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION nothing()',
		'55000 table "%s" has triggers'),
	('CREATE RULE mine AS ON INSERT TO %s DO ALSO NOTIFY mine', '55000 table "%s" has rules'),
	('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', '55000 table "%s" has row-level security'),
	('CREATE TABLE child () INHERITS (%s)', '55000 table "%s" takes part in inheritance'),
	('ALTER TABLE %s ADD COLUMN mine int', 'AAAAA accepted'),
	('ALTER TABLE %s ADD CHECK (tableoid > 0) NOT VALID', '55000 table "%s" has check constraints'),
	('ALTER TABLE %s ADD COLUMN mine int GENERATED ALWAYS AS (1) STORED', '55000 table "%s" has generated columns'),
	('ALTER TABLE %s ADD COLUMN mine text DEFAULT ''x''', '55000 table "%s" has column defaults'),
	('ALTER TABLE %s ADD COLUMN mine int GENERATED ALWAYS AS IDENTITY', '55000 table "%s" has identity columns'),
	('ALTER TABLE %1$s ADD COLUMN ' || (SELECT string_agg('c' || n || ' int', ', ADD COLUMN ')
		FROM generate_series(1, 40) n), '55000 table "%s" has too many columns');
CREATE TEMP TABLE queries (query text, tables text[]);
INSERT INTO queries VALUES
	('SELECT pgqrs_enqueue(''jobs'', ''1'')', '{pgqrs_messages}'),
	('SELECT * FROM pgqrs_peek(''jobs'')', '{pgqrs_messages}'),
	('SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue(''jobs'')',
		'{pgqrs_messages,pgqrs_archive}'),
	('SELECT pgqrs_trigger(''flow'', ''1'')', '{pgqrs_messages,pgqrs_workflows,pgqrs_workflow_runs}'),
	('SELECT pgqrs_step_begin(run_id, lease, ''s'') FROM pgqrs_dequeue(''flow'')',
		'{pgqrs_messages,pgqrs_workflow_runs,pgqrs_workflow_steps}'),
	('SELECT pgqrs_create_queue(''new'')', '{pgqrs_queues}'),
	('SELECT pgqrs_register_worker(''me'', ''{*}'')', '{pgqrs_workers}'),
	('SELECT pgqrs_grant(''*'', ''public'', ''work'')', '{pgqrs_grants}');
SELECT is(pg_temp.refusal(format(alteration, name), query), format(answer, name), query || ' after '
	|| left(format(alteration, name), 70))
	FROM queries, unnest(tables) AS name, alterations;

-- The extension's own trigger of a table is known by its function, and that by its table.
SELECT is(pg_temp.refusal('CREATE TRIGGER pgqrs_workers_written BEFORE INSERT ON pgqrs_workers FOR EACH ROW EXECUTE '
	'FUNCTION nothing()',
	'SELECT pgqrs_register_worker(''me'', ''{*}'')'), '55000 table "pgqrs_workers" has triggers',
		'a trigger that has only the name of the extension''s trigger is refused');
CREATE TABLE other (n int);
SELECT is(pg_temp.refusal('CREATE TRIGGER written BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION '
	'pgqrs_messages_written()', 'INSERT INTO other VALUES (1)'),
	'39P01 pgqrs_messages_written() must be fired for pgqrs_messages',
		'the function of the extension''s trigger refuses to be fired for another table');

-- An index by its columns.
SELECT is(pg_temp.refusal('DROP INDEX pgqrs_messages_claim_idx; CREATE INDEX pgqrs_messages_claim_idx ON '
	'pgqrs_messages (' || columns || ')', 'SELECT pgqrs_dequeue(''jobs'')'),
	answer, 'a claim looks at the columns of its index, made anew on ' || columns)
	FROM (VALUES ('queue_id, visible_after',
		'55000 index "pgqrs_messages_claim_idx" has other columns than the one of extension pgqrs'),
		('queue_id, priority DESC, message_id, visible_after',
			'55000 index "pgqrs_messages_claim_idx" has other columns than the one of extension pgqrs'),
		('queue_id, priority DESC, visible_after, message_id', 'AAAAA accepted')) AS t (columns, answer);

-- Where a deferrable constraint is checked is past the functions.
CREATE TEMP TABLE constraints (query text, constrained text, columns text);
INSERT INTO constraints VALUES
	('SELECT pgqrs_enqueue(''jobs'', ''1'')', 'pgqrs_messages', 'message_id'),
	('SELECT pgqrs_enqueue_batch(''jobs'', ''{1,2}'')', 'pgqrs_messages', 'message_id'),
	('SELECT pgqrs_enqueue(''jobs'', ''1'', idempotency_key => ''k'')', 'pgqrs_messages', 'message_id'),
	('SELECT pgqrs_dequeue(''jobs'')', 'pgqrs_messages', 'message_id'),
	('SELECT pgqrs_register_worker(''me'', ''{*}'')', 'pgqrs_workers', 'worker_id');
SELECT is(pg_temp.refusal(format('ALTER TABLE %s ADD %s DEFERRABLE', constrained, format(kind, columns)), query),
		format('55000 table "%s" has deferrable constraints', constrained),
			format('%s refuses a table with %s that is deferrable', query, kind))
	FROM constraints, unnest(ARRAY['UNIQUE (%s)', 'EXCLUDE USING btree (%s WITH =)']) AS kind;
SELECT is(pg_temp.refusal(format('ALTER TABLE %s ADD %s', constrained, format(kind, columns)), query),
		'AAAAA accepted', format('%s accepts a table with %s that is not deferrable', query, kind))
	FROM constraints, unnest(ARRAY['UNIQUE (%s)', 'EXCLUDE USING btree (%s WITH =)']) AS kind;

-- A run whose message was deleted.
DELETE FROM pgqrs_messages WHERE run_id = :run;
SET statement_timeout = '180 s';
SELECT throws_ok(format(call, :run), 'XX001', format('run %s has no message', :run),
	'a run whose message was deleted is reported as damaged by ' || call)
	FROM unnest(ARRAY['SELECT pgqrs_complete_run(%s, 1)', 'SELECT pgqrs_step_begin(%s, 1, ''s'')',
		'SELECT pgqrs_set_progress(%s, 1, ''1'')']) AS call;
SELECT is(status, 'QUEUED', 'a run whose message was deleted can still be read') FROM pgqrs_get_run(:run);

SELECT * FROM finish();
