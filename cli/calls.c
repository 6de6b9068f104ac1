/*
 * calls.c: the sub-commands that are a call of a function, and print its answer.
 */
#include "pgqrs.h"

#include <unistd.h>

/* Prints the one value of the answer, if it has one. */
static void
print_value(PGresult *result)
{
	if (!PQgetisnull(result, 0, 0))
		puts(PQgetvalue(result, 0, 0));
	PQclear(result);
}

int
trigger_main(int argc, char **argv)
{
	Option options[] = {{"key", 'k', true},			  {"delay", 0, true},
						{"run-at", 0, true},		  {"priority", 0, true},
						{"timeout", 0, true},		  {"tags", 0, true},
						{"headers", 0, true},		  {"on-duplicate", 0, true},
						{"require-worker", 0, false}, {0}};
	int first = parse_options(argc, argv, options, 1, 2);
	const char *values[] = {argv[first],
							argv[first + 1] ? read_input(argv[first + 1]) : NULL,
							option_value(options, "key"),
							option_value(options, "delay"),
							option_value(options, "run-at"),
							option_value(options, "priority"),
							option_value(options, "timeout"),
							option_value(options, "tags"),
							option_value(options, "headers"),
							option_value(options, "on-duplicate"),
							option_value(options, "require-worker") ? "true" :
																	  "false"};

	print_value(call("SELECT pgqrs_trigger($1, $2, $3, delay => $4, run_at => $5, priority => $6,"
					 " timeout => $7, tags => $8, headers => $9, on_duplicate => $10,"
					 " require_worker => $11)",
					 lengthof(values), values));
	return 0;
}

int
enqueue_main(int argc, char **argv)
{
	Option options[] = {{"key", 'k', true},
						{"delay", 0, true},
						{"run-at", 0, true},
						{"priority", 0, true},
						{"headers", 0, true},
						{"on-duplicate", 0, true},
						{0}};
	int first = parse_options(argc, argv, options, 1, 2);
	const char *values[] = {argv[first],
							argv[first + 1] ? read_input(argv[first + 1]) : "null",
							option_value(options, "key"),
							option_value(options, "delay"),
							option_value(options, "run-at"),
							option_value(options, "priority"),
							option_value(options, "headers"),
							option_value(options, "on-duplicate")};

	print_value(
		call("SELECT pgqrs_enqueue($1, $2, idempotency_key => $3, delay => $4,"
			 " run_at => $5, priority => $6, headers => $7, on_duplicate => $8)",
			 lengthof(values), values));
	return 0;
}

/* Prints the output of a run, or says why there is none. */
static int
print_result(const PGresult *result, const char *run, bool json)
{
	const char *status = PQgetvalue(result, 0, 0);
	int code = strcmp(status, "SUCCESS") == 0 ? 0 :
		strcmp(status, "ERROR") == 0		  ? EXIT_RUN_ERROR :
		strcmp(status, "CANCELLED") == 0	  ? EXIT_RUN_CANCELLED :
												EXIT_NOT_ENDED;

	if (json)
		puts(PQgetvalue(result, 0, 3));
	else if (code == 0)
		puts(PQgetvalue(result, 0, 1));
	else if (PQgetisnull(result, 0, 2))
		pg_log_error("run %s is %s", run, status);
	else
		pg_log_error("run %s is %s: %s", run, status, PQgetvalue(result, 0, 2));
	return code;
}

int
result_main(int argc, char **argv)
{
	Option options[] = {{"wait", 'w', false},
						{"timeout", 't', true},
						{"format", 'f', true},
						{0}};
	int first = parse_options(argc, argv, options, 1, 1);
	const char *values[] = {argv[first], option_value(options, "timeout")};
	bool json = want_json(options);
	PGresult *result;

	if (option_value(options, "wait") || values[1])
	{
		PQclear(call("SELECT set_config('statement_timeout', '0', false)", 0, NULL));
		PQclear(call("CALL pgqrs_wait($1, $2)", 2, values));
	}
	result = call("SELECT r.status, r.output, r.error, json_build_object('run_id', $1::bigint,"
				  " 'status', r.status, 'output', r.output, 'error', r.error)"
				  " FROM pgqrs_result($1) AS r",
				  1, values);
	return print_result(result, argv[first], json);
}

int
signal_main(int argc, char **argv)
{
	Option options[] = {{"key", 'k', true}, {"headers", 0, true}, {0}};
	int first = parse_options(argc, argv, options, 2, 3);
	const char *values[] = {argv[first], argv[first + 1],
							argc - first > 2 ? read_input(argv[first + 2]) : NULL,
							option_value(options, "key"),
							option_value(options, "headers")};

	print_value(call("SELECT pgqrs_signal($1, $2, $3, $4, $5)", 5, values));
	return 0;
}

int
cancel_main(int argc, char **argv)
{
	Option options[] = {{0}};
	int first = parse_options(argc, argv, options, 1, 2);
	const char *values[] = {argv[first], argv[first + 1]};

	print_value(call("SELECT pgqrs_cancel_run($1, $2)", 2, values));
	return 0;
}

int
replay_main(int argc, char **argv)
{
	Option options[] = {{"queue", 'q', true},
						{"error-type", 0, true},
						{"limit", 0, true},
						{0}};
	int first = parse_options(argc, argv, options, 0, -1);
	const char *values[] = {option_value(options, "queue"),
							option_value(options, "limit"),
							option_value(options, "error-type")};

	if ((values[0] != NULL) == (first < argc))
		usage_error("ids or --queue are needed, and not both");
	if (values[0])
		print_value(call("SELECT pgqrs_replay_queue($1, $2, $3)", 3, values));
	for (; first < argc; first++)
	{
		const char *id = argv[first];

		PQclear(call("SELECT pgqrs_replay_message($1)", 1, &id));
	}
	return 0;
}

int
report_main(int argc, char **argv)
{
	Option options[] = {{0}};
	int first = parse_options(argc, argv, options, 0, 1);
	const char *run = argv[first];

	print_value(run ? call("SELECT pgqrs_report_run($1)", 1, &run) :
					  call("SELECT pgqrs_report()", 0, NULL));
	return 0;
}
