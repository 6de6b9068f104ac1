/*
 * claim_floor.h
 *	  Where the claims of a queue and priority may start.
 *
 * A hint in shared memory: without it, every call here does nothing and claims
 * scan from the start.
 */
#ifndef PGQRS_CLAIM_FLOOR_H
#define PGQRS_CLAIM_FLOOR_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"

/* A place in the order of claims within a queue and priority. */
typedef struct PgqrsFloorKey
{
	TimestampTz visible_after;
	int64 message_id;
} PgqrsFloorKey;

/* Instants between which, both excluded, there is nothing to claim. */
typedef struct PgqrsFloorGap
{
	TimestampTz from;
	TimestampTz to;
} PgqrsFloorGap;

/* Of a floor, and so many ranges of pending keys does a scan keep apart. */
#define PGQRS_FLOOR_GAPS	6
#define PGQRS_FLOOR_PENDING 16

/* A scan of one queue and priority, in parts. */
typedef struct PgqrsFloorScan
{
	/* the part that is to be read */
	PgqrsFloorKey from;
	TimestampTz until;

	TimestampTz now; /* where the scan ends */
	int claimed;	 /* messages; set by the caller */
	bool is_probe; /* claims nothing: not in the statistics, nor read in parts */

	int64 queue_id;
	int16 priority;
	struct PgqrsFloor *floor; /* NULL: none */
	PgqrsFloorKey start;	  /* where the first part began */
	int next_gap;			  /* the part ends where this one begins */
	TimestampTz main;		  /* where the part after the last gap began */
	int64 scan_window; /* how far, in microseconds, it is worth reading at first */
	bool window_exceeded; /* that was not enough */
	bool exhausted;		  /* read until now */

	int entries;		 /* index entries looked at */
	int dead;			 /* of them, without a message */
	PgqrsFloorKey first; /* the first message that the scan returned */
	bool has_first;

	/* dead entries in a row, since the instant; and the most of them */
	TimestampTz run_from;
	int run;
	PgqrsFloorGap longest;
	int longest_run;

	bool may_raise; /* pending was read */
	uint32 generation;
	uint32 epoch;
	PgqrsFloorKey limit; /* not past what is pending */
	TimestampTz cap;	 /* beyond, pending is not known in detail */
	int pending_count;
	int gap_count;

	/* the rest is not set to zero */
	PgqrsFloorGap pending[PGQRS_FLOOR_PENDING]; /* from and to included; by from */
	PgqrsFloorGap gaps[PGQRS_FLOOR_GAPS];
} PgqrsFloorScan;

/* A sweep: a search for messages below the floors.  Begins as all zeros. */
typedef struct PgqrsFloorSweep
{
	bool looks_only; /* all of it, and leaves no trace; set by the caller */
	struct PgqrsFloor *floor; /* this one, */
	int64 queue_id;
	int16 priority;
	PgqrsFloorKey from;		 /* from here */
	PgqrsFloorKey to;		 /* to before here, but for what is not in a gap */
	PgqrsFloorKey floor_key; /* from here on */
	uint32 epoch;
	int gap_count;
	PgqrsFloorGap gaps[PGQRS_FLOOR_GAPS];
	int next; /* where to look for the next one */
	int visited;
} PgqrsFloorSweep;

/* Since the server started; from raised on, of this database. */
typedef struct PgqrsFloorStats
{
	int max_floors;
	int floors; /* in use */

	/* when last one that was in use had to make room for another, or 0 */
	TimestampTz displaced_at;
	int64 raised;  /* how often a claim raised one */
	int64 lowered; /* how often a sweep lowered one */
	int64 looked;  /* index entries that claims looked at ... */
	int64 claimed; /* ... for this many messages */
} PgqrsFloorStats;

extern int pgqrs_floor_compare(PgqrsFloorKey a, PgqrsFloorKey b);

extern const PgqrsShmemModule pgqrs_floor_shmem;

/* Writing messages */
extern TimestampTz pgqrs_floor_writer_clock(int64 queue_id, int64 delay,
											TimestampTz not_before);
extern void pgqrs_floor_mark_dirty(void);
extern void pgqrs_floor_check_key(int64 queue_id, int16 priority,
								  TimestampTz visible_after);
extern void pgqrs_floor_foreign_write(int64 queue_id, int16 priority,
									  TimestampTz visible_after);
extern void pgqrs_floor_lower_all(void);

/* Whether it is known what was prepared before the server started. */
extern bool pgqrs_floor_knows_prepared(void);

/* Scanning for messages */
extern void pgqrs_floor_call_begin(void);

/* Whether the transaction had modified no message before the call began. */
extern bool pgqrs_floor_call_is_clean(void);
extern void pgqrs_floor_scan_begin(PgqrsFloorScan *scan, int64 queue_id,
								   int16 priority);
extern void pgqrs_floor_probe_begin(PgqrsFloorScan *scan, int64 queue_id,
									int16 priority);
extern bool pgqrs_floor_scan_next_part(PgqrsFloorScan *scan);
extern void pgqrs_floor_scan_end(PgqrsFloorScan *scan);

/* Giving back */
extern void pgqrs_floor_forget(int64 queue_id);
extern void pgqrs_floor_forget_database(Oid db);

/* Sweeping */
extern bool pgqrs_floor_sweep_next(PgqrsFloorSweep *sweep);
extern bool pgqrs_floor_sweep_covers(const PgqrsFloorSweep *sweep,
									 PgqrsFloorKey key);
extern bool pgqrs_floor_sweep_found(PgqrsFloorSweep *sweep, PgqrsFloorKey key);
extern void pgqrs_floor_sweep_pause(PgqrsFloorSweep *sweep, PgqrsFloorKey key);
extern void pgqrs_floor_sweep_end(PgqrsFloorSweep *sweep);

extern bool pgqrs_floor_get_stats(PgqrsFloorStats *stats);

/* The end of a transaction, called by xact_hooks.c */
extern void pgqrs_floor_pre_prepare(void);
extern void pgqrs_floor_end(void);

/* The scan looked at an entry; there is a message, also one that others have locked. */
static inline void
pgqrs_floor_scan_saw(PgqrsFloorScan *scan, PgqrsFloorKey key)
{
	scan->entries++;
	if (!scan->has_first)
		scan->first = key;
	scan->has_first = true;
	if (scan->run > scan->longest_run)
	{
		scan->longest = (PgqrsFloorGap){scan->run_from, key.visible_after};
		scan->longest_run = scan->run;
	}
	scan->run_from = key.visible_after;
	scan->run = 0;
}

/* There is none. */
static inline void
pgqrs_floor_scan_saw_dead(PgqrsFloorScan *scan)
{
	scan->entries++;
	scan->dead++;
	scan->run++;
}

#endif /* PGQRS_CLAIM_FLOOR_H */
