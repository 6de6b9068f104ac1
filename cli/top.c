/*
 * top.c: pgqrs top, a screen that is shown again and again.
 */
#include "pgqrs.h"

#include <limits.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const tables[][2] = {
	{"Queues",
	 "SELECT queue, paused, ready, delayed, in_flight, dead, oldest_ready_age, sent, done, failed"
	 " FROM pgqrs_queue_stats ORDER BY ready + in_flight DESC, queue LIMIT $1"},
	{"Workers",
	 "SELECT worker, status, in_flight, max_concurrent, hostname, heartbeat_at FROM pgqrs_worker_stats"
	 " WHERE status <> 'STOPPED' ORDER BY in_flight DESC, worker LIMIT $1"},
	{"In flight",
	 "SELECT message_id, queue, worker, dequeued_at, visible_after, expired, attempt FROM pgqrs_in_flight"
	 " ORDER BY dequeued_at LIMIT $1"},
};

static int
screen_rows(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
		return size.ws_row;
	return 24;
}

static void
show_tables(void)
{
	char limit[16];
	const char *values[] = {limit};

	/* a third of the screen each, without titles, heads and feet */
	snprintf(limit, sizeof(limit), "%d", Max(screen_rows() / 3 - 5, 1));
	for (int i = 0; i < lengthof(tables); i++)
	{
		PGresult *result = call(tables[i][1], 1, values);

		print_rows(result, tables[i][0], false, false);
		PQclear(result);
	}
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
		show_tables();
		fflush(stdout);
		if (count > 0)
			pg_usleep(interval * 1000000L);
	}
	return 0;
}
