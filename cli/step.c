/*
 * step.c: the sub-commands for commands of pgqrs work: step, sleep, wait-signal
 * and so on.
 *
 * They act under the lease in the environment, which the worker extends.  What
 * they tell the worker through the pipe in PGQRS_NOTICE_FD is that a lease which
 * is gone was given up, so that it need not tell the command to end.
 */
#include "pgqrs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *run_id;
static const char *lease;

static void
notify_worker(int what)
{
	const char *number = getenv(ENV_NOTICE_FD);
	int fd = number ? atoi(number) : -1;
	Notice notice = {strtoll(run_id, NULL, 10), strtoll(lease, NULL, 10), what};
	struct stat st;

	/* a script may have put something else there */
	if (fd > 2 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
		write(fd, &notice, sizeof(notice)) < 0)
		pg_log_debug("could not tell the worker: %m");
}

void
take_lease(void)
{
	run_id = getenv(ENV_RUN);
	lease = getenv(ENV_LEASE);
	signal(SIGPIPE, SIG_IGN);
	if (lease && run_id == NULL)
		usage_error("a message of a queue has no steps; those of a run have");
	if (lease == NULL || run_id == NULL)
		usage_error("%s is for commands of \"pgqrs work\": %s and %s are not set",
					current_subcommand->name, ENV_RUN, ENV_LEASE);
}

/*
 * The exit of a command that has to leave: its run is another worker's, sleeps,
 * waits, has ended or is to be cancelled.
 */
pg_noreturn static void
leave(int code)
{
	notify_worker(code == EXIT_CANCELLED ? NOTICE_CANCELLED : NOTICE_GIVEN_UP);
	exit(code);
}

/* Calls a function under the lease; errors that concern it end the program. */
static PGresult *
call_under_lease(const char *before, const char *sql, int nparams,
				 const char *const *values)
{
	PGresult *result = call_repeated(before, sql, nparams, values);

	if (is_error_before)
		return result;
	if (has_sqlstate(result, "PQ010"))
		leave(EXIT_CANCELLED);
	if (has_sqlstate(result, LEASE_LOST))
	{
		pg_log_debug("%s", PQresultErrorMessage(result));
		exit(EXIT_LEAVE);
	}
	return result;
}

static bool
is_true(const PGresult *result, int column)
{
	return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

/* The same, if it may give the lease up; the first column says whether it did not. */
static PGresult *
call_giving_up(const char *sql, int nparams, const char *const *values)
{
	PGresult *result;

	notify_worker(NOTICE_GIVING_UP);
	result = call_under_lease(NULL, sql, nparams, values);
	if (has_succeeded(result) && !is_true(result, 0))
		leave(EXIT_LEAVE);
	notify_worker(NOTICE_HELD);
	return result;
}

/* An expression for what is printed of JSON: of null nothing. */
static const char *
printed(const char *json)
{
	return psprintf(option_value("text") ? "%s #>> '{}'" : "nullif(%s::text, 'null')",
					json);
}

#define FAIL_SQL                                                                                                                                                              \
	"SELECT outcome = 'STEP_FAILED' FROM pgqrs_step_fail($1, $2, $3, " ERROR_SQL("$4", "$5", "$11") " || jsonb_build_object('status', $6::int), $7, coalesce($8, " RETRY_SQL( \
		"$11") "), $9, $10)"

/*
 * step
 */

static const char *step_id;

/* Prints the output of a step that has finished; false: it is to be executed. */
static bool
begin_step(int *code)
{
	const char *values[] = {run_id, lease, step_id};
	const char *sql = psprintf("SELECT should_execute, status, %s, error ->> 'message', error ->> 'status'"
							   " FROM pgqrs_step_begin($1, $2, $3)",
							   printed("output"));
	PGresult *result = call_under_lease(NULL, sql, 3, values);

	if (!has_succeeded(result))
		exit_with_error(result);
	if (is_true(result, 0))
		return false;
	if (strcmp(PQgetvalue(result, 0, 1), "SUCCESS") == 0)
		print_value(result, 2);
	else
	{
		pg_log_error("step \"%s\" has failed: %s", step_id,
					 PQgetvalue(result, 0, 3));
		*code = atoi(PQgetvalue(result, 0, 4));
		if (*code < 1 || *code > 255)
			*code = EXIT_FAILURE;
	}
	return true;
}

/* Ends the program, unless the step is optional and has failed for good. */
static int
fail_step(const char *type, const char *message, int status, const char *object)
{
	char number[16];
	const char *retryable = status != EXIT_BAD_INPUT ? "true" : "false";
	const char *retry_after = option_value("retry-after");
	const char *attempts = option_value("max-attempts");
	const char *ends_run = option_value("optional") ? "false" : "true";
	const char *values[] = {run_id,	  lease,	step_id,   type,
							message,  number,	retryable, retry_after,
							attempts, ends_run, object};
	PGresult *result;

	snprintf(number, sizeof(number), "%d", status);
	pg_log_error("step \"%s\" failed: %s", step_id, message);
	while (!has_succeeded(result = call_giving_up(FAIL_SQL, 11, values)))
	{
		if (object == NULL &&
			(!has_sqlstate(result, UNSTORABLE) || *values[4] == '\0'))
			exit_with_error(result);
		values[3] = object ? type : "unserializable_error";
		values[4] = object ? message : "";
		values[10] = object = NULL;
	}
	return status;
}

/*
 * Stores the output, or what the output as SQL ends with, and prints it as it was
 * stored.
 */
static int
complete_step(const char *output)
{
	bool is_blank = output[strspn(output, " \t\r\n")] == '\0';
	const char *values[] = {run_id, lease, step_id, is_blank ? NULL : output};
	const char *sql = psprintf("SELECT pgqrs_step_complete($1, $2, $3, v), %s FROM (SELECT %s) AS s(v)",
							   printed("v"),
							   option_value("text") ? "to_jsonb($4::text)" :
													  "$4::jsonb");
	PGresult *result;
	int code = 0;

	result = call_under_lease(option_value("sql") ? output : NULL, sql, 4, values);
	if (!has_succeeded(result))
	{
		const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

		if (text == NULL)
			return fail_step("0A000",
							 "the SQL of a step commits with the step: leave out COMMIT, ROLLBACK,"
							 " PREPARE TRANSACTION, CLOSE ALL and COPY from or to the client",
							 EXIT_BAD_INPUT, NULL);
		if (is_error_before || !has_sqlstate(result, UNSTORABLE))
			return fail_step(sqlstate_of(result), text, EXIT_FAILURE, NULL);
		/* JSON that cannot be stored would not be the next time either */
		return fail_step("no_json", psprintf("the output is no JSON: %s", text),
						 has_sqlstate(result, "22P05") ? EXIT_BAD_INPUT : EXIT_FAILURE,
						 NULL);
	}
	if (!is_true(result, 0))
		(void) begin_step(&code);
	else
		print_value(result, 1);
	return code;
}

static void
wait_for_command(Command *command)
{
	while (command->pid != 0)
	{
		struct pollfd fds[COMMAND_FDS];
		int status;

		if (command_sleep(fds, command_add_fds(command, fds)))
			command_handle_fds(command);
		else if (waitpid(command->pid, &status, WNOHANG) == command->pid)
			command_exited(command, status);
	}
}

static int
execute_step(char **argv)
{
	static const int no_signals[] = {0};
	Command command;
	int code;
	char *end;

	command_init(&command);
	watch_children(no_signals, NULL);
	if (command_start(&command, argv, NULL, COMMAND_OUTPUT))
		wait_for_command(&command);
	if (command_has_failed(&command))
	{
		code = WIFSIGNALED(command.status) ? 128 + WTERMSIG(command.status) :
											 Max(WEXITSTATUS(command.status), 1);
		return fail_step(command.type, command.message.data, code,
						 command.error_object);
	}
	/* as the shell does with what $() returns */
	end = command.output.data + command.output.len;
	while (end > command.output.data && end[-1] == '\n')
		*--end = '\0';
	return complete_step(command.output.data);
}

int
step_main(char **arguments)
{
	int code = 0;

	step_id = arguments[0];
	if (begin_step(&code))
		return code;
	return execute_step(arguments + 1);
}

/*
 * The other ones are one call each, which answers whether the run goes on, what
 * the end of a child or wait was, what is to be printed, and the error of a child.
 */
int
act_main(char **arguments)
{
	const char *values[MAX_VALUES] = {run_id, lease};
	int count = add_values(values, 2, arguments);
	const char *sql = psprintf("SELECT done, " EXIT_CODE_SQL
							   ", %s, error FROM (%s) AS s(done, status, output, error)",
							   printed("output"), current_subcommand->sql);
	PGresult *result;
	int code;

	result = call_giving_up(sql, count, values);
	if (!has_succeeded(result))
		exit_with_error(result);
	code = atoi(PQgetvalue(result, 0, 1));
	if (code == 0)
		print_value(result, 2);
	/* alone in its line, it is the error of the command, too */
	if (!PQgetisnull(result, 0, 3))
		fprintf(stderr, "%s\n", PQgetvalue(result, 0, 3));
	return code;
}
