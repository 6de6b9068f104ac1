/*
 * job.c: jobs, each a message or run under its lease with the command that works
 * on it, and the calls that end them.
 */
#include "pgqrs.h"
#include "work.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_TRIES 3 /* of a call that ends work and is refused */

/* How they are called in the environment of the command; NULL: they are not. */
static const char *const claim_variables[CLAIM_COLUMNS] =
	{[CLAIM_ID] = "PGQRS_MESSAGE_ID",
	 [CLAIM_LEASE] = ENV_LEASE,
	 [CLAIM_RUN] = ENV_RUN,
	 [CLAIM_QUEUE] = "PGQRS_QUEUE",
	 [CLAIM_ATTEMPT] = "PGQRS_ATTEMPT",
	 [CLAIM_HEADERS] = "PGQRS_HEADERS",
	 [CLAIM_CANCEL] = "PGQRS_CANCEL_REQUESTED"};

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

void
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

Job *
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
void
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
void
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
		pg_log_warning("%s %s: its lease is gone, the command is told to end",
					   noun(job), job->claim[CLAIM_ID]);
		job->leave_at = 0;
	}
}

void
cancel_job(Job *job)
{
	/* a claim that says so is there to undo the run */
	if (job->claim[CLAIM_CANCEL] || job->is_cancelled)
		return;
	job->is_cancelled = true;
	if (job->state == JOB_RUNNING)
		pg_log_info("run %s is cancelled, the command is told to end",
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

void
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

void
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

void
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

void
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

Job *
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
