-- Keys in the transactions of one isolation level.

SELECT pg_temp.send(:'level' || ' before') AS before \gset
BEGIN ISOLATION LEVEL :level;
SELECT is(pg_temp.send(:'level' || ' before'), :before::bigint,
	:'level' || ': a key committed before the transaction is taken');
SELECT pg_temp.send(:'level', '"first"') AS first \gset
SELECT is(pg_temp.send(:'level', '"second"'), :first::bigint,
	:'level' || ': a transaction sees the key that it has taken');
SAVEPOINT s;
SELECT is(pg_temp.send(:'level', '"third"'), :first::bigint,
	:'level' || ': a savepoint sees the key that its transaction has taken');
SELECT pg_temp.send(:'level' || ' inner', '"inner"') AS inner \gset
ROLLBACK TO s;
SELECT is(pg_temp.count(:'level' || ' inner'), 0::bigint,
	:'level' || ': rolling back to a savepoint removes the message');
SELECT pg_temp.send(:'level' || ' inner', '"again"') AS again \gset
SELECT isnt(:again::bigint, :inner::bigint, :'level' || ': rolling back to a savepoint frees the key');
SELECT is(pg_temp.send(:'level' || ' inner'), :again::bigint,
	:'level' || ': the next message with the freed key keeps it');
SAVEPOINT s;
SELECT pg_temp.send(:'level' || ' released') AS released \gset
RELEASE s;
SELECT is(pg_temp.send(:'level' || ' released'), :released::bigint,
	:'level' || ': a released savepoint keeps its key');
-- An end that is taken back takes the key back, too.
SAVEPOINT s;
SELECT pgqrs_archive_message(:first, pg_temp.claim(:first));
SELECT isnt(pg_temp.send(:'level', '"next"'), :first::bigint,
	:'level' || ': a key is free when its message was archived in the same transaction');
ROLLBACK TO s;
SELECT is(pg_temp.send(:'level'), :first::bigint,
	:'level' || ': a key is taken again when the archiving is rolled back');
COMMIT;
SELECT is(array_agg(payload ORDER BY message_id), ARRAY['"first"', '"again"']::jsonb[],
	:'level' || ': each key has one message')
	FROM pgqrs_messages WHERE idempotency_key IN (:'level', :'level' || ' inner');
SELECT is(pg_temp.send(:'level'), :first::bigint, :'level' || ': later transactions find the key taken');

BEGIN ISOLATION LEVEL :level;
SELECT pg_temp.send(:'level' || ' undone') AS undone \gset
ROLLBACK;
BEGIN ISOLATION LEVEL :level;
SELECT isnt(pg_temp.send(:'level' || ' undone'), :undone::bigint, :'level' || ': a rollback frees the key');
COMMIT;
SELECT is(pg_temp.count(:'level' || ' undone'), 1::bigint, :'level' || ': a freed key goes to exactly one message');
