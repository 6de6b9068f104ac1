-- F44, F47: a wait answers true only where a dequeue with the same arguments
-- would claim something or try to, so that damaged rows make no worker spin.
-- F-numbers: docs/design/known-failures.md.
SET client_min_messages = error;
SELECT plan(6);

SELECT is(pgqrs_create_workflow('w') > 0, true, 'a workflow');
SELECT is(cardinality(pgqrs_trigger_batch('w', array_fill('1'::jsonb, ARRAY[70]))), 70, 'more runs than there are places for damaged ones');
CREATE TEMP TABLE lost AS SELECT * FROM pgqrs_workflow_runs;
DELETE FROM pgqrs_workflow_runs;

CALL pgqrs_wait_for_work('w', timeout => '50 ms') \gset before_
SELECT is(:'before_available'::text, 'f', 'a wait that comes before any claim does not tell of runs that no claim can have');
SELECT is((SELECT count(*) FROM pgqrs_dequeue('w', batch_size => 100)), 0::bigint, 'a claim finds none');
CALL pgqrs_wait_for_work('w', timeout => '50 ms') \gset after_
SELECT is(:'after_available'::text, 'f', 'nor does a wait after it, however many there are');

-- What has been mended is claimable at once, and a wait says so.
INSERT INTO pgqrs_workflow_runs SELECT * FROM lost;
CALL pgqrs_wait_for_work('w', timeout => '10 s') \gset mended_
SELECT is(ARRAY[:'mended_available'::text, (SELECT count(*)::text FROM pgqrs_dequeue('w', batch_size => 100))], '{t,70}', 'a wait tells of runs that were mended');

SELECT * FROM finish();
