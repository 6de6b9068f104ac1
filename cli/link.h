/*
 * link.h: a connection that never blocks and is made anew when it was lost.
 */
#ifndef PGQRS_LINK_H
#define PGQRS_LINK_H

#include <poll.h>

typedef enum LinkState
{
	LINK_DOWN, /* until retry_at */
	LINK_CONNECTING,
	LINK_CHECKING, /* the answer of setup_sql is awaited */
	LINK_IDLE,
	LINK_BUSY /* the answer of a call is awaited */
} LinkState;

typedef struct Link
{
	PGconn *conn;
	LinkState state;
	PostgresPollingStatusType polling; /* while CONNECTING */
	int64 retry_at;
	int failures;	   /* in a row */
	char *said;		   /* the last error, which is not said again */
	PGresult *partial; /* of an answer that has not come whole */
	PGresult *result;
} Link;

extern void link_add_fd(Link *link, struct pollfd *fd);
extern void link_step(Link *link, const struct pollfd *fd);
extern bool link_send(Link *link, const char *sql, int nparams,
					  const char *const *values);
extern PGresult *link_take_result(Link *link);
extern void link_failed(Link *link, const char *message);
extern void link_refused(Link *link, const PGresult *result);
extern void link_succeeded(Link *link);
extern void link_close(Link *link);

#endif /* PGQRS_LINK_H */
