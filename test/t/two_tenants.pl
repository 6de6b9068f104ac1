# What one tenant is told of another: every view and every function of the
# extension, as the catalog lists them, is tried by roles that have no privilege
# on a tenant's names, or only monitor or read.  A new view or function is tried
# without a change of this file.
use strict;
use warnings;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

# What only readers of a.* may see has "payload" in it; what only members of the
# role alice may see has "hidden" in it.
my $node = new_node('two_tenants', "pgqrs.audit = on\nmax_prepared_transactions = 2\nfsync = off\nclient_min_messages = notice\nlog_min_messages = info\n");

sub sql
{
	my ($query, $role) = @_;
	return $node->safe_psql('postgres', $query, $role ? (extra_params => [ '-U', $role ]) : ());
}

my %privileges = (alice => [ 'a.*', 'admin' ], bob => [ 'b.*', 'admin' ], robin => [ 'b.*', 'read' ], mona => [ 'b.*', 'monitor' ],
	rita => [ 'a.*', 'read' ], paul => [ 'a.*', 'monitor' ]);
sql(join ';', map { "CREATE ROLE $_ LOGIN; SELECT pgqrs_grant('$privileges{$_}[0]', '$_', '$privileges{$_}[1]')" } sort keys %privileges);

# ids that no other number contains
sql("SELECT setval(s, 7100001 + 100000 * n) FROM unnest('{pgqrs_queue_id_seq,pgqrs_message_id_seq,pgqrs_worker_id_seq,pgqrs_schedule_id_seq}'::regclass[]) WITH ORDINALITY AS v (s, n)");
sql("SELECT pgqrs_create_queue('b.jobs', max_attempts => 1), pgqrs_create_workflow('b.flow'), pgqrs_enqueue('b.jobs', '1'), pgqrs_trigger('b.flow')", 'bob');

sql(<<'SQL', 'alice');
SELECT pgqrs_create_queue('a.jobs', '1 h', max_attempts => 1), pgqrs_create_queue('a.done', max_attempts => 1), pgqrs_create_workflow('a.flow');
SELECT pgqrs_register_worker('a.worker', '{a.*,hidden.*}', 'hidden host', 4711, 'version 7', 3, '{"a": "hidden label"}') AS worker \gset
SELECT pgqrs_schedule('a.plan', '@daily', 'a.flow', '{"a": "payload"}', tags => '{"a": "payload"}');

SELECT pgqrs_enqueue('a.done', '{"a": "payload"}', headers => '{"a": "payload"}', idempotency_key => 'payload');
SELECT pgqrs_nack_message(message_id, lease, '{"type": "payload"}') FROM pgqrs_dequeue('a.done', :worker);
SELECT pgqrs_enqueue('a.jobs', '{"a": "payload"}', headers => '{"a": "payload"}', idempotency_key => 'payload');
SELECT message_id FROM pgqrs_dequeue('a.jobs', :worker);

SELECT pgqrs_trigger('a.flow', '{"a": "payload"}', 'payload', tags => '{"a": "payload"}', headers => '{"a": "payload"}') AS run \gset
SELECT lease FROM pgqrs_dequeue('a.flow', :worker) \gset
SELECT pgqrs_set_progress(:run, :lease, '"payload"');
SELECT pgqrs_step_begin(:run, :lease, 'payload step', '"payload"'), pgqrs_step_complete(:run, :lease, 'payload step', '"payload"');
SELECT pgqrs_start_child(:run, :lease, 'payload child', 'a.flow', '"payload"') AS child \gset
SELECT pgqrs_signal(:run, 'payload signal', '"payload"', headers => '{"a": "payload"}');
SELECT pgqrs_pause_run(:run, :lease, 'payload pause', reason => '"payload"');
SELECT pgqrs_resume_run(:child, 'payload later', '"payload"');
SELECT pgqrs_trigger('a.flow', priority => 1);
SELECT pgqrs_fail_run(run_id, lease, '{"type": "payload"}') FROM pgqrs_dequeue('a.flow', :worker);
SELECT pgqrs_trigger('a.flow', priority => 1) AS gone \gset
SELECT pgqrs_cancel_run(:gone, 'payload reason');
SQL
# an open and a prepared transaction, the oldest of all
my $open = $node->background_psql('postgres', extra_params => [ '-U', 'alice' ]);
$open->query_safe("SET application_name = 'hidden application'");
$open->query_safe("BEGIN; SELECT pgqrs_enqueue('a.jobs', '1') > 0");
sql("BEGIN; SELECT pgqrs_enqueue('a.jobs', '2'); PREPARE TRANSACTION 'hidden transaction'", 'alice');

my @views = split /\n/, sql(q{SELECT c.relname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'v'
	WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' ORDER BY 1});
cmp_ok(scalar @views, '>=', 15, 'the catalog lists the views');
my $leases = join '|', split /\n/, sql('SELECT lease FROM pgqrs_messages WHERE lease IS NOT NULL');
my $pids = join '|', split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE usename = 'alice'");
my $ids = qr/\b7[2-5]0\d{4}\b/;    # of alice, apart from those of bob
my %own = map { $_ => 1 } split /\n/, sql(q{SELECT queue_id FROM pgqrs_queues WHERE name LIKE 'b.%'
	UNION ALL SELECT message_id FROM pgqrs_messages m JOIN pgqrs_queues q USING (queue_id) WHERE q.name LIKE 'b.%'});

# Runs a script as a role; what it printed, errors and notices included, by the
# names that it echoes.
sub echoed
{
	my ($role, @script) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script';
	append_to_file($file, join "\n", '\set VERBOSITY verbose', @script, '');
	my $out = qx{psql -XAt -U $role -d "${\$node->connstr('postgres')}" -f $file 2>&1};
	$out =~ s/^psql:\S+ //mg;
	my (undef, %by) = split /^== (\w+)\n/m, $out;
	return \%by;
}

# The rows of the views as a role sees them, NULL columns left out.
my %seen = map { my $role = $_; $role => echoed($role, map { "\\echo == $_\nSELECT jsonb_strip_nulls(to_jsonb(v)) FROM $_ AS v;" } @views) } sort keys %privileges;
sub view
{
	my ($view, $role) = @_;
	return $seen{$role}{$view};
}

foreach my $view (@views)
{
	unlike(view($view, 'alice'), qr/\b($leases)\b/, "$view shows its own tenant no lease");
	foreach my $role (qw(bob robin mona))
	{
		my $shown = view($view, $role);
		unlike($shown, qr/payload|hidden|\ba\.|alice|version 7|\b($pids|$leases)\b/, "$view tells $role nothing of another tenant");
		is(join(' ', grep { !$own{$_} } $shown =~ /$ids/g), '', "$view shows $role no id of another tenant");
	}
	unlike(view($view, 'rita'), qr/hidden|\b(4711|$pids|$leases)\b/, "$view tells a reader nothing of a worker's host or a session");
	unlike(view($view, 'paul'), qr/payload|hidden|\b(4711|$pids|$leases)\b/, "$view shows no payload to a role with monitor");
}

# What each of them is for.
like(view('pgqrs_runs', 'rita'), qr/payload/, 'a reader sees inputs');
like(view('pgqrs_worker_stats', 'rita'), qr/^{"status": "READY", "worker": "a.worker", "version": "version 7", "in_flight": 1, "worker_id": \d+, "heartbeat_at": "[^"]*"}\s*$/,
	"a reader sees of another role's worker what tells whether its queues are served");
like(view('pgqrs_worker_stats', 'alice'), qr/hidden host/, 'a worker is shown in full to its owner');
like(view('pgqrs_queue_stats', 'paul'), qr/"a.jobs"/, 'a role with monitor sees figures by name');
like(view('pgqrs_in_flight', 'paul'), qr/"worker": "a.worker"/, 'a role with monitor sees which worker holds a message');
like(view('pgqrs_schedule_list', 'paul'), qr/ERROR:  42501/, 'a role with monitor may not read schedules');
like(view('pgqrs_health', 'rita'), qr/another session, open|a prepared transaction, open/, 'a reader sees that a session is old, not which');

# Functions: the answers about another tenant's objects are those about objects
# that do not exist, notices included.
my %target = (queue => "'a.jobs'", workflow => "'a.flow'", name => "'a.plan'", pattern => "'a.*'",
	run_id => sql("SELECT max(run_id) FROM pgqrs_workflow_runs WHERE status = 'PAUSED'"),
	message_id => sql(q{SELECT message_id FROM pgqrs_archive WHERE outcome = 'DEAD' AND run_id IS NULL}),
	worker_id => sql('SELECT worker_id FROM pgqrs_workers'), queue_id => sql(q{SELECT queue_id FROM pgqrs_queues WHERE name = 'a.jobs'}),
	workflow_id => sql(q{SELECT queue_id FROM pgqrs_queues WHERE name = 'a.flow'}), schedule_id => sql('SELECT schedule_id FROM pgqrs_schedules'));
my %absent = (queue => "'c.jobs'", workflow => "'c.flow'", name => "'c.plan'", pattern => "'c.*'", map { $_ => 9000000000000001 + length } grep { /_id$/ } keys %target);
my %plain = (bigint => '1', integer => '1', smallint => '1', text => "'x'", jsonb => "'{}'", interval => "'1 s'", boolean => 'true', regclass => '1', name => "'x'",
	'timestamp with time zone' => "'2030-01-01'", 'text[]' => "'{x}'", 'jsonb[]' => "'{1}'", 'bigint[]' => "'{1}'", 'double precision' => '1', 'double precision[]' => "'{1}'");

# Calls with the arguments that have no default, and with that which names an object.
sub calls
{
	my ($objects) = @_;
	my @calls;
	foreach my $row (split /\n/, sql(q{SELECT p.proname, p.prokind, p.pronargs - p.pronargdefaults, array_to_string(p.proargnames[1:p.pronargs], ' '),
			(SELECT string_agg(format_type(t, NULL), ',' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n))
		FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
		WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
			AND p.prorettype <> 'trigger'::regtype AND p.proname <> 'pgqrs_register_worker' /* makes an object of its own */ ORDER BY 1}))
	{
		my ($function, $kind, $required, $names, $types) = split /\|/, $row;
		my @names = split / /, $names;
		my @types = split /,/, $types;
		my @arguments;
		my $is_about = 0;
		foreach my $i (0 .. $#names)
		{
			my $object = $types[$i] =~ /^(bigint|text)$/ ? $objects->{ $names[$i] } : undef;
			$object = "'{" . $objects->{ $names[$i] =~ s/s$//r } . "}'" if $types[$i] eq 'bigint[]' && $names[$i] =~ /^(run|message)_ids$/;
			$is_about ||= defined $object;
			push @arguments, "\"$names[$i]\" => " . ($object // $plain{ $types[$i] } // 'NULL') if defined $object || $i < $required;
		}
		next if !$is_about;
		push @calls, "\\echo == $function\n" . ($kind eq 'p' ? "CALL $function(" : "SELECT * FROM $function(") . join(', ', @arguments) . ');';
	}
	return @calls;
}

# What they say, by function, with the objects' names and ids taken out.
sub answers
{
	my ($role, $objects) = @_;
	my $by = echoed($role, calls($objects));
	foreach my $value (map { s/'//gr } values %$objects)
	{
		s/\b\Q$value\E(?!\w)/<object>/g foreach values %$by;
	}
	return $by;
}

foreach my $role (qw(bob robin mona))
{
	my $there = answers($role, \%target);
	my $missing = answers($role, \%absent);
	cmp_ok(scalar keys %$there, '>=', 60, "the catalog lists the functions that $role tries");
	is($there->{$_}, $missing->{$_}, "$_ answers $role about another tenant's object as if it did not exist") foreach sort keys %$there;
	unlike(join('', values %$there), qr/payload|hidden|alice|\b($pids|$leases)\b/, "no answer or notice tells $role more");
}
is(sql(q{SELECT count(*) FROM pgqrs_queues WHERE name LIKE 'a.%'}), '3', 'the calls changed nothing of the other tenant');

# The log of the server is for its operators, but a lease is in no line of it.
unlike(slurp_file($node->logfile), qr/\b($leases)\b/, 'no line of the log shows a lease');
$open->quit;
sql("ROLLBACK PREPARED 'hidden transaction'");
is_well($node, 'after the calls');
done_testing();
