# F46: a clock that was wrong and is corrected, under traffic.  Within moments all
# goes on: nothing fires twice, nothing is lost, and pgqrs_health says what was.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('clock', "fsync = off\nrestart_after_crash = on\npgqrs.paused = off\npgqrs.worker_timeout = '20 min'\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub await
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $ok = $node->poll_query_until('postgres', "SELECT $query");
	return ok($ok, $name);
}

sub health
{
	my ($item) = @_;
	return sql("SELECT concat_ws('|', value, ok) FROM pgqrs_health WHERE item = '$item'");
}

# Claims all that is ready and archives it, so that no lease ends later in the test.
sub taken
{
	return sql("SELECT string_agg(payload::text, ' ') FROM pgqrs_dequeue('jobs', batch_size => 10), LATERAL pgqrs_archive_message(message_id, lease)");
}

# A client that sends and archives all the time, so that the background worker
# is never idle.
sub traffic
{
	my ($seconds) = @_;
	return start_client($node, "SELECT pgqrs_archive_message(message_id, lease) IS NULL FROM (SELECT pgqrs_enqueue('traffic', '1')) e, LATERAL pgqrs_dequeue('traffic') \\g /dev/null\nSELECT pg_sleep(0.1) \\g /dev/null\n" x (10 * $seconds));
}

sql("SELECT pgqrs_create_queue('traffic'), pgqrs_create_queue('jobs', visibility_timeout => '30 min'), pgqrs_create_queue('leases', visibility_timeout => '2 s'),
	pgqrs_create_workflow('flow'), pgqrs_create_workflow('sleepy')");
my $minute = sql("SELECT extract(minute FROM pgqrs_now() + interval '30 min')"); # half an hour from now on
sql("SELECT pgqrs_schedule('plain', '* * * * *', 'flow'), pgqrs_schedule('none', '$minute * * * *', 'flow', max_catchup => 0)");
ok(is_served($node, 'postgres'), 'the background worker makes a pass');
is(health('clock'), 'no step back since the server started|t', 'the clock was not set back');

# An hour ahead.  A worker that lives does not count as silent for that.
my $alive = sql("SELECT pgqrs_register_worker('alive', '{jobs}')");
my $client = traffic(60);
step_clock($node, '1h');
ok(is_served($node, 'postgres'), 'the background worker does its passes while the clock is ahead');
sql("SELECT pgqrs_enqueue('jobs', to_jsonb(n)) FROM generate_series(1, 3) n");
my $delayed = sql("SELECT pgqrs_enqueue('jobs', '\"delayed\"', delay => '20 min')");
sql("SELECT pgqrs_enqueue('leases', '\"held\"')");
sql("SELECT count(*) FROM pgqrs_dequeue('leases')");
my $limited = sql("SELECT pgqrs_trigger('flow', timeout => '2 s')");
my $asleep = sql("SELECT pgqrs_trigger('sleepy')");
my $lease = sql("SELECT lease FROM pgqrs_dequeue('sleepy')");
sql("SELECT pgqrs_sleep($asleep, $lease, 'nap', '1 s')");
sql("SELECT pgqrs_schedule('made ahead', '* * * * *', 'flow')");
my $dies = sql("SELECT pgqrs_register_worker('dies', '{jobs}')");
is(sql("SELECT status FROM pgqrs_workers WHERE worker_id = $alive"), 'READY', 'a clock that jumps ahead makes no worker silent');

# And back.
step_clock($node, '0');
await("value ~ '^went back by (00:5|01:0)' AND ok FROM pgqrs_health WHERE item = 'clock'", 'pgqrs_health says by how much the clock went back');
await("value = 'none' AND ok FROM pgqrs_health WHERE item = 'work sent from the future'", 'pgqrs_health says that no work is left from the wrong time');
await("count(*) >= 3 FROM pgqrs_peek('jobs') WHERE visible_after <= pgqrs_now()", 'messages that were ready under the wrong clock are ready after the step back');
is(taken(), '1 2 3', 'a claim returns these messages in order, and not the delayed one');
is(sql("SELECT visible_after BETWEEN pgqrs_now() AND pgqrs_now() + interval '20 min' FROM pgqrs_peek('jobs') WHERE message_id = $delayed"), 't', 'the delayed message is due within the delay that the sender asked for');
await("count(*) = 1 FROM pgqrs_dequeue('leases')", 'a lease of the wrong time ends');
await("status = 'ERROR' FROM pgqrs_result($limited)", 'a run of the wrong time ends at its deadline');
await("count(*) = 1 FROM pgqrs_dequeue('sleepy')", 'a run that sleeps since the wrong time is delivered');
sql("ALTER SYSTEM SET pgqrs.worker_timeout = '1 s'");
sql('SELECT pg_reload_conf()');
await("status = 'STOPPED' FROM pgqrs_workers WHERE worker_id = $dies", 'a worker whose last call was in the wrong time is stopped');
await("bool_and(next_fire_at <= pgqrs_now() + interval '1 min') FROM pgqrs_schedule_list WHERE cron LIKE '* %'", 'schedules fire next within a minute after the step back');
await("next_fire_at <= pgqrs_now() + interval '31 min' FROM pgqrs_schedule_list WHERE name = 'none'", 'a schedule that had nothing to fire is due at its next slot');
is(sql("SELECT count(*) FROM pgqrs_schedule_list WHERE name = 'none' AND last_fired_at IS NOT NULL"), '0', 'a schedule that fired nothing does not say that it fired');
ok(is_served($node, 'postgres'), 'the background worker ends a run at its deadline after the step back');
is(sql("SELECT count(*) FROM pgqrs_health WHERE item = 'last pass' AND ok"), '1', 'the last pass is not yet to come');
is(sql("SELECT count(*) - count(DISTINCT (schedule_id, slot)) FROM pgqrs_schedule_firings"), '0', 'no slot of a schedule was served twice');
$client->{harness}->kill_kill;

# Weeks ahead: history that is kept for 7 days stays, until that time has been
# confirmed.
sub is_kept
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('SELECT pgqrs_apply_retention()');
	return is(sql("SELECT count(*) FROM pgqrs_archive AS a JOIN pgqrs_queues AS q USING (queue_id) WHERE q.name = 'history'"), '1', $name);
}

sql("SELECT pgqrs_create_queue('history'), pgqrs_enqueue('history', '1')");
sql("SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('history')");
step_clock($node, '20d');
ok(is_served($node, 'postgres'), 'background work goes on weeks ahead');
is_kept('retention does not count a step forward');
like(health('clock'), qr/^20 days.* that this server has not seen pass; retention counts them from .* on\|f$/, 'pgqrs_health tells of the step forward');
$node->psql('postgres', "COPY (SELECT 1) TO PROGRAM 'kill -9 \$PPID'");
$node->poll_query_until('postgres', 'SELECT true');
is_kept('retention does not count a step forward after a crash of the server');
step_clock($node, '0');
is_kept('the step back loses no history');
await("ok FROM pgqrs_health WHERE item = 'clock'", 'pgqrs_health says that the clock is ok after the step back');
step_clock($node, '20d');
is_kept('retention does not count a second step forward');
sql("ALTER SYSTEM SET pgqrs.time_passed = '4d'");
step_clock($node, '24d');
await("NOT EXISTS (SELECT FROM pgqrs_archive AS a JOIN pgqrs_queues AS q USING (queue_id) WHERE q.name = 'history')", 'a server that was up for three days since believes its clock');
sql('ALTER SYSTEM RESET pgqrs.time_passed');
step_clock($node, '0');

# Ahead when the server starts, right when it starts again: no server saw the step.
sql("SELECT pgqrs_enqueue('history', '1')");
sql("SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('history')");
$node->append_conf('postgresql.conf', "pgqrs.clock_offset = '20d'");
sql("ALTER SYSTEM RESET ALL"); $node->append_conf('postgresql.conf', "pgqrs.worker_timeout = '2 s'");
$node->restart;
is_kept('retention does not count weeks for which the server was down, or is ahead');
sql("SELECT pgqrs_purge_queue('jobs')");
sql("SELECT pgqrs_enqueue('jobs', to_jsonb(n)) FROM generate_series(1, 3) n");
$dies = sql("SELECT pgqrs_register_worker('dies again', '{jobs}')");
$node->append_conf('postgresql.conf', "pgqrs.clock_offset = '0'");
$node->restart;
await("count(*) = 3 FROM pgqrs_peek('jobs') WHERE visible_after <= pgqrs_now()", 'messages are ready after a step back while the server was down');
await("status = 'STOPPED' FROM pgqrs_workers WHERE worker_id = $dies", 'a worker that called before that step is stopped');
is(taken(), '1 2 3', 'a claim returns the messages in order after that step');

# The server started while the clock was wrong.
$node->append_conf('postgresql.conf', "pgqrs.clock_offset = '24h'");
$node->restart;
$node->append_conf('postgresql.conf', "pgqrs.clock_offset = '0'");
$node->reload;
await("pgqrs_now() < now() + interval '1 min'", 'the server that started ahead takes over the right time');
$dies = sql("SELECT pgqrs_register_worker('dies once more', '{jobs}')");
await("status = 'STOPPED' FROM pgqrs_workers WHERE worker_id = $dies", 'a server that started ahead finds silent workers');

# Without preloading it is pgqrs_maintain() that notices.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\npgqrs.clock_offset = '24h'");
$node->restart;
sql("SELECT pgqrs_enqueue('jobs', to_jsonb(n)) FROM generate_series(1, 3) n");
sql("SELECT pgqrs_schedule('made ahead', '* * * * *', 'flow')");
$dies = sql("SELECT pgqrs_register_worker('dies unseen', '{jobs}')");
$node->append_conf('postgresql.conf', "pgqrs.clock_offset = '0'");
$node->reload;
await("pgqrs_now() < now() + interval '1 min'", 'not preloaded: a session takes over the right time');
is(health('work sent from the future'), '3 of the newest 1000 messages|f', 'pgqrs_health counts messages that were sent from the future');
is(sql("SELECT pgqrs_maintain() ->> 'messages_realigned'"), '3', 'pgqrs_maintain() moves these messages to the present');
is(taken(), '1 2 3', 'a claim returns the moved messages in order');
await("pgqrs_maintain() IS NOT NULL AND (SELECT status = 'STOPPED' FROM pgqrs_workers WHERE worker_id = $dies)", 'pgqrs_maintain() stops a worker that called only in the future');
await("next_fire_at <= pgqrs_now() + interval '1 min' FROM pgqrs_schedule_list WHERE name = 'made ahead'", 'a schedule of the future fires next within a minute');

is_well($node, 'after all that');
$node->stop;
done_testing();
