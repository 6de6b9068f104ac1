# F48: tables and indexes are compacted while clients and the background worker
# work, by each of the commands that docs/operations/vacuum.md names.  No call
# fails, and no work is lost.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('f48_compaction', "fsync = off\npgqrs.paused = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql(q{SELECT pgqrs_create_queue('jobs'), pgqrs_create_workflow('flow')});
append_to_file("$dir/life.sql", <<'SQL');
SELECT pgqrs_enqueue('jobs', '1') AS sent, pgqrs_trigger('flow') AS run \gset
SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('jobs');
SELECT pgqrs_step_complete(run_id, lease, 'step', '1'), pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('flow');
SQL
# Long enough for the commands below on a busy machine; it is stopped when they are done.
my $load = IPC::Run::start(
	[ 'pgbench', '-n', '-M', 'prepared', '-c', 3, '-t', 1_000_000, '-f', "$dir/life.sql", $node->connstr('postgres') ],
	'<', '/dev/null', '>', "$dir/out", '2>', "$dir/err");

sub await_more
{
	my $done = sql("SELECT count(*) FROM pgqrs_workflow_runs WHERE status = 'SUCCESS'");
	return $node->poll_query_until('postgres', "SELECT count(*) > $done + 20 FROM pgqrs_workflow_runs WHERE status = 'SUCCESS'");
}

ok(await_more(), 'runs end before anything is compacted');
for my $command ('REINDEX TABLE CONCURRENTLY', 'VACUUM FULL', 'CLUSTER')
{
	for my $table ('pgqrs_messages', 'pgqrs_archive', 'pgqrs_workflow_runs', 'pgqrs_workflow_steps')
	{
		my $using = $command eq 'CLUSTER' ? "USING ${table}_pkey" : '';
		is(sqlstate($node, "$command $table $using"), '', "$command of $table succeeds beside clients");
	}
	ok(await_more(), "runs go on ending after $command");
}
ok($load->pumpable, 'the clients are still at work');
$load->signal('TERM');
$load->finish;
is(join('', grep { /ERROR|FATAL/ } split /^/, slurp_file("$dir/err")), '', 'no call of a client failed');
is(join('', grep { /ERROR|WARNING/ && /pgqrs worker|background/ } split /^/, slurp_file($node->logfile)), '', 'background work logged no error');
is_well($node, 'after all that');

$node->stop('fast');
done_testing();
