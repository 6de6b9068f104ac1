/*
 * top.c: pgqrs top, a screen that is shown again and again.
 */
#include "pgqrs.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved_terminal;
static bool has_terminal;
static volatile sig_atomic_t is_interrupted;

static void
interrupt(int signo)
{
	is_interrupted = 1;
}

static void
restore_terminal(void)
{
	if (has_terminal)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_terminal);
}

/* Keys come without a line end, and are not shown. */
static void
prepare_terminal(void)
{
	struct sigaction action = {.sa_handler = interrupt};
	struct termios terminal;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved_terminal) != 0)
		return;
	has_terminal = true;
	atexit(restore_terminal);
	terminal = saved_terminal;
	terminal.c_lflag &= ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
}

static int
screen_rows(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
		return size.ws_row;
	return 24;
}

static void
show(const char *title, const char *sql, int rows)
{
	char limit[16];
	const char *values[] = {limit};
	PGresult *result;

	snprintf(limit, sizeof(limit), "%d", Max(rows, 1));
	result = call(sql, 1, values);
	print_rows(result, title, false, false);
	PQclear(result);
}

static void
show_screen(void)
{
	/* a third of the screen each, without titles, heads and feet */
	int rows = screen_rows() / 3 - 5;

	show("Queues",
		 "SELECT queue, paused, ready, delayed, in_flight, dead, oldest_ready_age,"
		 " in_per_minute, out_per_minute FROM pgqrs_queue_stats"
		 " ORDER BY ready + in_flight DESC, queue LIMIT $1",
		 rows);
	show("Workers",
		 "SELECT worker, status, in_flight, max_concurrent, hostname, heartbeat_at"
		 " FROM pgqrs_worker_stats WHERE status <> 'STOPPED'"
		 " ORDER BY in_flight DESC, worker LIMIT $1",
		 rows);
	show("In flight",
		 "SELECT message_id, queue, worker, dequeued_at, visible_after, expired,"
		 " attempt FROM pgqrs_in_flight ORDER BY dequeued_at LIMIT $1",
		 rows);
}

/* True: q was pressed, or a signal came. */
static bool
pause_screen(int ms)
{
	struct pollfd fd = {has_terminal ? STDIN_FILENO : -1, POLLIN, 0};
	char key;

	if (poll(&fd, 1, ms) < 0)
		return is_interrupted;
	return fd.revents && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q');
}

int
top_main(int argc, char **argv)
{
	Option options[] = {{"interval", 'i', true}, {"count", 'n', true}, {0}};
	bool is_screen = isatty(STDOUT_FILENO);
	long interval, count;

	parse_options(argc, argv, options, 0, 0);
	interval = option_number(options, "interval", 2, 1, 3600);
	count = option_number(options, "count", is_screen ? LONG_MAX : 1, 1, LONG_MAX);
	prepare_terminal();
	while (!is_interrupted)
	{
		if (is_screen)
			fputs("\033[H\033[2J", stdout);
		show_screen();
		fflush(stdout);
		if (--count == 0 || pause_screen(interval * 1000))
			break;
	}
	return 0;
}
