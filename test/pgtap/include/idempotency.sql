-- Keys in the transactions of one isolation level.

SELECT pg_temp.send(:'level' || ' before') AS before \gset
BEGIN ISOLATION LEVEL :level;
SELECT is(pg_temp.send(:'level' || ' before'), :before::bigint, :'level' || ': a committed one is found');
SELECT pg_temp.send(:'level', '"first"') AS first \gset
SELECT is(pg_temp.send(:'level', '"second"'), :first::bigint, :'level' || ': one of its own');
SAVEPOINT s;
SELECT is(pg_temp.send(:'level', '"third"'), :first::bigint, :'level' || ': also in a savepoint');
SELECT pg_temp.send(:'level' || ' inner', '"inner"') AS inner \gset
ROLLBACK TO s;
SELECT is(pg_temp.count(:'level' || ' inner'), 0::bigint, :'level' || ': the savepoint takes it back');
SELECT pg_temp.send(:'level' || ' inner', '"again"') AS again \gset
SELECT isnt(:again::bigint, :inner::bigint, :'level' || ': and the key is free');
SELECT is(pg_temp.send(:'level' || ' inner'), :again::bigint, :'level' || ': for another that keeps it');
SAVEPOINT s;
SELECT pg_temp.send(:'level' || ' released') AS released \gset
RELEASE s;
SELECT is(pg_temp.send(:'level' || ' released'), :released::bigint, :'level' || ': a released savepoint keeps it');
-- An end that is taken back takes the key back, too.
SAVEPOINT s;
SELECT pgqrs_archive_message(:first, pg_temp.claim(:first));
SELECT isnt(pg_temp.send(:'level', '"next"'), :first::bigint, :'level' || ': archived in the same transaction');
ROLLBACK TO s;
SELECT is(pg_temp.send(:'level'), :first::bigint, :'level' || ': and not archived after all');
COMMIT;
SELECT is(array_agg(payload ORDER BY message_id), ARRAY['"first"', '"again"']::jsonb[], :'level' || ': one message for each key')
	FROM pgqrs_messages WHERE idempotency_key IN (:'level', :'level' || ' inner');
SELECT is(pg_temp.send(:'level'), :first::bigint, :'level' || ': found by later transactions');

BEGIN ISOLATION LEVEL :level;
SELECT pg_temp.send(:'level' || ' undone') AS undone \gset
ROLLBACK;
BEGIN ISOLATION LEVEL :level;
SELECT isnt(pg_temp.send(:'level' || ' undone'), :undone::bigint, :'level' || ': a rollback frees the key');
COMMIT;
SELECT is(pg_temp.count(:'level' || ' undone'), 1::bigint, :'level' || ': for exactly one');
