# Claims cost the same whatever lies about: F1 (what a held
# snapshot keeps), F3 (messages that wait, have ended, come later or are held),
# F4 (indexes after much has gone through) and F6 (statistics that are wrong).
#
# A cost is the number of buffers that a claim touches, on average.
#   BLOAT_ROWS  how much lies about; 20,000 unless given
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use JSON::PP;
use Pgqrs;
use Test::More;

my $rows = $ENV{BLOAT_ROWS} // 20_000;
my $calls = 40;
my $node = new_node('bloat', "fsync = off\nautovacuum = off\nshared_buffers = 256MB\nmax_wal_size = 4GB\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# So many messages of a queue.
sub enqueue
{
	my ($queue, $count, $delay) = @_;
	$delay //= '0';
	sql("SELECT count(pgqrs_enqueue_batch('$queue', array_fill('1'::jsonb, ARRAY[least(1000, $count - n)]), delay => '$delay'))
		FROM generate_series(0, $count - 1, 1000) AS n");
	return;
}

# What a claim costs; the first ones are not counted.
sub cost
{
	my ($queue) = @_;
	my $warm = 10;
	my $explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgqrs_dequeue('$queue', visibility_timeout => '1 day');\n";
	my @plans = split /^(?=\[)/m, sql($explain x ($warm + $calls));
	my $sum = 0;

	for my $plan (@plans[ $warm .. $#plans ])
	{
		my $top = decode_json($plan)->[0]{Plan};
		$top->{'Actual Rows'} == 1 or die "nothing was claimed from $queue";
		$sum += $top->{'Shared Hit Blocks'} + $top->{'Shared Read Blocks'};
	}
	return $sum / $calls;
}

# At most one more per descent of an index.
sub is_flat
{
	my ($cost, $before, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	note("$what: $cost buffers, before $before");
	return cmp_ok($cost, '<=', $before + 4, "$what: a claim reads at most 4 buffers more");
}

sql("SELECT pgqrs_create_queue(q, retention => '1 day') FROM unnest('{small,waiting,future,held,done,churn,snapshot}'::text[]) AS q");
sql("SELECT pgqrs_create_queue('again', max_attempts => 1000000)");

# F6: analyzed while empty, then filled.
sql('VACUUM ANALYZE');
enqueue('small', 1_000);
my $small = cost('small');
note("of a thousand: $small buffers");
cmp_ok($small, '<', 40, 'a claim looks at few pages');

# F3
enqueue('waiting', $rows);
is_flat(cost('waiting'), $small, 'F3, F6: many wait, the tables were analyzed while empty');
enqueue('future', $rows, '1 day');
enqueue('future', 100);
is_flat(cost('future'), $small, 'F3: many come later');
enqueue('held', $rows);
sql("SELECT count(*) FROM pgqrs_dequeue('held', batch_size => 10000, visibility_timeout => '1 day')") for 1 .. ($rows + 9_999) / 10_000;
enqueue('held', 100);
is_flat(cost('held'), $small, 'F3: many are held');

# So many go through.
sub pass_through
{
	my ($queue, $count) = @_;
	for (my $n = 0; $n < $count; $n += 1_000)
	{
		sql("SELECT count(pgqrs_enqueue_batch('$queue', array_fill('1'::jsonb, ARRAY[1000])));
			SELECT cardinality(pgqrs_archive_messages(array_agg(message_id), array_agg(lease))) FROM pgqrs_dequeue('$queue', batch_size => 1000)");
	}
	return;
}

pass_through('done', $rows);
enqueue('done', 100);
is_flat(cost('done'), $small, 'F3: many have ended');

# Held once too often, and ended in the background.
sql("SELECT pgqrs_create_queue('exhausted', max_attempts => 1)");
enqueue('exhausted', $rows);
sql("SELECT count(*) FROM pgqrs_dequeue('exhausted', batch_size => 10000, visibility_timeout => '1 us')") for 1 .. ($rows + 9_999) / 10_000;
1 while sql("SELECT pgqrs_maintain()->'messages_dead'") > 0;
enqueue('exhausted', 100);
is_flat(cost('exhausted'), $small, 'F3: many were exhausted');

# Claims all of a queue, so often, by leases that run out at once.
sub claim_again
{
	my ($queue, $times) = @_;
	sql("SELECT count(*) FROM pgqrs_dequeue('$queue', batch_size => 1000, visibility_timeout => '1 us');\n" x $times);
	return;
}

enqueue('again', 200);
claim_again('again', 1);
my $again = cost('again');

# F1: nothing can be removed that a snapshot sees
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgqrs_messages');
pass_through('snapshot', $rows);
enqueue('snapshot', 200);
is_flat(cost('snapshot'), $small, 'F1: a snapshot keeps what has ended');
claim_again('again', 200);
is_flat(cost('again'), $again, 'F1: a snapshot keeps many versions of each message');
sql('VACUUM pgqrs_messages');
is_flat(cost('snapshot'), $small, 'F1: the same after a vacuum that can remove nothing');
$holder->query_safe('COMMIT');
$holder->quit;

# F4: vacuumed now and then, as autovacuum would
for (1 .. 5)
{
	pass_through('churn', $rows / 5);
	sql('VACUUM pgqrs_messages, pgqrs_archive');
}
enqueue('churn', 200);
my $churned = cost('churn');
sql('REINDEX TABLE pgqrs_messages');
enqueue('churn', 100);
my $fresh = cost('churn');
note("F4: $churned buffers, with new indexes $fresh");
cmp_ok($churned, '<=', 2 * $fresh, 'F4: a claim from indexes that have seen much costs at most twice as much');

done_testing();
