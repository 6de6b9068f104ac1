/*
 * link.c: connections that never block and are made anew when they were lost.
 *
 * DOWN -> CONNECTING -> CHECKING -> IDLE <-> BUSY, and from each of them to DOWN.
 * link_step() takes what has come and moves on.  The answer of a call that the
 * connection did not survive is lost: it is a result without an SQLSTATE.
 */
#include "pgqrs.h"
#include "work.h"

#include "common/pg_prng.h"

#define MAX_BACKOFF_MS 5000

/*
 * What failed is tried again after a while, which grows with each failure.  The
 * same message is said once.
 */
void
link_failed(Link *link, const char *message)
{
	int backoff = Min(50 << Min(link->failures, 10), MAX_BACKOFF_MS);

	if (link->said == NULL || strcmp(link->said, message) != 0)
	{
		pg_log_error("%s", message);
		pg_log_error_hint("The call is repeated until it succeeds.");
	}
	pg_free(link->said);
	link->said = pg_strdup(message);
	link->failures++;
	link->retry_at = now_ms() + backoff / 2 +
		pg_prng_uint64_range(&pg_global_prng_state, 0, backoff / 2);
	(void) is_due(link->retry_at);
}

void
link_close(Link *link)
{
	PQclear(link->partial);
	link->partial = NULL;
	PQfinish(link->conn);
	link->conn = NULL;
	link->state = LINK_DOWN;
}

/*
 * A call was refused for now.  A server that is read-only may not be the one to
 * talk to any more: the next connection may lead to another one.
 */
void
link_refused(Link *link, const PGresult *result)
{
	link_failed(link, PQresultErrorMessage(result));
	if (has_sqlstate(result, "25006"))
		link_close(link);
}

void
link_succeeded(Link *link)
{
	if (link->said)
		pg_log_info("calls succeed again");
	pg_free(link->said);
	link->said = NULL;
	link->failures = 0;
	link->retry_at = 0;
}

/* A lost connection: a call that is under way gets an answer that says so. */
static void
lose(Link *link, const char *message)
{
	if (link->state == LINK_BUSY)
		link->result = PQmakeEmptyPGresult(link->conn, PGRES_FATAL_ERROR);
	link_failed(link, message);
	link_close(link);
}

static void
start_connecting(Link *link)
{
	link->conn = PQconnectStartParams(connection_keywords, connection_values(),
									  true);
	if (link->conn == NULL)
		pg_fatal("out of memory");
	link->state = LINK_CONNECTING;
	link->polling = PGRES_POLLING_WRITING;
	if (PQstatus(link->conn) == CONNECTION_BAD)
		lose(link, PQerrorMessage(link->conn));
}

static void
continue_connecting(Link *link)
{
	link->polling = PQconnectPoll(link->conn);
	if (link->polling == PGRES_POLLING_FAILED)
		lose(link, PQerrorMessage(link->conn));
	else if (link->polling == PGRES_POLLING_OK)
	{
		PQsetNoticeReceiver(link->conn, log_notice, NULL);
		PQsetnonblocking(link->conn, 1);
		link->state = LINK_CHECKING;
		if (!PQsendQuery(link->conn, setup_sql))
			lose(link, PQerrorMessage(link->conn));
	}
}

/* Whether the extension is one to work with. */
static void
finish_checking(Link *link, PGresult *result)
{
	char *message;

	if (check_setup(link->conn, result, &message) == 0)
		link->state = LINK_IDLE;
	else
	{
		lose(link, message);
		pg_free(message);
	}
}

/* Takes what the server sent; NULL: the answer is not complete. */
static PGresult *
receive(Link *link)
{
	PGresult *answer;

	if (PQflush(link->conn) < 0 || !PQconsumeInput(link->conn))
	{
		lose(link, PQerrorMessage(link->conn));
		return NULL;
	}
	while (!PQisBusy(link->conn))
	{
		PGresult *result = PQgetResult(link->conn);

		if (result == NULL)
		{
			answer = link->partial;
			link->partial = NULL;
			return answer;
		}
		PQclear(link->partial);
		link->partial = result;
	}
	return NULL;
}

static void
take_answer(Link *link, PGresult *result)
{
	if (PQstatus(link->conn) == CONNECTION_BAD)
	{
		lose(link, PQresultErrorMessage(result));
		PQclear(result);
	}
	else if (link->state == LINK_CHECKING)
		finish_checking(link, result);
	else
	{
		link->result = result;
		link->state = LINK_IDLE;
	}
}

void
link_add_fd(Link *link, struct pollfd *fd)
{
	*fd = (struct pollfd){-1, 0, 0};
	if (link->conn == NULL)
		return;
	fd->fd = PQsocket(link->conn);
	fd->events = POLLIN;
	if (link->state == LINK_CONNECTING)
		fd->events = link->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;
	else if (PQflush(link->conn) == 1)
		fd->events |= POLLOUT;
}

void
link_step(Link *link, const struct pollfd *fd)
{
	PGresult *result;

	if (link->state == LINK_DOWN)
	{
		if (is_due(link->retry_at))
			start_connecting(link);
		return;
	}
	if (fd->fd < 0 || fd->revents == 0)
		return;
	if (link->state == LINK_CONNECTING)
		continue_connecting(link);
	else if ((result = receive(link)) != NULL)
		take_answer(link, result);
}

/* Sends a call; false: the link is not ready for one. */
bool
link_send(Link *link, const char *sql, int nparams, const char *const *values)
{
	if (link->state != LINK_IDLE || !is_due(link->retry_at))
		return false;
	link->state = LINK_BUSY;
	if (!PQsendQueryParams(link->conn, sql, nparams, NULL, values, NULL, NULL, 0))
		lose(link, PQerrorMessage(link->conn));
	return true;
}

/* The answer of the call that was sent, once; NULL: it has not come. */
PGresult *
link_take_result(Link *link)
{
	PGresult *result = link->result;

	link->result = NULL;
	return result;
}
