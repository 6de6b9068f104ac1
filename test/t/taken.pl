# What others are just claiming costs a claim no look at its row; what they undo
# is there for the next claim at once.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $node = new_node('taken', "max_prepared_transactions = 20\nfsync = off\nautovacuum = off\n");
my $holder = $node->background_psql('postgres');
my $claimer = $node->background_psql('postgres');

sub buffers_of_claim
{
	my $plan = $claimer->query_safe(q{EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT FROM pgqrs_dequeue('jobs')});

	return $plan =~ /shared hit=(\d+)/ ? $1 : die "no buffers in: $plan";
}

# Of a claim while another transaction claims so many messages; the least of some attempts:
# what was claimed longer ago than a second is looked at.
sub buffers
{
	my ($claimed) = @_;
	my @buffers;

	for (1 .. 10)
	{
		$holder->query_safe('TRUNCATE pgqrs_messages');
		$holder->query_safe(q{SELECT pgqrs_enqueue_batch('jobs', array_fill('1'::jsonb, ARRAY[60]))});
		buffers_of_claim();
		$holder->query_safe("BEGIN; SELECT FROM pgqrs_dequeue('jobs', batch_size => $claimed)");
		push @buffers, buffers_of_claim();
		$holder->query_safe('COMMIT');
	}
	return (sort { $a <=> $b } @buffers)[0];
}

# The message that is claimed again after the statement.
sub claimed_again
{
	my ($begin, $end) = @_;
	my $message;

	$holder->query_safe('TRUNCATE pgqrs_messages');
	$holder->query_safe(q{SELECT pgqrs_enqueue('jobs', '"again"')});
	$holder->query_safe("BEGIN; $begin SELECT FROM pgqrs_dequeue('jobs')");
	is($claimer->query_safe(q{SELECT payload FROM pgqrs_dequeue('jobs')}), '', "$end: a claim finds no message before the end of the transaction that claimed");
	$holder->query_safe($end);
	is($claimer->query_safe(q{SELECT payload FROM pgqrs_dequeue('jobs')}), '"again"', "$end: a claim finds the message at once after that");
	$holder->query_safe('COMMIT') if $end =~ /TO/;
	return;
}

$node->safe_psql('postgres', q{SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 hour')});
cmp_ok(buffers(50), '<', buffers(1) + 25, 'beside 50 claims that are not committed');

claimed_again('', 'ROLLBACK');
claimed_again('SAVEPOINT s;', 'ROLLBACK TO s');
claimed_again('', "PREPARE TRANSACTION 'claim'; ROLLBACK PREPARED 'claim'");

# Rows that are written by hand may have a key again that was claimed.
my $back = 'UPDATE pgqrs_messages SET lease = NULL, visible_after = enqueued_at';
for my $begin ('', 'BEGIN;')
{
	$holder->query_safe('TRUNCATE pgqrs_messages');
	$holder->query_safe(q{SELECT pgqrs_enqueue('jobs', '"back"')});
	for my $time (1 .. 12)
	{
		$holder->query_safe("$begin SELECT FROM pgqrs_dequeue('jobs')");
		$holder->query_safe($back);
		my $by = $begin ? $holder : $claimer;
		is($by->query_safe(q{SELECT payload FROM pgqrs_dequeue('jobs')}), '"back"', "$begin put back by hand, $time");
		$by->query_safe($back);
		$holder->query_safe('COMMIT') if $begin;
	}
	is($claimer->query_safe(q{SELECT payload FROM pgqrs_dequeue('jobs')}), '"back"', "$begin there in the end");
}

$holder->quit;
$claimer->quit;
done_testing();
