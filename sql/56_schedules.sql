-- Schedules.

CREATE FUNCTION pgqrs_next_firings(cron text, timezone text = 'UTC', n int = 5, after timestamptz = NULL)
RETURNS SETOF timestamptz LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT ROWS 5
AS 'MODULE_PATHNAME', 'sql_next_firings';
COMMENT ON FUNCTION pgqrs_next_firings(text, text, int, timestamptz) IS
'The next n (0 to 10000) instants after another (NULL: now) that a cron expression names in a time zone; fewer if the calendar ends. Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day of week (0-7 or sun-sat, 0 and 7 are Sunday), each a list (1,2) of *, values and ranges (1-5), these with steps (*/15, 8-18/2); or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. If neither day of month nor day of week begins with *, a day must match one of them, else both. A local time that the zone skips fires at the end of the gap, one that the zone repeats at its first occurrence; if the hour begins with *, every instant fires whose local time matches. Needs monitor. Errors: PQ015 no such expression or zone, or it can never fire; 22004, 22023.';

CREATE FUNCTION pgqrs_schedule(name text, cron text, workflow text, input jsonb = NULL, timezone text = 'UTC',
	max_catchup int = 100, overlap text = 'allow', priority int = 0, timeout interval = NULL, tags jsonb = NULL,
	enabled boolean = NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_schedule';
COMMENT ON FUNCTION pgqrs_schedule(text, text, text, jsonb, text, int, text, int, interval, jsonb, boolean) IS
'Creates a schedule, or replaces all settings of the one of this name, and returns its id. From now on a run of the workflow is triggered, with input, priority, timeout and tags, at each instant (slot) that cron names in the time zone (see pgqrs_next_firings()). The background worker or pgqrs_maintain() triggers it, with the privileges that the role that calls this has at that moment. enabled NULL: a new schedule is enabled, an existing one stays as it is. Each slot has one run, which has it as schedule_slot. Of the slots missed by more than a minute, the newest max_catchup (0 to 10000) are served, oldest first; none of before a change of cron or timezone, or of a time when the schedule was disabled. overlap, if the previous run has not ended: ''allow'' starts another, ''skip'' skips the slot, ''cancel'' cancels the previous run as pgqrs_cancel_run() does, and starts another. Needs trigger on the workflow and on the schedule''s own name, and to change a schedule of another role, admin on its workflow. Errors: PQ002 no such workflow, PQ008, PQ015 no such expression or zone, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_unschedule(name text)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_unschedule';
COMMENT ON FUNCTION pgqrs_unschedule(text) IS
'Deletes a schedule and its firings; true if it existed. Its runs stay. Needs trigger on the workflow for a schedule of one''s own, else admin. Waits while the schedule fires. Errors: 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_enable_schedule(name text, enabled boolean)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_enable_schedule';
COMMENT ON FUNCTION pgqrs_enable_schedule(text, boolean) IS
'Enables a schedule, from its next slot on, or disables it. No effect if it is so already. Needs trigger on the workflow for a schedule of one''s own, else admin. Errors: 42704 no such schedule, PQ015 its time zone is no longer known, 22004, 22023, 42501.';

CREATE FUNCTION pgqrs_trigger_schedule(name text)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'sql_trigger_schedule';
COMMENT ON FUNCTION pgqrs_trigger_schedule(text) IS
'Triggers a run of the schedule now, regardless of enabled and overlap, and returns the run''s id; the slots are not affected. Needs trigger on the workflow for a schedule of one''s own, else admin. Errors: 42704 no such schedule, PQ002 no such workflow, 22004, 22023, 42501.';
