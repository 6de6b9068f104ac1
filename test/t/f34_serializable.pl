# F34: with default_transaction_isolation = serializable, 8 clients claim and
# finish 2,000 messages and 400 runs: nothing is lost, nothing is done twice and
# no client has to retry.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $node = new_node('f34_serializable', <<'CONF');
fsync = off
default_transaction_isolation = serializable
CONF

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub work
{
	my ($name, $transactions, $script) = @_;
	my $all = 8 * $transactions;
	$node->pgbench("-n -c 8 -j 2 -t $transactions", 0,
		[ qr{processed: $all/$all}, qr{failed transactions: 0 } ],
		[ qr{^(?!.*ERROR)}s ], $name, { $name => $script });
	return;
}

sql(q{
	SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 hour');
	SELECT pgqrs_create_workflow('flow', visibility_timeout => '1 hour');
	CREATE TABLE done (id bigint);
	CREATE TABLE steps (id bigint);
	SELECT pgqrs_trigger_batch('flow', array_agg(to_jsonb(n))) FROM generate_series(1, 400) n});

# takes a message, if there is one, and archives it with a note of its own
my $claim = <<'SCRIPT';
SELECT coalesce(max(message_id), 0) AS id, coalesce(max(lease), 0) AS lease FROM pgqrs_dequeue('jobs') \gset
\if :id
BEGIN;
INSERT INTO done VALUES (:id);
SELECT pgqrs_archive_message(:id, :lease);
COMMIT;
\endif
SCRIPT

# a claim may come away empty while others have their hands on what is there
work('messages', 250, "SELECT pgqrs_enqueue('jobs', '1');\n$claim");
work('rest', 5, $claim);

# takes a run, and makes its steps and ends it in transactions of its own
work('runs', 50, <<'SCRIPT');
SELECT coalesce(max(run_id), 0) AS id, coalesce(max(lease), 0) AS lease FROM pgqrs_dequeue('flow') \gset
\if :id
BEGIN;
SELECT pgqrs_step_begin(:id, :lease, 'one');
INSERT INTO steps VALUES (:id);
SELECT pgqrs_step_complete(:id, :lease, 'one', '1');
COMMIT;
SELECT extended FROM pgqrs_extend_lease(:id, :lease);
SELECT pgqrs_complete_run(:id, :lease, '2');
\endif
SCRIPT

is(sql(q{SELECT count(*), count(DISTINCT id) FROM done}), '2000|2000', 'each message is done once');
is(sql(q{SELECT count(*), min(attempt), max(attempt), max(failures) FROM pgqrs_archive WHERE outcome = 'DONE' AND run_id IS NULL}),
	'2000|1|1|0', 'each message was claimed once');
is(sql(q{SELECT count(*), count(DISTINCT id) FROM steps}), '400|400', 'each step is made once');
is(sql(q{SELECT status, count(*), min(attempt), max(attempt) FROM pgqrs_runs GROUP BY 1}), 'SUCCESS|400|1|1', 'each run is worked on once');
is(sql('SELECT count(*) FROM pgqrs_messages'), 0, 'no message is left');

$node->stop;
done_testing();
