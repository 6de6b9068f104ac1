/*
 * main.c: the sub-commands of pgqrs, and their options.
 */
#include "pgqrs.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "getopt_long.h"

/*
 * How many arguments there are follows from how they are shown.  An option is
 * its name and, as it may be, /letter and =VALUE, with dots if all its values
 * count and not the last one only.  Where a sub-command is one call, its
 * parameters are the run and its lease, if it acts in a command, the arguments,
 * and the options but those for its output.
 */
static const Subcommand subcommands[] = {
	{"work", "", "run a command for each message and run",
	 "queue/q=NAME... exec/x=COMMAND concurrency/j=N grace/g=SECONDS name/n=NAME until-empty verbose/v",
	 work_main},
	{"step", "ID -- COMMAND...", "in a command: run it once, print its output",
	 "text/t sql optional/o max-attempts=N retry-after=INTERVAL", step_main},
	{"sleep", "ID [DURATION]", "in a command: sleep without a lease",
	 "until=TIME", act_main,
	 "SELECT s, NULL, NULL, NULL FROM pgqrs_sleep($1, $2, $3, $4, $5) AS s"},
	{"wait-signal", "ID [SIGNAL]", "in a command: wait for a signal",
	 "timeout=INTERVAL text/t", act_main,
	 "SELECT received OR timed_out, CASE WHEN timed_out THEN 'TIMEOUT' END, payload, NULL"
	 " FROM pgqrs_await_signal($1, $2, $3, coalesce($4, $3), $5)"},
	{"wait-any", "ID", "in a command: wait for the first of several",
	 "signal/s=NAME... child/c=ID... timeout=INTERVAL", act_main,
	 "SELECT ready, NULL, jsonb_build_object('source', source, 'name', name, 'payload', payload), NULL"
	 " FROM pgqrs_await_any($1, $2, $3, $4, $5, $6)"},
	{"pause", "ID [REASON]", "in a command: wait until the run is resumed",
	 "check-after=INTERVAL text/t", act_main,
	 "SELECT resumed, NULL, output, NULL FROM pgqrs_pause_run($1, $2, $3, $5, $4)"},
	{"child", "ID [WORKFLOW] [INPUT]", "in a command: run a workflow, print its output",
	 "start/s key/k=KEY delay=INTERVAL priority=N timeout=INTERVAL tags=JSON headers=JSON on-parent-end=WHAT text/t",
	 act_main,
	 "SELECT (c ->> 'done')::boolean, c ->> 'status', c -> 'output', c -> 'error' FROM (SELECT"
	 " CASE WHEN $4::text IS NOT NULL THEN pgqrs_start_child($1, $2, $3, $4, $5, $7, delay => $8, priority => $9,"
	 " timeout => $10, tags => $11, headers => $12, on_parent_end => $13) END,"
	 " CASE WHEN $6 THEN '{\"done\": true}' ELSE to_jsonb(pgqrs_await_child($1, $2, $3)) END AS c OFFSET 0) AS a"},
	{"children", "ID WORKFLOW INPUTS", "in a command: run a workflow for each input",
	 "priority=N timeout=INTERVAL tags=JSON on-parent-end=WHAT", act_main,
	 "SELECT (c ->> 'done')::boolean, failed ->> 'status', outputs, failed -> 'error' FROM (SELECT"
	 " pgqrs_start_children($1, $2, $3, $4, ARRAY(SELECT jsonb_array_elements($5)), priority => $6, timeout => $7,"
	 " tags => $8, on_parent_end => $9), to_jsonb(pgqrs_await_children($1, $2, $3)) AS c OFFSET 0) AS a,"
	 " LATERAL (SELECT jsonb_agg(r ORDER BY n) FILTER (WHERE r ->> 'status' <> 'SUCCESS') -> 0,"
	 " coalesce(jsonb_agg(CASE WHEN (r -> 'truncated')::boolean"
	 " THEN (SELECT output FROM pgqrs_await_child($1, $2, $3 || '[' || n || ']')) ELSE r -> 'output' END ORDER BY n), '[]')"
	 " FROM jsonb_array_elements(CASE WHEN (c ->> 'done')::boolean THEN c -> 'results' END)"
	 " WITH ORDINALITY AS e(r, n)) AS b(failed, outputs)"},
	{"progress", "VALUE", "in a command: show how far the run is", "", act_main,
	 "SELECT true, NULL, NULL, NULL FROM pgqrs_set_progress($1, $2, $3)"},
	{"trigger", "WORKFLOW [INPUT]", "start a run, print its id",
	 "key/k=KEY delay=INTERVAL run-at=TIME priority=N timeout=INTERVAL tags=JSON headers=JSON on-duplicate=WHAT require-worker",
	 call_main,
	 "SELECT pgqrs_trigger($1, $2, $3, delay => $4, run_at => $5, priority => $6, timeout => $7, tags => $8,"
	 " headers => $9, on_duplicate => $10, require_worker => $11)"},
	{"enqueue", "QUEUE [PAYLOAD]", "send a message, print its id",
	 "key/k=KEY delay=INTERVAL run-at=TIME priority=N headers=JSON on-duplicate=WHAT",
	 call_main,
	 "SELECT pgqrs_enqueue($1, coalesce($2, 'null'::jsonb), idempotency_key => $3, delay => $4, run_at => $5,"
	 " priority => $6, headers => $7, on_duplicate => $8)"},
	{"result", "RUN", "print the output of a run",
	 "wait/w timeout/t=INTERVAL format/f=FORMAT", result_main},
	{"signal", "RUN SIGNAL [PAYLOAD]", "send a signal to a run",
	 "key/k=KEY headers=JSON", call_main, "SELECT pgqrs_signal($1, $2, $3, $4, $5)"},
	{"resume", "RUN [ID] [OUTPUT]", "end a pause of a run", "", call_main,
	 "SELECT to_json(pgqrs_resume_run($1, $2, $3))"},
	{"cancel", "RUN [REASON]", "cancel a run", "", call_main,
	 "SELECT pgqrs_cancel_run($1, $2)"},
	{"runs", "[WORKFLOW]", "list runs, newest first",
	 "status/s=STATUS tags=JSON before=RUN limit/l=N format/f=FORMAT", list_main,
	 "SELECT run_id, workflow, status, waiting_for, attempt, failures, worker, created_at, completed_at,"
	 " error ->> 'type' AS error FROM pgqrs_list_runs($1, $2, $3, $4, $5)"},
	{"run", "RUN", "show a run and its steps", "format/f=FORMAT", run_main},
	{"queues", "", "list queues with what is in them", "format/f=FORMAT", list_main,
	 "SELECT queue, CASE WHEN is_workflow THEN 'workflow' ELSE 'queue' END AS kind, paused, ready, delayed,"
	 " in_flight, dead, oldest_ready_age FROM pgqrs_queue_stats ORDER BY queue"},
	{"dead", "[QUEUE]", "list what failed for good",
	 "limit/l=N format/f=FORMAT", list_main,
	 "SELECT message_id, queue, run_id, archived_at, attempt, failures, last_error AS error, payload"
	 " FROM pgqrs_dead_letters WHERE queue = $1 OR $1 IS NULL ORDER BY archived_at DESC LIMIT coalesce($2, 50)"},
	{"why", "QUEUE", "say why nothing of a queue is delivered", "format/f=FORMAT",
	 list_main, "SELECT reason, detail, hint FROM pgqrs_why($1)"},
	{"replay", "[ID]...", "try again what failed for good",
	 "queue/q=NAME error-type=TYPE limit/l=N", replay_main},
	{"top", "", "show queues, workers and what is in flight, again and again",
	 "interval/i=SECONDS count/n=N", top_main},
	{"report", "[RUN]", "print a page in HTML", "", call_main,
	 "SELECT CASE WHEN $1::bigint IS NULL THEN pgqrs_report() ELSE pgqrs_report_run($1) END"},
	{"web", "", "serve pages and actions to a browser",
	 "listen/l=ADDRESS name/n=NAME actions/a", web_main},
};

const Subcommand *current_subcommand;
Option current_options[MAX_OPTIONS];

/* The options that each sub-command has besides its own, and their variables. */
#define CONNECTION_OPTIONS \
	" dbname/d=DBNAME host/h=HOST port/p=PORT username/U=ROLE help"

static const char *const connection_variables[][2] = {{"dbname", ENV_DSN},
													  {"host", "PGHOST"},
													  {"port", "PGPORT"},
													  {"username", "PGUSER"}};

#define OPT_FIRST 256 /* what getopt_long() answers for the first of them */

static void
print_subcommand_help(void)
{
	const Subcommand *s = current_subcommand;

	printf("pgqrs %s: %s\n\nUsage:\n  pgqrs %s [OPTION]... %s\n\nOptions:\n",
		   s->name, s->help, s->name, s->arguments);
	for (const Option *o = current_options; o->name; o++)
		printf(o->letter ? "  -%c, --%s %s\n" : "   %c  --%s %s\n",
			   o->letter ? o->letter : ' ', o->name,
			   o->value_name ? o->value_name : "");
	puts("\nDBNAME may be a connection string. The page pgqrs(1) says more.");
}

static void
print_help(void)
{
	printf("pgqrs: durable queues and workflows of a PostgreSQL database\n\n"
		   "Usage:\n  pgqrs SUBCOMMAND [OPTION]... [ARGUMENT]...\n\n"
		   "Sub-commands:\n");
	for (int i = 0; i < lengthof(subcommands); i++)
		printf("  %-12s %s\n", subcommands[i].name, subcommands[i].help);
	puts("\nExit codes: 0 done, 1 other error, 3 run in ERROR, 4 run CANCELLED, 5 not ended in time, 64 wrong usage,\n"
		 "65 refused, 75 try again, 78 no extension or older, 79 lease gone, 80 run to be cancelled.\n\n"
		 "\"pgqrs SUBCOMMAND --help\" shows its options, pgqrs(1) says more.");
}

void
usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pg_log_generic_v(PG_LOG_ERROR, PG_LOG_PRIMARY, fmt, args);
	va_end(args);
	pg_log_error_hint("Try \"pgqrs %s\".",
					  current_subcommand ?
						  psprintf("%s --help", current_subcommand->name) :
						  "--help");
	exit(EXIT_USAGE);
}

static const char *
next_word(const char *text)
{
	text += strcspn(text, " ");
	return text + strspn(text, " ");
}

/* Makes the options of a sub-command of what its table says. */
static void
make_options(const char *specification)
{
	char *rest = psprintf("%s" CONNECTION_OPTIONS, specification);
	Option *o = current_options;

	for (char *name; (name = strtok(o == current_options ? rest : NULL, " ")); o++)
	{
		o->name = name;
		if ((o->value_name = strchr(name, '=')) != NULL)
			*o->value_name++ = '\0';
		name += strcspn(name, "/");
		o->letter = *name ? name[1] : 0;
		*name = '\0';
	}
}

/* Whether the number of arguments is one that the table shows. */
static bool
is_argument_count(int count)
{
	const char *shown = current_subcommand->arguments;
	int min = 0, max = strstr(shown, "...") ? INT_MAX : 0;

	for (; *shown; shown = next_word(shown))
	{
		min += isupper((unsigned char) *shown) != 0;
		max += max < INT_MAX;
	}
	return count >= min && count <= max;
}

/* Takes the options; the index of the first argument. */
static int
parse_options(int argc, char **argv)
{
	struct option long_options[MAX_OPTIONS] = {{0}};
	PQExpBufferData letters;
	int c;

	initPQExpBuffer(&letters);
	for (int i = 0; current_options[i].name; i++)
	{
		const Option *o = &current_options[i];
		int has_value = o->value_name ? required_argument : no_argument;

		long_options[i] = (struct option){o->name, has_value, NULL, OPT_FIRST + i};
		if (o->letter)
			appendPQExpBuffer(&letters, "%c%s", o->letter, has_value ? ":" : "");
	}
	while ((c = getopt_long(argc, argv, letters.data, long_options, NULL)) != -1)
	{
		Option *o = current_options;

		if (c == '?')
			usage_error("wrong option");
		while (o->letter != c && c != OPT_FIRST + (o - current_options))
			o++;
		simple_string_list_append(&o->values, optarg ? optarg : "true");
	}
	if (option_value("help"))
	{
		print_subcommand_help();
		exit(0);
	}
	for (int i = 0; i < lengthof(connection_variables); i++)
	{
		const char *value = option_value(connection_variables[i][0]);

		/* also for what this program starts */
		if (value && setenv(connection_variables[i][1], value, 1) != 0)
			pg_fatal("out of memory");
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

	while (o->name && strcmp(o->name, name) != 0)
		o++;
	return o->values.tail ? o->values.tail->val : NULL;
}

/* Appends to an array literal, which is not closed; NULL is no text. */
void
append_element(PQExpBuffer array, const char *text)
{
	appendPQExpBufferStr(array, array->len == 0 ? "{" : ",");
	appendPQExpBufferStr(array, text ? "\"" : "NULL");
	for (const char *c = text; c && *c; c++)
	{
		if (*c == '"' || *c == '\\')
			appendPQExpBufferChar(array, '\\');
		appendPQExpBufferChar(array, *c);
	}
	if (text)
		appendPQExpBufferChar(array, '"');
}

/* All values of an option as an array literal. */
char *
option_array(const Option *option)
{
	PQExpBuffer array = createPQExpBuffer();

	for (const SimpleStringListCell *c = option->values.head; c; c = c->next)
		append_element(array, c->val);
	appendPQExpBufferStr(array, array->len > 0 ? "}" : "{}");
	return array->data;
}

/* Appends the parameters of the call that the sub-command is; their number. */
int
add_values(const char **values, int count, char **arguments)
{
	for (const char *shown = current_subcommand->arguments; *shown;
		 shown = next_word(shown))
		values[count++] = *arguments ? read_input(*arguments++) : NULL;
	for (const Option *o = current_options; strcmp(o->name, "dbname") != 0; o++)
	{
		if (o->value_name && strstr(o->value_name, "..."))
			values[count++] = option_array(o);
		else if (strcmp(o->name, "format") != 0 && strcmp(o->name, "text") != 0)
			values[count++] = option_value(o->name);
	}
	return count;
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
			argv += 1 + parse_options(argc - 1, argv + 1);
			if (strstr(current_subcommand->help, "in a command: "))
				take_lease();
			return current_subcommand->main(argv);
		}
	}
	usage_error("there is no sub-command \"%s\"", argv[1]);
}
