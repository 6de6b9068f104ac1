-- The time of a query in milliseconds, the fastest of three, by the processor's time,
-- which what else runs on the machine does not change; by the clock, where the system
-- has no /proc.
CREATE FUNCTION pg_temp.now() RETURNS numeric LANGUAGE sql AS
$$
	SELECT coalesce(split_part(pg_read_file('/proc/self/schedstat', 0, 1000, true), ' ', 1)::numeric / 1000000,
		1000 * extract(epoch FROM clock_timestamp()))
$$;
CREATE FUNCTION pg_temp.milliseconds(query text) RETURNS numeric LANGUAGE plpgsql AS
$$
DECLARE
	fastest numeric;
	began numeric;
BEGIN
	FOR i IN 1..3 LOOP
		began := pg_temp.now();
		EXECUTE query;
		fastest := least(fastest, pg_temp.now() - began);
	END LOOP;
	RETURN fastest;
END
$$;
