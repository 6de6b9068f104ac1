/*
 * dead_letter.h
 *	  Dead letters: replay and dismissal.
 */
#ifndef PGQRS_DEAD_LETTER_H
#define PGQRS_DEAD_LETTER_H

#include "postgres.h"

/* payload: replaces the stored payload, or NULL; 22023 for the message of a run. */
extern void pgqrs_dead_letter_replay(int64 message_id, NullableDatum payload);

/* Deletes a dead letter; the row of a run's message is kept with outcome DELETED. */
extern void pgqrs_dead_letter_dismiss(int64 message_id);

/*
 * Replays up to max_rows dead letters, oldest first, whose error has that type
 * (NULL: any); returns their number.
 */
extern int64 pgqrs_dead_letter_replay_many(const char *queue, int64 max_rows,
										   const char *error_type);

/*
 * Replays the runs of these ids, in their order, and returns their number; skips
 * those whose message is no dead letter and those that cannot be replayed.
 */
extern int pgqrs_dead_letter_replay_runs(const int64 *run_ids, int count);

/*
 * Dismisses the dead letters that are older than that many microseconds; returns
 * their number.
 */
extern int64 pgqrs_dead_letter_purge(const char *queue, int64 older_than);

#endif /* PGQRS_DEAD_LETTER_H */
