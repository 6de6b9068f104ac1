/*
 * json.h
 *	  The few JSON values that the extension itself makes or looks into.
 */
#ifndef PGQRS_JSON_H
#define PGQRS_JSON_H

#include "postgres.h"

#include "base/nullable.h"
#include "utils/timestamp.h"

/* An object that is being made. */
typedef struct PgqrsJson
{
	struct JsonbParseState *state;
} PgqrsJson;

extern void pgqrs_json_begin(PgqrsJson *json);
extern void pgqrs_json_begin_inner(PgqrsJson *json, const char *key);
extern void pgqrs_json_end_inner(PgqrsJson *json);
extern void pgqrs_json_put_text(PgqrsJson *json, const char *key, const char *value);
extern void pgqrs_json_put_int64(PgqrsJson *json, const char *key, int64 value);
extern void pgqrs_json_put_true(PgqrsJson *json, const char *key);
extern void pgqrs_json_put_instant(PgqrsJson *json, const char *key, TimestampTz at);
extern void pgqrs_json_put_json(PgqrsJson *json, const char *key, Datum value);
extern Datum pgqrs_json_end(PgqrsJson *json);

extern Datum pgqrs_json_null(void);
extern Datum pgqrs_json_error(const char *type, const char *message);
extern Datum pgqrs_json_run_payload(int64 run_id);
extern Datum pgqrs_json_append_failure(NullableDatum history, int attempt,
									   TimestampTz at, Datum error);
extern char *pgqrs_json_text(Datum object, const char *key);
extern void pgqrs_json_check(Datum value, const char *argument, int index);
extern Size pgqrs_json_size(Datum value);
extern Datum pgqrs_json_cap_error(Datum error);

/* Its beginning, indented: about so many bytes, and no scalar after that. */
extern char *pgqrs_json_excerpt(Datum value, int max);

/* What became of a child run. */
typedef struct PgqrsChildEnd
{
	int64 run_id;
	const char *status;
	NullableDatum output;
	NullableDatum error;
} PgqrsChildEnd;

/* What is told of a value that is too large to be told. */
extern Datum pgqrs_json_truncated(void);

/* What steps that wait note down as their input. */
extern Datum pgqrs_json_until(TimestampTz until);
extern Datum pgqrs_json_signal_wait(const char *signal, TimestampTz deadline,
									NullableDatum headers);
extern Datum pgqrs_json_child(int64 run_id, const char *status);
extern Datum pgqrs_json_children(const int64 *run_ids, int count,
								 const char *status);

/* The same, and what awaiting any one of them has answered. */
extern Datum pgqrs_json_set_any(Datum children, NullableDatum results);

extern Datum pgqrs_json_child_ends(const PgqrsChildEnd *ends, int count);

/* Values under a key; false, NULL, or a count of -1, if there is none of that kind. */
extern bool pgqrs_json_instant(Datum object, const char *key, TimestampTz *at);

/* The object with another instant under the key. */
extern Datum pgqrs_json_set_instant(Datum object, const char *key, TimestampTz at);
extern bool pgqrs_json_int64(Datum object, const char *key, int64 *number);
extern NullableDatum pgqrs_json_value(Datum object, const char *key);
extern bool pgqrs_json_is_null(Datum value);
extern int pgqrs_json_count(Datum object, const char *key);
extern int64 pgqrs_json_element(Datum object, const char *key, int place);

#endif /* PGQRS_JSON_H */
