# Rows have their entries in all indexes, though a session was interrupted when
# it first looked which those are.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('index_entries', "fsync = off\n");
$node->safe_psql('postgres', "SELECT pgqrs_create_queue('jobs')");

my $locker = $node->background_psql('postgres');
for my $index ('pgqrs_messages_pkey', 'pgqrs_messages_claim_idx', 'pgqrs_messages_worker_idx', 'pgqrs_messages_waiting_idx')
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$locker->query_safe("BEGIN; ALTER INDEX $index SET TABLESPACE pg_default");
	$session->query("SET statement_timeout = '100 ms'; SELECT pgqrs_enqueue('jobs', '1')");
	$locker->query_safe('ROLLBACK');
	$session->query('RESET statement_timeout');
	my $id = $session->query("SELECT pgqrs_enqueue('jobs', '2')");
	is($node->safe_psql('postgres', "SELECT message_id FROM pgqrs_dequeue('jobs', batch_size => 10)"), $id, "a claim returns the message after one that was interrupted at $index");
	$session->quit;
}
$locker->quit;

done_testing();
