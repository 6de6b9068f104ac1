/*
 * read_ahead.c
 *	  Read ahead: a statement that asks for one id after another gets many at
 *	  once.
 *
 * Twice as many are read as the last time if most of those were asked for, and one
 * otherwise, so that a statement that asks for few ids reads few.
 */
#include "base/read_ahead.h"

#include "base/clock.h"

#define MAX_AGE 100000 /* what was read is used for so long, in microseconds */

int
pgqrs_read_ahead_find(PgqrsReadAhead *ahead, int64 id)
{
	TimestampTz now = pgqrs_clock_peek();
	int count = 1;
	uint64 place = (uint64) id - (uint64) ahead->first;

	if (place < ahead->count && now >= ahead->at && now - ahead->at < MAX_AGE)
	{
		ahead->asked++;
		return (int) place;
	}
	if (ahead->asked > ahead->count / 2 && id <= PG_INT64_MAX - READ_AHEAD_MAX)
		count = Min(Max(2 * ahead->count, 1), READ_AHEAD_MAX);
	ahead->first = id;
	ahead->count = count;
	ahead->asked = 1;
	ahead->at = now;
	return -1;
}

int64
pgqrs_read_ahead_last(const PgqrsReadAhead *ahead)
{
	return ahead->first + ahead->count - 1;
}
