-- Writes down how long each batch of retention by the background worker lasts,
-- as seen every 5 ms, until the session is ended.
\set QUIET on
SET synchronous_commit = off;
CREATE TABLE IF NOT EXISTS batches (begun timestamptz PRIMARY KEY, lasted interval NOT NULL);
DO $$
BEGIN
	LOOP
		INSERT INTO batches SELECT xact_start, clock_timestamp() - xact_start FROM pg_stat_activity
			WHERE backend_type = 'pgqrs worker' AND state = 'active' AND query = 'removing rows after their retention' AND xact_start IS NOT NULL
			ON CONFLICT (begun) DO UPDATE SET lasted = excluded.lasted;
		COMMIT;
		PERFORM pg_sleep(0.005);
		COMMIT;
	END LOOP;
END
$$;
