# Soak finding T9: while another session holds a snapshot, the index of
# deadlines keeps the entries of all runs that have ended.  A run ends at its
# deadline all the same, however many those are.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $node = new_node('deadlines', "fsync = off\nautovacuum = off\npgqrs.paused = off\nmax_wal_size = 4GB\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT pgqrs_create_workflow('short'), pgqrs_create_workflow('late')");
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');

# Runs that have ended long before their deadline leave two entries each.
for (1 .. 30)
{
	sql("SELECT count(pgqrs_trigger('short', timeout => '2 s')) FROM generate_series(1, 1000);
		SELECT count(pgqrs_complete_run(run_id, lease)) FROM pgqrs_dequeue('short', batch_size => 1000)");
}
is(sql("SELECT count(*) FROM pgqrs_runs WHERE workflow = 'short' AND status = 'SUCCESS'"), '30000', 'the runs before have ended');
ok($node->poll_query_until('postgres', "SELECT pgqrs_now() > max(deadline_at) FROM pgqrs_runs WHERE workflow = 'short'"), 'the deadlines of these runs are over');

for my $try (1 .. 3)
{
	my $run = sql("SELECT pgqrs_trigger('late', timeout => '1 s')");
	ok($node->poll_query_until('postgres', "SELECT status = 'ERROR' FROM pgqrs_get_run($run)"), 'a run that no worker claims ends');
	my $delay = sql("SELECT extract(epoch FROM completed_at - deadline_at) FROM pgqrs_get_run($run)");
	cmp_ok($delay, '<', 1.5, "a run beside 60,000 index entries of ended runs ends $delay s after its deadline");
}

# One that becomes visible after its deadline was looked at ends at once, too.
my $sender = $node->background_psql('postgres');
my $run = (split /\n/, $sender->query_safe("BEGIN; SELECT pgqrs_trigger('late', timeout => '0.2 s')"))[-1];
my $other = sql("SELECT pgqrs_trigger('late', timeout => '0.5 s')");
ok($node->poll_query_until('postgres', "SELECT status = 'ERROR' FROM pgqrs_get_run($other)"), 'a later deadline passes first');
$sender->query_safe('COMMIT');
ok($node->poll_query_until('postgres', "SELECT status = 'ERROR' FROM pgqrs_get_run($run)"), 'a run committed after its deadline ends');
my $late = sql("SELECT extract(epoch FROM a.completed_at - b.completed_at) FROM pgqrs_get_run($run) AS a, pgqrs_get_run($other) AS b");
cmp_ok($late, '<', 10, "a run ends without waiting for the next search of all runs ($late s after the other)");
$sender->quit;
$holder->quit;
$node->stop;
done_testing();
