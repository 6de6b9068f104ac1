-- Schedules.

CREATE FUNCTION pgqrs_next_firings(cron text, timezone text = 'UTC', n int = 5, after timestamptz = NULL)
RETURNS SETOF timestamptz LANGUAGE c VOLATILE PARALLEL SAFE CALLED ON NULL INPUT ROWS 5
AS 'MODULE_PATHNAME', 'pgqrs_next_firings';
COMMENT ON FUNCTION pgqrs_next_firings(text, text, int, timestamptz) IS
'The next n (1 to 10000) instants after another (NULL: now) that a cron expression names in a time zone; fewer if the calendar ends. Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day of week (0-7 or sun-sat, 0 and 7 are Sunday), each a list (1,2) of *, values and ranges (1-5), these with steps (*/15, 8-18/2); or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. If neither day of month nor day of week begins with *, a day that matches one of them will do. A local time that the zone skips fires at the end of the gap, one that comes twice at its first occurrence; where the hour begins with *, every instant fires whose local time matches. Needs any privilege. Errors: PQ015 no such expression or zone, or it can never fire; 22004, 22023.';

