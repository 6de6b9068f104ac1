/*
 * nullable.h
 *	  Values that may be missing: PostgreSQL's NullableDatum.
 *
 * A NullableDatum of zeros is the value 0: initialize a missing value with
 * PGQRS_NULL.
 */
#ifndef PGQRS_NULLABLE_H
#define PGQRS_NULLABLE_H

#include "postgres.h"

#define PGQRS_NULL ((NullableDatum){.isnull = true})

static inline NullableDatum
pgqrs_value(Datum value)
{
	return (NullableDatum){.value = value};
}

static inline NullableDatum
pgqrs_value_if(bool known, Datum value)
{
	return known ? pgqrs_value(value) : PGQRS_NULL;
}

#endif /* PGQRS_NULLABLE_H */
