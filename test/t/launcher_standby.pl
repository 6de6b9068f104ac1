# Nothing runs in the background of a standby.  Once it is promoted, all that
# came due meanwhile happens.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $primary = new_node('primary', "fsync = off\n", allows_streaming => 1);
$primary->safe_psql('postgres', q{SELECT pgqrs_create_workflow('deadline');
	SELECT pgqrs_create_queue('once', visibility_timeout => '1 ms', max_attempts => 1);
	SELECT pgqrs_register_worker('w', '{*}')});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "pgqrs.paused = off\npgqrs.worker_timeout = '1 s'\n");
$standby->start;

my $run = $primary->safe_psql('postgres', "SELECT pgqrs_trigger('deadline', timeout => '1 ms')");
my $message = $primary->safe_psql('postgres', "SELECT pgqrs_enqueue('once', '1')");
is($primary->safe_psql('postgres', "SELECT message_id FROM pgqrs_dequeue('once')"), $message, 'a message is held the last time');
$primary->wait_for_catchup($standby);

sub standby
{
	my ($query) = @_;
	return $standby->safe_psql('postgres', $query);
}

is(standby("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pgqrs%'"), 0, 'no process of pgqrs runs on the standby');
is(standby('SELECT idle_reason FROM pgqrs_background_stats()'), 'standby', 'pgqrs_background_stats() shows the standby as the reason to be idle');
is(standby("SELECT ok FROM pgqrs_health WHERE item = 'background worker'"), 't', 'pgqrs_health says that the background worker is ok');
is(standby("SELECT status FROM pgqrs_result($run)"), 'QUEUED', 'a run past its deadline stays as it is on the standby');
$primary->stop;
$standby->promote;
ok($standby->poll_query_until('postgres', "SELECT status = 'ERROR' FROM pgqrs_result($run)"), 'the promoted standby ends the run past its deadline');
ok($standby->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_dead_letters WHERE message_id = $message"), 'the promoted standby makes a dead letter of an exhausted message');
ok($standby->poll_query_until('postgres', 'SELECT status = \'STOPPED\' FROM pgqrs_workers'), 'the promoted standby stops the silent worker');
ok(is_served($standby, 'postgres'), 'the promoted standby serves the database');

done_testing();
