-- Removes all that is left, call after call.
CREATE TABLE calls (lasted interval NOT NULL);
DO $$
DECLARE
	removed jsonb;
	began timestamptz;
BEGIN
	LOOP
		began := clock_timestamp();
		removed := pgqrs_apply_retention();
		COMMIT;
		INSERT INTO calls VALUES (clock_timestamp() - began);
		EXIT WHEN removed->'more' = 'false';
	END LOOP;
END
$$;
SELECT format('%s calls of pgqrs_apply_retention() remove the rest in %s s, the longest takes %s ms', count(*),
	round(extract(epoch FROM sum(lasted)), 1), round(1000 * extract(epoch FROM max(lasted)))) FROM calls;
