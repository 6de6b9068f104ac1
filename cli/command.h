/*
 * command.h: a command that was started, with pipes to its standard streams.
 */
#ifndef PGQRS_COMMAND_H
#define PGQRS_COMMAND_H

#include <poll.h>

#define STDERR_TAIL 1000

typedef struct Command
{
	pid_t pid;	   /* 0: not started, or reaped */
	bool is_group; /* leads a process group of its own */
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
	const char *error_object; /* the last line of it, if that may be JSON */

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

extern int64 now_ms(void);
extern void watch_children(const int *signals, void (*handler)(int));
extern bool is_due(int64 at);
extern bool command_sleep(struct pollfd *fds, int count);
extern bool children_have_ended(void);

extern bool command_start(Command *command, char **argv, const char *input,
						  int notice_fd, int flags);
extern int command_add_fds(Command *command, struct pollfd *fds);
extern void command_handle_fds(Command *command);
extern void command_exited(Command *command, int status);
extern void command_tell_to_end(Command *command, int64 grace);
extern void command_kill_overdue(Command *command);
extern bool group_lives(pid_t group);
extern bool command_has_failed(Command *command, char type[32], PQExpBuffer message);
extern void command_free(Command *command);

#endif /* PGQRS_COMMAND_H */
