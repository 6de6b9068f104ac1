-- What the clients of test/soak/chaos work on.
CREATE EXTENSION pgqrs;
CREATE SCHEMA chaos;

-- Written in the transaction that says that a step is done: step_id, or that a
-- run is ('(end)'), or that a message is ('(message)').
CREATE TABLE chaos.effects (
	run_id bigint NOT NULL,
	step_id text NOT NULL,
	nonce text NOT NULL
);

CREATE FUNCTION chaos.consume(payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF random() < 0.1 THEN
		RAISE EXCEPTION 'no';
	END IF;
	INSERT INTO chaos.effects VALUES (0, '(message)', payload ->> 'nonce');
END
$$;

-- The outbox of ended runs, which no worker serves.
SELECT pgqrs_create_queue('outbox');

-- All others.
CREATE VIEW chaos.messages AS
SELECT * FROM pgqrs_messages WHERE queue_id <> (SELECT queue_id FROM pgqrs_queues WHERE name = 'outbox');

-- Retained keys, keys of live runs, and few failures and crashes allowed.
SELECT pgqrs_create_workflow('chaos.retained', visibility_timeout => '1 s', max_attempts => 4,
		initial_interval => '50 ms', max_interval => '500 ms', max_crashes => 20, outbox_queue => 'outbox'),
	pgqrs_create_workflow('chaos.active', visibility_timeout => '1 s', max_attempts => 4,
		initial_interval => '50 ms', max_interval => '500 ms', max_crashes => 20, key_scope => 'active'),
	pgqrs_create_workflow('chaos.frail', visibility_timeout => '1 s', max_attempts => 2,
		initial_interval => '50 ms', max_interval => '500 ms', max_crashes => 2, timeout => '20 s', outbox_queue => 'outbox');

-- Runs that no client triggers.
SELECT pgqrs_schedule('schedule ' || i, '* * * * *', 'chaos.retained', '{"program": [["step", "s1"]]}')
FROM generate_series(1, 3) AS i;

-- Without workers' registrations; messages, some of which die.
SELECT pgqrs_create_queue('plain.held', visibility_timeout => '1 s', max_attempts => 3),
	pgqrs_create_queue('plain.consumed', visibility_timeout => '1 s', max_attempts => 3);
