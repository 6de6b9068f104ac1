-- The readable surface: a change of it shows here.

\d+ pgqrs_runs
\d+ pgqrs_steps
\d+ pgqrs_run_parents
\d+ pgqrs_events
\d+ pgqrs_dead_letters
\d+ pgqrs_in_flight
\d+ pgqrs_queue_stats
\d+ pgqrs_workflow_stats
\d+ pgqrs_worker_stats
\d+ pgqrs_health
\d+ pgqrs_run

SELECT c.oid::regclass AS view, c.reloptions, obj_description(c.oid, 'pg_class')
	FROM pg_class AS c JOIN pg_depend AS d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass AND c.relkind = 'v'
	ORDER BY c.relname COLLATE "C";

-- no view shows a lease
SELECT attrelid::regclass, attname FROM pg_attribute
	WHERE attrelid IN (SELECT objid FROM pg_depend WHERE deptype = 'e')
		AND attrelid IN (SELECT oid FROM pg_class WHERE relkind IN ('v', 'c'))
		AND attname ~ 'lease' ORDER BY 1, 2;
