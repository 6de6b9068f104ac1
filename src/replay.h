/*
 * replay.h
 *	  Dead letters: try again, or throw away.
 */
#ifndef PGQRS_REPLAY_H
#define PGQRS_REPLAY_H

#include "postgres.h"

extern void pgqrs_replay(int64 message_id);

/* Up to max_rows, oldest first; how many. */
extern int64 pgqrs_replay_many(const char *queue, int64 max_rows);

/* Those that died longer ago than this many microseconds; how many. */
extern int64 pgqrs_replay_purge(const char *queue, int64 older_than);

#endif /* PGQRS_REPLAY_H */
