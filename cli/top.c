/*
 * top.c: pgqrs top, a screen that is shown again and again.
 */
#include "pgqrs.h"

#include <limits.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define QUEUES_SQL                                                                                \
	"SELECT queue, paused, ready, delayed, in_flight, dead, oldest_ready_age, sent, done, failed" \
	" FROM pgqrs_queue_stats ORDER BY ready + in_flight DESC, queue LIMIT $1"
#define WORKERS_SQL                                                                                    \
	"SELECT worker, status, in_flight, max_concurrent, hostname, heartbeat_at FROM pgqrs_worker_stats" \
	" WHERE status <> 'STOPPED' ORDER BY in_flight DESC, worker LIMIT $1"
#define IN_FLIGHT_SQL                                                                                     \
	"SELECT message_id, queue, worker, dequeued_at, visible_after, expired, attempt FROM pgqrs_in_flight" \
	" ORDER BY dequeued_at LIMIT $1"

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

	show("Queues", QUEUES_SQL, rows);
	show("Workers", WORKERS_SQL, rows);
	show("In flight", IN_FLIGHT_SQL, rows);
}

int
top_main(char **arguments)
{
	bool is_screen = isatty(STDOUT_FILENO);
	int interval = option_number("interval", 2, 1, 3600);
	int count = option_number("count", is_screen ? INT_MAX : 1, 1, INT_MAX);

	while (count-- > 0)
	{
		if (is_screen)
			fputs("\033[H\033[2J", stdout);
		show_screen();
		fflush(stdout);
		if (count > 0)
			pg_usleep(interval * 1000000L);
	}
	return 0;
}
