/*
 * connection.c: the connection of a sub-command, and calls on it.
 *
 * The extension may live in any schema: the first statement on each connection
 * finds it, checks its version and makes its schema the search_path.  It also ends
 * the time-outs that would end a wait in the server.
 */
#include "pgqrs.h"

#include <unistd.h>

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
 * Takes the answer of setup_sql.  Returns 0 or, with a message to be freed, an exit
 * code.
 */
int
check_setup(PGconn *conn, PGresult *result, char **message)
{
	const char *version = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : NULL;
	int code = EXIT_NO_EXTENSION;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		*message = pg_strdup(PQresultErrorMessage(result));
		code = EXIT_TEMPORARY;
	}
	else if (version == NULL)
		*message = psprintf("database \"%s\" does not have the extension pgqrs",
							PQdb(conn));
	else if (version_number(version) < version_number(PGQRS_VERSION))
		*message = psprintf("extension pgqrs of database \"%s\" is version %s, older than %s of this program",
							PQdb(conn), version, PGQRS_VERSION);
	else
	{
		if (!PQgetisnull(result, 0, 1))
			payload_max = atol(PQgetvalue(result, 0, 1));
		code = 0;
	}
	PQclear(result);
	return code;
}

/* Makes a connection, in place of one that was lost; answers as check_setup(). */
int
open_connection(PGconn **conn, const char *const *values, char **message)
{
	int code = EXIT_TEMPORARY;

	PQfinish(*conn);
	*conn = PQconnectdbParams(connection_keywords, values, true);
	PQsetNoticeReceiver(*conn, log_notice, NULL);
	if (PQstatus(*conn) != CONNECTION_OK)
		*message = pg_strdup(PQerrorMessage(*conn));
	else
		code = check_setup(*conn, PQexec(*conn, setup_sql), message);
	if (code != 0)
	{
		PQfinish(*conn);
		*conn = NULL;
	}
	return code;
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

bool
has_sqlstate(const PGresult *result, const char *list)
{
	return is_one_of(sqlstate_of(result), list);
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

/* Says an error of the server, or of the connection. */
void
log_result_error(const PGresult *result)
{
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (text == NULL)
		pg_log_error("%s", PQresultErrorMessage(result));
	else
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
	if (has_sqlstate(result, "PQ012"))
		exit(EXIT_NOT_ENDED);
	if (is_transient(sqlstate_of(result)))
		exit(EXIT_TEMPORARY);
	exit(has_sqlstate(result, "PQ 22 23 25001 42") ? EXIT_BAD_INPUT : EXIT_FAILURE);
}

/* Connects, unless there is a connection; false: it is worth another try. */
static bool
try_connect(bool is_last)
{
	char *message;
	int code;

	if (connection && PQstatus(connection) == CONNECTION_OK)
		return true;
	code = open_connection(&connection, connection_values(), &message);
	if (code == 0)
		return true;
	if (code == EXIT_TEMPORARY && !is_last)
	{
		pg_free(message);
		return false;
	}
	pg_log_error("%s", message);
	if (code == EXIT_NO_EXTENSION)
		pg_log_error_hint("CREATE EXTENSION pgqrs, or ALTER EXTENSION pgqrs UPDATE.");
	exit(code);
}

static PGresult *
execute(const char *sql, int nparams, const char *const *values)
{
	return PQexecParams(connection, sql, nparams, NULL, values, NULL, NULL, 0);
}

bool
has_succeeded(const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ||
		status == PGRES_EMPTY_QUERY;
}

/* Whether the last error of call_repeated() is one of what goes before. */
bool is_error_before;

/*
 * A transaction that cannot end by COMMIT or PREPARE TRANSACTION as long as the
 * cursor is there: to hold it, both execute its query.  ROLLBACK takes it away.
 */
#define GUARD "\"pgqrs step\""
#define BEGIN_SQL                                              \
	"BEGIN; DECLARE " GUARD                                    \
	" CURSOR WITH HOLD FOR SELECT ('the SQL of pgqrs step has" \
	" a COMMIT ' || random())::int; SET LOCAL search_path TO DEFAULT"

/*
 * Executes SQL in a transaction, with the search_path of the role: its last result.
 * PGRES_BAD_RESPONSE: it copies from or to this program, or is not in that
 * transaction any more.
 */
static PGresult *
execute_before(const char *before)
{
	PGresult *result = PQexec(connection, BEGIN_SQL);
	PGresult *closed = NULL;
	bool is_refused;

	if (!has_succeeded(result))
		return result;
	PQclear(result);
	result = PQexec(connection, before);
	is_refused = PQtransactionStatus(connection) == PQTRANS_IDLE ||
		PQresultStatus(result) == PGRES_COPY_IN ||
		PQresultStatus(result) == PGRES_COPY_OUT;
	if (has_succeeded(result) && !is_refused)
	{
		closed = PQexec(connection, psprintf("CLOSE " GUARD "; %s", setup_sql));
		is_refused = has_sqlstate(closed, "34000");
		if (has_succeeded(closed))
			return result;
	}
	if (is_refused)
		closed = PQmakeEmptyPGresult(connection, PGRES_BAD_RESPONSE);
	return closed ? closed : result;
}

/*
 * Executes SQL and then a call, whose last parameter becomes the value that the SQL
 * ends with.  Both commit together if the call answers true.
 */
static PGresult *
execute_after(const char *before, const char *sql, int nparams,
			  const char *const *values)
{
	PGresult *result = execute_before(before);
	int row = PQntuples(result) - 1;
	const char *last[MAX_VALUES];

	is_error_before = !has_succeeded(result);
	if (!is_error_before)
	{
		memcpy(last, values, nparams * sizeof(*values));
		last[nparams - 1] = row < 0 || PQgetisnull(result, row, 0) ?
			NULL :
			PQgetvalue(result, row, 0);
		result = execute(sql, nparams, last);
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
	PGresult *result;

	(void) try_connect(true);
	result = execute(sql, nparams, values);
	if (!has_succeeded(result))
		exit_with_error(result);
	return result;
}

/*
 * Whether to execute it again.  SQL only after errors that say nothing of it: others,
 * and at last the conflicts too, are failures that count.
 */
static bool
is_repeated(const PGresult *result, bool is_late)
{
	if (!is_error_before)
		return is_transient(sqlstate_of(result));
	if (*sqlstate_of(result) == '\0')
		return PQresultStatus(result) != PGRES_BAD_RESPONSE;
	return has_sqlstate(result, is_late ? "08 57P" : "08 57P 40001 40P01");
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
	int64 pause = 50000;
	int64 end = 0; /* counted from the first error: SQL may take long */

	for (;; pg_usleep(pause), pause = Min(pause * 2, 1000000))
	{
		bool is_late = end != 0 && now_ms() > end; /* this is the last time */

		is_error_before = false;
		if (try_connect(is_late))
		{
			PGresult *result = before ?
				execute_after(before, sql, nparams, values) :
				execute(sql, nparams, values);

			if (has_succeeded(result) || !is_repeated(result, is_late))
				return result;
			if (is_late)
				exit_with_error(result);
			PQclear(result);
		}
		if (end == 0)
			end = now_ms() + RETRY_SECONDS * 1000;
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
