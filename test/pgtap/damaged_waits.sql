-- F44, F47: a wait answers true only where a dequeue with the same arguments
-- would claim something or try to, so that damaged rows make no worker spin.
-- F-numbers: docs/design/known-failures.md.
SET client_min_messages = error;
SELECT plan(6);

SELECT is(pgqrs_create_workflow('w') > 0, true, 'a workflow is created');
SELECT is(cardinality(pgqrs_trigger_batch('w', array_fill('1'::jsonb, ARRAY[70]))), 70,
	'more runs are triggered than shared memory has places for damaged rows');
CREATE TEMP TABLE lost AS SELECT * FROM pgqrs_workflow_runs;
DELETE FROM pgqrs_workflow_runs;

CALL pgqrs_wait_for_work('w', timeout => '50 ms') \gset before_
SELECT is(:'before_available'::text, 'f', 'before any claim, a wait does not report runs whose rows are missing');
SELECT is((SELECT count(*) FROM pgqrs_dequeue('w', batch_size => 100)), 0::bigint,
	'a claim skips messages of runs whose rows are missing');
CALL pgqrs_wait_for_work('w', timeout => '50 ms') \gset after_
SELECT is(:'after_available'::text, 'f',
	'after a claim, a wait does not report runs whose rows are missing, however many');

-- What has been mended is claimable at once, and a wait says so.
INSERT INTO pgqrs_workflow_runs SELECT * FROM lost;
CALL pgqrs_wait_for_work('w', timeout => '10 s') \gset mended_
SELECT is(ARRAY[:'mended_available'::text, (SELECT count(*)::text FROM pgqrs_dequeue('w', batch_size => 100))],
	'{t,70}', 'a wait reports runs whose rows were restored, and a claim returns them');

SELECT * FROM finish();
