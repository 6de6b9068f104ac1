# Claims by pattern over 10,000 queues.  They cost about as much as claims by
# name, also when there is nothing: that a queue has nothing to claim is known in
# shared memory.  So each way in which a message becomes claimable in a queue
# that is known to have nothing is followed by a claim by pattern, which finds it.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('main', "fsync = off\nautovacuum = off\nmax_prepared_transactions = 5\n");
my $queues = 10000;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sql("SELECT count(pgqrs_create_queue('q' || g, visibility_timeout => '1 hour')) FROM generate_series(1, $queues) g;
	SELECT pgqrs_create_workflow('run'), pgqrs_create_queue('once', max_attempts => 1), pgqrs_create_queue('lim', max_in_flight => 1, visibility_timeout => '1 hour'), pgqrs_register_worker('w', '{*}');
	SELECT count(pgqrs_enqueue('q' || g, '1')) FROM generate_series(1, $queues) g, generate_series(1, 2);
	SELECT pgqrs_enqueue_batch('q1', array_fill('1'::jsonb, '{2000}'))");
my $worker = sql('SELECT worker_id FROM pgqrs_workers');
my $session = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');

# Processor time of the session for each of so many claims, in microseconds.
sub cost
{
	my ($call, $times) = @_;
	my $ran = sub { return (split ' ', slurp_file("/proc/$pid/schedstat"))[0] };
	my $do = sub { $session->query_safe("DO 'BEGIN FOR i IN 1..$_[0] LOOP PERFORM message_id FROM $call; COMMIT; END LOOP; END'") };
	$do->(3);
	my $before = $ran->();
	$do->($times);
	return ($ran->() - $before) / 1000 / $times;
}

my %cost = (
	name => cost(q{pgqrs_dequeue(''q1'')}, 300),
	pattern => cost(q{pgqrs_dequeue(''*'')}, 300),
	worker => cost("pgqrs_dequeue(worker_id => $worker)", 300));
cmp_ok($cost{$_}, '<', 10 * $cost{name}, "a claim from all queues, each with a message, costs as much as one by name: $_") for qw(pattern worker);

sql("SELECT count(*) FROM pgqrs_dequeue('*', batch_size => 10000)") for 1 .. 4;
is(sql("SELECT count(*) FROM pgqrs_dequeue('*')"), '0', 'claims by pattern leave no message');
$cost{empty} = cost(q{pgqrs_dequeue(''*'')}, 30);
$cost{empty_worker} = cost("pgqrs_dequeue(worker_id => $worker)", 30);
cmp_ok($cost{$_}, '<', 1000, "a claim by pattern over $queues empty queues takes less than a millisecond ($_)") for qw(empty empty_worker);
$session->quit;
note(join ', ', map { sprintf '%s %.0f us', $_, $cost{$_} } sort keys %cost);

# Ways to make something claimable; message: which, if it is not the last one.
my $all = "SELECT count(*) FROM pgqrs_dequeue('*', batch_size => 100)";
my $take = "SELECT message_id, lease FROM pgqrs_dequeue('*')";
my @ways = (
	[ 'a message', '', "SELECT pgqrs_enqueue('q77', '1')" ],
	[ 'a batch with a priority', '', "SELECT pgqrs_enqueue_batch('q78', '{1}', priority => 5)" ],
	[ 'a run', '', "SELECT pgqrs_trigger('run')" ],
	[ 'a delay that is over', '', "SELECT pgqrs_enqueue('q79', '1', delay => '1 s'); SELECT count(*) FROM pgqrs_dequeue('*'); SELECT pg_sleep(1.1)" ],
	[ 'a lease that ran out', "SELECT pgqrs_enqueue('q80', '1'); SELECT message_id FROM pgqrs_dequeue('*', visibility_timeout => '5 s'); SELECT count(*) FROM pgqrs_dequeue('*')", 'SELECT pg_sleep(5.1)' ],
	[ 'a release', "SELECT pgqrs_enqueue('q81', '1'); CREATE TABLE h AS $take", 'SELECT pgqrs_release_message(message_id, lease) FROM h' ],
	[ 'a nack', "SELECT pgqrs_enqueue('q82', '1'); CREATE TABLE h AS $take", "SELECT pgqrs_nack_message(message_id, lease, delay => '0') FROM h" ],
	[ 'a lease that is shortened', "SELECT pgqrs_enqueue('q83', '1'); CREATE TABLE h AS $take", "SELECT pgqrs_extend_lease(message_id, lease, '1 ms') FROM h; SELECT pg_sleep(0.01)" ],
	[ 'an operator that moves it', "SELECT pgqrs_enqueue('q84', '1'); CREATE TABLE h AS $take", "SELECT pgqrs_set_visibility(message_id, now()) FROM h" ],
	[ 'a claim that is rolled back', "SELECT pgqrs_enqueue('q85', '1')", "BEGIN; $take; ROLLBACK" ],
	[ 'one that is rolled back to a savepoint', "SELECT pgqrs_enqueue('q86', '1')", "BEGIN; SAVEPOINT s; $take; ROLLBACK TO s; COMMIT" ],
	[ 'a claim that was prepared and is rolled back', "SELECT pgqrs_enqueue('q87', '1'); BEGIN; $take; PREPARE TRANSACTION 'p'; $all", "ROLLBACK PREPARED 'p'" ],
	[ 'a message that was prepared', "BEGIN; SELECT pgqrs_enqueue('q88', '1'); PREPARE TRANSACTION 'p'; $all", "COMMIT PREPARED 'p'" ],
	[ 'a queue that is resumed', "SELECT pgqrs_pause_queue('q89'); SELECT pgqrs_enqueue('q89', '1'); $all", "SELECT pgqrs_resume_queue('q89')" ],
	[ 'room under a limit', "SELECT pgqrs_enqueue_batch('lim', '{1,2}'); CREATE TABLE h AS $take; $all", 'SELECT pgqrs_archive_message(message_id, lease) FROM h' ],
	[ 'a higher limit', "SELECT pgqrs_enqueue('lim', '1'); $all", "SELECT pgqrs_alter_queue('lim', max_in_flight => 5)" ],
	[ 'a dead letter that is replayed', "SELECT pgqrs_enqueue('once', '1'); CREATE TABLE h AS $take; SELECT pgqrs_nack_message(message_id, lease) FROM h", 'SELECT pgqrs_replay_message(message_id) FROM h' ],
	[ 'a row that is written by hand', '', "INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
		SELECT nextval('pgqrs_message_id_seq'), queue_id, now(), now(), 0, 0, 0, '1' FROM pgqrs_queues WHERE name = 'q91'" ],
	[ 'a new queue', '', "SELECT pgqrs_create_queue('new'), pgqrs_enqueue('new', '1')" ],
	[ 'a purge that is rolled back', "SELECT pgqrs_enqueue('q92', '1'); BEGIN; SELECT pgqrs_purge_queue('q92'); SELECT count(*) FROM pgqrs_dequeue('*'); ROLLBACK", '' ]);
for my $way (@ways)
{
	my ($name, $before, $after) = @$way;
	sql("DROP TABLE IF EXISTS h; $before");
	sql($all) unless $name =~ /rolled back|that ran out/;
	is(sql("$after; $all") =~ s/.*\n//sr, '1', "after $name a claim by pattern finds the message");
}
is(sql("BEGIN; $all; SELECT pgqrs_enqueue('q93', '1') > 0; $all; ROLLBACK"), "0\nt\n1", 'a transaction finds what it has sent itself');
is(sql($all), '0', 'the next claim by pattern finds none');
is_well($node, 'in the end');
$node->stop;
done_testing();
