/*
 * queue_probe.c
 *	  Queue probe: counts claimable messages of a queue without claiming them.
 *
 * Runs in any backend and locks nothing.  Scans the claim index from the floors
 * and raises the floors, as a claim does.  The cost depends on the number of
 * ready messages, limited by the number that the caller asks for, and not on the
 * number of delayed messages: the search for the first delayed message ends after
 * MAX_DEAD dead entries.  A probe that finds nothing publishes that in
 * wakeup_table.c, unless its transaction has modified messages other than by
 * claims of the same call, since it may still roll back.
 */
#include "delivery/queue_probe.h"

#include "base/clock.h"
#include "miscadmin.h"
#include "queue/lease_limits.h"
#include "queue/priority_scan.h"
#include "shmem/claim_floor.h"
#include "shmem/quarantine.h"
#include "shmem/wakeup_table.h"
#include "store/scan.h"
#include "store/tuple.h"
#include "utils/timestamp.h"
#include "workflow/run.h"

/* The search for the first delayed message ends after this many dead entries. */
#define MAX_DEAD 200

/* The next probe of a queue with due but locked messages comes after this time. */
#define LOCKED_PAUSE (200 * INT64CONST(1000))

/* The shortest time between two probes of a queue. */
#define MIN_PAUSE (5 * INT64CONST(1000))

typedef struct ProbeState
{
	PgqrsTable *messages;
	TupleTableSlot *slot;
	PgqrsTable *runs; /* NULL until opened */
	TupleTableSlot *run;
	const PgqrsQueue *queue;
	int wanted;
	bool found_locked;
	bool found_undeliverable; /* a message that no claim would deliver or end */
	PgqrsQueueProbe *result;
} ProbeState;

static const char *
run_damage(ProbeState *p)
{
	if (p->runs == NULL)
	{
		p->runs = pgqrs_table_open(TABLE_RUNS, false);
		p->run = pgqrs_table_slot(p->runs);
	}
	return pgqrs_run_damage(p->runs, pgqrs_get_int64(p->slot, Messages_run_id),
							p->run);
}

/*
 * Whether a claim would deliver the message in the slot, or try to end it.  A
 * message in quarantine is one that a claim failed to end, or one that a claim
 * can deliver.
 */
static bool
is_claimable(ProbeState *p, int64 id)
{
	bool is_run = !pgqrs_is_null(p->slot, Messages_run_id);

	if (is_run && run_damage(p) != NULL)
		return false;
	if (is_run && pgqrs_row_update_waits(p->run))
	{
		p->found_locked = true;
		return false;
	}
	if (!pgqrs_quarantine_contains(QUARANTINE_MESSAGE, id))
		return true;
	return pgqrs_is_null(p->slot, Messages_lease) &&
		DatumGetInt32(pgqrs_get(p->slot, Messages_failures)) <
		p->queue->max_attempts &&
		!pgqrs_message_is_past_deadline(p->slot, pgqrs_clock_peek()) &&
		(!is_run || pgqrs_is_null(p->run, Runs_cancel_requested_at) ||
		 !pgqrs_is_null(p->run, Runs_undo_cause));
}

/* Counts the messages of one part of the scan. */
static void
probe_part(ProbeState *p, PgqrsFloorScan *floor, PgqrsScan *scan)
{
	while (p->result->ready < p->wanted && pgqrs_scan_next_key(scan))
	{
		PgqrsFloorKey key = {
			.visible_after = DatumGetTimestampTz(
				pgqrs_scan_key(scan, CLAIM_VISIBLE_AFTER)),
			.message_id = DatumGetInt64(pgqrs_scan_key(scan, CLAIM_MESSAGE_ID)),
		};

		CHECK_FOR_INTERRUPTS();
		if (!pgqrs_scan_fetch(scan, p->slot))
		{
			pgqrs_floor_scan_saw_dead(floor);
			continue;
		}
		pgqrs_floor_scan_saw(floor, key);
		if (pgqrs_row_is_busy(p->slot))
			p->found_locked = true;
		else if (is_claimable(p, key.message_id))
			p->result->ready++;
		else
			p->found_undeliverable = true;
	}
}

/*
 * Counts the due messages of one priority, beginning at its floor; returns the
 * instant until which messages were due.
 */
static TimestampTz
probe_ready(ProbeState *p, int priority)
{
	PgqrsFloorScan floor;
	PgqrsScan scan;
	PgqrsKey keys[] = {
		{CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(p->queue->queue_id)},
		{CLAIM_PRIORITY, BTEqualStrategyNumber, Int16GetDatum(priority)},
		{CLAIM_VISIBLE_AFTER, BTLessEqualStrategyNumber},
		{CLAIM_VISIBLE_AFTER, BTGreaterEqualStrategyNumber, .is_pair = true},
	};

	pgqrs_floor_probe_begin(&floor, p->queue->queue_id, priority);
	keys[2].value = TimestampTzGetDatum(floor.until);
	keys[3].value = TimestampTzGetDatum(floor.from.visible_after);
	keys[3].next_value = Int64GetDatum(floor.from.message_id);
	pgqrs_scan_begin(&scan, p->messages, INDEX_MESSAGES_CLAIM, lengthof(keys), keys);
	for (;;)
	{
		probe_part(p, &floor, &scan);
		if (p->result->ready >= p->wanted || !pgqrs_floor_scan_next_part(&floor))
			break;
		pgqrs_scan_set_pair(&scan, TimestampTzGetDatum(floor.from.visible_after),
							Int64GetDatum(floor.from.message_id));
		pgqrs_scan_restart(&scan, 2, TimestampTzGetDatum(floor.until));
	}
	pgqrs_scan_end(&scan);
	pgqrs_floor_scan_end(&floor);
	return floor.now;
}

/* Lowers result->next to the first message that is due after an instant. */
static void
probe_next(ProbeState *p, int priority, TimestampTz after)
{
	PgqrsScan scan;
	PgqrsKey keys[3] = {
		{CLAIM_QUEUE_ID, BTEqualStrategyNumber, Int64GetDatum(p->queue->queue_id)},
		{CLAIM_PRIORITY, BTEqualStrategyNumber, Int16GetDatum(priority)},
		{CLAIM_VISIBLE_AFTER, BTGreaterStrategyNumber, TimestampTzGetDatum(after)},
	};
	int dead = 0;

	pgqrs_scan_begin(&scan, p->messages, INDEX_MESSAGES_CLAIM, 3, keys);
	while (pgqrs_scan_next_key(&scan))
	{
		TimestampTz at = DatumGetTimestampTz(
			pgqrs_scan_key(&scan, CLAIM_VISIBLE_AFTER));

		if (at >= p->result->next)
			break;
		if (pgqrs_scan_fetch(&scan, p->slot) || ++dead == MAX_DEAD)
		{
			p->result->next = at;
			break;
		}
	}
	pgqrs_scan_end(&scan);
}

/*
 * Whether the first entry of the priority, at which the scan stands, is delayed,
 * so that no message of the priority is due.  Lowers result->next.
 */
static bool
is_priority_delayed(ProbeState *p, PgqrsScan *scan)
{
	TimestampTz at = DatumGetTimestampTz(pgqrs_scan_key(scan, CLAIM_VISIBLE_AFTER));

	if (at <= pgqrs_clock())
		return false;
	if (at < p->result->next)
	{
		if (!pgqrs_scan_fetch(scan, p->slot))
			return false;
		p->result->next = at;
	}
	return true;
}

static void
probe_priority(ProbeState *p, int priority)
{
	TimestampTz now = p->result->ready < p->wanted ? probe_ready(p, priority) :
													 pgqrs_clock();

	probe_next(p, priority, now);
}

/* Probes the priorities from high to low, as a claim does. */
static void
probe_priorities(ProbeState *p)
{
	PgqrsPriorityScan priorities;
	int priority;

	pgqrs_priority_scan_begin(&priorities, p->messages, p->queue->queue_id,
							  PG_INT16_MAX, PG_INT16_MIN);
	while (pgqrs_priority_scan_next(&priorities, &priority))
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_priority_delayed(p, &priorities.scan))
			probe_priority(p, priority);
	}
	pgqrs_priority_scan_end(&priorities);
}

/* The probe of a call that has begun with pgqrs_floor_call_begin(). */
static void
probe_queue(PgqrsTable *messages, TupleTableSlot *slot, const PgqrsQueue *queue,
			int max, int wakeup_slot, PgqrsQueueProbe *result)
{
	ProbeState p = {
		.messages = messages,
		.slot = slot,
		.queue = queue,
		.wanted = max,
		.result = result,
	};
	TimestampTz start = pgqrs_clock();
	uint64 probe_number;

	*result = (PgqrsQueueProbe){.next = DT_NOEND};
	if (queue->paused)
		return;
	probe_number = pgqrs_wakeup_begin_look(wakeup_slot);
	if (queue->max_in_flight > 0)
	{
		int room = pgqrs_lease_limit_peek(messages, TABLE_QUEUES,
										  queue->queue_id, queue->max_in_flight);

		p.found_locked = room == PGQRS_LIMIT_LOCKED;
		p.wanted = Max(0, Min(max, room));
	}
	probe_priorities(&p);
	if (p.runs != NULL)
		pgqrs_table_close(p.runs);
	if (p.found_undeliverable)
		result->next = Min(result->next, start + PGQRS_QUARANTINE_PAUSE);
	if (result->ready == 0 && p.found_locked)
		result->next = Min(result->next, start + LOCKED_PAUSE);
	else if (result->ready == 0 && max > 0 && pgqrs_floor_call_is_clean())
		pgqrs_wakeup_end_look(wakeup_slot, probe_number, result->next);
	result->next = Max(result->next, start + MIN_PAUSE);
}

void
pgqrs_queue_probe(PgqrsTable *messages, TupleTableSlot *slot,
				  const PgqrsQueue *queue, int max, PgqrsQueueProbe *probe)
{
	pgqrs_floor_call_begin();
	probe_queue(messages, slot, queue, max, pgqrs_wakeup_slot(queue->queue_id),
				probe);
}

void
pgqrs_queue_probe_idle(PgqrsTable *messages, TupleTableSlot *slot,
					   const PgqrsQueue *queue, int wakeup_slot)
{
	PgqrsQueueProbe probe;

	if (wakeup_slot < 0 || queue->paused || !pgqrs_floor_call_is_clean())
		return;
	probe_queue(messages, slot, queue, 1, wakeup_slot, &probe);
	pgqrs_wakeup_set_due(queue->queue_id, probe.next);
}

void
pgqrs_queue_probe_deleted(int64 queue_id)
{
	PgqrsQueue queue;

	pgqrs_wakeup_forget_queue(queue_id);
	pgqrs_floor_forget(queue_id);
	if (pgqrs_queue_by_id(queue_id, &queue))
		pgqrs_wakeup_publish_all_queues();
}

int
pgqrs_queue_probe_due(PgqrsTable *messages, TupleTableSlot *slot,
					  const PgqrsQueue *queue, int max, int own)
{
	PgqrsQueueProbe probe;

	pgqrs_queue_probe(messages, slot, queue, max, &probe);
	pgqrs_wakeup_set_due(queue->queue_id, probe.next);
	if (probe.ready > 0)
		pgqrs_wakeup_publish_queue(queue->queue_id, probe.ready - own);
	return probe.ready;
}
