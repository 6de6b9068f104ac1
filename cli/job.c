/*
 * job.c: jobs, each a message or run under its lease with the command that works
 * on it, and the calls that end them.
 */
#include "pgqrs.h"
#include "work.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SHARED 1000000 /* bytes of output that a call takes */

/* How they are called in the environment of the command; NULL: they are not. */
static const char *const claim_variables[CLAIM_COLUMNS] =
	{[CLAIM_ID] = "PGQRS_MESSAGE_ID",
	 [CLAIM_LEASE] = ENV_LEASE,
	 [CLAIM_RUN] = ENV_RUN,
	 [CLAIM_QUEUE] = "PGQRS_QUEUE",
	 [CLAIM_ATTEMPT] = "PGQRS_ATTEMPT",
	 [CLAIM_HEADERS] = "PGQRS_HEADERS",
	 [CLAIM_CANCEL] = "PGQRS_UNDO"};

static void
free_job(Job *job)
{
	dlist_delete(&job->node);
	for (int i = 0; i < CLAIM_COLUMNS; i++)
		pg_free(job->claim[i]);
	command_free(&job->command);
	pg_free(job->name);
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
	job->name = psprintf("%s %s", job->claim[CLAIM_RUN] ? "run" : "message",
						 job->claim[CLAIM_ID]);
	job->leave_at = PG_INT64_MAX;
	command_init(&job->command);
	dlist_push_tail(&worker.jobs, &job->node);
}

Job *
job_in_hand(const char *message_id)
{
	foreach_job(job)
	{
		if (!job->is_gone && strcmp(job->claim[CLAIM_ID], message_id) == 0)
			return job;
	}
	return NULL;
}

/* Takes what sub-commands have told. */
void
read_notices(void)
{
	Notice notice;

	while (read(worker.notices[0], &notice, sizeof(notice)) == sizeof(notice))
	{
		foreach_job(job)
		{
			if (job->notice != NOTICE_CANCELLED &&
				atoll(job->claim[CLAIM_ID]) == notice.run_id &&
				atoll(job->claim[CLAIM_LEASE]) == notice.lease)
				job->notice = notice.what;
		}
	}
}

/* A command finds in its environment what the claim says, and no old claim. */
static void
set_environment(const Job *job)
{
	static char *variables[CLAIM_COLUMNS];

	for (int i = 0; i < CLAIM_COLUMNS; i++)
	{
		char *old = variables[i];

		if (claim_variables[i] == NULL)
			continue;
		variables[i] = job->claim[i] ?
			psprintf("%s=%s", claim_variables[i], job->claim[i]) :
			NULL;
		if ((variables[i] ? putenv(variables[i]) : unsetenv(claim_variables[i])) != 0)
			pg_fatal("out of memory");
		pg_free(old);
	}
}

/* The work is to be tried again, unless the command said that it is useless. */
static void
choose_failure(Job *job)
{
	int status = job->command.status;

	job->end = job->claim[CLAIM_RUN] ? END_FAIL : END_NACK;
	job->may_retry = !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_BAD_INPUT;
	pg_log_warning("%s of \"%s\" failed: %s", job->name,
				   job->claim[CLAIM_QUEUE], job->command.message.data);
}

static void
start_job(Job *job)
{
	int flags = COMMAND_GROUP | (job->claim[CLAIM_RUN] ? COMMAND_OUTPUT : 0);

	set_environment(job);
	if (!command_start(&job->command, worker.argv, job->claim[CLAIM_INPUT], flags))
	{
		choose_failure(job);
		job->state = JOB_ENDING;
		return;
	}
	job->state = JOB_RUNNING;
	worker.running++;
	if (worker.is_verbose)
		pg_log_info("%s of \"%s\": started, attempt %s", job->name,
					job->claim[CLAIM_QUEUE], job->claim[CLAIM_ATTEMPT]);
}

/*
 * What was claimed and not started when the worker is to stop is not named in a
 * poll any more, which gives it back.  A run that was cancelled meanwhile ends
 * without its command.
 */
void
start_waiting_jobs(void)
{
	foreach_job(job)
	{
		if (job->state != JOB_WAITING)
			continue;
		if (is_draining() || job->is_gone)
			free_job(job);
		else if (job->is_cancelled)
		{
			job->end = END_ACKNOWLEDGE;
			job->state = JOB_ENDING;
		}
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
	read_notices();
	if (job->notice == NOTICE_GIVING_UP || job->notice == NOTICE_GIVEN_UP)
		job->leave_at = now_ms() + worker.grace;
	else
	{
		pg_log_warning("%s: its lease is gone, the command is told to end",
					   job->name);
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
		pg_log_info("%s is cancelled, the command is told to end", job->name);
	job->leave_at = 0;
}

static void
choose_end(Job *job)
{
	Command *command = &job->command;
	bool is_undo = job->claim[CLAIM_CANCEL] != NULL;
	bool is_left = WIFEXITED(command->status) &&
		WEXITSTATUS(command->status) == EXIT_CANCELLED;

	if (job->is_cancelled || (is_undo ? is_left : job->notice == NOTICE_CANCELLED))
		job->end = END_ACKNOWLEDGE;
	else if (is_past_grace() && command->kill_at != PG_INT64_MAX)
		job->end = END_RELEASE;
	else if (command_has_failed(command))
		choose_failure(job);
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
	pg_log_warning("%s: the command left processes behind, which are told to end",
				   job->name);
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
	if (job->claim[CLAIM_RUN])
		read_notices();
	if (command->input_refused)
		pg_log_info("%s: the command did not read all of its input", job->name);
	if (job->is_gone || job->notice == NOTICE_GIVEN_UP)
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
		foreach_job(job)
		{
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
	foreach_job(job)
	{
		if (job->state != JOB_RUNNING)
			continue;
		if (job->command.kill_at != PG_INT64_MAX || is_due(job->leave_at) ||
			is_past_grace())
			command_end(&job->command, worker.grace);
	}
	foreach_leftover(leftover)
	{
		bool lives = group_lives(leftover->group);

		if (lives && !is_due(leftover->kill_at))
			continue;
		if (lives)
			kill(-leftover->group, SIGKILL);
		dlist_delete(&leftover->node);
		pg_free(leftover);
	}
}

/*
 * The calls that end work
 */

/* Each has the first parameters of send_end(). */
static const struct
{
	const char *sql;
	int nparams;
} end_calls[] = {
	[END_ARCHIVE] = {"SELECT pgqrs_archive_message($1, $2)", 2},
	[END_NACK] = {"SELECT pgqrs_nack_message($1, $2, " ERROR_SQL("$3", "$4", "$6") ", " RETRY_SQL(
					  "$6") ", $5)",
				  6},
	[END_COMPLETE] = {"SELECT pgqrs_complete_run($1, $2, $3)", 3},
	[END_FAIL] = {"SELECT pgqrs_fail_run($1, $2, " ERROR_SQL("$3", "$4", "$6") ", $5, " RETRY_SQL(
					  "$6") ")",
				  6},
	[END_ACKNOWLEDGE] = {"SELECT pgqrs_acknowledge_cancel($1, $2, $3)", 3},
	[END_RELEASE] = {"SELECT pgqrs_release_message($1, $2)", 2},
};

/* What the command has written, or NULL. */
static const char *
output_of(const Job *job)
{
	const char *output = job->command.output.data;

	return output[strspn(output, " \t\r\n")] != '\0' ? output : NULL;
}

static bool
send_end(const Job *job)
{
	bool is_failure = job->end == END_FAIL || job->end == END_NACK;
	const char *output = job->is_cancelled ? NULL : output_of(job);
	const char *values[] = {job->claim[CLAIM_ID],
							job->claim[CLAIM_LEASE],
							is_failure ? job->command.type : output,
							job->command.message.data,
							job->may_retry ? "true" : "false",
							job->command.error_object};

	return link_send(&worker.ends, end_calls[job->end].sql,
					 end_calls[job->end].nparams, values);
}

/* Whether a call can end the job along with others. */
static bool
may_share_call(const Job *job)
{
	return !job->is_alone && !job->is_cancelled &&
		(job->end == END_ARCHIVE || job->end == END_COMPLETE);
}

/* Ids, leases and outputs of jobs as array literals, until the next call. */
const char *const *
job_arrays(bool is_sent)
{
	static PQExpBuffer arrays[3];
	static const char *values[3];

	for (int i = 0; i < 3; i++)
	{
		arrays[i] = arrays[i] ? arrays[i] : createPQExpBuffer();
		resetPQExpBuffer(arrays[i]);
	}
	foreach_job(job)
	{
		if (is_sent ? !job->is_sent : job->is_gone)
			continue;
		append_element(arrays[0], job->claim[CLAIM_ID]);
		append_element(arrays[1], job->claim[CLAIM_LEASE]);
		append_element(arrays[2], is_sent ? output_of(job) : NULL);
	}
	for (int i = 0; i < 3; i++)
	{
		appendPQExpBufferStr(arrays[i], arrays[i]->len > 0 ? "}" : "{}");
		values[i] = arrays[i]->data;
	}
	return values;
}

static bool
send_shared_end(void)
{
	const char *const *arrays = job_arrays(true);
	const char *values[] = {worker.id, arrays[0], arrays[1], arrays[2]};

	return link_send(&worker.ends,
					 "SELECT message_id FROM pgqrs_next($1, batch_size => 0,"
					 " done_ids => $2, done_leases => $3, outputs => $4)",
					 4, values);
}

/* Sends the call that ends a job, or as many as can share one. */
bool
send_ends(void)
{
	Job *first = NULL;
	size_t size = 0;

	worker.ending = 0;
	foreach_job(job)
	{
		job->is_sent = job->state == JOB_ENDING &&
			(first == NULL ||
			 (may_share_call(first) && may_share_call(job) && size < MAX_SHARED));
		if (!job->is_sent)
			continue;
		first = first ? first : job;
		size += job->command.output.len;
		worker.ending++;
	}
	if (first && !(worker.ending > 1 ? send_shared_end() : send_end(first)))
		worker.ending = 0;
	return first != NULL;
}

/* The server refuses the call: another one gives the work up. */
static void
end_otherwise(Job *job, const PGresult *result)
{
	Command *command = &job->command;
	bool is_failure = job->end == END_FAIL || job->end == END_NACK;
	bool is_no_json = job->end == END_COMPLETE && has_sqlstate(result, UNSTORABLE);

	if (has_sqlstate(result, "PQ010") && job->end != END_ACKNOWLEDGE)
	{
		job->is_cancelled = true;
		job->end = END_ACKNOWLEDGE;
		return;
	}
	log_result_error(result);
	if (is_failure && command->error_object)
	{
		/* no JSON, or not what an error may say */
		command->error_object = NULL;
	}
	else if (is_failure && has_sqlstate(result, UNSTORABLE) &&
			 command->message.len > 0)
	{
		strcpy(command->type, "unserializable_error");
		resetPQExpBuffer(&command->message);
	}
	else if (is_failure)
	{
		pg_log_error("%s is given up: its lease runs out", job->name);
		free_job(job);
	}
	else
	{
		strlcpy(command->type, is_no_json ? "no_json" : sqlstate_of(result),
				sizeof(command->type));
		resetPQExpBuffer(&command->message);
		appendPQExpBuffer(&command->message, "%s%s",
						  is_no_json ? "the output of the command is no JSON: " : "",
						  PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
		choose_failure(job);
	}
}

static bool
is_refused(const PGresult *refused, const Job *job)
{
	for (int row = 0; row < PQntuples(refused); row++)
	{
		if (strcmp(PQgetvalue(refused, row, 0), job->claim[CLAIM_ID]) == 0)
			return true;
	}
	return false;
}

static void
take_answer_for(Job *job, const PGresult *result)
{
	if (has_succeeded(result))
	{
		if (worker.is_verbose)
			pg_log_info("%s has ended", job->name);
		worker.ended++;
		free_job(job);
	}
	else if (has_sqlstate(result, LEASE_LOST))
	{
		/* it was lost, or this call has succeeded before */
		if (!job->is_gone && job->notice != NOTICE_GIVING_UP)
			pg_log_warning("%s: the lease is lost", job->name);
		free_job(job);
	}
	else
		end_otherwise(job, result);
}

/* What is refused of several jobs is tried alone, which tells why. */
void
take_end_answer(const PGresult *result)
{
	const char *sqlstate = sqlstate_of(result);
	bool is_done = has_succeeded(result);
	bool is_shared = worker.ending > 1;

	worker.ending = 0;
	if (is_done)
		link_succeeded(&worker.ends);
	else if (is_transient(sqlstate))
	{
		if (*sqlstate != '\0')
			link_refused(&worker.ends, result);
		return;
	}
	foreach_job(job)
	{
		if (!job->is_sent)
			continue;
		if (is_shared && (!is_done || is_refused(result, job)))
			job->is_alone = true;
		else
			take_answer_for(job, result);
	}
}
