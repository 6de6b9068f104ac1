/*
 * await_any.c
 *	  Steps that wait for the first of several: signals, children, a time.
 *
 * Runs in a worker's backend, under the lease of the run.  A wait like others
 * (wait_step.c), which consumes a signal as signal.c does and reads the end of a
 * child as child.c does.  The message is locked exclusively, so no other
 * transaction consumes a signal of the run or writes its steps.
 *
 * A step that has ended names in its input the signal or child that it took.  A
 * child that one step took is left out by later steps; its own step has ended with
 * it.
 */
#include "workflow/await_any.h"

#include "base/clock.h"
#include "base/errors.h"
#include "miscadmin.h"
#include "store/scan.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "workflow/child.h"
#include "workflow/run_wakeup.h"
#include "workflow/signal.h"
#include "workflow/wait_step.h"

#define FROM_SIGNAL	 "signal"
#define FROM_CHILD	 "child"
#define FROM_TIMEOUT "timeout"

/* A signal or an ended child that the step may take. */
typedef struct Candidate
{
	const char *source; /* NULL: there is none */
	const char *name;
	TimestampTz at;
	int64 id;
} Candidate;

/*
 * Children that earlier steps took
 */

typedef struct StepIds
{
	char **ids;
	int count;
	int room;
} StepIds;

static void
add_step_id(StepIds *list, char *id)
{
	if (list->count == list->room)
	{
		list->room = Max(16, 2 * list->room);
		list->ids = list->ids == NULL ?
			palloc(list->room * sizeof(char *)) :
			repalloc_huge(list->ids, list->room * sizeof(char *));
	}
	list->ids[list->count++] = id;
}

static int
compare_step_ids(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* The child that the step in the slot has taken, or NULL. */
static char *
taken_child(TupleTableSlot *step)
{
	char *source;

	if (pgqrs_enum_value(ENUM_STEP_KIND, pgqrs_get(step, Steps_kind)) != STEP_KIND_ANY ||
		pgqrs_is_null(step, Steps_input))
		return NULL;
	source = pgqrs_json_text(pgqrs_get(step, Steps_input), "source");
	if (source == NULL || strcmp(source, FROM_CHILD) != 0)
		return NULL;
	return pgqrs_json_text(pgqrs_get(step, Steps_input), "name");
}

/* The step ids of the children that steps of the run have taken, sorted. */
static StepIds
find_taken_children(PgqrsStepRows *s)
{
	PgqrsKey key = {1, BTEqualStrategyNumber, Int64GetDatum(s->run_id)};
	TupleTableSlot *slot = pgqrs_table_slot(s->steps);
	StepIds taken = {0};
	PgqrsScan scan;

	pgqrs_scan_begin(&scan, s->steps, INDEX_STEPS_PKEY, 1, &key);
	while (pgqrs_scan_next(&scan, slot))
	{
		char *child = taken_child(slot);

		CHECK_FOR_INTERRUPTS();
		if (child != NULL)
			add_step_id(&taken, child);
	}
	pgqrs_scan_end(&scan);
	qsort(taken.ids, taken.count, sizeof(char *), compare_step_ids);
	return taken;
}

/* Leaves out the children that earlier steps took. */
static void
leave_out_taken(PgqrsStepRows *s, PgqrsAnyWait *wait)
{
	StepIds taken;
	int left = 0;

	if (wait->child_count == 0)
		return;
	taken = find_taken_children(s);
	for (int i = 0; i < wait->child_count; i++)
		if (taken.count == 0 ||
			bsearch(&wait->children[i], taken.ids, taken.count, sizeof(char *),
					compare_step_ids) == NULL)
			wait->children[left++] = wait->children[i];
	wait->child_count = left;
}

/*
 * Taking
 */

static void
keep_earlier(Candidate *first, const char *source, const char *name,
			 TimestampTz at, int64 id)
{
	if (first->source == NULL || at < first->at ||
		(at == first->at && id < first->id))
		*first = (Candidate){source, name, at, id};
}

static void
find_first_signal(PgqrsStepRows *s, const PgqrsAnyWait *wait, Candidate *first)
{
	PgqrsTable *signals = pgqrs_table_open(TABLE_SIGNALS, false);
	TupleTableSlot *slot = pgqrs_table_slot(signals);

	for (int i = 0; i < wait->signal_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (pgqrs_run_wakeup_find_signal(signals, slot, s->run_id, wait->signals[i]))
			keep_earlier(first, FROM_SIGNAL, wait->signals[i],
						 pgqrs_get_time(slot, Signals_sent_at),
						 pgqrs_get_int64(slot, Signals_signal_id));
	}
	pgqrs_table_close(signals);
}

/* Also sets the children's run ids. */
static void
find_first_child(PgqrsChildSteps *c, PgqrsAnyWait *wait, Candidate *first)
{
	for (int i = 0; i < wait->child_count; i++)
	{
		bool ended = pgqrs_child_has_ended(c, wait->children[i]);

		CHECK_FOR_INTERRUPTS();
		wait->run_ids[i] = c->run_id;
		if (ended)
			keep_earlier(first, FROM_CHILD, wait->children[i], c->ended_at,
						 c->run_id);
	}
}

/* False: another call has taken the signal or child since. */
static bool
take_candidate(PgqrsStepRows *s, PgqrsChildSteps *c, const Candidate *first,
			   PgqrsAnyResult *result)
{
	PgqrsSignalContent content;
	PgqrsChildEnd end;

	*result = (PgqrsAnyResult){first->source, first->name, PGQRS_NULL};
	if (strcmp(first->source, FROM_SIGNAL) == 0)
	{
		if (!pgqrs_signal_consume(s, first->name, &content))
			return false;
		result->payload = content.payload;
		return true;
	}
	if (!pgqrs_child_take_end(c, first->name, &end))
		return false;
	s->run = c->step.run;
	result->payload = pgqrs_value(pgqrs_json_child_end(&end));
	return true;
}

/* Takes the one that was sent or has ended first; false: none is there. */
static bool
take_first(PgqrsStepRows *s, PgqrsAnyWait *wait, PgqrsAnyResult *result)
{
	PgqrsChildSteps children;
	Candidate first;

	pgqrs_child_steps_begin(&children, s);
	do
	{
		first = (Candidate){NULL};
		find_first_signal(s, wait, &first);
		find_first_child(&children, wait, &first);
		if (first.source == NULL)
			return false;
	} while (!take_candidate(s, &children, &first, result));
	return true;
}

/*
 * The wait
 */

static void
refuse_empty_wait(const PgqrsStepRows *s)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("step \"%s\" of run " INT64_FORMAT " has nothing to wait for",
					s->step_id, s->run_id),
			 errdetail("Earlier steps have returned each of the children."),
			 errhint("Name a signal, another child or a time-out.")));
}

/* The first call of the step sets the deadline. */
static TimestampTz
wait_deadline(const PgqrsStepRows *s, int64 timeout, TimestampTz now)
{
	NullableDatum input = pgqrs_step_value(s, Steps_input);
	TimestampTz deadline = DT_NOEND;

	if (!input.isnull)
		pgqrs_json_instant(input.value, "deadline", &deadline);
	else if (timeout >= 0)
		deadline = now + timeout;
	return deadline;
}

static void
finish_step(PgqrsStepRows *s, const PgqrsAnyResult *result)
{
	Datum input = pgqrs_json_any_taken(result->source, result->name);
	Datum output = pgqrs_json_any_result(result->source, result->name,
										 result->payload);

	pgqrs_wait_step_finish(s, STEP_SUCCESS, pgqrs_value(input),
						   pgqrs_value(output), PGQRS_NULL);
}

/* A signal or child that is there is taken even after the deadline. */
static bool
take_or_wait(PgqrsStepRows *s, PgqrsAnyWait *wait, int64 timeout,
			 PgqrsAnyResult *result)
{
	TimestampTz now = pgqrs_clock();

	wait->deadline = wait_deadline(s, timeout, now);
	leave_out_taken(s, wait);
	if (wait->signal_count == 0 && wait->child_count == 0 && wait->deadline == DT_NOEND)
		refuse_empty_wait(s);
	if (!take_first(s, wait, result))
	{
		if (wait->deadline > now)
		{
			pgqrs_wait_step_suspend(s, PGQRS_WAIT_ANY, s->step_id, wait->deadline,
									pgqrs_value(pgqrs_json_any_wait(wait)),
									PGQRS_NULL);
			return false;
		}
		*result = (PgqrsAnyResult){FROM_TIMEOUT, NULL, PGQRS_NULL};
	}
	finish_step(s, result);
	return true;
}

static void
read_stored_result(const PgqrsStepRows *s, PgqrsAnyResult *result)
{
	NullableDatum output = pgqrs_step_value(s, Steps_output);

	*result = (PgqrsAnyResult){
		.source = output.isnull ? NULL : pgqrs_json_text(output.value, "source"),
		.name = output.isnull ? NULL : pgqrs_json_text(output.value, "name"),
		.payload = output.isnull ? PGQRS_NULL :
								   pgqrs_json_value(output.value, "payload"),
	};
	if (result->name == NULL)
		result->payload = PGQRS_NULL;
}

bool
pgqrs_await_any(int64 run_id, int64 lease, const char *step_id,
				const PgqrsAnyWait *wait, int64 timeout, PgqrsAnyResult *result)
{
	PgqrsStepRows s;
	bool ready = true;

	pgqrs_wait_step_open(&s, run_id, lease, step_id, STEP_KIND_ANY);
	if (pgqrs_step_is_finished(&s))
		read_stored_result(&s, result);
	else
	{
		PgqrsAnyWait left = *wait;

		left.children = palloc(wait->child_count * sizeof(char *));
		memcpy(left.children, wait->children, wait->child_count * sizeof(char *));
		left.run_ids = palloc(wait->child_count * sizeof(int64));
		ready = take_or_wait(&s, &left, timeout, result);
	}
	pgqrs_wait_step_close(&s);
	return ready;
}
