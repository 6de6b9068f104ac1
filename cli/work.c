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
#include "work.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/pg_prng.h"

Worker worker = {.jobs = DLIST_STATIC_INIT(worker.jobs),
				 .leftovers = DLIST_STATIC_INIT(worker.leftovers)};

volatile sig_atomic_t stop_signals;

static void
take_stop_signal(int signo)
{
	stop_signals++;
}

bool
is_draining(void)
{
	return stop_signals > 0 || worker.is_stopped;
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
				 " coalesce(CASE WHEN w.run_id IS NULL THEN w.payload ELSE w.input END, 'null'),"
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
