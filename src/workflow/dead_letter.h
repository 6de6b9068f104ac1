/*
 * dead_letter.h
 *	  Dead letters: try again, or throw away.
 */
#ifndef PGQRS_DEAD_LETTER_H
#define PGQRS_DEAD_LETTER_H

#include "postgres.h"

/* payload: in place of the stored one, or NULL; of a run: 22023. */
extern void pgqrs_dead_letter_replay(int64 message_id, NullableDatum payload);

/* Throws one away. */
extern void pgqrs_dead_letter_dismiss(int64 message_id);

/* Up to max_rows, oldest first, whose error has that type, NULL: any; how many. */
extern int64 pgqrs_dead_letter_replay_many(const char *queue, int64 max_rows,
										   const char *error_type);

/* Those that died longer ago than this many microseconds; how many. */
extern int64 pgqrs_dead_letter_purge(const char *queue, int64 older_than);

#endif /* PGQRS_DEAD_LETTER_H */
