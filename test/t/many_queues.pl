# More queues than have a place in shared memory: a client that listens to one of
# the others, or waits for it, is told all the same, of delays and leases too; and a
# claim does not have all of them looked at.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('main', "fsync = off\nautovacuum = off\npgqrs.paused = off\n");
my $queues = 33800;	# there is place for 32768

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Each of them gets a place, as long as there is one.
sql("SELECT count(pgqrs_create_queue('q' || g, visibility_timeout => '1 hour')) FROM generate_series(1, $queues) g");
sql("SELECT count(pgqrs_enqueue('q' || g, '1', delay => '1 hour')) FROM generate_series(1, $queues) g");

# The last ones have none, but for a few perhaps.
my @last = $queues - 19 .. $queues;
my %id = map { split /\|/ } split /\n/, sql("SELECT queue, queue_id FROM pgqrs_queue_stats WHERE queue = ANY ('{" . join(',', map { "q$_" } @last) . "}')");
my $listener = $node->background_psql('postgres');
$listener->query_safe(join '; ', map { "LISTEN pgqrs_queue_$_" } values %id);

sub received
{
	my %seen;
	my $out = $listener->query('SELECT 1');
	$seen{$1} = 1 while $out =~ /Asynchronous notification "pgqrs_queue_(\d+)"/g;
	return %seen;
}

# All of the queues are told of within a time.
sub all_told
{
	my ($name, $query) = @_;
	my (%seen, $start);
	sql($query);
	$start = time;
	while (keys %seen < @last && time - $start < $PostgreSQL::Test::Utils::timeout_default)
	{
		%seen = (%seen, received());
		select undef, undef, undef, 0.05;
	}
	is(scalar(keys %seen), scalar(@last), $name);
	note("after " . (time - $start) . " s");
	select undef, undef, undef, 1.1;	# another look, that may tell of it twice
	received();
	return;
}
my $each = "FROM unnest('{" . join(',', @last) . "}'::int[]) g";
all_told('messages', "SELECT count(pgqrs_enqueue('q' || g, '1')) $each");
sql("SELECT count(d.message_id) $each, pgqrs_dequeue('q' || g) d");
all_told('delays', "SELECT count(pgqrs_enqueue('q' || g, '1', delay => '2 s')) $each");
all_told('leases', "SELECT count(d.message_id) $each, pgqrs_dequeue('q' || g, visibility_timeout => '2 s') d");

# How often the claim index was used.  A look at all that have no place is some
# thousand times.
sub looks
{
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pgqrs worker' AND state <> 'idle'});
	return sql("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'pgqrs_messages_claim_idx'");
}
sql("SELECT cardinality(pgqrs_enqueue_batch('q$queues', array_fill('1'::jsonb, '{20}')))");
my ($before, $earlier) = (looks(), -1);
while ($before != $earlier)
{
	select undef, undef, undef, 1.5;
	($earlier, $before) = ($before, looks());
}
sql(join '', map { "SELECT message_id FROM pgqrs_dequeue('q$queues');\n" } 1 .. 20);
select undef, undef, undef, 1.5;
cmp_ok(looks() - $before, '<', 200, 'claims have no other queues looked at');

# However often there is something to tell of them, they are looked at once a
# second: each look is two scans for each of some 1,000 queues.
my $began = time;
$before = looks();
sql("SELECT pgqrs_enqueue('q$queues', '1'), pg_sleep(0.03)") for 1 .. 60;
my $rate = (looks() - $before) / (time - $began + 2);
note("looks per second: $rate");
cmp_ok($rate, '<', 3000, 'work in many queues does not make each pass look at all of them');

# Clients that wait, few of whose queues have a slot for their due instant.
sql("SELECT count(d.message_id) $each, pgqrs_dequeue('q' || g, batch_size => 10) d");
my @waiters = map { start_client($node, "CALL pgqrs_wait_for_work('q$_', timeout => '1 hour');\n") } @last[0 .. 7];
$node->poll_query_until('postgres', "SELECT count(*) = 8 FROM pg_stat_activity WHERE query LIKE 'CALL%' AND wait_event_type = 'Extension'") or die 'the clients do not wait';
sql("SELECT count(pgqrs_enqueue('q' || g, '1', delay => '1 s')) $each");
is(finish_client($_), 't', 'a waiting client is woken') for @waiters;

$listener->quit;
$node->stop;
done_testing();
