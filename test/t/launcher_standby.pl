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

is(standby("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pgqrs%'"), 0, 'no process on the standby');
is(standby('SELECT idle_reason FROM pgqrs_background_stats()'), 'standby', 'as is shown');
is(standby("SELECT ok FROM pgqrs_health WHERE item = 'background worker'"), 't', 'and is well');
is(standby("SELECT status FROM pgqrs_result($run)"), 'QUEUED', 'nothing is done');
$primary->stop;
$standby->promote;
ok($standby->poll_query_until('postgres', "SELECT status = 'ERROR' FROM pgqrs_result($run)"), 'once promoted it ends what is past its deadline');
ok($standby->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_dead_letters WHERE message_id = $message"), 'and what was held too often');
ok($standby->poll_query_until('postgres', 'SELECT status = \'STOPPED\' FROM pgqrs_workers'), 'and stops the silent worker');
ok(is_served($standby, 'postgres'), 'and goes on');

done_testing();
