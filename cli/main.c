/*
 * main.c: the sub-commands of pgqrs, and their options.
 */
#include "pgqrs.h"

#include <fcntl.h>
#include <unistd.h>

#include "getopt_long.h"

static const Subcommand subcommands[] = {
	{"work", "--queue NAME... --exec COMMAND",
	 "run a command for each message and run", work_main},
	{"step", "ID -- COMMAND...", "in a command: run it once, print its output",
	 step_main},
	{"sleep", "ID [DURATION]", "in a command: sleep without a lease", sleep_main},
	{"wait-signal", "ID [SIGNAL]", "in a command: wait for a signal",
	 wait_signal_main},
	{"trigger", "WORKFLOW [INPUT]", "start a run, print its id", trigger_main},
	{"enqueue", "QUEUE [PAYLOAD]", "send a message, print its id", enqueue_main},
	{"result", "RUN", "print the output of a run", result_main},
	{"signal", "RUN SIGNAL [PAYLOAD]", "send a signal to a run", signal_main},
	{"cancel", "RUN [REASON]", "cancel a run", cancel_main},
	{"runs", "[WORKFLOW]", "list runs, newest first", runs_main},
	{"run", "RUN", "show a run and its steps", run_main},
	{"queues", "", "list queues with what is in them", queues_main},
	{"dead", "[QUEUE]", "list what failed for good", dead_main},
	{"replay", "ID... | --queue NAME", "try again what failed for good", replay_main},
	{"top", "", "show queues, workers and live runs, again and again", top_main},
	{"report", "[RUN]", "print a page in HTML", report_main},
};

const Subcommand *current_subcommand;

/* The options that each sub-command has besides its own. */
enum
{
	OPT_HELP = 256,
	OPT_FIRST_OWN
};

#define CONNECTION_LETTERS "d:h:p:U:"

static const struct option connection_options[] = {
	{"dbname", required_argument, NULL, 'd'},
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"username", required_argument, NULL, 'U'},
	{"help", no_argument, NULL, OPT_HELP},
};

#define MAX_OPTIONS 24

static void
print_options(const Option *options)
{
	printf("\nOptions:\n");
	for (const Option *o = options; o->name; o++)
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
		   "      --help             show this\n");
}

static void
print_subcommand_help(const Option *options)
{
	printf("pgqrs %s: %s\n\nUsage:\n  pgqrs %s [OPTION]... %s\n",
		   current_subcommand->name, current_subcommand->help,
		   current_subcommand->name, current_subcommand->arguments);
	print_options(options);
	printf("\nThe page pgqrs(1) says more.\n");
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

/*
 * Takes the options of a sub-command, and those of the connection; returns the
 * index of the first argument, of which there is the right number.
 */
int
parse_options(int argc, char **argv, Option *options, int min_arguments,
			  int max_arguments)
{
	struct option long_options[MAX_OPTIONS] = {{0}};
	char letters[MAX_OPTIONS * 2 + sizeof(CONNECTION_LETTERS)] = CONNECTION_LETTERS;
	int n = lengthof(connection_options);
	int c;

	memcpy(long_options, connection_options, sizeof(connection_options));
	for (int i = 0; options[i].name; i++, n++)
	{
		char *end = letters + strlen(letters);

		long_options[n] = (struct option){options[i].name,
										  options[i].has_value ? required_argument :
																 no_argument,
										  NULL, OPT_FIRST_OWN + i};
		if (options[i].letter)
			sprintf(end, "%c%s", options[i].letter, options[i].has_value ? ":" : "");
	}
	Assert(n < MAX_OPTIONS);

	while ((c = getopt_long(argc, argv, letters, long_options, NULL)) != -1)
	{
		Option *o = options;

		if (c == OPT_HELP)
		{
			print_subcommand_help(options);
			exit(0);
		}
		if (c == '?')
			usage_error("wrong option");
		while (o->name && o->letter != c && c != OPT_FIRST_OWN + (o - options))
			o++;
		if (o->name)
			simple_string_list_append(&o->values, optarg ? optarg : "");
		else
			set_connection(c, optarg);
	}
	if (argc - optind < min_arguments ||
		(max_arguments >= 0 && argc - optind > max_arguments))
		usage_error("expected: pgqrs %s %s", current_subcommand->name,
					current_subcommand->arguments);
	return optind;
}

/* The value of an option, the last one if it was given several times; or NULL. */
const char *
option_value(const Option *options, const char *name)
{
	while (strcmp(options->name, name) != 0)
		options++;
	return options->values.tail ? options->values.tail->val : NULL;
}

long
option_number(const Option *options, const char *name, long default_value,
			  long min, long max)
{
	const char *text = option_value(options, name);
	char *end;
	long number;

	if (text == NULL)
		return default_value;
	errno = 0;
	number = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || number < min || number > max)
		usage_error("--%s is a number from %ld to %ld, not \"%s\"", name, min,
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
			return subcommands[i].main(argc - 1, argv + 1);
		}
	}
	usage_error("there is no sub-command \"%s\"", argv[1]);
}
