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

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/pg_prng.h"

/*
 * As long as all slots are taken a poll brings news only.  Commands that end
 * within a while are handled together.  Both spare wakeups where there are many
 * short commands, milliseconds that is.
 */
#define POLL_PAUSE	   100
#define COMMANDS_PAUSE 1

Worker worker = {.argv = {"/bin/sh", "-c"},
				 .jobs = DLIST_STATIC_INIT(worker.jobs),
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

/* Whether commands that run have had their time to come to an end. */
bool
is_past_grace(void)
{
	return stop_signals > 1 || (stop_signals > 0 && is_due(worker.grace_ends));
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

	if (result && worker.ending > 0)
		take_end_answer(result);
	else if (result)
	{
		/* an answer that is lost: whatever is held runs out */
		worker.is_over = worker.stopping;
		if (!has_succeeded(result) && !worker.is_stopped)
			log_result_error(result);
	}
	PQclear(result);
	if (worker.ends.state != LINK_IDLE)
		return;
	if (worker.id && is_draining() && !worker.suspending && !worker.is_stopped)
		worker.suspending = link_send(&worker.ends,
									  "SELECT pgqrs_suspend_worker($1)", 1, values);
	else if (!send_ends() && worker.id && may_stop() && !worker.stopping)
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
static const char *const unpack_sql =
	"SELECT h.message_id, h.state, NULL::bigint, NULL::jsonb, NULL::bigint, NULL::text, NULL::int, NULL::jsonb, NULL::text"
	" FROM jsonb_to_recordset($1) AS h(message_id bigint, state text) WHERE h.state <> 'extended'"
	" UNION ALL"
	" SELECT w.message_id, NULL, w.lease, coalesce(CASE WHEN w.run_id IS NULL THEN w.payload ELSE w.input END, 'null'),"
	" w.run_id, w.queue, w.attempt, w.headers, CASE WHEN w.cancel_requested THEN '1' END"
	" FROM jsonb_to_recordset($2) AS w(message_id bigint, lease bigint, payload jsonb, input jsonb, run_id bigint,"
	" queue text, attempt int, headers jsonb, cancel_requested boolean)";

static void
send_poll(void)
{
	const char *const *arrays = job_arrays(false);
	bool is_last = worker.until_empty && dlist_is_empty(&worker.jobs);
	char batch[16];
	const char *values[] = {worker.id, is_last ? "0" : "30 s", batch, arrays[0],
							arrays[1]};

	snprintf(batch, sizeof(batch), "%d", is_draining() ? 0 : worker.concurrency);
	(void) link_send(&worker.polls, "CALL pgqrs_poll($1, $2, $3, $4, $5)", 5,
					 values);
}

#define REGISTER_SQL \
	"SELECT pgqrs_register_worker($1, $2, hostname => $3, max_concurrent => $4, version => 'pgqrs ' || $5)"

static void
send_register(void)
{
	char number[16];
	const char *values[] = {worker.name, worker.queues, worker.host, number,
							PGQRS_VERSION};

	snprintf(number, sizeof(number), "%d", worker.concurrency);
	(void) link_send(&worker.polls, REGISTER_SQL, 5, values);
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
	(void) link_send(&worker.polls, unpack_sql, 2, values);
}

/* The worker was stopped: nothing that it held is its own any more. */
static void
be_stopped(const PGresult *result)
{
	log_result_error(result);
	worker.is_stopped = true;
	foreach_job(job)
		lose_lease(job);
}

static void
take_poll_link_answer(const PGresult *result)
{
	worker.poll_at = now_ms() + POLL_PAUSE;
	if (worker.stopping)
		return;
	if (has_succeeded(result))
	{
		link_succeeded(&worker.polls);
		if (worker.id == NULL)
			worker.id = pg_strdup(PQgetvalue(result, 0, 0));
		else if (PQnfields(result) == CLAIM_COLUMNS)
			take_news(result);
		else
			take_poll_answer(result);
	}
	else if (has_sqlstate(result, "PQ014 PQ005"))
		be_stopped(result);
	else if (*sqlstate_of(result) != '\0')
		link_refused(&worker.polls, result);
}

static void
advance_poll(void)
{
	PGresult *result = link_take_result(&worker.polls);
	bool has_free_slot;

	if (result)
		take_poll_link_answer(result);
	PQclear(result);
	start_waiting_jobs();
	has_free_slot = worker.running < worker.concurrency && worker.ending == 0;
	if (worker.polls.state != LINK_IDLE || worker.is_stopped)
		return;
	if (worker.id == NULL)
		send_register();
	else if (!may_stop() && (has_free_slot || is_due(worker.poll_at)))
		send_poll();
}

/*
 * The loop
 */

static void
wait_for_events(void)
{
	static struct pollfd *fds;
	static int size;
	int count = 3;

	foreach_job(job)
		count += COMMAND_FDS;
	if (count > size)
	{
		size = count * 2;
		fds = pg_realloc(fds, size * sizeof(struct pollfd));
	}
	link_add_fd(&worker.polls, &fds[0]);
	link_add_fd(&worker.ends, &fds[1]);
	fds[2] = (struct pollfd){worker.notices[0], POLLIN, 0};
	count = 3;
	foreach_job(job)
	{
		if (job->state == JOB_RUNNING)
			count += command_add_fds(&job->command, &fds[count]);
	}
	(void) command_sleep(fds, count);
	if (worker.running > 1 && fds[0].revents == 0 && fds[1].revents == 0)
		pg_usleep(COMMANDS_PAUSE * 1000L);
	if (fds[2].revents)
		read_notices();
	foreach_job(job)
		command_handle_fds(&job->command);
	link_step(&worker.polls, &fds[0]);
	link_step(&worker.ends, &fds[1]);
}

/*
 * Without the server nothing can be told to it: what ends the worker then is
 * that no command runs and, if commands have ended, the end of the grace.
 */
static bool
is_finished(void)
{
	bool is_unreachable = worker.ends.state == LINK_DOWN &&
		worker.ends.failures > 0;

	if (!dlist_is_empty(&worker.leftovers) || worker.running > 0)
		return false;
	if (is_unreachable && is_past_grace())
		return true;
	if (!may_stop())
		return false;
	return worker.is_over || worker.is_stopped ||
		(worker.id == NULL && worker.polls.state != LINK_BUSY) || is_unreachable;
}

static void
say_processor_time(void)
{
	struct rusage usage;
	double us;

	getrusage(RUSAGE_SELF, &usage);
	us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
		usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	pg_log_info("%ld ended, %.3f ms of processor time each", worker.ended,
				us / 1000 / Max(worker.ended, 1));
}

static void
run_loop(void)
{
	for (;;)
	{
		if (stop_signals > 0 && worker.grace_ends == 0)
			worker.grace_ends = now_ms() + worker.grace;
		reap_commands();
		end_overdue();
		advance_ends();
		advance_poll();
		advance_ends(); /* the poll may have been the last one */
		if (is_finished())
			break;
		wait_for_events();
	}
	link_close(&worker.polls);
	link_close(&worker.ends);
	say_processor_time();
}

/* The pipe for what sub-commands tell, which commands inherit by a number that scripts do not use. */
static void
make_notice_pipe(void)
{
	char number[16];
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0 ||
		(worker.notices[1] = fcntl(fds[1], F_DUPFD, 10)) < 0)
		pg_fatal("could not create pipe: %m");
	close(fds[1]);
	worker.notices[0] = fds[0];
	snprintf(number, sizeof(number), "%d", worker.notices[1]);
	setenv(ENV_NOTICE_FD, number, 1);
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
	worker.argv[2] = pg_strdup(option_value("exec"));
	worker.queues = option_array(&current_options[0]);
	worker.concurrency = option_number("concurrency", 1, 1, 1000);
	check_file_limit(worker.concurrency);
	worker.grace = option_number("grace", 10, 0, 86400) * 1000;
	gethostname(worker.host, sizeof(worker.host) - 1);
	worker.name = option_value("name") ?
		pg_strdup(option_value("name")) :
		psprintf("pgqrs work %s %d", worker.host, (int) getpid());
	worker.until_empty = option_value("until-empty") != NULL;
	worker.is_verbose = option_value("verbose") != NULL;

	pg_prng_seed(&pg_global_prng_state, getpid() ^ time(NULL));
	watch_children(stopping, take_stop_signal);
	make_notice_pipe();
	run_loop();
	if (worker.is_stopped)
		pg_log_error("the worker was stopped by another session");
	return worker.is_stopped ? EXIT_FAILURE : 0;
}
