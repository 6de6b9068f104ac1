/*
 * args.h
 *	  Arguments of SQL functions: fetching and checking.
 *
 * Every function here raises 22004 for a NULL where none is allowed and 22023
 * for a value out of its bounds, naming the argument.  An argument that has a
 * default in SQL is read by a function whose name ends in _or, or _or_null:
 * NULL means the default, which stands in both places; test/pgtap/defaults.sql
 * compares them for every function.
 */
#ifndef PGQRS_API_ARGS_H
#define PGQRS_API_ARGS_H

#include "postgres.h"

#include "fmgr.h"
#include "queue/options.h"
#include "utils/timestamp.h"
#include "workflow/run_trigger.h"

#define PGQRS_MAX_BATCH	   10000
#define PGQRS_MAX_PRIORITY 100

extern int64 pgqrs_arg_int64(FunctionCallInfo fcinfo, int n, const char *name);
extern int64 pgqrs_arg_int64_or(FunctionCallInfo fcinfo, int n, int64 missing);
extern int pgqrs_arg_int(FunctionCallInfo fcinfo, int n, const char *name,
						 int min, int max);
extern int pgqrs_arg_int_or(FunctionCallInfo fcinfo, int n, const char *name,
							int min, int max, int missing);
extern bool pgqrs_arg_bool(FunctionCallInfo fcinfo, int n, const char *name);
extern bool pgqrs_arg_bool_or(FunctionCallInfo fcinfo, int n, bool missing);
extern int pgqrs_arg_priority_or(FunctionCallInfo fcinfo, int n, int missing);

/* A text of at most 8192 bytes. */
extern char *pgqrs_arg_text(FunctionCallInfo fcinfo, int n, const char *name);
extern char *pgqrs_arg_text_or_null(FunctionCallInfo fcinfo, int n,
									const char *name);
extern char *pgqrs_arg_name(FunctionCallInfo fcinfo, int n, const char *name);
extern char *pgqrs_arg_pattern(FunctionCallInfo fcinfo, int n, const char *name);
extern char *pgqrs_arg_pattern_or_null(FunctionCallInfo fcinfo, int n,
									   const char *name);
extern char *pgqrs_arg_key(FunctionCallInfo fcinfo, int n, const char *name);
extern char *pgqrs_arg_key_or_null(FunctionCallInfo fcinfo, int n, const char *name);

/* The number of the given label. */
extern int pgqrs_arg_label(FunctionCallInfo fcinfo, int n, const char *name,
						   int nlabels, const char *const *labels);
extern int pgqrs_arg_label_or(FunctionCallInfo fcinfo, int n, const char *name,
							  int nlabels, const char *const *labels, int missing);

/* The value of the given label of an enum type. */
extern int pgqrs_arg_enum(FunctionCallInfo fcinfo, int n, const char *name,
						  PgqrsEnumId type, int nlabels);
extern int pgqrs_arg_enum_or(FunctionCallInfo fcinfo, int n, const char *name,
							 PgqrsEnumId type, int nlabels, int missing);

/* Microseconds; no months, not infinite, not negative. */
extern int64 pgqrs_arg_duration(FunctionCallInfo fcinfo, int n, const char *name);
extern int64 pgqrs_arg_duration_or(FunctionCallInfo fcinfo, int n,
								   const char *name, int64 missing);

/* An instant; infinity is refused, -infinity is the beginning of time. */
extern TimestampTz pgqrs_arg_instant(FunctionCallInfo fcinfo, int n,
									 const char *name);
extern TimestampTz pgqrs_arg_instant_or(FunctionCallInfo fcinfo, int n,
										const char *name, TimestampTz missing);

/* delay and run_at, of which only one may be given. */
extern PgqrsWhen pgqrs_arg_when(FunctionCallInfo fcinfo, int delay, int run_at);

/* PQ008 for a value that is too large. */
extern NullableDatum pgqrs_arg_json(FunctionCallInfo fcinfo, int n,
									const char *name);
extern Datum pgqrs_arg_json_required(FunctionCallInfo fcinfo, int n,
									 const char *name);

/* NULL is stored as JSON null. */
extern Datum pgqrs_arg_output(FunctionCallInfo fcinfo, int n);

/* An error is never refused: one that is too large is truncated. */
extern Datum pgqrs_arg_error(FunctionCallInfo fcinfo, int n);

/*
 * A one-dimensional array of at most 10000 elements (refuse_nulls: none of them
 * NULL, naming the 1-based index).  Returns the number of elements.
 */
extern int pgqrs_arg_array(FunctionCallInfo fcinfo, int n, const char *name,
						   Oid type, bool refuse_nulls, Datum **values,
						   bool **nulls);

/* An array of JSON values, each within its limit; NULL for a NULL array. */
extern NullableDatum *pgqrs_arg_json_array(FunctionCallInfo fcinfo, int n,
										   const char *name, int *count);

extern void pgqrs_arg_same_length(int count, const char *name, int other_count,
								  const char *other_name);

/* 22023 if two items have the same key, naming them; NULL keys do not count. */
extern void pgqrs_check_distinct(char **keys, int count, const char *name);

/* Distinct names, signals or step ids; NULL: none. */
extern char **pgqrs_arg_keys_or(FunctionCallInfo fcinfo, int n,
								const char *name, int *count);

/* The behaviour if the idempotency key is taken. */
extern PgqrsOnDuplicate pgqrs_arg_on_duplicate(FunctionCallInfo fcinfo, int n);

/*
 * The idempotency keys of a batch, one per item, each NULL or distinct; NULL:
 * no item has a key.
 */
extern char **pgqrs_arg_idempotency_keys(FunctionCallInfo fcinfo, int n,
										 int count, const char *items_name);

/* 0A000 unless it is NULL, or all its elements are. */
extern void pgqrs_arg_concurrency_key(FunctionCallInfo fcinfo, int n);
extern void pgqrs_arg_concurrency_keys(FunctionCallInfo fcinfo, int n,
									   int count, const char *items_name);

/* Distinct message ids and their leases, arrays of one length: arguments n and n + 1. */
extern int pgqrs_arg_leases(FunctionCallInfo fcinfo, int n, const char *ids_name,
							const char *leases_name, int64 **ids, int64 **leases);

/* The same; NULL is an empty array. */
extern int pgqrs_arg_leases_or_none(FunctionCallInfo fcinfo, int n,
									const char *ids_name, const char *leases_name,
									int64 **ids, int64 **leases);

/* 0: no worker; PQ005 for what cannot be the id of one. */
extern int64 pgqrs_arg_worker_or_none(FunctionCallInfo fcinfo, int n);

extern int64 *pgqrs_arg_ids(FunctionCallInfo fcinfo, int n, const char *name,
							int *count);

/* The length of a lease, more than 0; -1: that of the queue. */
extern int64 pgqrs_arg_lease_time(FunctionCallInfo fcinfo, int n);

/* The time to a deadline, more than 0; -1: that of the workflow. */
extern int64 pgqrs_arg_timeout(FunctionCallInfo fcinfo, int n);

/* The status of a run, -1 for NULL. */
extern int pgqrs_arg_run_status(FunctionCallInfo fcinfo, int n);

/* -1: without limit; 1 or more; 0: not given. */
extern int pgqrs_arg_max_attempts(FunctionCallInfo fcinfo, int n);

/* The indexes of the ids in ascending order of the ids. */
extern int *pgqrs_ascending(const int64 *ids, int count);

/*
 * The options of a queue or workflow: arguments after its name, in their order;
 * NULL leaves an option as it is, or at its default.  The next argument is
 * "replace" of create, or "reset" of alter.
 */
extern void pgqrs_arg_options_of_create(FunctionCallInfo fcinfo,
										PgqrsOptions *options);
extern void pgqrs_arg_options_of_alter(FunctionCallInfo fcinfo,
									   PgqrsOptions *options);

/* From "input" to "concurrency_key", in the order of pgqrs_trigger(). */
extern void pgqrs_arg_new_run(FunctionCallInfo fcinfo, int first, PgqrsNewRun *r);

/* The same where another argument stands behind "input"; first: "idempotency_key". */
extern void pgqrs_arg_new_run_after(FunctionCallInfo fcinfo, int input,
									int first, PgqrsNewRun *r);

/* How long a procedure may wait, in milliseconds, rounded up. */
extern int64 pgqrs_arg_wait_timeout(FunctionCallInfo fcinfo, int n, int64 missing);

/* 25001 if the procedure must not commit. */
extern void pgqrs_require_nonatomic(FunctionCallInfo fcinfo, const char *procedure);

/* A result of one row of the function's declared type. */
extern TupleDesc pgqrs_result_desc(FunctionCallInfo fcinfo);
extern Datum pgqrs_result_row(FunctionCallInfo fcinfo, const NullableDatum *columns);

/* A result of many rows: called once, then once for each row. */
extern void pgqrs_result_begin(FunctionCallInfo fcinfo);
extern void pgqrs_result_put(FunctionCallInfo fcinfo, const NullableDatum *columns);

/* NULL for NULL */
extern NullableDatum pgqrs_text_value(const char *text);

#endif /* PGQRS_API_ARGS_H */
