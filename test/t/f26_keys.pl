# F26: 50 sessions send with one idempotency key.  The first ends only when all
# the others wait for it: exactly one message or run comes of it, and all that
# are told an id are told that one.  At each isolation level.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

use constant OTHERS => 49;

my $node = new_node('f26_keys', "max_connections = 100\nfsync = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub wait_until
{
	my ($condition) = @_;
	$node->poll_query_until('postgres', "SELECT $condition")
	  or die "never true: $condition";
	return;
}

# Starts the others; each notes the id that it is told.
sub start_others
{
	my ($call, $level) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir . '/send.sql';
	my %others = (out => '');
	append_to_file($script, "INSERT INTO told SELECT $call;\n");
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$level";
	$others{harness} = IPC::Run::start(
		[ 'pgbench', '-n', '-c', OTHERS, '-t', 1, '-f', $script, $node->connstr('postgres') ],
		'<', '/dev/null', '>&', \$others{out},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return \%others;
}

# Sends first, ends with COMMIT or ROLLBACK when the others wait, and returns
# the id of the first and what the others said.
sub race
{
	my ($call, $level, $end) = @_;
	my $first = $node->background_psql('postgres');
	my $isolation = $level =~ s/_/ /r;

	sql('TRUNCATE told');
	$first->query_safe("BEGIN ISOLATION LEVEL $isolation");
	my $id = $first->query_safe("SELECT $call");
	my $others = start_others($call, $level =~ s/_/\\ /r);
	wait_until(q{count(*) = } . OTHERS . q{ FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'});
	$first->query_safe($end);
	$others->{harness}->finish;
	$first->quit;
	return ($id, $others->{out});
}

sql(q{
	CREATE TABLE told (id bigint);
	SELECT pgqrs_create_queue('jobs'), pgqrs_create_workflow('kept'),
		pgqrs_create_workflow('live', key_scope => 'active')});

my @kinds = (
	[ 'a message', q{pgqrs_enqueue('jobs', '1', idempotency_key => '%s')}, 'message_id FROM pgqrs_messages' ],
	[ 'a run', q{pgqrs_trigger('kept', idempotency_key => '%s')}, 'run_id FROM pgqrs_workflow_runs' ],
	[ 'a run that gives its key back', q{pgqrs_trigger('live', idempotency_key => '%s')}, 'run_id FROM pgqrs_workflow_runs' ]);
my $key = 0;

sub check_race
{
	my ($kind, $level, $end, $remark) = @_;
	my ($name, $call, $id_from_table) = @$kind;

	$key++;
	my ($id, $said) = race(sprintf($call, $key), $level, $end);
	my $case = "$name, $level, $end$remark";

	like($said, qr{processed: 49/49.*failed transactions: 0 }s, "$case: no client fails");
	my $stored = sql("SELECT $id_from_table WHERE idempotency_key = '$key'");
	is(sql('SELECT count(*), min(id), max(id) FROM told'), "49|$stored|$stored",
		"$case: one row is stored, and all clients get its id");
	if ($end eq 'COMMIT')
	{
		is($stored, $id, "$case: the row is that of the first client");
	}
	else
	{
		isnt($stored, $id, "$case: the row is not that of the first client, which rolled back");
	}
	return;
}

for my $kind (@kinds)
{
	for my $level ('read_committed', 'repeatable_read', 'serializable')
	{
		check_race($kind, $level, $_, '') for ('COMMIT', 'ROLLBACK');
	}
}

# While REINDEX CONCURRENTLY is at work, and should it fail, there are two
# unique indexes of the same keys.
for my $index ('pgqrs_messages_key_idx', 'pgqrs_workflow_runs_key_idx')
{
	my $twin = sql("SELECT replace(pg_get_indexdef('$index'::regclass), '$index', '${index}_ccnew')");
	sql($twin);
}
for my $kind (@kinds)
{
	check_race($kind, 'read_committed', 'ROLLBACK', ', with two indexes') for (1 .. 3);
}

is(sql(q{SELECT count(*) FROM pgqrs_workflow_runs r FULL JOIN pgqrs_messages m ON m.run_id = r.run_id
	WHERE r.run_id IS NULL AND m.run_id IS NOT NULL OR m.run_id IS NULL AND r.run_id IS NOT NULL}),
	0, 'every run has its message and every message of a run its run');

$node->stop;
done_testing();
