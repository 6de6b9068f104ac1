# Where claims may start, at the edges: keys that no function of pgqrs writes,
# and what was prepared on the other side of a promotion.
use strict;
use warnings;

use Pgqrs;
use Test::More;

my $node = new_node('floor_edges', "max_prepared_transactions = 20\nfsync = off\n", allows_streaming => 1);

sub sql
{
	my ($query, $server) = @_;
	return ($server // $node)->safe_psql('postgres', $query);
}

# Claims come as far as they can, past whatever they do not see.
sub churn
{
	my ($server) = @_;
	return sql(q{
		DO $$
		BEGIN
			FOR i IN 1..30 LOOP
				PERFORM pgqrs_enqueue('jobs', '"other"');
				COMMIT;
				PERFORM pgqrs_archive_message(message_id, lease)
				FROM pgqrs_dequeue('jobs', batch_size => 10);
				COMMIT;
			END LOOP;
		END
		$$}, $server);
}

# What there is to claim, and claims it.
sub payloads
{
	my ($server) = @_;
	return sql(q{SELECT string_agg(payload #>> '{}', ' ' ORDER BY payload)
		FROM pgqrs_dequeue('jobs', batch_size => 100)}, $server);
}

sub insert
{
	my ($payload, $visible_after) = @_;
	return "INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at,
			attempt, failures, priority, payload)
		SELECT nextval('pgqrs_message_id_seq'), queue_id, $visible_after, now(), 0, 0, 0, '\"$payload\"'
		FROM pgqrs_queues WHERE name = 'jobs'";
}

sql("SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 hour')");

# Rows written by hand, while others claim; then by a function, in the same
# transaction.
my $client = $node->background_psql('postgres');
for my $when ("now()", "now() - interval '1 year'", "'1999-12-31'", "'-infinity'",
	"'2000-01-01 00:00:00+00'", "now() + interval '1 hour'", "'infinity'")
{
	my $there = $when =~ /hour|'infinity/ ? 'function' : 'function hand';

	for my $outcome ('COMMIT', "PREPARE TRANSACTION 'hand'; COMMIT PREPARED 'hand'")
	{
		churn();
		$client->query_safe('BEGIN; ' . insert('hand', $when) . q{; SELECT pgqrs_enqueue('jobs', '"function"')});
		churn();
		is(payloads(), '', "$when: a claim finds no message of an open transaction");
		$client->query_safe($outcome);
		is(payloads(), $there, "$when: a claim finds the messages that are due after $outcome");
		sql("SELECT pgqrs_purge_queue('jobs')");
		sql('DELETE FROM pgqrs_messages');
	}
}

# The other way round: the function's key is the later one.
churn();
$client->query_safe(q{BEGIN; SELECT pgqrs_enqueue('jobs', '"function"'); } . insert('hand', "now() - interval '1 day'"));
churn();
$client->query_safe('COMMIT');
is(payloads(), 'function hand', 'a claim finds a row that was written by hand after one by a function');

# Ids that no sequence gives.
churn();
$client->query_safe('BEGIN; ' . (insert('hand', "'-infinity'") =~ s/nextval\('\w+'\)/-1/r));
churn();
$client->query_safe('COMMIT');
is(payloads(), 'hand', 'a claim finds a row with a negative id and the earliest time');
$client->quit;
sql('DELETE FROM pgqrs_messages');

# A standby knows of no prepared transaction until it is promoted.
$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
churn();
sql(q{BEGIN; SELECT pgqrs_enqueue('jobs', '"prepared"'); PREPARE TRANSACTION 'sent'});
$node->wait_for_catchup($standby);
is(sqlstate($standby, "SELECT pgqrs_dequeue('jobs')"), '25006', 'a standby delivers nothing');
$node->stop;
$standby->promote;
churn($standby);
is(payloads($standby), '', 'a message of a prepared transaction is not delivered after a promotion');
sql("COMMIT PREPARED 'sent'", $standby);
is(payloads($standby), 'prepared', 'COMMIT PREPARED after the promotion delivers the message');

done_testing();
