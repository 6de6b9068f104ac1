/*
 * pgqrs.h: what the files of the program pgqrs share.
 */
#ifndef PGQRS_CLI_H
#define PGQRS_CLI_H

#include "postgres_fe.h"

#include "common/logging.h"
#include "fe_utils/simple_list.h"
#include "libpq-fe.h"
#include "pqexpbuffer.h"

/* PostgreSQL 18 has it. */
#ifndef pg_noreturn
#define pg_noreturn __attribute__((noreturn))
#endif

/* Exit codes.  Where sysexits.h has one for the case, it is that one. */
#define EXIT_RUN_ERROR	   3  /* the run has ended in ERROR */
#define EXIT_RUN_CANCELLED 4  /* the run has ended in CANCELLED */
#define EXIT_NOT_ENDED	   5  /* the wait ran out; the run goes on */
#define EXIT_USAGE		   64 /* wrong options or arguments */
#define EXIT_BAD_INPUT	   65 /* refused, and would be again */
#define EXIT_TEMPORARY	   75 /* no connection, no memory, read-only ... */
#define EXIT_NO_EXTENSION  78 /* the extension is missing or older */
#define EXIT_LEAVE		   79 /* the lease is gone: leave the command */
#define EXIT_CANCELLED	   80 /* the run is to be cancelled */

/* What the worker tells its commands, and reads from its own caller. */
#define ENV_DSN		  "PGQRS_DSN"
#define ENV_RUN		  "PGQRS_RUN_ID"
#define ENV_LEASE	  "PGQRS_LEASE"
#define ENV_NOTICE_FD "PGQRS_NOTICE_FD"

/* What a sub-command of a command tells the worker. */
typedef struct Notice
{
	int64 run_id;
	int64 lease;
	enum
	{
		NOTICE_NONE,
		NOTICE_HELD,	  /* the lease is still the command's */
		NOTICE_GIVING_UP, /* the lease may be gone with the next call */
		NOTICE_GIVEN_UP,  /* the lease is gone, as it should be */
		NOTICE_CANCELLED  /* the sub-command was told of a cancel */
	} what;
} Notice;

/* main.c */
typedef struct Option
{
	const char *name;		 /* without dashes */
	char letter;			 /* 0: has no short form */
	char *value_name;		 /* NULL: it is a flag */
	SimpleStringList values; /* as given; of a flag "true" */
} Option;

typedef int Main(char **arguments);

typedef struct Subcommand
{
	const char *name;
	const char *arguments;
	const char *help;
	const char *options;
	Main *main;
	const char *sql;
} Subcommand;

#define MAX_OPTIONS 24
#define MAX_VALUES	16 /* that a call has */

extern const Subcommand *current_subcommand;
extern Option current_options[MAX_OPTIONS];

extern const char *option_value(const char *name);
extern int option_number(const char *name, int default_value, int min, int max);
extern void append_element(PQExpBuffer array, const char *text);
extern char *option_array(const Option *option);
extern int add_values(const char **values, int count, char **arguments);
pg_noreturn extern void usage_error(const char *fmt, ...) pg_attribute_printf(1, 2);

/* connection.c */
extern long payload_max;
extern bool is_error_before;
extern const char *const setup_sql;
extern const char *const connection_keywords[];

extern const char *const *connection_values(void);
extern bool check_setup(PGconn *conn, const PGresult *result, PQExpBuffer message);
extern void log_notice(void *arg, const PGresult *result);

extern const char *sqlstate_of(const PGresult *result);
extern bool is_transient(const char *sqlstate);
extern bool is_lease_lost(const char *sqlstate);
extern bool is_unstorable(const char *sqlstate);
extern void log_result_error(const PGresult *result);
pg_noreturn extern void exit_with_error(const PGresult *result);

extern PGconn *get_connection(void);
extern PGresult *call(const char *sql, int nparams, const char *const *values);
extern PGresult *call_repeated(const char *before, const char *sql, int nparams,
							   const char *const *values);
extern char *read_input(const char *argument);

/* calls.c */
extern void print_rows(const PGresult *result, const char *title,
					   bool is_expanded, bool has_pager);

/* The sub-commands. */
extern void take_lease(void);
extern Main act_main, call_main, list_main, replay_main, result_main, run_main,
	step_main, top_main, web_main, work_main;

#endif /* PGQRS_CLI_H */
