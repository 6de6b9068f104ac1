# Rows at which background work fails, or the end that a claim makes of what it
# may not deliver, here because the tables were written by hand: it goes on with
# all others, says so once, and comes back to them.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', "fsync = off\nlog_statement = none\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# A pass, without what it found nothing to do of.
sub maintain
{
	return sql("SELECT coalesce(string_agg(key || ' ' || value, ', ' ORDER BY key), 'nothing') FROM jsonb_each(pgqrs_maintain()) WHERE value <> '0'");
}

# A message cannot end while its id is in the archive.
sub spoil
{
	my (@ids) = @_;
	sql("INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome, priority)
		SELECT message_id, queue_id, now(), now(), now(), 0, 0, 'DONE', 0 FROM pgqrs_messages WHERE message_id = ANY ('{" . join(',', @ids) . "}')");
	return;
}

sub mend
{
	return sql('DELETE FROM pgqrs_archive WHERE message_id IN (SELECT message_id FROM pgqrs_messages)');
}

# Four things are done, but for the second; that comes when it is mended.
my $minutes = 0;

sub one_fails
{
	my ($name, $done, $mend) = @_;
	is(maintain(), "$done 3", "$name: a pass does all but the row that fails");
	is(maintain(), 'nothing', "$name: the next pass leaves the row alone");
	$mend->();
	is(maintain(), 'nothing', "$name: the mended row is left alone for its minute");
	clock($node, (61 * ++$minutes) . ' s');
	is(maintain(), "$done 1", "$name: the mended row is done after the minute");
	return;
}

# First, while nothing else has ended: runs that are kept no longer.
sql("SELECT pgqrs_create_workflow('old')");
sql('ALTER TYPE pgqrs_run_status ADD VALUE $$ODD$$');
my @old = map { sql("SELECT pgqrs_trigger('old')") } 1 .. 4;
sql("SELECT pgqrs_cancel_run($_)") for @old;
sql("UPDATE pgqrs_archive SET archived_at = archived_at - interval '100 days'");
sql("UPDATE pgqrs_workflow_runs SET status = 'ODD' WHERE run_id = $old[1]");
one_fails('retention', 'runs_removed', sub { sql("UPDATE pgqrs_workflow_runs SET status = 'CANCELLED' WHERE run_id = $old[1]") });

sql("SELECT pgqrs_create_queue('once', max_attempts => 1, visibility_timeout => '1 us'), pgqrs_create_queue('held', max_attempts => 1),
	pgqrs_create_workflow('wf'), pgqrs_create_workflow('child')");
my @ids = map { sql("SELECT pgqrs_trigger('wf', timeout => '1 us')") } 1 .. 4;
spoil($ids[1]);
one_fails('deadlines', 'runs_timed_out', \&mend);

# More rows that fail in another database than can be remembered take nothing
# from this one.
sql('CREATE DATABASE many');
$node->safe_psql('many', "CREATE EXTENSION pgqrs; SELECT pgqrs_create_workflow('wf');
	SELECT pgqrs_trigger('wf', timeout => '1 us') FROM generate_series(1, 100);
	INSERT INTO pgqrs_archive (message_id, queue_id, archived_at, visible_after, enqueued_at, attempt, failures, outcome, priority)
		SELECT message_id, queue_id, now(), now(), now(), 0, 0, 'DONE', 0 FROM pgqrs_messages");
my $tries = 0;
$tries++ while $tries < 200 && $node->safe_psql('many', "SELECT pgqrs_maintain() ? 'failed'") eq 'f';
cmp_ok($tries, '<', 200, 'passes in another database try all rows that fail within 200 passes');
my $any = qr/WARNING:  (?:message or run|worker|schedule) \d+ was skipped: /;
my $elsewhere = log_count($node, $any) - 2; # and two here
@ids = map { sql("SELECT pgqrs_trigger('wf', timeout => '1 us')") } 1 .. 4;
spoil($ids[1]);
one_fails('beside them', 'runs_timed_out', \&mend);

# What was undone is found again though many entries of what is gone come after.
my $snapshot = $node->background_psql('postgres');
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
for my $due ([ 'deadline_at', 'runs_timed_out', 'NULL' ], [ 'exhausted_at', 'messages_dead', '1' ])
{
	my ($column, $done, $lease) = @$due;
	sql("INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, $column)
		SELECT nextval('pgqrs_message_id_seq'), queue_id, now(), now(), 0, 0, 0, '2020-01-02'
		FROM pgqrs_queues, generate_series(1, 20000) WHERE name = 'once';
		DELETE FROM pgqrs_messages WHERE $column = '2020-01-02'");
	@ids = map { sql("SELECT pgqrs_trigger('wf', timeout => '1 day')") } 1 .. 4;
	sql("UPDATE pgqrs_messages SET $column = '2020-01-01', lease = $lease, failures = 100 WHERE message_id IN (" . join(',', @ids) . ')');
	spoil($ids[1]);
	one_fails("$column, before what is gone", $done, \&mend);
}
$snapshot->quit;

@ids = map { sql("SELECT pgqrs_enqueue('once', '1')") } 1 .. 4;
sql("SELECT count(*) FROM pgqrs_dequeue('once', batch_size => 4)");
spoil($ids[1]);
one_fails('used up messages', 'messages_dead', \&mend);

@ids = map { sql("SELECT pgqrs_enqueue('held', '1')") } 1 .. 4;
sql("SELECT pgqrs_register_worker('w', '{held}')");
sql("SELECT count(*) FROM pgqrs_dequeue('held', (SELECT worker_id FROM pgqrs_workers), batch_size => 4, visibility_timeout => '1 day')");
sql("DELETE FROM pgqrs_workers");
spoil($ids[1]);
one_fails('what a worker held that is gone', 'messages_dead', \&mend);

# Workers, of which one is in a state that there is not.
my $workers = "FROM generate_series(1, 4) n";
sql("SELECT count(pgqrs_register_worker('silent' || n, '{held}')) $workers");
sql("SELECT pgqrs_enqueue('held', '1') $workers; SELECT count(d.message_id) FROM pgqrs_workers, pgqrs_dequeue('held', worker_id, visibility_timeout => '1 day') d");
sql('ALTER TYPE pgqrs_worker_status ADD VALUE $$ODD$$');
sql("UPDATE pgqrs_workers SET status = 'ODD' WHERE name = 'silent2'");
clock($node, (61 * ++$minutes) . ' s');
is(maintain(), 'messages_dead 3, workers_stopped 3', 'workers that are silent, and what they hold: all but one');
is(maintain(), 'nothing', 'the worker in an unknown state is left alone by the next pass');
sql("UPDATE pgqrs_workers SET status = 'READY' WHERE name = 'silent2'");
clock($node, (61 * ++$minutes) . ' s');
is(maintain(), 'messages_dead 1, workers_stopped 1', 'the worker is stopped after its state was mended');

# A claim takes them as they are, so they are gone.
my $run = sql("SELECT pgqrs_trigger('wf')");
my $lease = sql("SELECT lease FROM pgqrs_dequeue('wf', visibility_timeout => '1 day')");
@ids = map { sql("SELECT pgqrs_start_child($run, $lease, 'c$_', 'child')") } 1 .. 4;
sql("SELECT pgqrs_purge_queue('once')");
sql("UPDATE pgqrs_messages SET deadline_at = '2020-01-01' WHERE message_id = $run");
spoil($ids[1]);
is(maintain(), 'runs_cancelled 3, runs_timed_out 1', 'children of a run that ends: all but one') or diag(maintain());
is(maintain(), 'nothing', 'the child that cannot end is left alone by the next pass');
mend();
clock($node, (61 * ++$minutes) . ' s');
is(maintain(), 'runs_cancelled 1', 'the child is cancelled after it was mended');

# Waiting runs, of which one waits for a child that no number could be.
sub suspend
{
	my ($parent) = map { sql("SELECT pgqrs_trigger('wf')") } 1;
	my $held = sql("SELECT lease FROM pgqrs_dequeue('wf', visibility_timeout => '1 day')");
	my $child = sql("SELECT pgqrs_start_child($parent, $held, 'c', 'child')");
	sql("SELECT pgqrs_await_child($parent, $held, 'c')");
	# it ends, and no client is told
	sql("UPDATE pgqrs_workflow_runs SET status = 'SUCCESS', completed_at = now() WHERE run_id = $child; DELETE FROM pgqrs_messages WHERE message_id = $child");
	return $parent;
}
my @parents = map { suspend() } 1 .. 4;
my $odd = "UPDATE pgqrs_workflow_steps SET input = '{\"run_id\": %s}' WHERE run_id = $parents[1]";
my $right = sql("SELECT input ->> 'run_id' FROM pgqrs_workflow_steps WHERE run_id = $parents[1]");
sql(sprintf $odd, '1e30');
one_fails('waiting runs', 'runs_woken', sub { sql(sprintf $odd, $right) });
sql("SELECT pgqrs_purge_queue('wf')");

# Schedules, of which one has no expression.
sql("SELECT pgqrs_schedule('s' || n, '\@yearly', 'wf') FROM generate_series(1, 4) n");
sql("UPDATE pgqrs_schedules SET next_fire_at = date_trunc('year', now())");
sql("UPDATE pgqrs_schedules SET cron = 'nonsense' WHERE name = 's2'");
one_fails('schedules', 'schedules_fired', sub { sql("UPDATE pgqrs_schedules SET cron = '\@yearly'") });
sql("SELECT pgqrs_purge_queue('wf')");

# Where one look is not enough, what was undone is found again, too.
sub copies
{
	my ($count, $visible_after, $waiting_for) = @_;
	return sql("INSERT INTO pgqrs_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload, waiting_for)
		SELECT nextval('pgqrs_message_id_seq'), queue_id, '$visible_after', now(), 0, 0, 0, '1', $waiting_for
		FROM pgqrs_queues, generate_series(1, $count) WHERE name = 'many'");
}
sql("SELECT pgqrs_create_queue('many')");
@ids = map { sql("SELECT pgqrs_enqueue('many', '1')") } 1 .. 4;
sql("UPDATE pgqrs_messages SET visible_after = '2020-01-01', lease = 1, failures = 100 WHERE message_id IN (" . join(',', @ids) . ')');
copies(45000, '2020-01-02', 'NULL');
spoil($ids[1]);
one_fails('used up messages among many', 'messages_dead', \&mend);
sql("SELECT pgqrs_purge_queue('many')");
@parents = map { suspend() } 1 .. 4;
copies(5000, '2099-01-01', "'signal:x'");
$odd =~ s/run_id = \d+$/run_id = $parents[1]/;
$right = sql("SELECT input ->> 'run_id' FROM pgqrs_workflow_steps WHERE run_id = $parents[1]");
sql(sprintf $odd, '1e30');
one_fails('waiting runs among many', 'runs_woken', sub { sql(sprintf $odd, $right) });
sql("SELECT pgqrs_purge_queue('many'), pgqrs_purge_queue('wf')");

# A claim ends what it may not deliver, and delivers all else.
sub claim_passes
{
	my ($name, $queue, $put, $make_due) = @_;
	my @due = map { sql("SELECT $put") } 1 .. 4;
	$make_due->(@due);
	spoil($due[1]);
	my $good = sql("SELECT $put");
	my $take = "SELECT message_id FROM pgqrs_dequeue('$queue', batch_size => 10, visibility_timeout => '1 day')";
	is(sql($take), $good, "a claim passes over $name that it cannot end");
	is(sql("SELECT string_agg(message_id::text, ' ' ORDER BY message_id) FROM pgqrs_archive WHERE message_id IN ($due[0], $due[2], $due[3])"),
		"$due[0] $due[2] $due[3]", 'the claim ends the other undeliverable messages');
	$good = sql("SELECT $put");
	is(sql($take), $good, 'the next claim passes over it as well and delivers a message');
	mend();
	clock($node, (61 * ++$minutes) . ' s');
	is(sql($take), '', 'a claim after the mending delivers none of them');
	is(sql("SELECT outcome IS NOT NULL FROM pgqrs_archive WHERE message_id = $due[1]"), 't', 'the claim after the mending ends the message');
	sql("SELECT pgqrs_purge_queue('$queue')");
	return;
}
sql("SELECT pgqrs_create_queue('last', max_attempts => 1)");
claim_passes('a message', 'last', "pgqrs_enqueue('last', '1')",
	sub { sql("SELECT count(*) FROM pgqrs_dequeue('last', batch_size => 4, visibility_timeout => '1 us')") });
claim_passes('a run', 'wf', "pgqrs_trigger('wf')",
	sub { sql("UPDATE pgqrs_messages SET deadline_at = '2020-01-01' WHERE message_id IN (" . join(',', @_) . ')') });

# Each was told once; the other reasons for an error still end a pass.
is(log_count($node, $any) - $elsewhere, 15, 'the log tells of each row that failed once');
my $stays = sql("SELECT pgqrs_trigger('wf', timeout => '1 us')");
my $told = qr/WARNING:  message or run $stays was skipped/;
spoil($stays);
for (1 .. 5)
{
	is(maintain(), 'nothing', 'a row that keeps failing is not done');
	clock($node, (61 * ++$minutes) . ' s');
}
is(log_count($node, $told), 1, 'a row that fails for minutes is logged once');
clock($node, (61 * ($minutes += 3)) . ' s');
maintain();
is(log_count($node, $told), 2, 'a row that fails again after a longer time is logged once more');
mend();
sql("SELECT pgqrs_purge_queue('wf')");
@ids = map { sql("SELECT pgqrs_trigger('wf', timeout => '1 us')") } 1 .. 70;
spoil(@ids);
my $failed = q{SELECT pgqrs_maintain() #>> '{failed,ends,sqlstate}'};
is(sql($failed), '23505', 'a pass in which too many rows fail reports the error of the duty');
mend();
clock($node, (61 * ($minutes += 4)) . ' s');
is(maintain(), 'runs_timed_out 70', 'the pass after the mending does all of the rows');
sql("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; CREATE TRIGGER t BEFORE INSERT ON pgqrs_archive FOR EACH ROW EXECUTE FUNCTION f()");
sql("SELECT pgqrs_trigger('wf', timeout => '1 us')");
is(sql($failed), '55000', 'a table that refuses the write is reported as the error of the duty');
sql('DROP TRIGGER t ON pgqrs_archive');

# The background worker.
sub unspoilt
{
	my $parent = sql("SELECT pgqrs_trigger('wf')");
	my $held = sql("SELECT lease FROM pgqrs_dequeue('wf', visibility_timeout => '1 day')");
	sql("SELECT pgqrs_start_child($parent, $held, 'c', 'child')");
	return ($parent, $held);
}
my $parent = suspend();
sql(sprintf $odd =~ s/$parents[1]/$parent/r, '1e30');
my $warning = 'WARNING:  message or run %s was skipped: bigint out of range';
sql("ALTER SYSTEM SET pgqrs.paused = off; SELECT pg_reload_conf()");
my $worker = await_worker($node, 'postgres');
ok(await_log($node, sprintf $warning, $parent), 'the background worker logs a row at which it fails');
is(background_pid($node, 'postgres'), $worker, 'the background worker that failed at a row runs on');

# A run that begins to wait is looked at by the worker that notifies; others end at that moment.
my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN pgqrs_runs');
my ($waits, $held) = unspoilt();
$run = sql("SELECT pgqrs_trigger('wf')");
sql("BEGIN; SELECT pgqrs_await_child($waits, $held, 'c'), pgqrs_cancel_run($run);" . (sprintf $odd =~ s/$parents[1]/$waits/r, '1e30') . '; COMMIT');
ok(await_log($node, sprintf $warning, $waits), 'the background worker logs a waiting run at which it fails');
my $out = '';
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	$out .= $listener->query('SELECT 1');
	last if $out =~ /"$run:CANCELLED"/;
	select undef, undef, undef, 0.1;
}
like($out, qr/"$run:CANCELLED"/, 'the background worker notifies of the run that ended in the same transaction');
is(background_pid($node, 'postgres'), $worker, 'no failing row has ended the background worker');
is(log_count($node, sprintf $warning, $_), 1, 'the worker has logged it once') for $parent, $waits;
$listener->quit;

$node->stop;
done_testing();
