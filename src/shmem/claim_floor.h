/*
 * claim_floor.h
 *	  Claim floors: the key from which the claims of a queue and priority
 *	  scan.
 *
 * Kept in shared memory.  Without shared memory every call here does nothing,
 * and claims scan from the lowest key.
 */
#ifndef PGQRS_CLAIM_FLOOR_H
#define PGQRS_CLAIM_FLOOR_H

#include "postgres.h"

#include "base/shmem_module.h"
#include "datatype/timestamp.h"
#include "shmem/floor_counters.h"
#include "shmem/floor_gaps.h"

/* A position in the order of claims within a queue and priority. */
typedef struct PgqrsFloorKey
{
	TimestampTz visible_after;
	int64 message_id;
} PgqrsFloorKey;

/* Ranges of pending keys that a scan keeps apart. */
#define PGQRS_FLOOR_PENDING 16

/* A scan of one queue and priority, read in parts. */
typedef struct PgqrsFloorScan
{
	/* the part to be read next */
	PgqrsFloorKey from;
	TimestampTz until;

	TimestampTz now; /* upper end of the scan */
	int claimed;	 /* messages claimed; set by the caller */
	bool is_probe; /* claims nothing; not in the statistics, not cut into parts */

	int64 queue_id;
	int16 priority;
	struct PgqrsFloor *floor; /* NULL: no floor */
	PgqrsFloorKey start;	  /* where the first part began */
	int next_gap;			  /* the part ends at this gap */
	TimestampTz main;		  /* where the part after the last gap began */
	int64 scan_window; /* microseconds of the first part after the last gap */
	bool window_exceeded; /* the first part was not enough */
	bool exhausted;		  /* read up to now */

	int entries;		 /* index entries read */
	int dead;			 /* entries without a message */
	PgqrsFloorKey first; /* first message that the scan returned */
	bool has_first;

	/* start and length of the current run of dead entries; the longest run */
	TimestampTz run_from;
	int run;
	PgqrsFloorGap longest;
	int longest_run;

	bool may_raise; /* the pending keys were read */
	uint32 generation;
	uint32 epoch;
	PgqrsFloorKey limit; /* no pending key is below this */
	TimestampTz cap;	 /* pending keys above this are not known in detail */
	int pending_count;

	/* memset() leaves out the fields from here on */
	PgqrsFloorGap pending[PGQRS_FLOOR_PENDING]; /* both bounds included; by from */
	PgqrsFloorGaps gaps;
} PgqrsFloorScan;

/* A sweep: a search for messages below the floors.  Initialize with zeros. */
typedef struct PgqrsFloorSweep
{
	bool looks_only; /* read-only check of the whole floor; set by the caller */
	struct PgqrsFloor *floor; /* floor being swept */
	int64 queue_id;
	int16 priority;
	PgqrsFloorKey from;		 /* the sweep reads from this key */
	PgqrsFloorKey to;		 /* up to this key, excluded */
	PgqrsFloorKey floor_key; /* claims scan from this key */
	uint32 epoch;
	PgqrsFloorGaps gaps;
	int next; /* index of the next floor */
	int visited;
} PgqrsFloorSweep;

typedef struct PgqrsFloorStats
{
	int max_floors;
	int floors; /* floors in use */

	/* last time that a floor in use was displaced, or 0 */
	TimestampTz displaced_at;
	PgqrsFloorCounts counts; /* of this database, since the start of the server */
} PgqrsFloorStats;

extern int pgqrs_floor_compare(PgqrsFloorKey a, PgqrsFloorKey b);

extern const PgqrsShmemModule pgqrs_floor_shmem;

/* Transactions that write messages */
extern TimestampTz pgqrs_floor_writer_clock(int64 queue_id, int64 delay,
											TimestampTz not_before);
extern void pgqrs_floor_mark_claimed(void);
extern void pgqrs_floor_mark_dirty(void);
extern void pgqrs_floor_check_key(int64 queue_id, int16 priority,
								  TimestampTz visible_after);
extern void pgqrs_floor_foreign_write(int64 queue_id, int16 priority,
									  TimestampTz visible_after);
extern void pgqrs_floor_lower_all(void);

/* Claims and probes */
extern void pgqrs_floor_call_begin(void);

/*
 * Whether the transaction has changed no message so far, except by claims of
 * the current call.
 */
extern bool pgqrs_floor_call_is_clean(void);
extern void pgqrs_floor_scan_begin(PgqrsFloorScan *scan, int64 queue_id,
								   int16 priority);
extern void pgqrs_floor_probe_begin(PgqrsFloorScan *scan, int64 queue_id,
									int16 priority);
extern bool pgqrs_floor_scan_next_part(PgqrsFloorScan *scan);
extern void pgqrs_floor_scan_end(PgqrsFloorScan *scan);

/* Removing floors */
extern void pgqrs_floor_forget(int64 queue_id);
extern void pgqrs_floor_forget_database(Oid db);

/* Sweeps */
extern bool pgqrs_floor_sweep_next(PgqrsFloorSweep *sweep);
extern bool pgqrs_floor_sweep_covers(const PgqrsFloorSweep *sweep,
									 PgqrsFloorKey key);
extern bool pgqrs_floor_sweep_found(PgqrsFloorSweep *sweep, PgqrsFloorKey key);
extern void pgqrs_floor_sweep_pause(PgqrsFloorSweep *sweep, PgqrsFloorKey key);
extern void pgqrs_floor_sweep_end(PgqrsFloorSweep *sweep);

extern bool pgqrs_floor_get_stats(PgqrsFloorStats *stats);

extern void pgqrs_floor_end(void); /* called by xact_hooks.c */

/* The scan read the index entry of a message, locked or not. */
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

/* The scan read a dead index entry. */
static inline void
pgqrs_floor_scan_saw_dead(PgqrsFloorScan *scan)
{
	scan->entries++;
	scan->dead++;
	scan->run++;
}

#endif /* PGQRS_CLAIM_FLOOR_H */
