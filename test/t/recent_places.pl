# A session remembers where it saw a row last.  What is there now may be another
# row, an older version, or nothing.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('recent_places', "fsync = off\nautovacuum = off\n");
$node->safe_psql('postgres', "SELECT pgqrs_create_queue('jobs')");

my $session = $node->background_psql('postgres', on_error_stop => 0);

# Claims the one message, ends it elsewhere, and returns its id and lease.
sub claim_and_end
{
	my ($id, $lease) = split /\|/, $session->query("SELECT message_id, lease FROM pgqrs_dequeue('jobs')");

	$node->safe_psql('postgres', "SELECT pgqrs_archive_message($id, $lease)");
	return ($id, $lease);
}

sub gone
{
	my ($id, $when) = @_;

	$session->{stderr} = '';
	$session->query("\\set VERBOSITY verbose\nSELECT pgqrs_set_visibility($id, '2100-01-01')");
	like($session->{stderr}, qr/PQ004/, "a moved row that has ended is not found $when");
	$session->{stderr} = '';
}

my $first = $node->safe_psql('postgres', "SELECT pgqrs_enqueue('jobs', '1')");
my ($id) = claim_and_end();
is($id, $first, 'the session claims the message that was sent');
gone($id, 'though its last version is still there');

$node->safe_psql('postgres', 'VACUUM (TRUNCATE off) pgqrs_messages');
my $place = $node->safe_psql('postgres', q{
	SELECT pgqrs_enqueue('jobs', '2') FROM generate_series(1, 3);
	SELECT ctid FROM pgqrs_messages WHERE ctid = '(0,1)'});
like($place, qr/\(0,1\)$/, 'another message took the place of the ended one');
gone($id, 'where another message is');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pgqrs_messages WHERE visible_after = '2100-01-01'}), 0, 'the refused call has changed no other message');

$node->safe_psql('postgres', q{
	SELECT pgqrs_purge_queue('jobs');
	SELECT pgqrs_enqueue('jobs', '3')});
($id) = claim_and_end();
$node->safe_psql('postgres', 'VACUUM pgqrs_messages');
is($node->safe_psql('postgres', q{SELECT pg_relation_size('pgqrs_messages')}), 0, 'the table was cut off');
gone($id, 'where the table has ended');

# A row that others move: each call finds its newest version.
$id = $session->query("SELECT pgqrs_enqueue('jobs', '4')");
for my $turn (1 .. 5)
{
	my $hour = "2100-01-01 0$turn:00:00+00";

	$node->safe_psql('postgres', "SELECT pgqrs_set_visibility($id, '$hour')");
	is($session->query("SELECT visible_after = '$hour' FROM pgqrs_peek('jobs')"), 't', "move $turn: the session sees the time that it has set");
	$session->query("SELECT pgqrs_set_visibility($id, 'now')");
	is($node->safe_psql('postgres', "SELECT visible_after < '$hour' FROM pgqrs_messages"), 't', "move $turn: the session changes the row at its new place");
}

$node->safe_psql('postgres', 'VACUUM FULL pgqrs_messages');
is($session->query("SELECT message_id FROM pgqrs_dequeue('jobs')"), $id, 'found after VACUUM FULL');

# Two steps of a run share a place: each keeps its own output.
$node->safe_psql('postgres', "SELECT pgqrs_create_workflow('flow')");
$session->query("SELECT pgqrs_trigger('flow')");
my ($run, $lease) = split /\|/, $session->query("SELECT run_id, lease FROM pgqrs_dequeue('flow')");
for my $step ('a', 'b', 'a', 'b')
{
	$session->query("SELECT pgqrs_step_begin($run, $lease, '$step'); SELECT pgqrs_step_complete($run, $lease, '$step', '\"$step\"')");
}
is($session->query("SELECT string_agg(step_id || '=' || (output #>> '{}') || '/' || attempt, ' ' ORDER BY step_id) FROM pgqrs_list_steps($run)"), 'a=a/1 b=b/1', 'steps of one run');

$session->quit;
done_testing();
