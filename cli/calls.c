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

/* Prints a value of the first row, if it has one. */
void
print_value(const PGresult *result, int column)
{
	if (!PQgetisnull(result, 0, column))
		puts(PQgetvalue(result, 0, column));
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
								  .encoding = pg_char_to_encoding("UTF8")},
						 .nullPrint = "",
						 .title = unconstify(char *, title)};

	printQuery(result, &opt, stdout, false, NULL);
}

int
call_main(char **arguments)
{
	const char *values[MAX_VALUES];
	int count = add_values(values, 0, arguments);

	print_value(call(current_subcommand->sql, count, values), 0);
	return 0;
}

/* Rows as a table, or as an array of objects with members in the order of columns. */
int
list_main(char **arguments)
{
	const char *values[MAX_VALUES];
	int count = add_values(values, 0, arguments);
	const char *sql = current_subcommand->sql;

	if (want_json())
		print_value(call(psprintf("SELECT coalesce(json_agg(t), '[]') FROM (%s) AS t",
								  sql),
						 count, values),
					0);
	else
		print_rows(call(sql, count, values), NULL, false, true);
	return 0;
}

#define STEPS_SQL \
	"SELECT step_id, kind, status, attempt, failures, undo, output, error, started_at, completed_at FROM pgqrs_list_steps($1)"

int
run_main(char **arguments)
{
	const char *run = arguments[0];

	if (want_json())
		print_value(call("SELECT to_jsonb(r) || jsonb_build_object('steps', (SELECT coalesce(jsonb_agg(s), '[]') FROM (" STEPS_SQL
						 ") AS s)) FROM pgqrs_get_run($1) AS r",
						 1, &run),
					0);
	else
	{
		print_rows(call("SELECT * FROM pgqrs_get_run($1)", 1, &run), NULL, true,
				   false);
		print_rows(call(STEPS_SQL, 1, &run), "Steps", false, false);
	}
	return 0;
}

/* Prints the output of a run, or says why there is none. */
int
result_main(char **arguments)
{
	const char *values[] = {arguments[0], option_value("timeout")};
	bool json = want_json();
	PGresult *result;
	int code;

	if (option_value("wait") || values[1])
		PQclear(call("CALL pgqrs_wait($1, $2)", 2, values));
	result = call("SELECT output, status, error, json_build_object('run_id', $1::bigint, 'status', status,"
				  " 'output', output, 'error', error), " EXIT_CODE_SQL
				  " FROM pgqrs_result($1)",
				  1, values);
	code = atoi(PQgetvalue(result, 0, 4));
	if (json || code == 0)
		print_value(result, json ? 3 : 0);
	else
		pg_log_error("run %s is %s%s%s", values[0], PQgetvalue(result, 0, 1),
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
		print_value(call("SELECT pgqrs_replay_queue($1, $2, $3)", 3, values), 0);
	for (; *arguments; arguments++)
	{
		values[0] = *arguments;
		PQclear(call("SELECT pgqrs_replay_message($1)", 1, values));
	}
	return 0;
}
