# What ALTER EXTENSION UPDATE does, while everybody works and waits (F35): it
# gets its locks in time, rewrites nothing, and no client fails.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('f35_upgrade', "fsync = off\npgqrs.paused = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql(q{SELECT pgqrs_create_queue('jobs'), pgqrs_create_queue('other'), pgqrs_create_workflow('flow'), pgqrs_trigger('flow');
	SELECT count(pgqrs_enqueue_batch('jobs', array_fill('1'::jsonb, ARRAY[10000])))});

# What an upgrade script may do, in the transaction of ALTER EXTENSION UPDATE.
my $upgrade = q{BEGIN;
	SET LOCAL lock_timeout = '2 s';
	ALTER TABLE pgqrs_messages ADD COLUMN upgraded text;
	ALTER TABLE pgqrs_workflow_runs ADD COLUMN upgraded text;
	COMMENT ON TABLE pgqrs_queues IS 'new';
	UPDATE pg_extension SET extversion = 'next' WHERE extname = 'pgqrs';
	COMMIT};

append_to_file("$dir/life.sql", <<'SQL');
SELECT pgqrs_enqueue('jobs', '1');
SELECT * FROM pgqrs_dequeue('jobs') \gset
SELECT pgqrs_archive_message(:message_id, :lease);
SQL
my $load = IPC::Run::start(
	[ 'pgbench', '-n', '-M', 'prepared', '-c', 4, '-j', 2, '-T', 20, '-f', "$dir/life.sql", $node->connstr('postgres') ],
	'<', '/dev/null', '>', "$dir/out", '2>', "$dir/err");
my @waiting = (start_client($node, "CALL pgqrs_wait_for_work('other', timeout => '1 minute')"),
	start_client($node, "CALL pgqrs_wait(1, '1 minute')"));
$node->poll_query_until('postgres', q{SELECT count(*) >= 100 FROM pgqrs_archive}) or die 'nothing gets done';

my $before = sql("SELECT string_agg(pg_relation_filenode(oid)::text, ',' ORDER BY oid) FROM pg_class WHERE relname ~ '^pgqrs' AND relkind IN ('r', 'i')");
is(sqlstate($node, $upgrade), '', 'the upgrade gets its locks');
is(sql("SELECT string_agg(pg_relation_filenode(oid)::text, ',' ORDER BY oid) FROM pg_class WHERE relname ~ '^pgqrs' AND relkind IN ('r', 'i')"),
	$before, 'the upgrade rewrites no table');

my $done = sql('SELECT count(*) FROM pgqrs_archive');
$node->poll_query_until('postgres', "SELECT count(*) > $done FROM pgqrs_archive") or die 'nothing gets done';
$load->finish;
is($load->result(0), 0, 'the load ends without an error');
unlike(slurp_file("$dir/out"), qr/failed transactions: [1-9]/, 'no transaction of the load fails') or diag(slurp_file("$dir/err"));
isnt(sql("SELECT count(*) FROM pgqrs_archive"), $done, 'clients archived messages during the upgrade');
is_well($node, 'after the upgrade');

$node->stop('fast');
finish_client($_) for @waiting;
done_testing();
