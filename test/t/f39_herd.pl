# Herds.  F39: of 500 that wait for work, one message wakes one, and a batch of
# ten wakes ten; one that becomes due by time wakes few.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('main', "fsync = off\nmax_connections = 550\nshared_buffers = 64MB\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

my $waiters = 500;
my $asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL pgqrs_wait_for_work%' AND wait_event_type = 'Extension'";
my $timeout = $PostgreSQL::Test::Utils::timeout_default;

sql("SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour'), pgqrs_create_queue('other')");
append_to_file($node->basedir . '/wait.sql', "CALL pgqrs_wait_for_work('q', timeout => '$timeout s');\n");
my $out;
my $herd = IPC::Run::start([ 'pgbench', '-n', '-M', 'simple', '-c', $waiters, '-t', 1, '-f', $node->basedir . '/wait.sql',
		$node->connstr('postgres') ], '>', \$out, '2>', \$out, IPC::Run::timeout(2 * $timeout));
$node->poll_query_until('postgres', "SELECT ($asleep) = $waiters") or die 'they do not sleep';
sql(<<SQL);
CREATE FUNCTION claim(most int, n int) RETURNS bigint LANGUAGE plpgsql AS \$\$
BEGIN
	WHILE ($asleep) > most LOOP
		PERFORM pg_stat_clear_snapshot(), pg_sleep(0.002);
	END LOOP;
	PERFORM pgqrs_dequeue('q', batch_size => n);
	PERFORM pg_stat_clear_snapshot();
	RETURN ($asleep);
END \$\$;
SQL
# so that none looks for other reasons than those of the test
my $before = sql('SELECT clock_timestamp()');

# A backend that looked, and sleeps again, is in a later transaction.
sub looked
{
	return sql("$asleep AND xact_start > '$before'");
}

sql("SELECT pgqrs_enqueue('other', '1')");
is(sql($asleep), $waiters, 'a message in another queue wakes no waiting backend');
is(looked(), 0, 'a message in another queue makes no waiting backend look');
# Sends, and claims as soon as enough are awake.  A client that is waked and does
# not claim is followed by another one a second later, which a busy machine may
# allow for: late is how many seconds the claim took.
sub wakes
{
	my ($send, $n, $delay, $what) = @_;
	my $before = sql($asleep);
	my $start = time;

	sql($send);
	my $woken = $before - sql('SELECT claim(' . ($before - $n) . ", $n)");
	my $late = int(time - $start - $delay);
	ok($woken >= $n && $woken <= $n * (1 + $late), $what) or diag("$woken are awake, after $late s");
	return $n * $late;
}

my $late = wakes("SELECT pgqrs_enqueue('q', '1')", 1, 0, 'one message wakes one backend');
cmp_ok(looked(), '<=', $late, 'one message makes no other backend look');
wakes("SELECT pgqrs_enqueue_batch('q', array_fill('1'::jsonb, '{10}'))", 10, 0, 'ten messages wake ten backends');
$before = sql('SELECT clock_timestamp()');
$late = wakes("SELECT pgqrs_enqueue('q', '1', delay => '500 ms')", 1, 0.5, 'a delay that ends wakes one backend');
cmp_ok(looked(), '<=', 3 + $late, 'a delay that ends makes few backends look');

sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL pgqrs_wait_for_work%'");
eval { $herd->finish };
$node->stop;
done_testing();
