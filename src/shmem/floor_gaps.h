/*
 * floor_gaps.h
 *	  Gaps of a floor: spans of keys above it in which no message can be claimed.
 */
#ifndef PGQRS_FLOOR_GAPS_H
#define PGQRS_FLOOR_GAPS_H

#include "postgres.h"

#include "datatype/timestamp.h"

#define PGQRS_FLOOR_GAPS 6

/* Two timestamps with no claimable message between them, both excluded. */
typedef struct PgqrsFloorGap
{
	TimestampTz from;
	TimestampTz to;
} PgqrsFloorGap;

/* In order, and disjoint. */
typedef struct PgqrsFloorGaps
{
	int count;
	PgqrsFloorGap gap[PGQRS_FLOOR_GAPS];
} PgqrsFloorGaps;

/* Unsigned, so that it cannot overflow. */
static inline uint64
pgqrs_gap_width(PgqrsFloorGap gap)
{
	return (uint64) gap.to - (uint64) gap.from;
}

/* Copies the gaps that are in use. */
static inline void
pgqrs_gaps_copy(PgqrsFloorGaps *to, const PgqrsFloorGaps *from)
{
	to->count = from->count;
	memcpy(to->gap, from->gap, from->count * sizeof(PgqrsFloorGap));
}

/* Whether a gap covers the instant. */
extern bool pgqrs_gaps_cover(const PgqrsFloorGaps *gaps, TimestampTz at);

/* A message may have a key of this instant: removes the gap that covers it. */
extern void pgqrs_gaps_remove_at(PgqrsFloorGaps *gaps, TimestampTz at);

/* Removes the parts of gaps below the instant. */
extern void pgqrs_gaps_trim(PgqrsFloorGaps *gaps, TimestampTz below);

/*
 * Joins a gap with the gaps that it overlaps.  A gap that overlaps none is
 * added if allowed, in place of the narrowest gap if there are too many.
 */
extern void pgqrs_gaps_add(PgqrsFloorGaps *gaps, PgqrsFloorGap gap, bool may_be_new);

#endif /* PGQRS_FLOOR_GAPS_H */
