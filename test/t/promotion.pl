# A standby that takes over: workers that could call no server meanwhile are
# not taken for dead.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $primary = new_node('primary', "pgqrs.worker_timeout = '10 min'\nfsync = off\n", allows_streaming => 1);
$primary->safe_psql('postgres', q{SELECT pgqrs_register_worker(name, '{jobs}') FROM unnest('{a,b}'::text[]) name;
	SELECT pgqrs_create_queue('jobs'), pgqrs_enqueue('jobs', '1')});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
$primary->stop;

sub stopped
{
	return $standby->safe_psql('postgres', q{SELECT pgqrs_maintain() -> 'workers_stopped'});
}

# The standby has been up for less than worker_timeout, so the test moves the clock.
clock($standby, '11 min');
is(sqlstate($standby, "SELECT pgqrs_dequeue('jobs', 1)"), '25006', 'a standby takes no calls');
(undef, undef, my $err) = $standby->psql('postgres', "SELECT pgqrs_dequeue('jobs', 1)");
like($err, qr{ERROR:  cannot execute pgqrs_dequeue\(\) during recovery\nHINT:  Connect to the primary}, 'a claim on a standby names recovery and hints at the primary');
$standby->promote;
is(stopped(), '0', 'a pass after the promotion stops no worker before worker_timeout');
is($standby->safe_psql('postgres', "SELECT payload FROM pgqrs_dequeue('jobs', 1)"), '1', 'a worker claims on the promoted server');
clock($standby, '22 min');
is(stopped(), '2', 'a pass after worker_timeout stops the silent workers');

done_testing();
