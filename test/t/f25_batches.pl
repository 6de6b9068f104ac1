# F25: batches over the same messages and keys in opposite orders, against
# claims, a worker that stops and the maintenance pass, never deadlock.
#
# F25_ROUNDS: transactions of each of the 4 clients, 500 unless given; 10000 is
# the full test.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{F25_ROUNDS} || 500;
my $node = new_node('f25_batches', "fsync = off\ndeadlock_timeout = '50 ms'\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# The pool is held by a worker that was marked as stopped, so that
# each pass tries to release it; a transaction that changes it rolls back.
sql(q{
	SELECT pgqrs_create_queue('pool', visibility_timeout => '1 day', max_attempts => 1);
	SELECT pgqrs_create_queue('churn', max_attempts => 1000000);
	SELECT pgqrs_create_workflow('kept'), pgqrs_create_workflow('live', key_scope => 'active');
	SELECT pgqrs_register_worker('w', '{pool}');
	SELECT pgqrs_enqueue_batch('pool', array_agg(to_jsonb(n))) FROM generate_series(1, 40) n;
	CREATE TABLE pool AS SELECT message_id, lease FROM pgqrs_workers, pgqrs_dequeue('pool', worker_id, 40);
	CREATE VIEW up AS SELECT array_agg(message_id ORDER BY message_id) AS ids,
		array_agg(lease ORDER BY message_id) AS leases FROM pool;
	CREATE VIEW down AS SELECT array_agg(message_id ORDER BY message_id DESC) AS ids,
		array_agg(lease ORDER BY message_id DESC) AS leases FROM pool;
	CREATE VIEW keys_up AS SELECT array_agg('1'::jsonb) AS inputs, array_agg(k::text ORDER BY k) AS keys
		FROM generate_series(11, 40) k;
	CREATE VIEW keys_down AS SELECT array_agg('1'::jsonb) AS inputs, array_agg(k::text ORDER BY k DESC) AS keys
		FROM generate_series(11, 40) k;
	UPDATE pgqrs_workers SET status = 'STOPPED', stopped_at = clock_timestamp()});

my %scripts = (
	'archive_up@2' => 'BEGIN; SELECT pgqrs_archive_messages(ids, leases) FROM up; ROLLBACK;',
	'archive_down@2' => 'BEGIN; SELECT pgqrs_archive_messages(ids, leases) FROM down; ROLLBACK;',
	'extend_up@1' => 'SELECT count(*) FROM up, pgqrs_extend_leases(ids, leases);',
	'extend_down@1' => 'SELECT count(*) FROM down, pgqrs_extend_leases(ids, leases);',
	'reap@2' => 'BEGIN; SELECT pgqrs_maintain(); ROLLBACK;',
	'claim@1' => q{SELECT count(*) FROM pgqrs_dequeue('*', batch_size => 20, visibility_timeout => '1 us');},
	'kept_up@1' => q{BEGIN; SELECT pgqrs_trigger_batch('kept', inputs, keys) FROM keys_up; ROLLBACK;},
	'kept_down@1' => q{BEGIN; SELECT pgqrs_trigger_batch('kept', inputs, keys) FROM keys_down; ROLLBACK;},
	'live_up@1' => q{BEGIN; SELECT pgqrs_trigger_batch('live', inputs, keys) FROM keys_up; ROLLBACK;},
	'live_down@1' => q{BEGIN; SELECT pgqrs_trigger_batch('live', inputs, keys) FROM keys_down; ROLLBACK;},

	# in the random order of the leases
	'churn@3' => q{SELECT pgqrs_enqueue_batch('churn', '{1,2,3,4,5,6,7,8}');
		SELECT pgqrs_archive_messages(array_agg(message_id ORDER BY lease), array_agg(lease ORDER BY lease))
		FROM pgqrs_dequeue('churn', batch_size => 8, visibility_timeout => '1 us') HAVING count(*) > 0;});

$node->pgbench("-n -c 4 -j 2 -t $rounds", 0,
	[ qr{processed: \Q@{[4 * $rounds]}/@{[4 * $rounds]}\E}, qr{failed transactions: 0 } ],
	[ qr{^(?!.*ERROR)}s ], 'no client fails', \%scripts);

is(sql('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'), 0, 'the statistics count no deadlock');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'the log reports no deadlock');
is(sql(q{SELECT count(*), bool_and(m.lease = p.lease), max(failures) FROM pgqrs_messages m JOIN pool p USING (message_id)}),
	'40|t|0', 'the pool is as it was');
is(sql(q{SELECT count(*) FROM pgqrs_archive WHERE outcome <> 'DONE'}), 0, 'each archived message is DONE');
is_well($node, 'in the end');

$node->stop;
done_testing();
