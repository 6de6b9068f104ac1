# F52: an error of whatever kind in one duty ends that one only.  The others are
# done in the same pass, what makes room on a full disk included, and the one
# that failed is tried again by itself.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('duties', "fsync = off\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# From now on each new row of the table raises an error; without a code, none does.
sub fail_at
{
	my ($table, $code) = @_;
	my $body = defined $code ? "RAISE EXCEPTION 'no more room' USING ERRCODE = '$code';" : '';
	sql("CREATE OR REPLACE FUNCTION fails_$table(id bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN $body RETURN id; END \$\$");
	return;
}

my %key = (pgqrs_archive => 'message_id', pgqrs_schedule_firings => 'schedule_id');
for my $table (sort keys %key)
{
	fail_at($table);
	sql("CREATE INDEX ON $table (fails_$table($key{$table}))");
}

# Something is due for three duties.
sub make_due
{
	sql("SELECT pgqrs_trigger('flow', timeout => '1 us')");
	sql("UPDATE pgqrs_schedules SET next_fire_at = date_trunc('year', pgqrs_now()) - interval '1 year'");
	sql('DELETE FROM pgqrs_schedule_firings');
	sql("SELECT pgqrs_archive_message(message_id, lease) FROM (SELECT pgqrs_enqueue('jobs', '1')) e, LATERAL pgqrs_dequeue('jobs')");
	sql("UPDATE pgqrs_archive SET archived_at = archived_at - interval '100 days'");
	return;
}

# A pass, without what it found nothing to do of.
sub maintain
{
	return sql("SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM jsonb_each(pgqrs_maintain()) WHERE value <> '0' AND key <> 'failed'");
}

sub failed
{
	return sql("SELECT string_agg(key || ' ' || (value ->> 'sqlstate'), ', ') FROM jsonb_each(pgqrs_maintain() -> 'failed')");
}

sub await
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until('postgres', "SELECT $query"), $name);
}

sub by_call
{
	my ($when) = @_;
	for my $code ('53100', '40001', '57014', '55000')
	{
		make_due();
		fail_at('pgqrs_schedule_firings', $code);
		is(maintain(), 'messages_removed 1, runs_timed_out 1', "$when: where schedules fail with $code, runs end and room is made");
		is(failed(), "schedules $code", 'the answer names the duty');
		fail_at('pgqrs_schedule_firings');
		is(maintain(), 'schedules_fired 1', 'the next pass does the duty when its cause is gone');
		sql("SELECT pgqrs_purge_queue('flow')");
		sql("DELETE FROM pgqrs_archive");
	}
	make_due();
	fail_at('pgqrs_archive', '53100');
	is(maintain(), 'messages_removed 1, schedules_fired 1', "$when: where the end of a run needs room, what makes room does not wait for it");
	is(failed(), 'ends 53100', 'the answer names that duty');
	fail_at('pgqrs_archive');
	is(maintain(), 'runs_timed_out 1', 'the next pass ends the run when there is room');
	return;
}

sql("SELECT pgqrs_create_queue('jobs', retention => '1 day'), pgqrs_create_workflow('flow'), pgqrs_schedule('s', '\@yearly', 'flow', max_catchup => 1)");
by_call('preloaded');

# The background worker.
make_due();
fail_at('pgqrs_archive', '53100');
sql('ALTER SYSTEM SET pgqrs.paused = off');
$node->reload;
await("count(*) = 1 FROM pgqrs_schedule_firings", 'the schedule fires though runs cannot end');
await("count(*) = 0 FROM pgqrs_archive WHERE run_id IS NULL", 'the background worker removes archived messages though runs cannot end');
await("value LIKE '%ends: no more room (53100), % in a row, next try in %' AND NOT ok FROM pgqrs_health WHERE item = 'duties'", 'health names the duty, its error and its next try');
my $worker = background_pid($node, 'postgres');
fail_at('pgqrs_archive');
await("count(*) = 0 FROM pgqrs_messages WHERE deadline_at < pgqrs_now()", 'when the cause is gone the run ends');
is(background_pid($node, 'postgres'), $worker, 'the failed duty has not ended the background worker');
await("ok FROM pgqrs_health WHERE item = 'duties'", 'pgqrs_health says that the duties are ok again');

# Not preloaded.
sql('ALTER SYSTEM RESET pgqrs.paused');
sql("SELECT pgqrs_purge_queue('flow')");
sql('DELETE FROM pgqrs_archive');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
by_call('not preloaded');

$node->stop;
done_testing();
