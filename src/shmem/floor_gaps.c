/*
 * floor_gaps.c
 *	  Gaps of a floor: spans of keys above it in which no message can be claimed.
 *
 * A list of a few gaps in order.  claim_floor.c keeps one for each floor, under
 * the floor's spinlock.
 */
#include "shmem/floor_gaps.h"

bool
pgqrs_gaps_cover(const PgqrsFloorGaps *gaps, TimestampTz at)
{
	for (int i = 0; i < gaps->count; i++)
		if (gaps->gap[i].from < at && at < gaps->gap[i].to)
			return true;
	return false;
}

static void
remove_gap_number(PgqrsFloorGaps *gaps, int at)
{
	gaps->count--;
	memmove(&gaps->gap[at], &gaps->gap[at + 1],
			(gaps->count - at) * sizeof(PgqrsFloorGap));
}

void
pgqrs_gaps_remove_at(PgqrsFloorGaps *gaps, TimestampTz at)
{
	for (int i = gaps->count - 1; i >= 0; i--)
		if (gaps->gap[i].from < at && at < gaps->gap[i].to)
			remove_gap_number(gaps, i);
}

void
pgqrs_gaps_trim(PgqrsFloorGaps *gaps, TimestampTz below)
{
	while (gaps->count > 0 && gaps->gap[0].to <= below)
		remove_gap_number(gaps, 0);
	if (gaps->count > 0)
		gaps->gap[0].from = Max(gaps->gap[0].from, below);
}

static int
narrowest_gap(const PgqrsFloorGaps *gaps)
{
	int best = 0;

	for (int i = 1; i < gaps->count; i++)
		if (pgqrs_gap_width(gaps->gap[i]) < pgqrs_gap_width(gaps->gap[best]))
			best = i;
	return best;
}

void
pgqrs_gaps_add(PgqrsFloorGaps *gaps, PgqrsFloorGap gap, bool may_be_new)
{
	int at = 0;
	bool joined = false;

	while (at < gaps->count && gaps->gap[at].to <= gap.from)
		at++;
	while (at < gaps->count && gaps->gap[at].from < gap.to)
	{
		gap.from = Min(gap.from, gaps->gap[at].from);
		gap.to = Max(gap.to, gaps->gap[at].to);
		remove_gap_number(gaps, at);
		joined = true;
	}
	if (!joined && !may_be_new)
		return;
	if (gaps->count == PGQRS_FLOOR_GAPS)
	{
		int narrowest = narrowest_gap(gaps);

		if (pgqrs_gap_width(gaps->gap[narrowest]) >= pgqrs_gap_width(gap))
			return;
		remove_gap_number(gaps, narrowest);
		if (narrowest < at)
			at--;
	}
	memmove(&gaps->gap[at + 1], &gaps->gap[at],
			(gaps->count - at) * sizeof(PgqrsFloorGap));
	gaps->gap[at] = gap;
	gaps->count++;
}
