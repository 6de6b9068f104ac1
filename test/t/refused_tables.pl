# Additions to the tables that the direct path would bypass are refused
# with a clear error, and nothing is written; what reads them by the WAL or the
# catalogs is not in the way.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('refused', "pgqrs.worker_timeout = 1h\nfsync = off\n", allows_streaming => 'logical');

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub counts
{
	return sql('SELECT (SELECT count(*) FROM pgqrs_messages), (SELECT count(*) FROM pgqrs_archive), (SELECT count(*) FROM pgqrs_workflow_runs),
		(SELECT count(*) FROM pgqrs_workflow_steps), (SELECT count(*) FROM pgqrs_workers)');
}

# A session that has used everything before, and so remembers it.  Of maintenance
# only the duties fail that need the table, with a warning.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('\set VERBOSITY verbose');
$session->query_safe('SET client_min_messages = warning');
sub state_in_session
{
	my ($query) = @_;
	$session->{stderr} = '';
	$session->query($query);
	return $session->{stderr} =~ /(?:ERROR|WARNING):  (\w{5})/ ? $1 : '';
}

sql("SELECT pgqrs_create_queue('jobs', '1 hour'), pgqrs_create_workflow('flow', visibility_timeout => '1 hour')");
sql('CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$');
my $m = sql("SELECT pgqrs_enqueue('jobs', '1')");
my $lease = sql("SELECT lease FROM pgqrs_dequeue('jobs')");
my $run = sql("SELECT pgqrs_trigger('flow')");
my $run_lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
$session->query_safe("SELECT pgqrs_enqueue('jobs', '2'), pgqrs_step_begin($run, $run_lease, 'a'), pgqrs_register_worker('w', '{*}')");

# How to add it and how to take it away, of a table %s.
my @additions = (
	[ 'a trigger', 'CREATE TRIGGER t BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON %s' ],
	[ 'a trigger after', 'CREATE TRIGGER t AFTER DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON %s' ],
	[ 'a constraint trigger', 'CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON %s DEFERRABLE FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON %s' ],
	[ 'a rule', 'CREATE RULE r AS ON INSERT TO %s DO INSTEAD NOTHING', 'DROP RULE r ON %s' ],
	[ 'row-level security', 'ALTER TABLE %s ENABLE ROW LEVEL SECURITY', 'ALTER TABLE %s DISABLE ROW LEVEL SECURITY' ],
	[ 'a foreign key to it', 'CREATE TABLE refers (LIKE %1$s); ALTER TABLE refers ADD CONSTRAINT pgqrs_messages_queue_fkey FOREIGN KEY (%2$s) REFERENCES %1$s',
		'DROP TABLE refers' ],
	[ 'a foreign key from it', 'CREATE TABLE referred (LIKE %1$s, PRIMARY KEY (%2$s)); ALTER TABLE %1$s ADD CONSTRAINT f FOREIGN KEY (%2$s) REFERENCES referred NOT VALID',
		'ALTER TABLE %s DROP CONSTRAINT f; DROP TABLE referred' ],
	[ 'a foreign key to itself', 'ALTER TABLE %1$s ADD CONSTRAINT f FOREIGN KEY (%2$s) REFERENCES %1$s NOT VALID', 'ALTER TABLE %s DROP CONSTRAINT f' ],
	[ 'a child', 'CREATE TABLE child () INHERITS (%s)', 'DROP TABLE child' ]);

# What uses a table.
my %uses = (
	pgqrs_messages => [ "pgqrs_enqueue('jobs', '3')", "pgqrs_enqueue_batch('jobs', '{3,4}')", "pgqrs_dequeue('jobs')", "pgqrs_archive_message($m, $lease)",
		"pgqrs_extend_lease($m, $lease)", "pgqrs_trigger('flow')", "pgqrs_complete_run($run, $run_lease)", "pgqrs_peek('jobs')", 'pgqrs_maintain()' ],
	pgqrs_archive => ["pgqrs_archive_message($m, $lease)"],
	pgqrs_workflow_runs => [ "pgqrs_trigger('flow')", "pgqrs_complete_run($run, $run_lease)", "pgqrs_get_run($run)" ],
	pgqrs_workflow_steps => [ "pgqrs_step_begin($run, $run_lease, 'b')", "pgqrs_step_complete($run, $run_lease, 'a')" ],
	pgqrs_workers => ["pgqrs_register_worker('x', '{*}')"],
	pgqrs_queues => ["pgqrs_create_queue('other')"],
	pgqrs_workflows => ["pgqrs_create_workflow('other')"],
	pgqrs_grants => ["pgqrs_grant('jobs', 'public', 'work')"]);

my %keys = map { $_ => sql("SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = (SELECT indexrelid FROM pg_index WHERE indrelid = '$_'::regclass AND indisprimary)") }
  keys %uses;

my $before = counts();
for my $table (sort keys %uses)
{
	for my $addition (@additions)
	{
		my ($name, $add, $remove) = @$addition;
		sql(sprintf $add, $table, $keys{$table});
		is(join(' ', map { state_in_session("SELECT $_") } @{ $uses{$table} }), join(' ', ('55000') x @{ $uses{$table} }), "calls are refused with $name on $table");
		sql(sprintf $remove, $table);
		is(state_in_session("BEGIN; SELECT $uses{$table}[0]; ROLLBACK"), '', "calls succeed without $name on $table");
	}
}
is(counts(), $before, 'refused calls have written no row');

sql('ALTER TABLE pgqrs_messages ENABLE ROW LEVEL SECURITY');
my (undef, undef, $err) = $node->psql('postgres', "SELECT pgqrs_enqueue('jobs', '3')");
like($err, qr/ERROR:  table "pgqrs_messages" has row-level security\nDETAIL:  .*\nHINT:  ./, 'the error names the table and has a detail and a hint');
sql('ALTER TABLE pgqrs_messages DISABLE ROW LEVEL SECURITY');

# In the middle of a transaction.
is(state_in_session("BEGIN; SELECT pgqrs_enqueue('jobs', '3'); ALTER TABLE pgqrs_messages ENABLE ROW LEVEL SECURITY; SELECT pgqrs_enqueue('jobs', '3')"),
	'55000', 'the next call of the same transaction is refused');
$session->query('ROLLBACK');
is(counts(), $before, 'that transaction writes no row');

# What may be added, as nothing is bypassed by it: an index, a privilege,
# statistics, a parent.
sql('CREATE INDEX extra ON pgqrs_messages (enqueued_at); CREATE TABLE parent (); ALTER TABLE pgqrs_messages INHERIT parent;
	CREATE ROLE tom; GRANT SELECT ON pgqrs_messages TO tom; CREATE STATISTICS extra_stats ON queue_id, priority FROM pgqrs_messages; ANALYZE pgqrs_messages');
is(state_in_session("SELECT pgqrs_enqueue('jobs', '5')"), '', 'other additions are allowed');
is(sql("SET enable_seqscan = off; SELECT count(*) FROM pgqrs_messages WHERE enqueued_at > '2020-01-01'"),
	sql('SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM pgqrs_messages'), 'an index that a user added is maintained');

# Publications and logical decoding.
sql("CREATE PUBLICATION everything FOR ALL TABLES");
sql("SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')");
sql("SELECT pgqrs_archive_message($m, $lease)");
my $keyed = sql("SELECT pgqrs_enqueue('jobs', '{\"big\": \"" . 'x' x 5000 . "\"}', idempotency_key => 'key')");
is(sql("SELECT pgqrs_enqueue('jobs', '7', idempotency_key => 'key')"), $keyed, 'keys work when changes are decoded');
sql("SELECT pgqrs_complete_run($run, $run_lease)");
my $one = sql("SELECT pgqrs_trigger('flow', '\"decoded\"', idempotency_key => 'key')");
my $one_lease = sql("SELECT lease FROM pgqrs_dequeue('flow')");
sql("SELECT pgqrs_step_begin($one, $one_lease, 's'), pgqrs_step_complete($one, $one_lease, 's', '\"output\"'), pgqrs_complete_run($one, $one_lease, '1')");
$session->query("BEGIN; SELECT pgqrs_enqueue('jobs', '\"rolled back\"'), pgqrs_trigger('flow', '\"rolled back\"', idempotency_key => 'rolled back'); ROLLBACK");
$session->query("BEGIN; SAVEPOINT s; SELECT pgqrs_enqueue('jobs', '\"rolled back\"', idempotency_key => 'rolled back'); ROLLBACK TO s; COMMIT");
my $decoded = sql("SELECT data FROM pg_logical_slot_get_changes('decoded', NULL, NULL)");
like($decoded, qr/table public\.pgqrs_messages: DELETE: message_id\[bigint\]:$m\b/, 'a message that is archived is decoded');
like($decoded, qr/table public\.pgqrs_archive: INSERT: message_id\[bigint\]:$m\b.*outcome\[pgqrs_outcome\]:'DONE'/, 'the decoded archive row has outcome DONE');
is(scalar(() = $decoded =~ /pgqrs_messages: INSERT: message_id\[bigint\]:$keyed\b.*idempotency_key\[text\]:'key'/g), 1, 'a message with a key is decoded once');
like($decoded, qr/pgqrs_workflow_runs: INSERT: run_id\[bigint\]:$one\b.*status\[pgqrs_run_status\]:'QUEUED'/, 'the insert of a run is decoded');
like($decoded, qr/pgqrs_workflow_runs: UPDATE: run_id\[bigint\]:$one\b.*status\[pgqrs_run_status\]:'SUCCESS'/, 'the end of a run is decoded');
like($decoded, qr/pgqrs_workflow_steps: INSERT: run_id\[bigint\]:$one\b.*step_id\[text\]:'s'/, 'the step of a run is decoded');
unlike($decoded, qr/rolled back/, 'no row of a rolled back transaction is decoded');
sql("SELECT pg_drop_replication_slot('decoded')");

# A copy by logical replication, into tables of an extension of its own, is
# what the tables here are.
my $copy = new_node('copy', "fsync = off\n");
$copy->safe_psql('postgres', 'CREATE TABLE parent ()');
$copy->safe_psql('postgres', "CREATE SUBSCRIPTION copied CONNECTION '" . $node->connstr . " dbname=postgres' PUBLICATION everything");
$copy->wait_for_subscription_sync($node, 'copied');
my $later = sql("SELECT pgqrs_enqueue('jobs', '\"later\"', priority => 50)");
sql("SELECT pgqrs_release_message(message_id, lease) FROM pgqrs_dequeue('jobs')");
$node->wait_for_catchup('copied');
for my $table ('pgqrs_messages', 'pgqrs_archive', 'pgqrs_workflow_runs', 'pgqrs_workflow_steps', 'pgqrs_queues')
{
	my $query = "SELECT t FROM $table t ORDER BY t::text";
	is($copy->safe_psql('postgres', $query), sql($query), "the subscriber has the rows of $table");
}
$copy->safe_psql('postgres', 'DROP SUBSCRIPTION copied');
is($copy->safe_psql('postgres', "SELECT payload FROM pgqrs_dequeue('jobs')"), '"later"', 'a copy can be claimed from');

# A publication that could not tell a subscriber which row it is: the functions
# refuse what UPDATE and DELETE refuse, and nothing else.
sub by_sql
{
	my ($command) = @_;
	return state_in_session("BEGIN; $command; ROLLBACK");
}
my $claim = "SELECT pgqrs_dequeue('jobs')";
my $archive = "SELECT pgqrs_archive_message(message_id, lease) FROM identity_held";
for my $case (
	[ 'no replica identity', 'ALTER TABLE pgqrs_messages REPLICA IDENTITY NOTHING', 'ALTER TABLE pgqrs_messages REPLICA IDENTITY DEFAULT' ],
	[ 'a row filter outside of the identity', 'DROP PUBLICATION everything; CREATE PUBLICATION filtered FOR TABLE pgqrs_messages WHERE (attempt < 5)', 'DROP PUBLICATION filtered' ])
{
	my ($name, $add, $remove) = @$case;
	sql("DROP TABLE IF EXISTS identity_held; SELECT pgqrs_enqueue('jobs', '1', priority => 99); CREATE TABLE identity_held AS SELECT message_id, lease FROM pgqrs_dequeue('jobs')");
	sql($add);
	$session->query('ROLLBACK');
	my $update = by_sql('UPDATE pgqrs_messages SET attempt = 9');
	$session->query('ROLLBACK');
	my $delete = by_sql('DELETE FROM pgqrs_messages');
	like("$update $delete", qr/^(?:55000 55000|42P10 42P10)$/, "$name: SQL may neither update nor delete");
	$session->query('ROLLBACK');
	is(by_sql("SELECT pgqrs_enqueue('jobs', '2')"), '', "$name: a message can be sent, as by INSERT");
	is(by_sql($claim), $update, "$name: a claim is refused as UPDATE is");
	$session->query('ROLLBACK');
	is(by_sql($archive), $delete, "$name: an end is refused as DELETE is");
	$session->query('ROLLBACK');
	sql($remove);
	is(join('', by_sql($claim), by_sql($archive)), '', "$name: the session goes on when it is mended");
}

# pg_repack
sql('CREATE TRIGGER repack_trigger AFTER INSERT ON pgqrs_messages FOR EACH ROW EXECUTE FUNCTION nothing()');
(undef, undef, $err) = $node->psql('postgres', "SELECT pgqrs_enqueue('jobs', '3')");
like($err, qr/bypass trigger "repack_trigger".*\nHINT:  Stop pg_repack.*VACUUM FULL/, 'a trigger of pg_repack is named, and what to do instead');
sql('DROP TRIGGER repack_trigger ON pgqrs_messages');
$session->quit;

done_testing();
