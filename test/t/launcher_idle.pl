# What background work costs where there is nothing to do, and that a pass
# costs by what is due, not by what there is.  test/perf/idle measures longer.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('idle', "fsync = off\npgqrs.paused = off\nlog_statement = none\nautovacuum = off\n");
my @databases = map { "idle$_" } 1 .. 5;

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

# Much that is not due: delayed messages, live leases, the archive, waiting
# runs, deadlines of tomorrow.
my $much = 20_000;
my $begin = time;
sql('CREATE DATABASE much');
sql(<<"SQL", 'much');
CREATE EXTENSION pgqrs;
SELECT pgqrs_create_queue('delayed'), pgqrs_create_queue('held', visibility_timeout => '1 hour', max_attempts => 1), pgqrs_create_queue('done'),
	pgqrs_create_queue('waits'), pgqrs_create_workflow('later', timeout => '1 day');
SELECT cardinality(pgqrs_enqueue_batch(queue, array_agg(to_jsonb(g)), delay => CASE queue WHEN 'delayed' THEN '1 hour' ELSE '0' END::interval))
	FROM unnest('{delayed,held,done,waits}'::text[]) queue, generate_series(1, $much / 2) g GROUP BY queue;
SELECT cardinality(pgqrs_trigger_batch('later', array_agg(to_jsonb(g)))) FROM generate_series(1, $much / 2) g;
SELECT count(*) FROM pgqrs_dequeue('held', batch_size => $much / 4);
SELECT cardinality(pgqrs_archive_messages(array_agg(message_id), array_agg(lease))) FROM pgqrs_dequeue('done', batch_size => $much / 2);
SELECT pgqrs_register_worker('w', '{*}'), pgqrs_register_worker('v', '{*}');
ANALYZE;
SQL
for my $database (@databases)
{
	sql("CREATE DATABASE $database");
	sql('CREATE EXTENSION pgqrs', $database);
}

# Index entries read and rows fetched of all that pgqrs has.
sub looked_at
{
	return sql(q{SELECT sum(i.idx_tup_read) + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname ~ '^pgqrs_')
		FROM pg_stat_user_indexes i WHERE i.relname ~ '^pgqrs_'}, 'much');
}

# A pass has been, and what it looked at is reported before its worker rests.
sub passed
{
	is_served($node, 'much') or return 0;
	return $node->poll_query_until('postgres', q{SELECT bool_and(state = 'idle') FROM pg_stat_activity
		WHERE backend_type = 'pgqrs worker' AND datname = 'much'});
}
ok(passed(), 'the background worker makes a pass');
my $before = looked_at();
my $runs = 5;
passed() or fail('the background worker makes another pass') for 1 .. $runs;
my $looked_at = looked_at() - $before;

# Once a minute a pass searches for exhausted messages, at 20,000 index entries; the first one has.
my $searches = int((time + 1 - $begin) / 60);
cmp_ok($looked_at, '<', 500 * $runs + 20_000 * $searches, 'passes look at little, of all that there is');
cmp_ok($looked_at, '>', 0, 'passes read index entries');

# No client is connected, and no background work is due.
ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}), 'background workers without due duties exit');
my $launcher = background_pid($node);

sub ticks
{
	my @fields = split / /, (slurp_file("/proc/$launcher/stat") =~ s/^.*\) //sr);
	return $fields[11] + $fields[12];
}

sub transactions
{
	return sql(q{SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname ~ '^(idle|much)'});
}

my ($transactions, $ticks) = (transactions(), ticks());
for (1 .. 5)
{
	select undef, undef, undef, 1;
	is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgqrs worker'}), 0, 'no background worker starts while no duty is due');
}
is(transactions() - $transactions, 0, 'no transaction runs in 5 seconds');
cmp_ok(ticks() - $ticks, '<=', 1, 'the launcher uses no processor time while no duty is due');

done_testing();
