-- A claim that ends messages may be rolled back: they are claimable again then, also by
-- claims that start past what others have seen, and in queues that were known to be empty.
SELECT plan(7);
SELECT pgqrs_create_queue('ends', max_attempts => 2) AS q,
	pgqrs_create_queue('ends.more', max_attempts => 2) AS more \gset

-- Claims by a pattern, undone in one way or the other.  Each second scan of a queue may
-- raise its floor, so there are several.
CREATE PROCEDURE pg_temp.claim_in_vain(pattern text) LANGUAGE plpgsql AS
$$
BEGIN
	FOR i IN 1..4 LOOP
		PERFORM pgqrs_dequeue(pattern, batch_size => 5);
		ROLLBACK;
		BEGIN
			PERFORM pgqrs_dequeue(pattern, batch_size => 5);
			RAISE EXCEPTION USING ERRCODE = 'UNDO0';
		EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
		END;
		COMMIT;
	END LOOP;
END
$$;

CREATE FUNCTION pg_temp.below_floors() RETURNS text LANGUAGE sql AS
$$ SELECT detail FROM pgqrs_verify() WHERE check_name = 'messages below floors' AND NOT ok $$;

CREATE FUNCTION pg_temp.send(queue text) RETURNS bigint LANGUAGE sql AS
$$ SELECT count(pgqrs_enqueue(queue, '1', priority => g % 2 * 5)) FROM generate_series(1, 40) AS g $$;

-- One failure each; the next claim ends them all.
SELECT pg_temp.send('ends') + pg_temp.send('ends.more') AS sent \gset
SELECT count(pgqrs_nack_message(message_id, lease, delay => '0')) AS failed
	FROM pgqrs_dequeue('*', batch_size => :sent) \gset
SELECT pgqrs_alter_queue('ends', max_attempts => 1), pgqrs_alter_queue('ends.more', max_attempts => 1) \gset
CALL pg_temp.claim_in_vain('*');
SELECT is(count(*), :sent::bigint, 'an end that is undone leaves the message') FROM pgqrs_messages;
SELECT is(pg_temp.below_floors(), NULL, 'claims still see messages whose end was undone');
SELECT is_empty('SELECT * FROM pgqrs_dequeue(''ends.*'')', 'a claim by a pattern delivers no exhausted message');
SELECT is_empty('SELECT message_id FROM pgqrs_messages JOIN pgqrs_queues USING (queue_id) WHERE name = ''ends.more''',
	'a claim by a pattern finds and ends the messages whose end was undone');
SELECT is_empty('SELECT * FROM pgqrs_dequeue(''ends'')', 'a claim by a name delivers no exhausted message');
SELECT is(count(*), :sent::bigint, 'a claim by a name finds and ends them, too') FROM pgqrs_dead_letters;

-- The same with runs: their deadline has passed.
SELECT pgqrs_create_workflow('run') AS run \gset
SET client_min_messages = error;
SELECT count(pgqrs_trigger('run', timeout => '1 hour')) AS runs FROM generate_series(1, 20) \gset
UPDATE pgqrs_messages SET deadline_at = now() - interval '1 s';
CALL pg_temp.claim_in_vain('*');
SELECT pgqrs_dequeue('*') \g /dev/null
SELECT is(count(*), 0::bigint, 'a claim finds and ends runs past their deadline whose end was undone')
	FROM pgqrs_messages;
SELECT * FROM finish();
