/*
 * pgqrs.h: what the files of the program pgqrs share.
 */
#ifndef PGQRS_CLI_H
#define PGQRS_CLI_H

#include "postgres_fe.h"

#include <poll.h>

#include "common/logging.h"
#include "fe_utils/simple_list.h"
#include "libpq-fe.h"
#include "pqexpbuffer.h"

/* PostgreSQL 18 has it. */
#ifndef pg_noreturn
#define pg_noreturn __attribute__((noreturn))
#endif

/* Exit codes.  Where sysexits.h has one for the case, it is that one. */
#define EXIT_NOT_ENDED	  5	 /* the wait ran out; the run goes on */
#define EXIT_USAGE		  64 /* wrong options or arguments */
#define EXIT_BAD_INPUT	  65 /* refused, and would be again */
#define EXIT_TEMPORARY	  75 /* no connection, no memory, read-only ... */
#define EXIT_NO_EXTENSION 78 /* the extension is missing or older */
#define EXIT_LEAVE		  79 /* the lease is gone: leave the command */
#define EXIT_CANCELLED	  80 /* the run is to be cancelled */

/* The exit code for what a run, child or wait has come to. */
#define EXIT_CODE_SQL \
	"CASE coalesce(status, 'SUCCESS') WHEN 'SUCCESS' THEN 0 WHEN 'ERROR' THEN 3 WHEN 'CANCELLED' THEN 4 ELSE 5 END"

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

#define STDERR_TAIL 1000

/* A command that was started, with pipes to its standard streams. */
typedef struct Command
{
	pid_t pid;	   /* 0: not started, or reaped */
	int status;	   /* of waitpid(), once it has been reaped */
	int64 kill_at; /* PG_INT64_MAX: it was not told to end */

	/* the ends of pipes; -1: closed */
	int in;
	int out;
	int err;

	const char *input;
	size_t input_left;
	bool input_refused; /* it closed its standard input before the end */
	PQExpBufferData output;
	bool output_too_large;
	char error[STDERR_TAIL + 1]; /* the end of what it wrote to stderr */
	size_t error_length;

	/* of one that has failed */
	char type[32];
	PQExpBufferData message;
	const char *error_object; /* the last line on stderr, if that may be JSON */

	struct pollfd *fds; /* of command_add_fds() */
} Command;

#define COMMAND_FDS 3

/* An error as JSON, in which what the command says goes before. */
#define ERROR_SQL(type, message, object)                                       \
	"jsonb_build_object('type', " type "::text, 'message', " message "::text)" \
	" || coalesce(" object "::jsonb, '{}')"
#define RETRY_SQL(object) "(" object "::jsonb ->> 'retry_after')::interval"

/* What command_start() does besides. */
#define COMMAND_GROUP  0x1 /* a process group of its own */
#define COMMAND_OUTPUT 0x2 /* keeps the output, which else is the caller's */

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

/* Beginnings of SQLSTATEs: the lease is not the caller's any more; JSON or text cannot be stored. */
#define LEASE_LOST "PQ003 PQ006 PQ007 PQ014"
#define UNSTORABLE "22021 22P02 22P05 22032"

extern long payload_max;
extern bool is_error_before;
extern const char *const setup_sql;
extern const char *const connection_keywords[];

extern const char *const *connection_values(void);
extern void log_notice(void *arg, const PGresult *result);
extern int check_setup(PGconn *conn, PGresult *result, char **message);
extern int open_connection(PGconn **conn, const char *const *values, char **message);

extern bool has_succeeded(const PGresult *result);
extern const char *sqlstate_of(const PGresult *result);
extern bool has_sqlstate(const PGresult *result, const char *list);
extern bool is_transient(const char *sqlstate);
extern void log_result_error(const PGresult *result);
pg_noreturn extern void exit_with_error(const PGresult *result);

extern PGresult *call(const char *sql, int nparams, const char *const *values);
extern PGresult *call_repeated(const char *before, const char *sql, int nparams,
							   const char *const *values);
extern char *read_input(const char *argument);

/* command.c */
extern int64 now_ms(void);
extern void watch_children(const int *signals, void (*handler)(int));
extern bool is_due(int64 at);
extern bool command_sleep(struct pollfd *fds, int count);
extern void command_init(Command *command);
extern bool command_start(Command *command, char **argv, const char *input,
						  int flags);
extern int command_add_fds(Command *command, struct pollfd *fds);
extern void command_handle_fds(Command *command);
extern void command_exited(Command *command, int status);
extern void command_end(Command *command, int64 grace);
extern bool group_lives(pid_t group);
extern bool command_has_failed(Command *command);
extern void command_free(Command *command);

/* calls.c */
extern void print_value(const PGresult *result, int column);
extern void print_rows(const PGresult *result, const char *title,
					   bool is_expanded, bool has_pager);

/* The sub-commands. */
extern void take_lease(void);
extern Main act_main, call_main, list_main, replay_main, result_main, run_main,
	step_main, top_main, web_main, work_main;

#endif /* PGQRS_CLI_H */
