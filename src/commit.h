/*
 * commit.h
 *	  What happens at the end of a transaction.
 */
#ifndef PGQRS_COMMIT_H
#define PGQRS_COMMIT_H

#include "postgres.h"

extern void pgqrs_commit_init(void);

#endif /* PGQRS_COMMIT_H */
