# Objects that another role put into the extension's schema are never run by the
# extension: operators for pairs of types that pg_catalog has none for, and
# functions that match a call better than the extension's own.  Each raises.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $node = new_node('main', "fsync = off\n");

sub sql
{
	my ($query, $db) = @_;
	return $node->safe_psql($db // 'jobs', $query);
}

$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN');
$node->safe_psql('postgres', 'CREATE DATABASE jobs');
sql('CREATE SCHEMA jobs; GRANT CREATE, USAGE ON SCHEMA jobs TO mallory');

# The functions that views and functions of the extension call, from an
# installation without trojans: name and types of the arguments.
my $called = sql(q{
SELECT DISTINCT p.proname || ' ' || array_to_string(p.proargtypes::regtype[], ',')
FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_depend e ON e.objid = p.oid AND e.deptype = 'e'
WHERE d.refclassid = 'pg_proc'::regclass AND e.classid = 'pg_proc'::regclass AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)
	AND e.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
}, 'postgres');
like($called, qr/^pgqrs_html text,text\[\]$/m, 'functions that are called');

# Overloads of a function that match a call better than itself unless the
# arguments are of exactly the declared types.
sub overloads
{
	my ($name, @types) = @_;
	my %other = (text => [qw(varchar name anyelement)], 'text[]' => [qw(anyarray varchar[] name[] text anyelement)],
		bigint => [qw(integer numeric anyelement)], 'double precision[]' => [qw(numeric[] anyarray)],
		interval => [qw(anyelement)], 'timestamp with time zone' => [qw(timestamp anyelement)], jsonb => [qw(json anyelement)]);
	my %made;
	for my $place (0 .. $#types)
	{
		for my $type (@{ $other{ $types[$place] } // ['anyelement'] })
		{
			my @all = map { $_ eq $types[$place] ? $type : $_ } @types;
			my @one = @types;
			$one[$place] = $type;
			$made{ join ',', @$_ } = 1 for \@all, \@one;
		}
		$made{ join ',', @types[ 0 .. $place - 1 ], "VARIADIC $types[$place]\[]" } = 1
		  if $place == $#types && $types[$place] !~ /\[]/;
	}
	$made{ join ',', ('text') x $_ } = 1 for 2 .. 6;
	delete $made{ join ',', @types };
	return map { "CREATE FUNCTION jobs.$name($_) RETURNS text LANGUAGE plpgsql AS \$\$BEGIN RAISE 'trojan $name($_)'; END\$\$;" } sort keys %made;
}

my $functions = join "\n", map { /^(\S+) (.*)/ ? overloads($1, split /,/, $2) : () } split /\n/, $called;

# All operators of the script for all pairs of types that pg_catalog lacks.
my $operators = <<'SQL';
DO $do$
DECLARE
	types text[] := '{oid,regclass,smallint,integer,bigint,double precision,numeric,text,name,varchar,interval,timestamptz,date,boolean,jsonb,text[],name[],bigint[],anyelement,anyarray,anyenum}';
	l text;
	r text;
	op text;
	result text;
BEGIN
	SET LOCAL check_function_bodies = off;
	IF to_regtype('jobs.pgqrs_run_status') IS NOT NULL THEN
		types := types || '{jobs.pgqrs_run_status,jobs.pgqrs_outcome,jobs.pgqrs_worker_status}'::text[];
	END IF;
	FOREACH l IN ARRAY types LOOP
		FOREACH r IN ARRAY types LOOP
			FOREACH result IN ARRAY '{boolean,numeric,text}'::text[] LOOP
				EXECUTE format('CREATE OR REPLACE FUNCTION jobs.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', 'evil_' || result, l, r, result,
					format('BEGIN RAISE ''trojan (%s, %s)''; END', l, r));
			END LOOP;
			FOREACH op IN ARRAY '{=,<>,<,<=,>,>=,~~,+,-,*,/,%,^,||,->>,->,#>>}'::text[] LOOP
				CONTINUE WHEN to_regoperator(format('pg_catalog.%s(%s,%s)', op, l, r)) IS NOT NULL
					OR to_regoperator(format('jobs.%s(%s,%s)', op, l, r)) IS NOT NULL;
				EXECUTE format('CREATE OPERATOR jobs.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = jobs.%I)', op, l, r,
					'evil_' || CASE WHEN op ~ '[<=~]' THEN 'boolean' WHEN op ~ '[|>]' THEN 'text' ELSE 'numeric' END);
			END LOOP;
		END LOOP;
	END LOOP;
END
$do$;
SQL

sql("SET ROLE mallory;\n$operators\n$functions");
cmp_ok(sql("SELECT count(*) FROM pg_operator WHERE oprnamespace = 'jobs'::regnamespace"), '>', 1000, 'operators lie in wait');

is(sqlstate($node, 'CREATE EXTENSION pgqrs SCHEMA jobs', 'jobs'), '', 'the extension is created, and runs none of them');

# One that no declaration can beat, an argument with a default, makes the call
# ambiguous: CREATE EXTENSION fails instead of choosing.
sql(q{CREATE SCHEMA other; GRANT CREATE, USAGE ON SCHEMA other TO mallory; SET ROLE mallory;
	CREATE FUNCTION other.pgqrs_now(integer DEFAULT 0) RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trojan'; END$$}, 'postgres');
is(sqlstate($node, 'DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs SCHEMA other'), '42725', 'an ambiguous call is refused');

# Everything that is neither the extension's own nor PostgreSQL's.
my $foreign = q{
WITH RECURSIVE own AS (
	SELECT classid, objid FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs') AND deptype = 'e'
	UNION
	SELECT d.classid, d.objid FROM pg_depend d JOIN own o ON d.refclassid = o.classid AND d.refobjid = o.objid
	WHERE d.deptype IN ('i', 'a')
)
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) || ' needs ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
FROM pg_depend d JOIN own o ON d.classid = o.classid AND d.objid = o.objid
WHERE d.refobjid >= 16384 AND (d.refclassid, d.refobjid) NOT IN (SELECT classid, objid FROM own)
	AND d.refclassid NOT IN ('pg_extension'::regclass, 'pg_namespace'::regclass)
};
is(sql($foreign), '', 'no object of the extension needs one that is neither its own nor of pg_catalog');
is(sql(q{SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d, pg_identify_object(d.classid, d.objid, 0) i
	WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
		AND d.deptype = 'e' AND COALESCE(i.schema, 'jobs') <> 'jobs'}), '', 'all objects of the extension are in its schema');

# Some work in many states, so that the views and reports have much to say.
sql(q{
SET search_path = jobs;
SELECT pgqrs_create_queue('q', max_attempts => 1), pgqrs_create_workflow('w', max_attempts => 1);
SELECT pgqrs_register_worker('worker', '{*}');
SELECT pgqrs_enqueue('q', '1', delay => pg_catalog.make_interval(hours => n)) FROM generate_series(0, 3) n;
SELECT pgqrs_nack_message(message_id, lease, '{"type": "e", "message": "m"}') FROM pgqrs_dequeue('q');
SELECT pgqrs_enqueue('q', '2');
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('q');
SELECT pgqrs_trigger('w', '{"a": 1}') FROM generate_series(1, 4);
SELECT pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('w');
SELECT pgqrs_step_begin(run_id, lease, 's'), pgqrs_fail_run(run_id, lease, '{"type": "e"}') FROM pgqrs_dequeue('w', 1);
SELECT pgqrs_pause_run(run_id, lease, 's') FROM pgqrs_dequeue('w', 1);
SELECT pgqrs_step_fail(run_id, lease, 's', '{"type": "e"}', max_attempts => 5) FROM pgqrs_dequeue('w', 1);
SELECT pgqrs_schedule('nightly', '@daily', 'w');
});

sub read_all
{
	my ($when) = @_;
	for my $view (split /\n/, sql("SELECT relname FROM pg_class WHERE relnamespace = 'jobs'::regnamespace AND relkind = 'v' ORDER BY 1"))
	{
		is(sqlstate($node, "SELECT * FROM jobs.$view", 'jobs'), '', "$when: the view $view runs none of them");
	}
	for my $call ('pgqrs_report()', 'pgqrs_verify()', 'pgqrs_maintain()', 'pgqrs_apply_retention()', 'pgqrs_sync_grants()', 'pgqrs_report_hour(clock_timestamp())',
		(map { "pgqrs_report_page('$_', csrf => 'x')" } '', 'queues', 'runs', 'workers', 'schedules', 'dead'),
		q(pgqrs_report_page('runs', '{"status": "live", "workflow": "w", "after": "2030-01-01"}')), q(pgqrs_report_page('queue', '{"queue": "q"}')),
		q(pgqrs_report_page('do', '{"action": "cancel_runs", "workflow": "w"}', 'x')), q(pgqrs_report_answer('{"run": "1"}', 's', true, 'a', NULL)),
		map { "pgqrs_report_run(run_id) FROM jobs.pgqrs_runs WHERE run_id = $_" } split /\n/, sql('SELECT run_id FROM jobs.pgqrs_runs'))
	{
		is(sqlstate($node, "SELECT jobs.$call", 'jobs'), '', "$when: $call runs none of them");
	}
	is(sqlstate($node, 'SELECT jobs.pgqrs_install_cron()', 'jobs'), '55000', "$when: pgqrs_install_cron() runs none of them");
}
read_all('trojans made before');

sql("SET ROLE mallory;\n$operators");
read_all('trojans made after');
is(sql($foreign), '', 'the functions of the extension need no object of another schema after that');
$node->stop;
done_testing();
