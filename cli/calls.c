/*
 * calls.c: the sub-commands that call a function, or read a view, and print the
 * answer.
 */
#include "pgqrs.h"

#include "fe_utils/print.h"

static bool
want_json(void)
{
	const char *format = option_value("format");

	if (format && strcmp(format, "json") != 0 && strcmp(format, "table") != 0)
		usage_error("--format is json or table, not \"%s\"", format);
	return format && strcmp(format, "json") == 0;
}

/* Calls what the table of sub-commands says, or that with a frame around it. */
static PGresult *
call_with_arguments(char **arguments, const char *sql)
{
	const char *values[MAX_VALUES];
	int count = add_values(values, 0, arguments);

	return call(sql, count, values);
}

/* Prints the one value of an answer, if it has one. */
static void
print_value(PGresult *result)
{
	if (!PQgetisnull(result, 0, 0))
		puts(PQgetvalue(result, 0, 0));
	PQclear(result);
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

int
call_main(char **arguments)
{
	print_value(call_with_arguments(arguments, current_subcommand->sql));
	return 0;
}

/* Rows as a table, or as an array of objects with members in the order of columns. */
int
list_main(char **arguments)
{
	PGresult *result;

	if (want_json())
	{
		char *sql = psprintf("SELECT coalesce(json_agg(t), '[]') FROM (%s) AS t",
							 current_subcommand->sql);

		print_value(call_with_arguments(arguments, sql));
		return 0;
	}
	result = call_with_arguments(arguments, current_subcommand->sql);
	print_rows(result, NULL, false, true);
	return 0;
}

#define STEPS_SQL \
	"SELECT step_id, kind, status, attempt, failures, undo, output, error, started_at, completed_at FROM pgqrs_list_steps($1)"

int
run_main(char **arguments)
{
	const char *run = arguments[0];
	PGresult *result;

	if (want_json())
	{
		print_value(call("SELECT to_jsonb(r) || jsonb_build_object('steps', (SELECT coalesce(jsonb_agg(s), '[]') FROM (" STEPS_SQL
						 ") AS s)) FROM pgqrs_get_run($1) AS r",
						 1, &run));
		return 0;
	}
	result = call("SELECT * FROM pgqrs_get_run($1)", 1, &run);
	print_rows(result, NULL, true, false);
	result = call(STEPS_SQL, 1, &run);
	print_rows(result, "Steps", false, false);
	return 0;
}

/* Prints the output of a run, or says why there is none. */
int
result_main(char **arguments)
{
	const char *values[] = {arguments[0], option_value("timeout")};
	bool json = want_json();
	PGresult *result;
	const char *status;
	int code;

	if (option_value("wait") || values[1])
		PQclear(call("CALL pgqrs_wait($1, $2)", 2, values));
	result = call("SELECT r.status, r.output, r.error, json_build_object('run_id', $1::bigint, 'status', r.status,"
				  " 'output', r.output, 'error', r.error) FROM pgqrs_result($1) AS r",
				  1, values);
	status = PQgetvalue(result, 0, 0);
	code = strcmp(status, "SUCCESS") == 0 ? 0 :
		strcmp(status, "ERROR") == 0	  ? EXIT_RUN_ERROR :
		strcmp(status, "CANCELLED") == 0  ? EXIT_RUN_CANCELLED :
											EXIT_NOT_ENDED;
	if (json)
		puts(PQgetvalue(result, 0, 3));
	else if (code == 0)
		puts(PQgetvalue(result, 0, 1));
	else
		pg_log_error("run %s is %s%s%s", values[0], status,
					 PQgetisnull(result, 0, 2) ? "" : ": ",
					 PQgetvalue(result, 0, 2));
	return code;
}

int
replay_main(char **arguments)
{
	const char *values[] = {option_value("queue"), option_value("limit"),
							option_value("error-type")};

	if ((values[0] != NULL) == (arguments[0] != NULL))
		usage_error("ids or --queue are needed, and not both");
	if (values[0])
		print_value(call("SELECT pgqrs_replay_queue($1, $2, $3)", 3, values));
	for (; *arguments; arguments++)
	{
		values[0] = *arguments;
		PQclear(call("SELECT pgqrs_replay_message($1)", 1, values));
	}
	return 0;
}
