# No message is ever lost, whatever a claim takes to be past: clients that do
# everything at random, then a drain by pgqrs_dequeue() alone, without a
# restart or a sweep; then the same across a crash with prepared transactions.
# Nothing is held by two at once either.
#
# STRESS_SECONDS: how long, 10 unless given.  test/soak/stress/run does this for
# longer, and shows that it finds what it is meant to find.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use constant { CLIENTS => 6, SUPERUSERS => 2, PREPARERS => 2 };

# What may happen to a client: a lease, a message or a dead letter that is
# another worker's by now, our own exceptions, conflicts with others, no room
# for a prepared transaction, and the crash.
my $expected = qr/^(?:PQ00[467]|PQ016|P0001|25P02|40001|40P01|53200|57P0[1-3]|3B001|42704|55000)$/;

my $seconds = $ENV{STRESS_SECONDS} || 10;

my $node = new_node('stress', <<'CONF');
max_prepared_transactions = 20
fsync = off
deadlock_timeout = 50ms
autovacuum_naptime = 1s
log_statement = none
CONF
$node->psql('postgres', slurp_file(dirname(abs_path(__FILE__)) . '/../soak/stress/load.sql'),
	on_error_die => 1, on_error_stop => 1);

my $phase = 0;

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

sub pick
{
	return $_[ rand @_ ];
}

# A script that begins anew after an error.
sub client_script
{
	my ($until, @lines) = @_;
	return "\\set ON_ERROR_STOP off\nSET application_name = 'stress';\n" . join "\n",
	  map { ("SELECT clock_timestamp() >= '$until' AS over \\gset", '\if :over', '\q', '\endif', $_) } @lines;
}

# Transactions with savepoints, some of which are prepared.
sub transaction
{
	my ($gid) = @_;
	my $queue = pick('long.mixed', 'long.once', 'long.direct');
	my $act = "SELECT stress.act('$queue') \\g /dev/null\n";
	my $script = 'BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE') . ";\n";
	for (0 .. rand 4)
	{
		my $savepoint = rand() < 0.4;
		$script .= "SAVEPOINT s;\n" if $savepoint;
		$script .= $act x (1 + rand 3);
		$script .= pick("ROLLBACK TO s;\n", "RELEASE s;\n") if $savepoint;
	}
	return $script . pick("COMMIT;\n", "ROLLBACK;\n") if rand() < 0.4;
	return $script . "PREPARE TRANSACTION '$gid';\nSELECT set_config('stress.long_' || queue, '', false) FROM unnest('{mixed,once,direct}'::text[]) AS queue \\g /dev/null\n";
}

# Commits and rolls back prepared transactions whose name begins so.
sub resolve_query
{
	my ($prefix, $share) = @_;
	return "SELECT CASE WHEN random() < 0.7 THEN 'COMMIT' ELSE 'ROLLBACK' END || ' PREPARED ' || quote_literal(gid)
		FROM pg_prepared_xacts WHERE gid LIKE '$prefix%' AND random() < $share \\gexec\n";
}

# All of them; another client may be faster.
sub resolve_all
{
	my ($prefix) = @_;
	return $node->psql('postgres', resolve_query($prefix, 1), on_error_stop => 0);
}

# Starts all clients for some seconds; those that resolve leave what an earlier
# phase has prepared.
sub start_load
{
	my ($length, %o) = @_;
	my $until = sql("SELECT clock_timestamp() + interval '$length s'");
	my $prefix = 'p' . ++$phase . '_';
	my @scripts = (("CALL stress.client('$until');") x CLIENTS,
		("CALL stress.superuser('$until');") x SUPERUSERS);
	my @clients = map { start_client($node, client_script($until, ($_) x (200 * $length))) } @scripts;
	for my $client (1 .. PREPARERS)
	{
		push @clients, start_client($node, client_script($until,
			map { transaction("$prefix${client}_$_") } 1 .. 100 * $length));
	}
	push @clients, start_client($node, client_script($until,
		(resolve_query($prefix, 0.2) . 'SELECT pg_sleep(0.05) \g /dev/null') x (20 * $length)))
	  if $o{resolve};
	return @clients;
}

# Waits for the end of the load, which may wait for what is prepared.
sub finish_load
{
	my @clients = @_;
	my $running = 1;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	while ($running && time < $deadline)
	{
		resolve_all('');
		$running = sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stress'");
		sleep 0.05 if $running;
	}
	is($running, 0, 'all clients end');
	check_errors(@clients);
	return;
}

sub check_errors
{
	my %strange;
	for my $client (@_)
	{
		$client->{harness}->finish;
		for my $line (split /\n/, slurp_file($client->{err}))
		{
			$strange{$1}++ if $line =~ /((?:ERROR|FATAL|PANIC):  (\w{5}).*)/ && $2 !~ $expected;
		}
	}
	is(join("\n", sort keys %strange), '', 'clients raise no unexpected error');
	return;
}

# Empties the queues and looks at what was written down.
sub drain
{
	my ($when) = @_;
	resolve_all('');
	sql('CALL stress.drain()');
	note(sql("SELECT string_agg(kind || ' ' || n, ', ' ORDER BY kind) FROM (SELECT kind, count(*) AS n FROM stress.log GROUP BY kind) AS l"));
	my $lost = sql("SELECT format('%s in %s, priority %s, due at %s, attempt %s, failures %s', message_id, name, priority,
			visible_after, attempt, failures)
		FROM (TABLE stress.lost UNION TABLE stress.missed) AS l JOIN pgqrs_queues USING (queue_id) ORDER BY visible_after, message_id LIMIT 10");
	is($lost, '', "nothing is lost $when")
	  or diag("lost messages, and their histories:\n", sql("SELECT l.message_id, l.at, l.kind, l.lease, l.not_before, l.pid, l.xid
		FROM stress.log AS l JOIN (SELECT message_id FROM stress.lost UNION SELECT message_id FROM stress.missed) AS m USING (message_id) ORDER BY 1, 2 LIMIT 100"));
	is(log_count($node, qr/was skipped/), 0, "no message is put into quarantine $when");
	is(sql('SELECT * FROM stress.wrong LIMIT 10'), '', "nothing is held twice or gone $when");
	is_well($node, $when);
	cmp_ok(sql('SELECT raised FROM pgqrs_floor_stats()'), '>', 0, 'claims did begin past something');
	sql('TRUNCATE stress.log, stress.missed');
	return $lost eq '';
}

sub run_plain
{
	my ($length) = @_;
	finish_load(start_load($length, resolve => 1));
	return drain('under load');
}

# The clients are killed with the server.  What was prepared before stays so
# while others claim, and counts when it is committed.
sub run_crash
{
	my ($before, $after) = @_;
	my @killed = start_load(20);
	sleep $before;
	ok($node->poll_query_until('postgres', 'SELECT count(*) > 2 FROM pg_prepared_xacts'), 'some transactions are prepared');
	$node->stop('immediate');
	check_errors(@killed);
	$node->start;
	my $prepared = "p${phase}_";
	my @clients = start_load($after, resolve => 1);
	sleep $after / 2;
	resolve_all($prepared);
	finish_load(@clients);
	return drain('after a crash');
}

my $end = time + $seconds;
my $ok;
do
{
	$ok = run_plain(4) && run_crash(1, 2);
} while ($ok && time + 4 < $end);

done_testing();
