-- Schedules.

CREATE FUNCTION pgqrs_next_firings(cron text, timezone text = 'UTC', n int = 5, after timestamptz = NULL)
RETURNS SETOF timestamptz LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT ROWS 5
AS 'MODULE_PATHNAME', 'sql_next_firings';
COMMENT ON FUNCTION pgqrs_next_firings(text, text, int, timestamptz) IS
'The next n (0 to 10000) instants after another (NULL: now) that a cron expression names in a time zone; fewer if the calendar ends. Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day of week (0-7 or sun-sat, 0 and 7 are Sunday), each a list (1,2) of *, values and ranges (1-5), these with steps (*/15, 8-18/2); or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. If neither day of month nor day of week begins with *, a day that matches one of them will do. A local time that the zone skips fires at the end of the gap, one that comes twice at its first occurrence; where the hour begins with *, every instant fires whose local time matches. Needs any privilege. Errors: PQ015 no such expression or zone, or it can never fire; 22004, 22023.';

CREATE FUNCTION pgqrs_schedule(name text, cron text, workflow text, input jsonb = NULL, timezone text = 'UTC',
	max_catchup int = 100, overlap text = 'allow', priority int = 0, timeout interval = NULL, tags jsonb = NULL,
	enabled boolean = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_schedule';
COMMENT ON FUNCTION pgqrs_schedule(text, text, text, jsonb, text, int, text, int, interval, jsonb, boolean) IS
'Makes a schedule, or changes all of the one that has this name, and returns its id: from now on, at each instant that cron names in the time zone (see pgqrs_next_firings()), a run of the workflow is triggered with input, priority, timeout and tags. What fires them is pgqrs_maintain() or the background worker, with what the role that calls this may do at that moment. enabled NULL: a new one is, another stays as it is. One run for each slot, which it has as schedule_slot. Slots that were missed by more than a minute are made up for, the newest max_catchup (0 to 10000) of them, oldest first; not those before a change of cron or timezone, or while it was disabled. overlap, where the run before has not ended: ''allow'' starts another, ''skip'' leaves the slot out, ''cancel'' cancels that one as pgqrs_cancel_run() does, and starts another. Needs trigger on the workflow and on the schedule''s own name, and to change a schedule of another role, admin on its workflow. Errors: PQ002 no such workflow, PQ008, PQ015 no such expression or zone, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_unschedule(name text)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_unschedule';
COMMENT ON FUNCTION pgqrs_unschedule(text) IS
'Deletes a schedule and the record of its slots; true if there was one. Its runs stay. Needs trigger on its workflow for one''s own, else admin. Waits while it is being fired. Errors: 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_enable_schedule(name text, enabled boolean)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_enable_schedule';
COMMENT ON FUNCTION pgqrs_enable_schedule(text, boolean) IS
'Lets a schedule fire, from its next slot on, or fire no more. As it is already: no effect. Needs trigger on its workflow for one''s own, else admin. Errors: 42704 no such schedule, PQ015 its time zone is not known any more, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_trigger_schedule(name text)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_trigger_schedule';
COMMENT ON FUNCTION pgqrs_trigger_schedule(text) IS
'Starts a run as the schedule would, now, whether or not it is enabled and whatever its overlap, and returns its id; its slots stay as they are. Needs trigger on its workflow for one''s own, else admin. Errors: 42704 no such schedule, PQ002 no such workflow, 22004, 22023, 42501.';
