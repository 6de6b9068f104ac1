/*
 * work.c: pgqrs work, which runs a command for each message and run.
 *
 * One process and one loop.  On one connection pgqrs_poll() is called again and
 * again: it extends the leases of what is in hand, tells which are gone or to be
 * cancelled, and claims.  On the other one the calls are made that end the work.
 * So a lease is kept whatever else is slow, and a slot that becomes free wakes
 * the poll.
 *
 * A job is in hand, and named to pgqrs_poll(), from its claim until the call that
 * ends it has answered:
 *
 *   WAITING -> RUNNING -> ENDING -> freed
 *
 * A job whose lease is gone is not in hand any more: its command is told to end,
 * and what it exits with counts for nothing.
 */
#include "pgqrs.h"
#include "command.h"
#include "link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "lib/ilist.h"

#define MAX_TRIES 3 /* of a call that ends work and is refused */

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

/* How they are called in the environment of the command; NULL: they are not. */
static const char *const claim_variables[CLAIM_COLUMNS] =
	{[CLAIM_ID] = "PGQRS_MESSAGE_ID",
	 [CLAIM_LEASE] = ENV_LEASE,
	 [CLAIM_RUN] = ENV_RUN,
	 [CLAIM_QUEUE] = "PGQRS_QUEUE",
	 [CLAIM_ATTEMPT] = "PGQRS_ATTEMPT",
	 [CLAIM_HEADERS] = "PGQRS_HEADERS",
	 [CLAIM_CANCEL] = "PGQRS_CANCEL_REQUESTED"};

typedef struct Job
{
	dlist_node node;
	JobState state;
	char *claim[CLAIM_COLUMNS];
	Command command;
	bool is_gone; /* the lease is */
	bool is_cancelled;
	int64 leave_at; /* when a command whose lease is gone is told to end */
	EndCall end;
	char type[32]; /* of the error */
	PQExpBufferData message;
	bool may_retry;
	int tries;
	int64 retry_at;
} Job;

/* A process group whose leader has ended. */
typedef struct Leftover
{
	dlist_node node;
	pid_t group;
	int64 kill_at;
} Leftover;

typedef enum PollPhase
{
	POLL_NONE,
	POLL_REGISTERING,
	POLL_POLLING,
	POLL_UNPACKING
} PollPhase;

static struct
{
	char *argv[4];
	char *name;
	char *queues; /* an array literal */
	int concurrency;
	int64 grace;
	bool until_empty;
	bool is_verbose;

	char *id; /* NULL: not registered */
	Link polls;
	Link ends;
	PollPhase phase;
	Job *ending;				/* whose call is under way */
	bool suspending, stopping;	/* that call is */
	bool is_suspended, is_over; /* it has answered */
	bool is_stopped;			/* by another one */
	bool is_empty;				/* the last poll found nothing */

	dlist_head jobs;
	dlist_head leftovers;
	int running;
	long ended;
} worker = {.jobs = DLIST_STATIC_INIT(worker.jobs),
			.leftovers = DLIST_STATIC_INIT(worker.leftovers)};

/* How many signals asked to stop: the first one drains, the second one ends. */
static volatile sig_atomic_t stop_signals;

static void
take_stop_signal(int signo)
{
	stop_signals++;
}

static bool
is_draining(void)
{
	return stop_signals > 0 || worker.is_stopped;
}

/*
 * Jobs
 */

static const char *
noun(const Job *job)
{
	return job->claim[CLAIM_RUN] ? "run" : "message";
}

static void
free_job(Job *job)
{
	dlist_delete(&job->node);
	for (int i = 0; i < CLAIM_COLUMNS; i++)
		pg_free(job->claim[i]);
	command_free(&job->command);
	termPQExpBuffer(&job->message);
	pg_free(job);
}

static void
make_job(const PGresult *rows, int row)
{
	Job *job = pg_malloc0(sizeof(Job));

	for (int i = 0; i < CLAIM_COLUMNS; i++)
	{
		if (!PQgetisnull(rows, row, i))
			job->claim[i] = pg_strdup(PQgetvalue(rows, row, i));
	}
	job->leave_at = PG_INT64_MAX;
	job->command.in = job->command.out = job->command.err = -1;
	job->command.notice = -1;
	initPQExpBuffer(&job->message);
	dlist_push_tail(&worker.jobs, &job->node);
}

static Job *
job_in_hand(const char *message_id)
{
	dlist_iter iter;

	dlist_foreach(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);

		if (!job->is_gone && strcmp(job->claim[CLAIM_ID], message_id) == 0)
			return job;
	}
	return NULL;
}

/* Of this program, but for the one that the commands need as it is. */
static bool
is_ours(const char *variable)
{
	return strncmp(variable, "PGQRS_", 6) == 0 &&
		strncmp(variable, ENV_DSN "=", sizeof(ENV_DSN)) != 0;
}

/*
 * The environment of a command: what the claim says, in allocated strings, and
 * then the worker's own.
 */
static char **
make_environment(const Job *job, int notice_fd)
{
	int count = 0;
	char **result;

	while (environ[count])
		count++;
	result = pg_malloc((count + CLAIM_COLUMNS + 2) * sizeof(char *));
	count = 0;
	for (int i = 0; i < CLAIM_COLUMNS; i++)
	{
		if (claim_variables[i] && job->claim[i])
			result[count++] = psprintf("%s=%s", claim_variables[i], job->claim[i]);
	}
	if (notice_fd >= 0)
		result[count++] = psprintf("%s=%d", ENV_NOTICE_FD, notice_fd);
	for (char **variable = environ; *variable; variable++)
	{
		if (!is_ours(*variable))
			result[count++] = *variable;
	}
	result[count] = NULL;
	return result;
}

static void
free_environment(char **environment)
{
	for (char **variable = environment; *variable && is_ours(*variable); variable++)
		pg_free(*variable);
	pg_free(environment);
}

/* A pipe for what sub-commands tell; its number is none that scripts use. */
static int
make_notice_pipe(Job *job)
{
	int fds[2];
	int high;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0 ||
		(high = fcntl(fds[1], F_DUPFD_CLOEXEC, 10)) < 0)
		pg_fatal("could not create pipe: %m");
	close(fds[1]);
	job->command.notice = fds[0];
	return high;
}

/* The work is to be tried again, unless the command said that it is useless. */
static void
choose_failure(Job *job, const char *type)
{
	int status = job->command.status;

	strlcpy(job->type, type, sizeof(job->type));
	job->end = job->claim[CLAIM_RUN] ? END_FAIL : END_NACK;
	job->may_retry = !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_BAD_INPUT;
	pg_log_warning("%s %s of \"%s\" failed: %s", noun(job), job->claim[CLAIM_ID],
				   job->claim[CLAIM_QUEUE], job->message.data);
}

static void
start_job(Job *job)
{
	bool is_run = job->claim[CLAIM_RUN] != NULL;
	int notice_fd = is_run ? make_notice_pipe(job) : -1;
	char **environment = make_environment(job, notice_fd);
	int flags = COMMAND_GROUP | (is_run ? COMMAND_OUTPUT : 0);

	if (!command_start(&job->command, worker.argv, environment,
					   job->claim[CLAIM_INPUT], notice_fd, flags))
	{
		appendPQExpBuffer(&job->message, "the command could not be started: %s",
						  strerror(errno));
		free_environment(environment);
		choose_failure(job, "not_started");
		job->state = JOB_ENDING;
		return;
	}
	free_environment(environment);
	job->state = JOB_RUNNING;
	worker.running++;
	if (worker.is_verbose)
		pg_log_info("%s %s of \"%s\": started, attempt %s", noun(job),
					job->claim[CLAIM_ID], job->claim[CLAIM_QUEUE],
					job->claim[CLAIM_ATTEMPT]);
}

/*
 * What was claimed and not started when the worker is to stop is not named in a
 * poll any more, which gives it back.
 */
static void
start_waiting_jobs(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);

		if (job->state != JOB_WAITING)
			continue;
		if (is_draining() || job->is_gone)
			free_job(job);
		else if (worker.running < worker.concurrency)
			start_job(job);
	}
}

/*
 * The lease is gone.  A command that gave it up leaves by itself; any other one
 * is told to.
 */
static void
lose_lease(Job *job)
{
	job->is_gone = true;
	if (job->state != JOB_RUNNING)
		return;
	command_read_notices(&job->command);
	if (job->command.last_notice == NOTICE_GIVING_UP ||
		job->command.last_notice == NOTICE_GIVEN_UP)
		job->leave_at = now_ms() + worker.grace;
	else
	{
		pg_log_warning("%s %s: the lease is lost, its command is told to end",
					   noun(job), job->claim[CLAIM_ID]);
		job->leave_at = 0;
	}
}

static void
cancel_job(Job *job)
{
	/* a claim that says so is there to undo the run */
	if (job->claim[CLAIM_CANCEL] || job->is_cancelled)
		return;
	job->is_cancelled = true;
	if (job->state == JOB_RUNNING)
		pg_log_info("run %s is cancelled, its command is told to end",
					job->claim[CLAIM_ID]);
	job->leave_at = 0;
}

static void
choose_end(Job *job)
{
	Command *command = &job->command;
	bool is_undo = job->claim[CLAIM_CANCEL] != NULL;
	char type[32];

	if (!is_undo && (job->is_cancelled || command->last_notice == NOTICE_CANCELLED))
		job->end = END_ACKNOWLEDGE;
	else if (stop_signals > 1)
		job->end = END_RELEASE;
	else if (command->status != 0)
	{
		command_describe(command, type, &job->message);
		choose_failure(job, type);
	}
	else if (command->output_too_large)
	{
		appendPQExpBuffer(&job->message,
						  "the output of the command is longer than %ld bytes",
						  2 * payload_max);
		choose_failure(job, "output_too_large");
	}
	else if (job->claim[CLAIM_RUN] == NULL)
		job->end = END_ARCHIVE;
	else
		job->end = is_undo ? END_ACKNOWLEDGE : END_COMPLETE;
}

/* What the command left behind is told to end, too. */
static void
end_leftovers(Job *job, pid_t group)
{
	Leftover *leftover;

	if (!group_lives(group))
		return;
	pg_log_warning("%s %s: the command left processes behind, which are told to end",
				   noun(job), job->claim[CLAIM_ID]);
	kill(-group, SIGTERM);
	leftover = pg_malloc(sizeof(Leftover));
	leftover->group = group;
	leftover->kill_at = now_ms() + worker.grace;
	dlist_push_tail(&worker.leftovers, &leftover->node);
}

static void
finish_command(Job *job, int status)
{
	Command *command = &job->command;
	pid_t group = command->pid;

	command_exited(command, status);
	worker.running--;
	end_leftovers(job, group);
	if (command->input_refused)
		pg_log_info("%s %s: the command did not read all of its input",
					noun(job), job->claim[CLAIM_ID]);
	if (job->is_gone || command->last_notice == NOTICE_GIVEN_UP)
	{
		/* the lease ended with the call of a sub-command, or by itself */
		free_job(job);
		return;
	}
	choose_end(job);
	job->state = JOB_ENDING;
}

static void
reap_commands(void)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
	{
		dlist_mutable_iter iter;

		dlist_foreach_modify(iter, &worker.jobs)
		{
			Job *job = dlist_container(Job, node, iter.cur);

			if (job->command.pid == pid)
			{
				finish_command(job, status);
				break;
			}
		}
	}
}

static void
end_overdue(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);

		if (job->state != JOB_RUNNING)
			continue;
		if (job->leave_at <= now_ms() || stop_signals > 1)
			command_tell_to_end(&job->command, worker.grace);
		command_kill_overdue(&job->command);
	}
	dlist_foreach_modify(iter, &worker.leftovers)
	{
		Leftover *leftover = dlist_container(Leftover, node, iter.cur);
		bool lives = group_lives(leftover->group);

		if (lives && leftover->kill_at > now_ms())
			continue;
		if (lives)
			kill(-leftover->group, SIGKILL);
		dlist_delete(iter.cur);
		pg_free(leftover);
	}
}

/*
 * The calls that end work
 */

static const char *const end_sql[] = {
	[END_ARCHIVE] = "SELECT pgqrs_archive_message($1, $2)",
	[END_NACK] = "SELECT pgqrs_nack_message($1, $2, jsonb_build_object("
				 "'type', $3::text, 'message', $4::text), retryable => $5)",
	[END_COMPLETE] = "SELECT pgqrs_complete_run($1, $2, $3)",
	[END_FAIL] = "SELECT pgqrs_fail_run($1, $2, jsonb_build_object("
				 "'type', $3::text, 'message', $4::text), $5)",
	[END_ACKNOWLEDGE] = "SELECT pgqrs_acknowledge_cancel($1, $2, $3)",
	[END_RELEASE] = "SELECT pgqrs_release_message($1, $2)",
};

static void
send_end(Job *job)
{
	const char *output = job->command.output.data;
	const char *values[] = {job->claim[CLAIM_ID], job->claim[CLAIM_LEASE], NULL,
							NULL, NULL};
	int count = 2;

	if (job->end == END_FAIL || job->end == END_NACK)
	{
		values[2] = job->type;
		values[3] = job->message.data;
		values[4] = job->may_retry ? "true" : "false";
		count = 5;
	}
	else if (job->end == END_COMPLETE || job->end == END_ACKNOWLEDGE)
	{
		if (!job->is_cancelled && output && output[strspn(output, " \t\r\n")] != '\0')
			values[2] = output;
		count = 3;
	}
	if (link_send(&worker.ends, end_sql[job->end], count, values))
		worker.ending = job;
}

/* The server refuses the call: another one gives the work up. */
static void
end_otherwise(Job *job, const PGresult *result)
{
	const char *sqlstate = sqlstate_of(result);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	bool is_failure = job->end == END_FAIL || job->end == END_NACK;

	if (strcmp(sqlstate, "PQ010") == 0 && job->end != END_ACKNOWLEDGE)
	{
		job->is_cancelled = true;
		job->end = END_ACKNOWLEDGE;
		return;
	}
	log_result_error(result);
	if (is_failure && is_unstorable(sqlstate) && job->message.len > 0)
	{
		strcpy(job->type, "unserializable_error");
		resetPQExpBuffer(&job->message);
		return;
	}
	if (is_failure)
	{
		job->retry_at = now_ms() + 1000;
		if (++job->tries < MAX_TRIES)
			return;
		pg_log_error("%s %s is given up: its lease runs out", noun(job),
					 job->claim[CLAIM_ID]);
		free_job(job);
		return;
	}
	resetPQExpBuffer(&job->message);
	if (job->end == END_COMPLETE && is_unstorable(sqlstate))
	{
		appendPQExpBuffer(&job->message,
						  "the output of the command is no JSON: %s", text);
		sqlstate = "no_json";
	}
	else
		appendPQExpBufferStr(&job->message, text);
	choose_failure(job, sqlstate);
}

static void
take_end_answer(const PGresult *result)
{
	Job *job = worker.ending;
	const char *sqlstate = sqlstate_of(result);

	worker.ending = NULL;
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
	{
		link_succeeded(&worker.ends);
		if (worker.is_verbose)
			pg_log_info("%s %s has ended", noun(job), job->claim[CLAIM_ID]);
		worker.ended++;
		free_job(job);
	}
	else if (is_lease_lost(sqlstate))
	{
		/* it was lost, or this call has succeeded before */
		if (!job->is_gone && job->command.last_notice != NOTICE_GIVING_UP)
			pg_log_warning("%s %s: the lease is lost", noun(job),
						   job->claim[CLAIM_ID]);
		free_job(job);
	}
	else if (*sqlstate != '\0' && is_transient(sqlstate))
		link_refused(&worker.ends, result);
	else if (*sqlstate != '\0')
		end_otherwise(job, result);
}

static Job *
next_ending_job(void)
{
	dlist_iter iter;

	dlist_foreach(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);

		if (job->state == JOB_ENDING && job->retry_at <= now_ms())
			return job;
	}
	return NULL;
}

/* Whether nothing is left to do but to say so. */
static bool
may_stop(void)
{
	return dlist_is_empty(&worker.jobs) && worker.running == 0 &&
		(is_draining() || (worker.until_empty && worker.is_empty));
}

static void
advance_ends(void)
{
	PGresult *result = link_take_result(&worker.ends);
	const char *values[] = {worker.id};
	Job *job;

	if (result && worker.ending)
		take_end_answer(result);
	else if (result)
	{
		/* an answer that is lost: whatever is held runs out */
		worker.is_suspended |= worker.suspending;
		worker.is_over |= worker.stopping;
		worker.suspending = worker.stopping = false;
		if (PQresultStatus(result) != PGRES_TUPLES_OK && !worker.is_stopped)
			log_result_error(result);
	}
	PQclear(result);
	if (worker.ends.state != LINK_IDLE)
		return;
	if (worker.id && is_draining() && !worker.is_suspended && !worker.is_stopped)
		worker.suspending = link_send(&worker.ends,
									  "SELECT pgqrs_suspend_worker($1)", 1, values);
	else if ((job = next_ending_job()) != NULL)
		send_end(job);
	else if (worker.id && may_stop())
		worker.stopping = link_send(&worker.ends,
									"SELECT pgqrs_stop_worker($1)", 1, values);
}

/*
 * The poll
 */

/*
 * The server takes the JSON of the answer apart.  What is held and gone comes
 * first: the same message may have been claimed again.
 */
static const char *const
	unpack_sql = "SELECT h.message_id, h.state, NULL::bigint, NULL::jsonb, NULL::bigint,"
				 " NULL::text, NULL::int, NULL::jsonb, NULL::text"
				 " FROM jsonb_to_recordset($1) AS h(message_id bigint, state text)"
				 " WHERE h.state <> 'extended'"
				 " UNION ALL"
				 " SELECT w.message_id, NULL, w.lease,"
				 " CASE WHEN w.run_id IS NULL THEN w.payload ELSE coalesce(w.input, 'null') END,"
				 " w.run_id, w.queue, w.attempt, w.headers,"
				 " CASE WHEN w.cancel_requested THEN '1' END"
				 " FROM jsonb_to_recordset($2) AS w(message_id bigint, lease bigint,"
				 " payload jsonb, input jsonb, run_id bigint, queue text, attempt int,"
				 " headers jsonb, cancel_requested boolean)";

static void
send_poll(void)
{
	PQExpBufferData ids, leases;
	char batch[16];
	const char *values[] = {worker.id, NULL, batch, NULL, NULL};
	dlist_iter iter;

	initPQExpBuffer(&ids);
	initPQExpBuffer(&leases);
	dlist_foreach(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);
		const char *separator = ids.len > 0 ? "," : "{";

		if (job->is_gone)
			continue;
		appendPQExpBuffer(&ids, "%s%s", separator, job->claim[CLAIM_ID]);
		appendPQExpBuffer(&leases, "%s%s", separator, job->claim[CLAIM_LEASE]);
	}
	appendPQExpBufferStr(&ids, ids.len > 0 ? "}" : "{}");
	appendPQExpBufferStr(&leases, leases.len > 0 ? "}" : "{}");
	snprintf(batch, sizeof(batch), "%d", is_draining() ? 0 : worker.concurrency);
	values[1] = worker.until_empty && dlist_is_empty(&worker.jobs) ? "0" : "30 s";
	values[3] = ids.data;
	values[4] = leases.data;
	if (link_send(&worker.polls, "CALL pgqrs_poll($1, $2, $3, $4, $5)", 5, values))
		worker.phase = POLL_POLLING;
	termPQExpBuffer(&ids);
	termPQExpBuffer(&leases);
}

static void
send_register(void)
{
	char number[16];
	const char *values[] = {worker.name, worker.queues, NULL, number, PGQRS_VERSION};
	char host[256] = "";

	snprintf(number, sizeof(number), "%d", worker.concurrency);
	gethostname(host, sizeof(host) - 1);
	values[2] = host;
	if (link_send(&worker.polls,
				  "SELECT pgqrs_register_worker($1, $2, hostname => $3,"
				  " max_concurrent => $4, version => 'pgqrs ' || $5)",
				  5, values))
		worker.phase = POLL_REGISTERING;
}

static void
take_news(const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
	{
		const char *state = PQgetvalue(rows, row, CLAIM_STATE);
		Job *job = job_in_hand(PQgetvalue(rows, row, CLAIM_ID));

		if (PQgetisnull(rows, row, CLAIM_STATE))
			make_job(rows, row);
		else if (job && strcmp(state, "gone") == 0)
		{
			if (job->state != JOB_ENDING)
				lose_lease(job);
		}
		else if (job)
			cancel_job(job);
	}
}

/* The columns are work, held and worker_status. */
static void
take_poll_answer(const PGresult *result)
{
	const char *values[] = {PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 0)};

	worker.is_empty = strcmp(values[1], "[]") == 0 && dlist_is_empty(&worker.jobs);
	if (strcmp(values[1], "[]") == 0 && strstr(values[0], "\"gone\"") == NULL &&
		strstr(values[0], "\"cancel_requested\"") == NULL)
		return;
	if (link_send(&worker.polls, unpack_sql, 2, values))
		worker.phase = POLL_UNPACKING;
}

/* The worker was stopped: nothing that it held is its own any more. */
static void
be_stopped(const PGresult *result)
{
	dlist_iter iter;

	log_result_error(result);
	worker.is_stopped = true;
	dlist_foreach(iter, &worker.jobs)
		lose_lease(dlist_container(Job, node, iter.cur));
}

static void
take_poll_link_answer(const PGresult *result)
{
	const char *sqlstate = sqlstate_of(result);
	PollPhase phase = worker.phase;

	worker.phase = POLL_NONE;
	if (worker.stopping || worker.is_over)
		return;
	if (PQresultStatus(result) == PGRES_TUPLES_OK)
	{
		link_succeeded(&worker.polls);
		if (phase == POLL_REGISTERING)
			worker.id = pg_strdup(PQgetvalue(result, 0, 0));
		else if (phase == POLL_POLLING)
			take_poll_answer(result);
		else
			take_news(result);
	}
	else if (phase == POLL_POLLING &&
			 (strcmp(sqlstate, "PQ014") == 0 || strcmp(sqlstate, "PQ005") == 0))
		be_stopped(result);
	else if (*sqlstate != '\0')
		link_refused(&worker.polls, result);
}

static void
advance_poll(void)
{
	PGresult *result = link_take_result(&worker.polls);

	if (result)
		take_poll_link_answer(result);
	PQclear(result);
	start_waiting_jobs();
	if (worker.polls.state != LINK_IDLE || worker.is_stopped)
		return;
	if (worker.id == NULL)
		send_register();
	else if (!may_stop())
		send_poll();
}

/*
 * The loop
 */

static int64
next_deadline(void)
{
	int64 at = PG_INT64_MAX;
	dlist_iter iter;

	dlist_foreach(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);

		if (job->state == JOB_ENDING && job->retry_at > now_ms())
			at = Min(at, job->retry_at);
		if (job->state != JOB_RUNNING)
			continue;
		if (job->command.kill_at == PG_INT64_MAX)
			at = Min(at, job->leave_at);
		else if (job->command.kill_at != PG_INT64_MAX - 1)
			at = Min(at, job->command.kill_at);
	}
	dlist_foreach(iter, &worker.leftovers)
		at = Min(at, dlist_container(Leftover, node, iter.cur)->kill_at);
	return at;
}

static int64
link_deadline(const Link *link)
{
	return link->state == LINK_DOWN || link->retry_at > now_ms() ? link->retry_at :
																   PG_INT64_MAX;
}

static void
wait_for_events(void)
{
	int64 deadline = Min(next_deadline(),
						 Min(link_deadline(&worker.polls),
							 link_deadline(&worker.ends)));
	int64 timeout = deadline == PG_INT64_MAX ?
		-1 :
		Max(0, Min(deadline - now_ms() + 1, 60000));
	static struct pollfd *fds;
	static int size;
	int count = 2;
	dlist_iter iter;

	dlist_foreach(iter, &worker.jobs)
		count += COMMAND_FDS;
	if (count > size)
	{
		size = count * 2;
		fds = pg_realloc(fds, size * sizeof(struct pollfd));
	}
	link_add_fd(&worker.polls, &fds[0]);
	link_add_fd(&worker.ends, &fds[1]);
	count = 2;
	dlist_foreach(iter, &worker.jobs)
	{
		Job *job = dlist_container(Job, node, iter.cur);

		if (job->state == JOB_RUNNING)
			count += command_add_fds(&job->command, &fds[count]);
	}
	if (!command_sleep(fds, count, timeout))
		return;
	dlist_foreach(iter, &worker.jobs)
		command_handle_fds(&dlist_container(Job, node, iter.cur)->command);
	link_step(&worker.polls, &fds[0]);
	link_step(&worker.ends, &fds[1]);
}

/*
 * Without the server nothing can be told to it: what ends the worker then is
 * that no command runs and, if commands have ended, a second signal.
 */
static bool
is_finished(void)
{
	bool is_unreachable = worker.ends.state == LINK_DOWN &&
		worker.ends.failures > 0;

	if (!dlist_is_empty(&worker.leftovers) || worker.running > 0)
		return false;
	if (is_unreachable && stop_signals > 1)
		return true;
	if (!may_stop())
		return false;
	return worker.is_over || worker.is_stopped ||
		(worker.id == NULL && worker.phase == POLL_NONE) || is_unreachable;
}

static void
say_processor_time(void)
{
	struct rusage usage;
	double ms;

	getrusage(RUSAGE_SELF, &usage);
	ms = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000.0 +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000.0;
	pg_log_info("%ld ended, %.3f ms of processor time each", worker.ended,
				ms / Max(worker.ended, 1));
}

static void
run_loop(void)
{
	while (!is_finished())
	{
		reap_commands();
		end_overdue();
		advance_poll();
		advance_ends();
		if (!is_finished())
			wait_for_events();
	}
	link_close(&worker.polls);
	link_close(&worker.ends);
	say_processor_time();
}

/* The names as an array literal. */
static char *
array_of(const SimpleStringList *names)
{
	PQExpBufferData array;

	initPQExpBuffer(&array);
	for (const SimpleStringListCell *cell = names->head; cell; cell = cell->next)
	{
		appendPQExpBufferStr(&array, cell == names->head ? "{\"" : ",\"");
		for (const char *c = cell->val; *c; c++)
			appendPQExpBuffer(&array, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
		appendPQExpBufferChar(&array, '"');
	}
	appendPQExpBufferChar(&array, '}');
	return array.data;
}

static char *
default_name(void)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	return psprintf("pgqrs work %s %d", host, (int) getpid());
}

/* Each command needs pipes. */
static void
check_file_limit(int concurrency)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		limit.rlim_cur < (rlim_t) concurrency * COMMAND_FDS + 30)
		usage_error("--concurrency %d needs %d open files; \"ulimit -n\" allows %ld",
					concurrency, concurrency * COMMAND_FDS + 30,
					(long) limit.rlim_cur);
}

int
work_main(char **arguments)
{
	static const int stopping[] = {SIGTERM, SIGINT, 0};

	if (option_value("queue") == NULL || option_value("exec") == NULL)
		usage_error("--queue and --exec are needed");
	worker.argv[0] = "/bin/sh";
	worker.argv[1] = "-c";
	worker.argv[2] = pg_strdup(option_value("exec"));
	worker.queues = array_of(&current_options[0].values);
	worker.concurrency = option_number("concurrency", 1, 1, 1000);
	check_file_limit(worker.concurrency);
	worker.grace = option_number("grace", 10, 0, 86400) * 1000;
	worker.name = option_value("name") ? pg_strdup(option_value("name")) :
										 default_name();
	worker.until_empty = option_value("until-empty") != NULL;
	worker.is_verbose = option_value("verbose") != NULL;

	pg_prng_seed(&pg_global_prng_state, getpid() ^ time(NULL));
	watch_children(stopping, take_stop_signal);
	run_loop();
	if (worker.is_stopped)
		pg_log_error("the worker was stopped by another session");
	return worker.is_stopped ? EXIT_FAILURE : 0;
}
