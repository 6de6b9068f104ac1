/*
 * connection.c: the connection of a sub-command, and calls on it.
 *
 * The extension may live in any schema: the first statement on each connection
 * finds it, checks its version and makes its schema the search_path.  It also ends
 * the time-outs that would end a wait in the server.
 */
#include "pgqrs.h"
#include "command.h"

#include <unistd.h>

#include "common/string.h"

/* Of the server; the first statement on a connection tells. */
long payload_max = 2 * 1024 * 1024;

static PGconn *connection;

const char *const
	setup_sql = "SELECT e.extversion, (SELECT s.setting FROM pg_catalog.pg_settings AS s"
				" WHERE s.name OPERATOR(pg_catalog.=) 'pgqrs.payload_max'),"
				" pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, %I, pg_temp', n.nspname), false)"
				" FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n"
				" ON n.oid OPERATOR(pg_catalog.=) e.extnamespace WHERE e.extname OPERATOR(pg_catalog.=) 'pgqrs'";

const char *const connection_keywords[] = {"fallback_application_name",
										   "client_encoding", "dbname", NULL};

const char *const *
connection_values(void)
{
	static char name[64];
	static const char *values[lengthof(connection_keywords)];

	snprintf(name, sizeof(name), "pgqrs %s", current_subcommand->name);
	values[0] = name;
	values[1] = "UTF8";
	values[2] = getenv(ENV_DSN);
	return values;
}

/* The first two numbers of a version, as one that can be compared. */
static long
version_number(const char *version)
{
	int major = 0, minor = 0;

	sscanf(version, "%d.%d", &major, &minor);
	return major * 1000L + minor;
}

/* Takes the answer of setup_sql.  False, with a message: there is no use. */
bool
check_setup(PGconn *conn, const PGresult *result, PQExpBuffer message)
{
	if (PQntuples(result) == 0)
		appendPQExpBuffer(message,
						  "database \"%s\" does not have the extension pgqrs",
						  PQdb(conn));
	else if (version_number(PQgetvalue(result, 0, 0)) < version_number(PGQRS_VERSION))
		appendPQExpBuffer(message,
						  "extension pgqrs of database \"%s\" is version %s, older than %s of this program",
						  PQdb(conn), PQgetvalue(result, 0, 0), PGQRS_VERSION);
	else
	{
		if (!PQgetisnull(result, 0, 1))
			payload_max = atol(PQgetvalue(result, 0, 1));
		return true;
	}
	return false;
}

/*
 * What SQLSTATEs oblige to
 */

const char *
sqlstate_of(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return sqlstate ? sqlstate : "";
}

/* Whether it begins with one of those in the list. */
static bool
is_one_of(const char *sqlstate, const char *list)
{
	for (size_t length; *list; list += length + strspn(list + length, " "))
	{
		length = strcspn(list, " ");
		if (strncmp(sqlstate, list, length) == 0)
			return true;
	}
	return false;
}

/*
 * The state of the server or of the connection, not of what was asked for: the
 * same call may succeed later.  Without an SQLSTATE the connection is lost.
 */
bool
is_transient(const char *sqlstate)
{
	return *sqlstate == '\0' ||
		is_one_of(sqlstate, "08 57P 53 25006 40001 40P01 55P03 57014");
}

/* From a call under a lease: it is not the caller's any more. */
bool
is_lease_lost(const char *sqlstate)
{
	return is_one_of(sqlstate, "PQ003 PQ006 PQ007 PQ014");
}

/* JSON or text that cannot be stored. */
bool
is_unstorable(const char *sqlstate)
{
	return is_one_of(sqlstate, "22021 22P02 22P05 22032");
}

static int
exit_code_of(const PGresult *result)
{
	const char *sqlstate = sqlstate_of(result);

	if (strcmp(sqlstate, "PQ012") == 0)
		return EXIT_NOT_ENDED;
	if (is_transient(sqlstate))
		return EXIT_TEMPORARY;
	return is_one_of(sqlstate, "PQ 22 23 25001 42") ? EXIT_BAD_INPUT : EXIT_FAILURE;
}

/* Says an error of the server, or of the connection. */
void
log_result_error(const PGresult *result)
{
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (text == NULL)
	{
		char *message = pg_strdup(PQresultErrorMessage(result));

		(void) pg_strip_crlf(message);
		pg_log_error("%s", message);
		pg_free(message);
		return;
	}
	pg_log_error("%s: %s", sqlstate_of(result), text);
	if (detail)
		pg_log_error_detail("%s", detail);
	if (hint)
		pg_log_error_hint("%s", hint);
}

void
exit_with_error(const PGresult *result)
{
	log_result_error(result);
	exit(exit_code_of(result));
}

/* Notices and warnings look like those of the program. */
void
log_notice(void *arg, const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (severity == NULL || text == NULL)
		return;
	if (strcmp(severity, "WARNING") == 0)
		pg_log_warning("%s", text);
	else
		pg_log_info("%s", text);
}

/*
 * Connects, unless there is a connection.  Returns 0 or, with a message, an
 * exit code.
 */
static int
try_connect(PQExpBuffer message)
{
	PGresult *result;
	int code = EXIT_TEMPORARY;

	if (connection && PQstatus(connection) == CONNECTION_OK)
		return 0;
	PQfinish(connection);
	connection = PQconnectdbParams(connection_keywords, connection_values(), true);
	resetPQExpBuffer(message);
	if (PQstatus(connection) != CONNECTION_OK)
		appendPQExpBufferStr(message, PQerrorMessage(connection));
	else
	{
		PQsetNoticeReceiver(connection, log_notice, NULL);
		result = PQexec(connection, setup_sql);
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			appendPQExpBufferStr(message, PQresultErrorMessage(result));
		else if (check_setup(connection, result, message))
			code = 0;
		else
			code = EXIT_NO_EXTENSION;
		PQclear(result);
	}
	(void) pg_strip_crlf(message->data);
	if (code != 0)
	{
		PQfinish(connection);
		connection = NULL;
	}
	return code;
}

pg_noreturn static void
no_connection(int code, const char *message)
{
	pg_log_error("%s", message);
	if (code == EXIT_NO_EXTENSION)
		pg_log_error_hint("CREATE EXTENSION pgqrs, or ALTER EXTENSION pgqrs UPDATE.");
	exit(code);
}

PGconn *
get_connection(void)
{
	PQExpBufferData message;
	int code;

	initPQExpBuffer(&message);
	code = try_connect(&message);
	if (code != 0)
		no_connection(code, message.data);
	termPQExpBuffer(&message);
	return connection;
}

static PGresult *
execute(const char *sql, int nparams, const char *const *values)
{
	return PQexecParams(get_connection(), sql, nparams, NULL, values, NULL, NULL, 0);
}

static bool
has_succeeded(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK ||
		PQresultStatus(result) == PGRES_COMMAND_OK;
}

/* Whether the last error of call_repeated() is one of what goes before. */
bool is_error_before;

/*
 * Executes SQL, with the search_path of the role: its last result.  SQL that a step
 * cannot have is PGRES_BAD_RESPONSE, even if its end was lost: what it has committed
 * must not be written again.
 */
static PGresult *
execute_before(const char *before)
{
	PGresult *result = NULL;
	PGresult *next;
	bool is_refused = false;
	bool is_copy = false;

	if (PQsendQuery(connection,
					psprintf("BEGIN; SET LOCAL search_path TO DEFAULT; %s", before)))
		while (!is_copy && (next = PQgetResult(connection)))
		{
			const char *tag = PQcmdStatus(next);

			is_copy = PQresultStatus(next) == PGRES_COPY_IN ||
				PQresultStatus(next) == PGRES_COPY_OUT;
			/* of ROLLBACK TO SAVEPOINT it is ROLLBACK, too */
			is_refused |= is_copy || is_one_of(tag, "COMMIT ROLLBACK") ||
				strcmp(tag, "PREPARE TRANSACTION") == 0;
			PQclear(result);
			result = next;
		}
	if (!is_refused)
		return result;
	PQclear(result);
	return PQmakeEmptyPGresult(connection, PGRES_BAD_RESPONSE);
}

/*
 * Executes SQL and then a call, whose last parameter becomes the value that the SQL
 * ends with.  Both commit together if the call answers true.
 */
static PGresult *
execute_after(const char *before, const char *sql, int nparams,
			  const char *const *values)
{
	PGresult *first = execute_before(before);
	PGresult *result = first;
	int row = PQntuples(first) - 1;
	const char *last[MAX_VALUES];

	is_error_before = !has_succeeded(first);
	if (!is_error_before)
	{
		memcpy(last, values, nparams * sizeof(*values));
		last[nparams - 1] = row < 0 || PQgetisnull(first, row, 0) ?
			NULL :
			PQgetvalue(first, row, 0);
		PQclear(PQexec(connection, setup_sql));
		/* on this connection and no other one: it has the transaction */
		result = PQexecParams(connection, sql, nparams, NULL, last, NULL, NULL, 0);
	}
	if (has_succeeded(result) && strcmp(PQgetvalue(result, 0, 0), "t") == 0)
	{
		PGresult *commit = PQexec(connection, "COMMIT");

		if (has_succeeded(commit))
			return result;
		is_error_before = true;
		result = commit;
	}
	if (PQtransactionStatus(connection) != PQTRANS_IDLE)
		PQclear(PQexec(connection, "ROLLBACK"));
	return result;
}

/* Calls a function; an error ends the program. */
PGresult *
call(const char *sql, int nparams, const char *const *values)
{
	PGresult *result = execute(sql, nparams, values);

	if (has_succeeded(result))
		return result;
	exit_with_error(result);
}

/*
 * Whether to execute it again.  SQL only after errors that say nothing of it: others,
 * and at last the conflicts too, are failures that count.
 */
static bool
is_repeated(const PGresult *result, bool is_late)
{
	const char *sqlstate = sqlstate_of(result);

	if (!is_error_before)
		return is_transient(sqlstate);
	if (*sqlstate == '\0')
		return PQresultStatus(result) != PGRES_BAD_RESPONSE;
	return is_one_of(sqlstate, is_late ? "08 57P" : "08 57P 40001 40P01");
}

/*
 * Calls a function that may be called again under the same lease, until the
 * server answers, for RETRY_SECONDS at most: a server that restarts is waited
 * for.  Any other error is returned.  What goes before, unless NULL, is SQL that
 * commits with the call.
 */
#define RETRY_SECONDS 60

PGresult *
call_repeated(const char *before, const char *sql, int nparams,
			  const char *const *values)
{
	PQExpBufferData message;
	int64 pause = 50000;
	int64 end = 0; /* counted from the first error: SQL may take long */

	initPQExpBuffer(&message);
	for (;;)
	{
		int code = try_connect(&message);
		PGresult *result = NULL;
		bool is_late;

		is_error_before = false;
		if (code == 0)
			result = before ? execute_after(before, sql, nparams, values) :
							  execute(sql, nparams, values);
		is_late = end != 0 && now_ms() > end;
		if (code == 0)
		{
			if (has_succeeded(result) || !is_repeated(result, is_late))
			{
				termPQExpBuffer(&message);
				return result;
			}
			resetPQExpBuffer(&message);
			appendPQExpBufferStr(&message, PQresultErrorMessage(result));
			PQclear(result);
			code = EXIT_TEMPORARY;
		}
		if (code != EXIT_TEMPORARY || is_late)
			no_connection(code, message.data);
		if (end == 0)
			end = now_ms() + RETRY_SECONDS * 1000;
		pg_usleep(pause);
		pause = Min(pause * 2, 1000000);
	}
}

/* An argument, or standard input where it is "-". */
char *
read_input(const char *argument)
{
	PQExpBufferData input;
	char chunk[8192];
	size_t n;

	if (argument == NULL || strcmp(argument, "-") != 0)
		return unconstify(char *, argument);
	initPQExpBuffer(&input);
	while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
		appendBinaryPQExpBuffer(&input, chunk, n);
	if (ferror(stdin))
		pg_fatal("could not read from standard input: %m");
	if (PQExpBufferBroken(&input))
		pg_fatal("out of memory");
	return input.data;
}
