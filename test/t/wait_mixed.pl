# Wake-ups reach a waiter that can use them.  Some wait for one queue, some for
# many, some for a worker that is suspended, full or stopped meanwhile, some are
# cancelled; messages come to random queues.  Whatever comes is claimed at once,
# or about a second later where the waiter that was woken did not come.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('main', "fsync = off\nmax_connections = 80\npgqrs.paused = off\npgqrs.worker_timeout = '1 hour'\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT count(pgqrs_create_queue('a.' || g)) FROM generate_series(1, 40) g;
	SELECT count(pgqrs_create_queue('b.' || g)) FROM generate_series(1, 5) g;
	SELECT pgqrs_create_queue('empty.' || g) FROM generate_series(1, 30) g;
	SELECT pgqrs_create_queue('lim', max_in_flight => 2);
	SELECT pgqrs_register_worker('full', '{b.*}', max_concurrent => 1);
	SELECT pgqrs_register_worker('off', '{a.*,b.*}');
	SELECT pgqrs_register_worker('some', '{a.*,b.*,lim}', max_concurrent => 2);
	CREATE TABLE stop (x int)");
my %worker = map { split /\|/ } split /\n/, sql('SELECT name, worker_id FROM pgqrs_workers');
sql("SELECT pgqrs_suspend_worker($worker{off}); SELECT pgqrs_enqueue('b.1', '0'); SELECT 1 FROM pgqrs_dequeue('b.1', $worker{full}, 1, '1 hour')");

# A worker's loop: waits, claims, works, archives, until there is a row in stop.
my $loop = q{DO $$ DECLARE m record; BEGIN
	WHILE NOT EXISTS (SELECT FROM stop) LOOP
		CALL pgqrs_wait_for_work(%s, timeout => '1 hour', available => m);
		COMMIT;
		SELECT array_agg(message_id) AS ids, array_agg(lease) AS leases INTO m FROM pgqrs_dequeue(%s, batch_size => 1 + (random() * 2)::int);
		COMMIT;
		PERFORM pgqrs_archive_messages(m.ids, m.leases) WHERE m.ids IS NOT NULL;
		COMMIT;
	END LOOP; END $$;
};
$loop =~ s/available => m\b/available => a/;
$loop =~ s/DECLARE m record/DECLARE m record; a boolean/;
my @waits = (q{'a.*'}, q{'a.*'}, q{'a.3'}, q{'b.1'}, q{'b.2'}, q{'b.*'}, q{'lim'}, q{'lim'}, q{'*'}, q{'empty.*'}, q{'empty.*'}, q{'empty.*'},
	"NULL, $worker{full}", "NULL, $worker{off}", "NULL, $worker{some}", "NULL, $worker{some}");
my @clients = map { start_client($node, "SET application_name = 'waiter';" . sprintf $loop, $_, $_) } @waits;
my $asleep = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter' AND wait_event_type = 'Extension'";
$node->poll_query_until('postgres', "SELECT ($asleep) = " . @waits) or die 'they do not sleep';

srand(4);
for my $round (1 .. 25)
{
	my @queues = map { ("a." . (1 + int rand 40), 'b.' . (1 + int rand 5), 'lim')[ int rand 3 ] } 0 .. int rand 4;
	my $how = ('', '', ", delay => '100 ms'")[ int rand 3 ];
	sql(join ' ', map { "SELECT pgqrs_enqueue('$_', '1'$how);" } @queues);
	# some that wait for much are cancelled, perhaps just when they are woken
	if ($round % 5 == 0)
	{
		my $waiter = start_client($node, "SET statement_timeout = '150 ms';\nCALL pgqrs_wait_for_work('*');\n");
		sql("SELECT pgqrs_enqueue('a.7', '1')");
		finish_client($waiter);
	}
	sql("SELECT pgqrs_resume_worker($worker{off}), pgqrs_suspend_worker($worker{off})") if $round % 7 == 0;
	usleep(int rand 150_000);
}
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_messages") or diag(sql('SELECT count(*) FROM pgqrs_messages') . ' are left');
is(sql('SELECT count(*) FROM pgqrs_messages'), 1, 'all messages but the one that is held are done');
my $longest = sql('SELECT round(extract(epoch FROM max(dequeued_at - enqueued_at)), 2) FROM pgqrs_archive');
note("the longest: $longest s");
is(sql("SELECT count(*) FROM pgqrs_archive WHERE worker_id = $worker{off}"), 0, 'a suspended worker has claimed nothing');

sql('INSERT INTO stop VALUES (1)');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'");
eval { $_->{harness}->finish } for @clients;

#
# Those that wait for other queues, however many, swallow no wake-up
#

@clients = map { start_client($node, "SET application_name = 'wide';\nCALL pgqrs_wait_for_work('empty.*', timeout => '1 hour');\n") } 1 .. 10;
$asleep =~ s/waiter/wide/;
$node->poll_query_until('postgres', "SELECT ($asleep) = 10") or die 'they do not sleep';
for (1 .. 5)
{
	my $waiter = start_client($node, "SET application_name = 'narrow';\nCALL pgqrs_wait_for_work('b.1', timeout => '1 hour');\n");
	$node->poll_query_until('postgres', $asleep =~ s/wide/narrow/r =~ s/count\(\*\)/count(*) = 1/r) or die 'it does not sleep';
	my $before = sql('SELECT clock_timestamp()');
	sql("SELECT pgqrs_enqueue('b.1', '1')");
	is(finish_client($waiter), 't', 'a waiter for one queue, beside ten that wait for many others');
	is(sql("$asleep AND xact_start > '$before'"), 0, 'the message wakes no waiter of another queue');
	sql("SELECT count(*) FROM pgqrs_dequeue('b.1', batch_size => 10)");
}
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wide'");
eval { $_->{harness}->finish } for @clients;
$node->stop;
done_testing();
