# Lost wake-ups.  F12: those that wait are killed while messages come; whatever
# comes is picked up by another one, at once or a second later.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('main', "fsync = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour')");

# A worker's loop; it ends when the server does.
my $loop = "SELECT pg_backend_pid();\n" . ("CALL pgqrs_wait_for_work('q', timeout => '1 hour');\nSELECT message_id FROM pgqrs_dequeue('q');\n" x 100);
my $asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL pgqrs_wait_for_work%' AND wait_event_type = 'Extension'";
my (@workers, $slowest);

for my $round (1 .. 15)
{
	push @workers, start_client($node, $loop) while @workers < 3 * $round;
	$node->poll_query_until('postgres', "SELECT ($asleep) >= 3") or die 'they do not sleep';
	my $start = time;
	# half of them die, the one that was woken perhaps with them
	sql("SELECT pgqrs_enqueue('q', '$round');
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL pgqrs_wait_for_work%' AND pid % 2 = $round % 2");
	until (sql("SELECT count(*) FROM pgqrs_messages WHERE lease IS NOT NULL") == $round)
	{
		die 'a message lies where it is' if time > $start + $PostgreSQL::Test::Utils::timeout_default;
		push @workers, start_client($node, $loop) unless sql($asleep);
		usleep(20_000);
	}
	$slowest = time - $start if !defined $slowest || time - $start > $slowest;
}
note("the slowest after $slowest s");
is(sql("SELECT count(*) FROM pgqrs_messages WHERE lease IS NULL"), 0, 'the workers claim all messages');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pgqrs_wait_for_work%' AND pid <> pg_backend_pid()");
eval { $_->{harness}->finish } for @workers;
$node->stop;
done_testing();
