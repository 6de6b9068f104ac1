/*
 * main.c: the sub-commands of pgqrs, and their options.
 */
#include "pgqrs.h"

#include <ctype.h>
#include <fcntl.h>
#include <unistd.h>

#include "getopt_long.h"

/*
 * How many arguments there are follows from how they are shown.  An option is
 * its name and, as it may be, /letter and = for a value.  Where a sub-command is
 * one call, its parameters are the arguments and then the options.
 */
static const Subcommand subcommands[] = {
	{"work", "", "run a command for each message and run",
	 "queue/q= exec/x= concurrency/j= grace/g= name/n= until-empty verbose/v",
	 work_main},
	{"step", "ID -- COMMAND...", "in a command: run it once, print its output",
	 "text/t optional/o max-attempts= retry-after=", step_main},
	{"sleep", "ID [DURATION]", "in a command: sleep without a lease",
	 "until=", sleep_main},
	{"wait-signal", "ID [SIGNAL]", "in a command: wait for a signal",
	 "timeout= text/t", wait_signal_main},
	{"trigger", "WORKFLOW [INPUT]", "start a run, print its id",
	 "key/k= delay= run-at= priority= timeout= tags= headers= on-duplicate="
	 " require-worker",
	 call_main,
	 "SELECT pgqrs_trigger($1, $2, $3, delay => $4, run_at => $5,"
	 " priority => $6, timeout => $7, tags => $8, headers => $9,"
	 " on_duplicate => $10, require_worker => $11)"},
	{"enqueue", "QUEUE [PAYLOAD]", "send a message, print its id",
	 "key/k= delay= run-at= priority= headers= on-duplicate=", call_main,
	 "SELECT pgqrs_enqueue($1, coalesce($2, 'null'::jsonb),"
	 " idempotency_key => $3, delay => $4, run_at => $5, priority => $6,"
	 " headers => $7, on_duplicate => $8)"},
	{"result", "RUN", "print the output of a run",
	 "wait/w timeout/t= format/f=", result_main},
	{"signal", "RUN SIGNAL [PAYLOAD]", "send a signal to a run",
	 "key/k= headers=", call_main, "SELECT pgqrs_signal($1, $2, $3, $4, $5)"},
	{"cancel", "RUN [REASON]", "cancel a run", "", call_main,
	 "SELECT pgqrs_cancel_run($1, $2)"},
	{"runs", "[WORKFLOW]", "list runs, newest first",
	 "status/s= tags= before= limit/l= format/f=", list_main,
	 "SELECT run_id, workflow, status, waiting_for, attempt, failures, worker,"
	 " created_at, completed_at, error ->> 'type' AS error"
	 " FROM pgqrs_list_runs($1, $2, $3, $4, $5)"},
	{"run", "RUN", "show a run and its steps", "format/f=", run_main},
	{"queues", "", "list queues with what is in them", "format/f=", list_main,
	 "SELECT queue, CASE WHEN is_workflow THEN 'workflow' ELSE 'queue' END AS kind,"
	 " paused, ready, delayed, in_flight, dead, oldest_ready_age"
	 " FROM pgqrs_queue_stats ORDER BY queue"},
	{"dead", "[QUEUE]", "list what failed for good", "limit/l= format/f=", list_main,
	 "SELECT message_id, queue, run_id, archived_at, attempt, failures,"
	 " last_error AS error, payload FROM pgqrs_dead_letters"
	 " WHERE queue = $1 OR $1 IS NULL"
	 " ORDER BY archived_at DESC LIMIT coalesce($2, 50)"},
	{"replay", "[ID]...", "try again what failed for good",
	 "queue/q= error-type= limit/l=", replay_main},
	{"top", "", "show queues, workers and what is in flight, again and again",
	 "interval/i= count/n=", top_main},
	{"report", "[RUN]", "print a page in HTML", "", call_main,
	 "SELECT CASE WHEN $1::bigint IS NULL THEN pgqrs_report()"
	 " ELSE pgqrs_report_run($1) END"},
};

const Subcommand *current_subcommand;
Option current_options[MAX_OPTIONS];

/* The options that each sub-command has besides its own. */
enum
{
	OPT_HELP = 256,
	OPT_FIRST_OWN
};

static const struct option connection_options[] = {
	{"dbname", required_argument, NULL, 'd'},
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"username", required_argument, NULL, 'U'},
	{"help", no_argument, NULL, OPT_HELP},
};


static void
print_subcommand_help(void)
{
	const Subcommand *s = current_subcommand;

	printf("pgqrs %s: %s\n\nUsage:\n  pgqrs %s [OPTION]... %s\n\nOptions:\n",
		   s->name, s->help, s->name, s->arguments);
	for (const Option *o = current_options; o->name; o++)
	{
		if (o->letter)
			printf("  -%c, ", o->letter);
		else
			printf("      ");
		printf("--%s%s\n", o->name, o->has_value ? " VALUE" : "");
	}
	printf("  -d, --dbname DBNAME    database name or connection string\n"
		   "  -h, --host HOSTNAME    server host or socket directory\n"
		   "  -p, --port PORT        server port\n"
		   "  -U, --username NAME    role\n"
		   "      --help             show this\n"
		   "\nThe page pgqrs(1) says more.\n");
}

static void
print_help(void)
{
	printf("pgqrs: durable queues and workflows of a PostgreSQL database\n\n"
		   "Usage:\n  pgqrs SUBCOMMAND [OPTION]... [ARGUMENT]...\n\n"
		   "Sub-commands:\n");
	for (int i = 0; i < lengthof(subcommands); i++)
		printf("  %-12s %s\n", subcommands[i].name, subcommands[i].help);
	printf("\n\"pgqrs SUBCOMMAND --help\" shows its options, pgqrs(1) all.\n");
}

void
usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pg_log_generic_v(PG_LOG_ERROR, PG_LOG_PRIMARY, fmt, args);
	va_end(args);
	pg_log_error_hint("Try \"pgqrs %s%s--help\".",
					  current_subcommand ? current_subcommand->name : "",
					  current_subcommand ? " " : "");
	exit(EXIT_USAGE);
}

static void
set_connection(int c, const char *value)
{
	const char *name = c == 'd' ? ENV_DSN :
		c == 'h'				? "PGHOST" :
		c == 'p'				? "PGPORT" :
								  "PGUSER";

	/* also for what this program starts */
	if (setenv(name, value, 1) != 0)
		pg_fatal("out of memory");
}

/* Makes the options of a sub-command of what its table says. */
static void
make_options(const char *specification)
{
	char *rest = pg_strdup(specification);
	Option *o = current_options;

	for (char *name; (name = strtok(o == current_options ? rest : NULL, " ")); o++)
	{
		char *end = name + strcspn(name, "/=");

		o->has_value = name[strlen(name) - 1] == '=';
		o->letter = *end == '/' ? end[1] : 0;
		*end = '\0';
		o->name = name;
	}
}

/* Whether the number of arguments is one that the table shows. */
static bool
is_argument_count(int count)
{
	int min = 0, max = 0;

	for (const char *s = current_subcommand->arguments; *s; s++)
	{
		bool begins = s == current_subcommand->arguments || s[-1] == ' ';

		min += begins && isupper((unsigned char) *s);
		max += begins && (isupper((unsigned char) *s) || *s == '[');
	}
	return count >= min &&
		(count <= max || strstr(current_subcommand->arguments, "..."));
}

/* Takes the options; the index of the first argument. */
static int
parse_options(int argc, char **argv)
{
	struct option long_options[MAX_OPTIONS] = {{0}};
	PQExpBufferData letters;
	int n = lengthof(connection_options);
	int c;

	memcpy(long_options, connection_options, sizeof(connection_options));
	initPQExpBuffer(&letters);
	appendPQExpBufferStr(&letters, "d:h:p:U:");
	for (const Option *o = current_options; o->name; o++)
	{
		long_options[n++] = (struct option){o->name,
											o->has_value ? required_argument :
														   no_argument,
											NULL,
											OPT_FIRST_OWN + (o - current_options)};
		if (o->letter)
			appendPQExpBuffer(&letters, "%c%s", o->letter, o->has_value ? ":" : "");
	}
	while ((c = getopt_long(argc, argv, letters.data, long_options, NULL)) != -1)
	{
		Option *o = current_options;

		if (c == OPT_HELP)
		{
			print_subcommand_help();
			exit(0);
		}
		if (c == '?')
			usage_error("wrong option");
		while (o->name && o->letter != c &&
			   c != OPT_FIRST_OWN + (o - current_options))
			o++;
		if (o->name)
			simple_string_list_append(&o->values, optarg ? optarg : "true");
		else
			set_connection(c, optarg);
	}
	if (!is_argument_count(argc - optind))
		usage_error("expected: pgqrs %s %s", current_subcommand->name,
					current_subcommand->arguments);
	return optind;
}

/* The value of an option of the sub-command, the last one if there are several; or NULL. */
const char *
option_value(const char *name)
{
	const Option *o = current_options;

	while (strcmp(o->name, name) != 0)
		o++;
	return o->values.tail ? o->values.tail->val : NULL;
}

int
option_number(const char *name, int default_value, int min, int max)
{
	const char *text = option_value(name);
	char *end;
	long number;

	if (text == NULL)
		return default_value;
	errno = 0;
	number = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || number < min || number > max)
		usage_error("--%s is a number from %d to %d, not \"%s\"", name, min,
					max, text);
	return number;
}

int
main(int argc, char **argv)
{
	pg_logging_init(argv[0]);

	/* the pipes of commands never take the place of the standard streams */
	for (int fd = 0; fd < 3; fd++)
	{
		if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) != fd)
			pg_fatal("could not open \"/dev/null\": %m");
	}

	if (argc < 2)
		usage_error("a sub-command is missing");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 ||
		strcmp(argv[1], "help") == 0)
	{
		print_help();
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
	{
		puts("pgqrs " PGQRS_VERSION);
		return 0;
	}
	for (int i = 0; i < lengthof(subcommands); i++)
	{
		if (strcmp(argv[1], subcommands[i].name) == 0)
		{
			current_subcommand = &subcommands[i];
			make_options(subcommands[i].options);
			return subcommands[i].main(argv + 1 + parse_options(argc - 1, argv + 1));
		}
	}
	usage_error("there is no sub-command \"%s\"", argv[1]);
}
