-- The same tables, indexes and storage settings without the extension.  There
-- are no foreign keys and no triggers, so plain SQL has less to do.
CREATE TABLE plain_messages (LIKE pgqrs_messages INCLUDING ALL);
CREATE TABLE plain_archive (LIKE pgqrs_archive INCLUDING ALL);
CREATE TABLE plain_runs (LIKE pgqrs_workflow_runs INCLUDING ALL);
CREATE SEQUENCE plain_message_id_seq;
DO $$
DECLARE
	twin text[];
	options text[];
BEGIN
	FOREACH twin SLICE 1 IN ARRAY '{{pgqrs_messages,plain_messages},
		{pgqrs_archive,plain_archive},{pgqrs_workflow_runs,plain_runs}}'::text[]
	LOOP
		SELECT reloptions INTO options FROM pg_class WHERE oid = twin[1]::regclass;
		IF options IS NOT NULL THEN
			EXECUTE format('ALTER TABLE %I SET (%s)', twin[2], array_to_string(options, ', '));
		END IF;
	END LOOP;
END
$$;

-- What a durable round trip of the null cycle writes.
CREATE TABLE null_rows (v integer);

-- Batches that are too large for a command line.
CREATE TABLE payloads AS
	SELECT array_agg(jsonb_build_object('n', n, 'to', 'somebody@example.com', 'subject', 'hello')) AS payloads
	FROM generate_series(1, 10000) AS n;
