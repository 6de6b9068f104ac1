/*
 * command.c: commands that are started, with pipes to their standard streams.
 *
 * A command's input is written and its output read as the pipes allow, by the
 * caller's loop of poll(2).  Whatever the command does, not more than twice
 * payload_max of its output is kept.  When its first process has ended, what is
 * in the pipes is read and they are closed: processes that it left behind are
 * not waited for.
 */
#include "pgqrs.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* A pipe holds 64 kB; of stderr 4 kB are read at a time. */
#define CHUNK		   65536
#define MAX_LAST_READS 32

static sigset_t old_signals;
static const int *watched_signals; /* ends with 0 */
static pid_t own_pid;
static int64 wake_at;

int64
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64CONST(1000) + now.tv_nsec / 1000000;
}

static void
make_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) != 0)
		pg_fatal("could not create pipe: %m");
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The signal that a child has ended is there to end a sleep. */
static void
take_child_signal(int signo)
{
}

/*
 * From now on a child that ends, and a signal of the list with that handler, come
 * only while command_sleep() waits, and end it.
 */
void
watch_children(const int *signals, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = take_child_signal};
	sigset_t blocked;

	own_pid = getpid();
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigaction(SIGCHLD, &action, NULL);
	action.sa_handler = handler;
	watched_signals = signals;
	for (; *signals; signals++)
	{
		sigaddset(&blocked, *signals);
		sigaction(*signals, &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, &old_signals);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
#ifdef PR_SET_CHILD_SUBREAPER
	/* what a command leaves behind has this process as its parent then */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
}

/* Whether that time has come; until then the next sleep lasts at most. */
bool
is_due(int64 at)
{
	if (at <= now_ms())
		return true;
	wake_at = Min(wake_at, at);
	return false;
}

/* poll(2); false: a signal ended it. */
bool
command_sleep(struct pollfd *fds, int count)
{
	int64 timeout = Max(0, Min(wake_at - now_ms(), 60000));
	struct timespec ts = {timeout / 1000, timeout % 1000 * 1000000};

	wake_at = PG_INT64_MAX;
	if (ppoll(fds, count, &ts, &old_signals) >= 0)
		return true;
	if (errno != EINTR)
		pg_fatal("could not wait for events: %m");
	return false;
}

/* In the child, which shares the memory of its parent until it executes. */
static void
become_command(char **argv, const int *streams, int flags)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	/* a handler would run in the memory of the parent */
	sigaction(SIGPIPE, &action, NULL);
	for (const int *signo = watched_signals; *signo; signo++)
		sigaction(*signo, &action, NULL);
	sigprocmask(SIG_SETMASK, &old_signals, NULL);
	if (flags & COMMAND_GROUP)
		setpgid(0, 0);
#ifdef PR_SET_PDEATHSIG
	/* a worker that is killed takes its commands with it */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != own_pid)
		_exit(1);
#endif
	for (int fd = 0; fd < 3; fd++)
	{
		if (streams[fd] >= 0)
			dup2(streams[fd], fd);
	}
	execvp(argv[0], argv);
}

static void
write_input(Command *command)
{
	ssize_t n = write(command->in, command->input, command->input_left);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		command->input_refused = true;
	else
	{
		command->input += n;
		command->input_left -= n;
		if (command->input_left > 0)
			return;
	}
	close_fd(&command->in);
}

void
command_init(Command *command)
{
	memset(command, 0, sizeof(*command));
	command->kill_at = PG_INT64_MAX;
	command->in = command->out = command->err = -1;
	initPQExpBuffer(&command->output);
	initPQExpBuffer(&command->message);
}

/*
 * Starts a command with that input, or without one the caller's.  False: it has
 * failed already.
 */
bool
command_start(Command *command, char **argv, const char *input, int flags)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2];
	volatile int error = 0;

	if (input)
	{
		/* what fits into the pipe is there before the command is */
		make_pipe(in);
		command->input = input;
		command->input_left = strlen(input);
		if (command->input_left > PIPE_BUF)
			fcntl(in[1], F_SETFL, O_NONBLOCK);
		command->in = in[1];
		write_input(command);
	}
	if (flags & COMMAND_OUTPUT)
		make_pipe(out);
	make_pipe(err);

	/* fork() would copy the tables of this process's memory each time */
	command->pid = vfork();
	if (command->pid == 0)
	{
		int streams[] = {in[0], out[1], err[1]};

		become_command(argv, streams, flags);
		error = errno;
		_exit(127);
	}
	if (command->pid < 0)
		error = errno;

	close_fd(&in[0]);
	close_fd(&out[1]);
	close_fd(&err[1]);
	command->out = out[0];
	command->err = err[0];
	if (error == 0)
		return true;
	if (command->pid > 0)
		waitpid(command->pid, NULL, 0);
	command->pid = 0;
	/* as a shell exits then */
	command->status = (error == ENOENT ? 127 : 126) << 8;
	strcpy(command->type, "not_started");
	appendPQExpBuffer(&command->message, "could not start \"%s\": %s", argv[0],
					  strerror(error));
	return false;
}

int
command_add_fds(Command *command, struct pollfd *fds)
{
	command->fds = fds;
	fds[0] = (struct pollfd){command->in, POLLOUT, 0};
	fds[1] = (struct pollfd){command->out, POLLIN, 0};
	fds[2] = (struct pollfd){command->err, POLLIN, 0};
	return COMMAND_FDS;
}

/* Reads once; false: there is nothing to read now, or never again. */
static bool
read_chunk(int *fd, char *chunk, size_t size, ssize_t *n)
{
	if (*fd < 0)
		return false;
	*n = read(*fd, chunk, size);
	if (*n == 0 || (*n < 0 && errno != EAGAIN && errno != EINTR))
		close_fd(fd);
	return *n > 0;
}

static bool
read_output(Command *command)
{
	static char chunk[CHUNK];
	size_t room = 2 * payload_max - command->output.len;
	ssize_t n;

	if (!read_chunk(&command->out, chunk, sizeof(chunk), &n))
		return false;
	if (n > room)
		command->output_too_large = true;
	if (!command->output_too_large)
		appendBinaryPQExpBuffer(&command->output, chunk, n);
	if (PQExpBufferBroken(&command->output))
		command->output_too_large = true;
	return true;
}

/* Passes on what the command writes to stderr, and keeps the end of it. */
static bool
read_error(Command *command)
{
	char chunk[4096];
	ssize_t n;
	size_t kept;

	if (!read_chunk(&command->err, chunk, sizeof(chunk), &n))
		return false;
	fwrite(chunk, 1, n, stderr);
	kept = Min(command->error_length, STDERR_TAIL - Min(n, STDERR_TAIL));
	memmove(command->error, command->error + command->error_length - kept, kept);
	command->error_length = kept + Min(n, STDERR_TAIL);
	memcpy(command->error + kept, chunk + n - Min(n, STDERR_TAIL),
		   Min(n, STDERR_TAIL));
	command->error[command->error_length] = '\0';
	return true;
}

void
command_handle_fds(Command *command)
{
	if (command->fds == NULL)
		return;
	if (command->fds[0].revents)
		write_input(command);
	if (command->fds[1].revents)
		read_output(command);
	if (command->fds[2].revents)
		read_error(command);
	command->fds = NULL;
}

/*
 * Its first process has ended and was reaped.  What is left behind may go on to
 * write: so much is read as the pipes hold, and not more.
 */
void
command_exited(Command *command, int status)
{
	struct pollfd fds[COMMAND_FDS];

	command->pid = 0;
	command->status = status;
	if (command->in >= 0)
		command->input_refused = true;
	close_fd(&command->in);
	for (int i = 0;
		 i < MAX_LAST_READS && (command->out >= 0 || command->err >= 0); i++)
	{
		if (poll(fds, command_add_fds(command, fds), 0) <= 0)
			break;
		command_handle_fds(command);
	}
	command->fds = NULL;
	close_fd(&command->out);
	close_fd(&command->err);
}

/*
 * Its group gets SIGTERM at the first call, and SIGKILL at one that comes so many
 * milliseconds later.
 */
void
command_end(Command *command, int64 grace)
{
	if (command->kill_at == PG_INT64_MAX)
	{
		kill(-command->pid, SIGTERM);
		command->kill_at = now_ms() + grace;
	}
	if (is_due(command->kill_at))
	{
		kill(-command->pid, SIGKILL);
		command->kill_at = PG_INT64_MAX - 1;
	}
}

/*
 * Whether a group whose leader was reaped has processes.  They are children of
 * this process, so that their ids are not used again before this looks.
 */
bool
group_lives(pid_t group)
{
#ifdef PR_SET_CHILD_SUBREAPER
	pid_t pid;

	while ((pid = waitpid(-group, NULL, WNOHANG)) > 0)
		;
	return pid == 0;
#else
	return kill(-group, 0) == 0;
#endif
}

/* Whether the command did not succeed, with the type and message of the error. */
bool
command_has_failed(Command *command)
{
	char *tail = command->error;
	char *type = command->type;
	PQExpBuffer message = &command->message;
	int status = command->status;

	if (*type != '\0')
		return true;
	if (status == 0 && command->output_too_large)
	{
		strcpy(type, "output_too_large");
		appendPQExpBuffer(message,
						  "the output of the command is longer than %ld bytes",
						  2 * payload_max);
		return true;
	}
	if (status == 0 && strlen(command->output.data) < command->output.len)
	{
		strcpy(type, "22021");
		appendPQExpBufferStr(message, "the output has a zero byte");
		return true;
	}
	if (status == 0)
		return false;
	/* not from the middle of a character */
	if (command->error_length == STDERR_TAIL)
	{
		while ((*tail & 0xC0) == 0x80)
			tail++;
	}
	while (*tail != '\0' && tail[strlen(tail) - 1] == '\n')
		tail[strlen(tail) - 1] = '\0';
	command->error_object = strrchr(tail, '\n');
	command->error_object = command->error_object ? command->error_object + 1 : tail;
	if (*command->error_object != '{')
		command->error_object = NULL;
	if (WIFSIGNALED(status))
		snprintf(type, sizeof(command->type), "signal_%d", WTERMSIG(status));
	else
		snprintf(type, sizeof(command->type), "exit_%d", WEXITSTATUS(status));
	appendPQExpBuffer(message, "the command %s %s",
					  WIFSIGNALED(status) ? "was ended by signal" : "exited with code",
					  strchr(type, '_') + 1);
	if (*tail != '\0')
		appendPQExpBuffer(message, ": %s", tail);
	return true;
}

void
command_free(Command *command)
{
	close_fd(&command->in);
	close_fd(&command->out);
	close_fd(&command->err);
	termPQExpBuffer(&command->output);
	termPQExpBuffer(&command->message);
}
