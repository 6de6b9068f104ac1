/*
 * floor.h
 *	  Where the claims of a queue and priority may start.
 *
 * A hint in shared memory: without it, every call here does nothing and claims
 * scan from the start.
 */
#ifndef PGQRS_FLOOR_H
#define PGQRS_FLOOR_H

#include "postgres.h"

#include "datatype/timestamp.h"

/*
 * A build for the stress test waits at random wherever others may come in
 * between, and breaks the protocol where the letter says; see test/stress.
 */
#ifdef PGQRS_BREAK_FLOOR
#define PGQRS_FLOOR_BROKEN(letter) (PGQRS_BREAK_FLOOR == (letter))
#else
#define PGQRS_FLOOR_BROKEN(letter) false
#endif

/* A place in the order of claims within a queue and priority. */
typedef struct PgqrsFloorKey
{
	TimestampTz visible_after;
	int64 message_id;
} PgqrsFloorKey;

/* A scan of one queue and priority. */
typedef struct PgqrsFloorScan
{
	struct PgqrsFloor *floor; /* NULL: none */
	PgqrsFloorKey start;	  /* where to begin */
	TimestampTz now;		  /* where to end */
	PgqrsFloorKey first;	  /* the first row that the scan returned */
	bool has_first;
	int entries;		 /* index entries looked at */
	int claimed;		 /* messages */
	bool is_probe;		 /* claims nothing: not in the statistics */
	bool may_raise;		 /* pending was read */
	PgqrsFloorKey limit; /* not past what is pending */
	uint32 generation;
	uint32 epoch;
	int64 reach; /* how far, in microseconds, it is worth reading at first */
	bool beyond; /* that was not enough */
} PgqrsFloorScan;

/* A sweep: a search for messages below the floors.  Begins as all zeros. */
typedef struct PgqrsFloorSweep
{
	bool looks_only; /* all of it, and leaves no trace; set by the caller */
	struct PgqrsFloor *floor; /* this one, */
	int64 queue_id;
	int16 priority;
	PgqrsFloorKey from; /* from here */
	PgqrsFloorKey to;	/* to before here */
	uint32 epoch;
	int next; /* where to look for the next one */
	int visited;
} PgqrsFloorSweep;

/* Since the server started; but for max_floors and floors, of this database. */
typedef struct PgqrsFloorStats
{
	int max_floors;
	int floors;	   /* in use */
	int64 raised;  /* how often a claim raised one */
	int64 lowered; /* how often a sweep lowered one */
	int64 looked;  /* index entries that claims looked at ... */
	int64 claimed; /* ... for this many messages */
} PgqrsFloorStats;

extern int pgqrs_floor_compare(PgqrsFloorKey a, PgqrsFloorKey b);

extern Size pgqrs_floor_shmem_size(void);
extern void pgqrs_floor_shmem_init(void);

/* Writing messages */
extern TimestampTz pgqrs_floor_writer_clock(int64 queue_id);
extern void pgqrs_floor_modified(void);
extern void pgqrs_floor_foreign_write(int64 queue_id, int16 priority,
									  TimestampTz visible_after);
extern void pgqrs_floor_lower_all(void);

/* Scanning for messages */
extern void pgqrs_floor_call_begin(void);

/* Whether the transaction had modified no message before the call began. */
extern bool pgqrs_floor_call_is_clean(void);
extern void pgqrs_floor_scan_begin(PgqrsFloorScan *scan, int64 queue_id,
								   int16 priority);
extern TimestampTz pgqrs_floor_scan_part(PgqrsFloorScan *scan, TimestampTz from);
extern void pgqrs_floor_scan_end(PgqrsFloorScan *scan);

/* Sweeping */
extern bool pgqrs_floor_sweep_next(PgqrsFloorSweep *sweep);
extern bool pgqrs_floor_sweep_found(PgqrsFloorSweep *sweep, PgqrsFloorKey key);
extern void pgqrs_floor_sweep_pause(PgqrsFloorSweep *sweep, PgqrsFloorKey key);
extern void pgqrs_floor_sweep_end(PgqrsFloorSweep *sweep);

extern bool pgqrs_floor_get_stats(PgqrsFloorStats *stats);

/* The end of a transaction, called by commit.c */
extern void pgqrs_floor_pre_prepare(void);
extern void pgqrs_floor_end(void);

#endif /* PGQRS_FLOOR_H */
