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
	bool may_raise;		 /* pending was read */
	PgqrsFloorKey limit; /* not past what is pending */
	uint32 generation;
	uint32 epoch;
} PgqrsFloorScan;

extern Size pgqrs_floor_shmem_size(void);
extern void pgqrs_floor_shmem_init(void);

/* Writing messages */
extern TimestampTz pgqrs_floor_writer_clock(int64 queue_id);
extern void pgqrs_floor_modified(void);
extern void pgqrs_floor_foreign_write(int64 queue_id, int16 priority,
									  TimestampTz visible_after);

/* Scanning for messages */
extern void pgqrs_floor_call_begin(void);
extern void pgqrs_floor_scan_begin(PgqrsFloorScan *scan, int64 queue_id,
								   int16 priority);
extern void pgqrs_floor_scan_end(PgqrsFloorScan *scan);

/* The end of a transaction, called by commit.c */
extern void pgqrs_floor_pre_prepare(void);
extern void pgqrs_floor_end(void);

#endif /* PGQRS_FLOOR_H */
