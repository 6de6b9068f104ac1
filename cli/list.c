/*
 * list.c: the sub-commands that print rows, as tables or as JSON.
 */
#include "pgqrs.h"

#include <unistd.h>

#include "fe_utils/print.h"

bool
want_json(const Option *options)
{
	const char *format = option_value(options, "format");

	if (format && strcmp(format, "json") != 0 && strcmp(format, "table") != 0)
		usage_error("--format is json or table, not \"%s\"", format);
	return format && strcmp(format, "json") == 0;
}

void
print_rows(const PGresult *result, const char *title, bool is_expanded, bool has_pager)
{
	printQueryOpt opt = {.topt = {.format = PRINT_ALIGNED,
								  .border = 1,
								  .expanded = is_expanded,
								  .pager = has_pager,
								  .start_table = true,
								  .stop_table = true,
								  .default_footer = !is_expanded,
								  .encoding = PQclientEncoding(get_connection())},
						 .nullPrint = "",
						 .title = unconstify(char *, title)};

	printQuery(result, &opt, stdout, false, NULL);
}

/* Rows as an array of objects, whose members are in the order of the columns. */
static void
print_json(const char *sql, int nparams, const char *const *values)
{
	char *wrapped = psprintf("SELECT coalesce(json_agg(t), '[]') FROM (%s) AS t",
							 sql);
	PGresult *result = call(wrapped, nparams, values);

	puts(PQgetvalue(result, 0, 0));
	PQclear(result);
	pg_free(wrapped);
}

static void
print_query(const char *sql, int nparams, const char *const *values, bool json)
{
	PGresult *result;

	if (json)
	{
		print_json(sql, nparams, values);
		return;
	}
	result = call(sql, nparams, values);
	print_rows(result, NULL, false, true);
	PQclear(result);
}

int
runs_main(int argc, char **argv)
{
	Option options[] = {{"status", 's', true}, {"tags", 0, true},
						{"before", 0, true},   {"limit", 'l', true},
						{"format", 'f', true}, {0}};
	int first = parse_options(argc, argv, options, 0, 1);
	const char *values[] = {argv[first], option_value(options, "status"),
							option_value(options, "tags"),
							option_value(options, "before"),
							option_value(options, "limit")};

	print_query("SELECT run_id, workflow, status, waiting_for, attempt, failures,"
				" worker, created_at, completed_at, error ->> 'type' AS error"
				" FROM pgqrs_list_runs($1, $2, $3, $4, $5)",
				5, values, want_json(options));
	return 0;
}

static const char *const steps_sql = "SELECT step_id, kind, status, attempt, failures, output, error, started_at,"
									 " completed_at FROM pgqrs_list_steps($1)";

int
run_main(int argc, char **argv)
{
	Option options[] = {{"format", 'f', true}, {0}};
	int first = parse_options(argc, argv, options, 1, 1);
	const char *run = argv[first];
	PGresult *result;

	if (want_json(options))
	{
		char *sql = psprintf("SELECT to_jsonb(r) || jsonb_build_object('steps', (SELECT"
							 " coalesce(jsonb_agg(s), '[]') FROM (%s) AS s)) FROM pgqrs_get_run($1) AS r",
							 steps_sql);

		result = call(sql, 1, &run);
		puts(PQgetvalue(result, 0, 0));
		PQclear(result);
		return 0;
	}
	result = call("SELECT * FROM pgqrs_get_run($1)", 1, &run);
	print_rows(result, NULL, true, false);
	PQclear(result);
	result = call(steps_sql, 1, &run);
	print_rows(result, "Steps", false, false);
	PQclear(result);
	return 0;
}

int
queues_main(int argc, char **argv)
{
	Option options[] = {{"format", 'f', true}, {0}};

	parse_options(argc, argv, options, 0, 0);
	print_query("SELECT queue, CASE WHEN is_workflow THEN 'workflow' ELSE 'queue' END AS kind,"
				" paused, ready, delayed, in_flight, dead, oldest_ready_age"
				" FROM pgqrs_queue_stats ORDER BY queue",
				0, NULL, want_json(options));
	return 0;
}

int
dead_main(int argc, char **argv)
{
	Option options[] = {{"limit", 'l', true}, {"format", 'f', true}, {0}};
	int first = parse_options(argc, argv, options, 0, 1);
	const char *values[] = {argv[first], option_value(options, "limit")};

	print_query("SELECT message_id, queue, run_id, archived_at, attempt, failures,"
				" last_error AS error, payload"
				" FROM pgqrs_dead_letters WHERE queue = $1 OR $1 IS NULL"
				" ORDER BY archived_at DESC LIMIT coalesce($2, 50)",
				2, values, want_json(options));
	return 0;
}
