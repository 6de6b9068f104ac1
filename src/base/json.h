/*
 * json.h
 *	  JSON values that the extension itself builds or reads.
 */
#ifndef PGQRS_JSON_H
#define PGQRS_JSON_H

#include "postgres.h"

#include "base/nullable.h"
#include "utils/timestamp.h"

/* An object under construction. */
typedef struct PgqrsJson
{
	struct JsonbParseState *state;
} PgqrsJson;

extern void pgqrs_json_begin(PgqrsJson *json);
extern void pgqrs_json_begin_inner(PgqrsJson *json, const char *key);
extern void pgqrs_json_end_inner(PgqrsJson *json);
extern void pgqrs_json_put_text(PgqrsJson *json, const char *key, const char *value);
extern void pgqrs_json_put_int64(PgqrsJson *json, const char *key, int64 value);
extern void pgqrs_json_put_bool(PgqrsJson *json, const char *key, bool value);
extern void pgqrs_json_put_instant(PgqrsJson *json, const char *key, TimestampTz at);
extern void pgqrs_json_put_json(PgqrsJson *json, const char *key, Datum value);
extern void pgqrs_json_put_json_or_null(PgqrsJson *json, const char *key,
										NullableDatum value);
extern Datum pgqrs_json_end(PgqrsJson *json);

/* An array of values; and an object with the members of two. */
extern Datum pgqrs_json_array(const Datum *values, int count);
extern Datum pgqrs_json_merge(Datum object, Datum more);

extern Datum pgqrs_json_null(void);
extern Datum pgqrs_json_sqlstate(int sqlstate);
extern Datum pgqrs_json_error(const char *type, const char *message);
extern Datum pgqrs_json_append_failure(NullableDatum history, int attempt,
									   TimestampTz at, Datum error);
extern char *pgqrs_json_text(Datum object, const char *key);
extern bool pgqrs_json_is_error(NullableDatum error, const char *type);
extern void pgqrs_json_check(Datum value, const char *argument, int index);
extern Size pgqrs_json_size(Datum value);
extern Datum pgqrs_json_cap_error(Datum error);

/*
 * The beginning of a value, indented: about max bytes, with no scalar after
 * that.
 */
extern char *pgqrs_json_excerpt(Datum value, int max);

/* How a child run ended. */
typedef struct PgqrsChildEnd
{
	int64 run_id;
	const char *status;
	NullableDatum output;
	NullableDatum error;
} PgqrsChildEnd;

/* What a step waits for that waits for the first of several. */
typedef struct PgqrsAnyWait
{
	char **signals;
	int signal_count;
	char **children; /* their step ids */
	int64 *run_ids;	 /* of the children */
	int child_count;
	TimestampTz deadline; /* DT_NOEND: none */
} PgqrsAnyWait;

/* Stands for a value that is too large to return. */
extern Datum pgqrs_json_truncated(void);

/* Inputs that waiting steps store; without a status, the payload of a run's message. */
extern Datum pgqrs_json_until(TimestampTz until);
extern Datum pgqrs_json_signal_wait(const char *signal, TimestampTz deadline,
									NullableDatum headers);
extern Datum pgqrs_json_any_wait(const PgqrsAnyWait *wait);
extern Datum pgqrs_json_any_taken(const char *source, const char *name);
extern Datum pgqrs_json_any_result(const char *source, const char *name,
								   NullableDatum payload);
extern Datum pgqrs_json_run(int64 run_id, const char *status);
extern Datum pgqrs_json_children(const int64 *run_ids, int count,
								 const char *status);

/* The same with the results of awaiting any one of the children. */
extern Datum pgqrs_json_set_any(Datum children, NullableDatum results);

extern Datum pgqrs_json_child_ends(const PgqrsChildEnd *ends, int count);

/*
 * Values under a key.  If there is no value of that type: false, NULL or a
 * count of -1.
 */
extern bool pgqrs_json_instant(Datum object, const char *key, TimestampTz *at);

/* A copy of the object with another timestamp under the key. */
extern Datum pgqrs_json_set_instant(Datum object, const char *key, TimestampTz at);
extern bool pgqrs_json_int64(Datum object, const char *key, int64 *number);
extern NullableDatum pgqrs_json_value(Datum object, const char *key);
extern bool pgqrs_json_is_null(Datum value);
extern int pgqrs_json_count(Datum object, const char *key);
extern int64 pgqrs_json_element(Datum object, const char *key, int index);
extern char *pgqrs_json_element_text(Datum object, const char *key, int index);

/* {"status", "output", "error"} of a child */
extern Datum pgqrs_json_child_end(const PgqrsChildEnd *end);

#endif /* PGQRS_JSON_H */
