/*
 * work.h: what the files of pgqrs work share.
 */
#ifndef PGQRS_WORK_H
#define PGQRS_WORK_H

#include <signal.h>

#include "lib/ilist.h"

/* A connection that never blocks and is made anew when it was lost. */
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

typedef enum JobState
{
	JOB_WAITING, /* claimed; all slots are taken */
	JOB_RUNNING,
	JOB_ENDING /* the command has ended, the call is to be made */
} JobState;

/* The calls that end work. */
typedef enum EndCall
{
	END_ARCHIVE,
	END_NACK,
	END_COMPLETE,
	END_FAIL,
	END_ACKNOWLEDGE,
	END_RELEASE
} EndCall;

/* Where the values of a claim stand in the answer of unpack_sql. */
enum
{
	CLAIM_ID,
	CLAIM_STATE, /* of what is held; NULL: a claim */
	CLAIM_LEASE,
	CLAIM_INPUT,
	CLAIM_RUN,
	CLAIM_QUEUE,
	CLAIM_ATTEMPT,
	CLAIM_HEADERS,
	CLAIM_CANCEL,
	CLAIM_COLUMNS
};

typedef struct Job
{
	dlist_node node;
	JobState state;
	char *name; /* for messages */
	char *claim[CLAIM_COLUMNS];
	Command command;
	int notice;	  /* the last one of a sub-command */
	bool is_gone; /* the lease is */
	bool is_cancelled;
	int64 leave_at; /* when a command whose lease is gone is told to end */
	EndCall end;
	bool is_sent;  /* the call is under way */
	bool is_alone; /* it was refused along with others */
	bool may_retry;
} Job;

/* A process group whose leader has ended. */
typedef struct Leftover
{
	dlist_node node;
	pid_t group;
	int64 kill_at;
} Leftover;

typedef struct Worker
{
	char *argv[4];
	char host[256];
	char *name;
	char *queues; /* an array literal */
	int concurrency;
	int64 grace;
	bool until_empty;
	bool is_verbose;
	int notices[2]; /* the pipe of all commands */

	char *id; /* NULL: not registered */
	Link polls;
	Link ends;
	int64 poll_at;			   /* when all slots are taken */
	int ending;				   /* how many jobs the call under way ends */
	int64 grace_ends;		   /* of draining; 0: no signal came */
	bool suspending, stopping; /* that call was sent */
	bool is_over;			   /* the latter has answered */
	bool is_stopped;		   /* by another one */
	bool is_empty;			   /* the last poll found nothing */

	dlist_head jobs;
	dlist_head leftovers;
	int running;
	long ended;
} Worker;

extern Worker worker;

/* The items of a list, of which the current one may be removed. */
#define foreach_item(type, item, list)                                     \
	for (type *item = dlist_container(type, node, (list)->head.next),      \
			  *item##_next = dlist_container(type, node, item->node.next); \
		 &item->node != &(list)->head; item = item##_next,                 \
			  item##_next = dlist_container(type, node, item->node.next))
#define foreach_job(job) foreach_item(Job, job, &worker.jobs)
#define foreach_leftover(leftover) \
	foreach_item(Leftover, leftover, &worker.leftovers)

/* How many signals asked to stop: the second one ends the grace of the first. */
extern volatile sig_atomic_t stop_signals;

extern bool is_draining(void);
extern bool is_past_grace(void);

/* link.c */
extern void link_add_fd(Link *link, struct pollfd *fd);
extern void link_step(Link *link, const struct pollfd *fd);
extern bool link_send(Link *link, const char *sql, int nparams,
					  const char *const *values);
extern PGresult *link_take_result(Link *link);
extern void link_failed(Link *link, const char *message);
extern void link_refused(Link *link, const PGresult *result);
extern void link_succeeded(Link *link);
extern void link_close(Link *link);

/* job.c */
extern void make_job(const PGresult *rows, int row);
extern Job *job_in_hand(const char *message_id);
extern const char *const *job_arrays(bool is_sent);
extern void read_notices(void);
extern void start_waiting_jobs(void);
extern void lose_lease(Job *job);
extern void cancel_job(Job *job);
extern void reap_commands(void);
extern void end_overdue(void);
extern bool send_ends(void);
extern void take_end_answer(const PGresult *result);

#endif /* PGQRS_WORK_H */
