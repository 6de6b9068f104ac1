/*
 * json.h
 *	  The few JSON values that the extension itself makes or looks into.
 */
#ifndef PGQRS_JSON_H
#define PGQRS_JSON_H

#include "postgres.h"

#include "utils/timestamp.h"

extern Datum pgqrs_json_null(void);
extern Datum pgqrs_json_error(const char *type, const char *message);
extern Datum pgqrs_json_run_payload(int64 run_id);
extern Datum pgqrs_json_append_failure(Datum history, bool isnull, int attempt,
									   TimestampTz at, Datum error);
extern char *pgqrs_json_text(Datum object, const char *key);
extern void pgqrs_json_check_size(Datum value, const char *argument, int index);
extern Datum pgqrs_json_cap_error(Datum error);

#endif /* PGQRS_JSON_H */
