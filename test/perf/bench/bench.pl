#!/usr/bin/perl
# Runs all workloads in turn on the private cluster that test/perf/bench/run has
# started, prints their tables and writes them, with everything needed to do
# it again, to the file BENCH_RESULTS.
#
# A workload has contenders.  In each round every contender runs once, in an
# order that turns from round to round, so that a drift of the machine hits all
# alike; ratios are formed within a round.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use List::Util qw(max min);
use POSIX qw(strftime);
use Time::HiRes qw(time);

use Machine qw(machine fsync_times);
use Measure qw(psql sql pgbench node python set_server hold_snapshot release_snapshot
  buffers_per_call program);
use Report qw(median ratios workload_table requirements_table table number);

$| = 1;

my $quick = $ENV{QUICK};
my $seconds = $ENV{SECONDS_PER_RUN} || ($quick ? 1 : 3);
my $rounds = $ENV{RUNS} || ($quick ? 1 : 3);
my @clients = split ' ', $ENV{CLIENTS} || ($quick ? '4' : '1 4 16');
my @only = split ' ', $ENV{ONLY} // '';
my $held_seconds = $quick ? 6 : 60;
my $held_window = $quick ? 2 : 10;
my $large = $quick ? 100_000 : 1_000_000;
my $drain_rows = $quick ? 20_000 : 200_000;
my $drain_backlog = $drain_rows + $drain_rows / 10;
my $wal_rows = $quick ? 300 : 2_000;

my $json = '{"n": 1, "to": "user@example.com", "subject": "hello"}';
my $element = $json =~ s/"/\\"/gr;
my %vars = (
	payload => $json,
	output => '{"done": true}',
	payloads => '{' . join(',', ("\"$element\"") x 100) . '}',
	specs => '[' . join(',', ("{\"identifier\": \"noop\", \"payload\": $json}") x 100) . ']',
	queue => 'bench');

my (@workloads, %results, %wal, %program);

#
# State of the tables before a run
#

sub settle
{
	my ($database, @tables) = @_;

	sql($database, "VACUUM ANALYZE $_") for @tables;
	sql($database, 'CHECKPOINT');
	return;
}

sub reset_pgqrs
{
	sql('pgqrs', 'TRUNCATE pgqrs_messages, pgqrs_archive, pgqrs_workflow_runs, pgqrs_workflow_steps, pgqrs_run_signals');
	return;
}

sub reset_plain
{
	sql('pgqrs', 'TRUNCATE plain_messages, plain_archive, plain_runs',
		"SELECT setval('plain_message_id_seq', 1, false)");
	return;
}

# Batches of up to 10,000, each its own transaction.
sub in_batches
{
	my ($rows, $make) = @_;
	my @statements;

	for (my $n = $rows; $n > 0; $n -= 10_000)
	{
		push @statements, $make->(min($n, 10_000));
	}
	return @statements;
}

sub load_pgqrs
{
	my ($queue, $rows) = @_;

	reset_pgqrs();
	sql('pgqrs', in_batches($rows, sub {
		"SELECT cardinality(pgqrs_enqueue_batch('$queue', payloads[1:$_[0]])) FROM payloads"
	}));
	settle('pgqrs', 'pgqrs_messages');
	return;
}

sub load_runs
{
	my ($rows) = @_;

	reset_pgqrs();
	sql('pgqrs', in_batches($rows, sub {
		"SELECT cardinality(pgqrs_trigger_batch('bench_wf', payloads[1:$_[0]])) FROM payloads"
	}));
	settle('pgqrs', 'pgqrs_messages', 'pgqrs_workflow_runs');
	return;
}

sub load_plain
{
	my ($rows) = @_;

	reset_plain();
	sql('pgqrs', in_batches($rows, sub {
		"INSERT INTO plain_messages (message_id, queue_id, visible_after, enqueued_at, attempt, failures, priority, payload)
			SELECT nextval('plain_message_id_seq'), 1, clock_timestamp(), clock_timestamp(), 0, 0, 0, p
			FROM payloads, unnest(payloads[1:$_[0]]) AS p"
	}));
	settle('pgqrs', 'plain_messages');
	return;
}

sub empty_pgqrs { reset_pgqrs(); settle('pgqrs'); return; }
sub empty_plain { reset_plain(); settle('pgqrs'); return; }
sub empty_null { sql('pgqrs', 'TRUNCATE null_rows'); settle('pgqrs'); return; }

sub empty_pgq
{
	sql('pgq', "SELECT pgq.drop_queue('bench', true)", "SELECT pgq.create_queue('bench')",
		"SELECT pgq.register_consumer('bench', 'bench')");
	settle('pgq');
	return;
}

# A tick for every 500 events.  PgQ makes none for what was written since the
# last one unless it is asked in a later transaction.
sub load_pgq
{
	my ($rows) = @_;

	empty_pgq();
	pgbench(database => 'pgq', clients => 1, transactions => $rows / 500,
		script => script('pgq/fill'));
	sql('pgq', "SELECT pgq.force_tick('bench')", "SELECT pgq.ticker('bench')");
	settle('pgq');
	return;
}

sub empty_pgmq
{
	sql('pgmq', "SELECT pgmq.drop_queue('bench')", "SELECT pgmq.create('bench')");
	settle('pgmq');
	return;
}

sub load_pgmq
{
	my ($rows) = @_;

	empty_pgmq();
	sql('pgmq', in_batches($rows, sub {
		"SELECT count(*) FROM pgmq.send_batch('bench', array_fill('$json'::jsonb, ARRAY[$_[0]]))"
	}));
	settle('pgmq', 'pgmq.q_bench');
	return;
}

sub empty_absurd
{
	sql('absurd', "SELECT absurd.drop_queue('bench')", "SELECT absurd.create_queue('bench')");
	settle('absurd');
	return;
}

sub load_graphile
{
	my ($rows) = @_;

	node(script => 'graphile', workload => 'load', database => 'graphile', clients => 1, seconds => $rows);
	settle('graphile', 'graphile_worker._private_jobs');
	return;
}

sub load_boss
{
	my ($rows) = @_;

	node(script => 'pgboss', workload => 'load', database => 'boss', clients => 1, seconds => $rows);
	settle('boss');
	return;
}

sub waiting
{
	my ($table) = @_;

	return sub { sql('pgqrs', "SELECT count(*) FROM (SELECT FROM $table WHERE lease IS NULL LIMIT 1) AS x") };
}

sub waiting_boss
{
	return sql('boss', "SELECT count(*) FROM (SELECT FROM pgboss.job WHERE name = 'bench' AND state = 'created' LIMIT 1) AS x");
}

# Remembers that a backlog is loaded that its workloads leave as it is.
my %loaded = (pgqrs => '', plain => '');

sub keep_loaded
{
	my ($whose, $rows, $load) = @_;

	if ($loaded{$whose} eq $rows)
	{
		settle('pgqrs', "${whose}_messages");
		return;
	}
	$load->($rows);
	$loaded{$whose} = $rows;
	return;
}

#
# Contenders
#
# id, label; database; script for pgbench, or client and workload for Node;
# prepare($clients, $backlog); left: how much of the backlog is left, to notice
# a run that ran dry; null: the null cycle that it is compared with; against:
# the contender of ours that is compared with this one; peer: what must be
# installed for it.
#

sub script { return "$FindBin::Bin/scripts/$_[0].sql"; }

sub ours { return { database => 'pgqrs', prepare => \&empty_pgqrs, null => 'null', touches => 'pgqrs', @_ }; }
sub plain { return { database => 'pgqrs', prepare => \&empty_plain, against => 'pgqrs', touches => 'plain', @_ }; }
sub null { return { id => 'null', database => 'pgqrs', prepare => \&empty_null, against => 'pgqrs', @_ }; }
sub pgq { return { id => 'pgq', peer => 'pgq', database => 'pgq', prepare => \&empty_pgq, against => 'pgqrs', @_ }; }
sub pgmq { return { id => 'pgmq', peer => 'pgmq', database => 'pgmq', prepare => \&empty_pgmq, against => 'pgqrs', @_ }; }
sub graphile { return { peer => 'node', database => 'graphile', prepare => sub { load_graphile(0) }, against => 'pgqrs', @_ }; }
sub boss { return { id => 'boss', peer => 'node', client => 'pgboss', database => 'boss', prepare => sub { load_boss(0) }, against => 'node', @_ }; }

sub node_ours { return { id => 'node', peer => 'node', client => 'pgqrs', database => 'pgqrs', prepare => \&empty_pgqrs, touches => 'pgqrs', @_ }; }

sub python_ours { return { python => 1, database => 'pgqrs', prepare => sub { load_runs(2_000 * (2 + int $seconds)) }, touches => 'pgqrs', @_ }; }

my $backlog = max($quick ? 60_000 : 200_000, 60_000 * $seconds);

push @workloads, {
	id => 'enqueue', title => 'enqueue 1',
	contenders => [
		ours(id => 'pgqrs', label => 'pgqrs_enqueue', script => 'pgqrs/enqueue'),
		plain(id => 'plain', label => 'INSERT … RETURNING', script => 'plain/enqueue'),
		null(label => 'null: 1 round trip, durable', script => 'null/enqueue'),
		pgq(label => 'PgQ insert_event', script => 'pgq/enqueue'),
		graphile(id => 'graphile', label => 'graphile-worker add_job', script => 'graphile/enqueue'),
		pgmq(label => 'pgmq.send', script => 'pgmq/enqueue'),
		node_ours(label => 'Node: pgqrs_enqueue', workload => 'enqueue'),
		graphile(id => 'graphile_node', label => 'Node: graphile-worker addJob', client => 'graphile',
			workload => 'enqueue', against => 'node'),
		boss(label => 'Node: pg-boss send', workload => 'enqueue'),
	],
},
{
	id => 'enqueue_100', title => 'enqueue a batch of 100', rows => 100,
	contenders => [
		ours(id => 'pgqrs', label => 'pgqrs_enqueue_batch', script => 'pgqrs/enqueue_100'),
		plain(id => 'plain', label => 'INSERT … SELECT unnest', script => 'plain/enqueue_100'),
		null(label => 'null: 1 round trip, durable', script => 'null/enqueue', against => undef),
		pgq(label => 'PgQ insert_event', script => 'pgq/enqueue_100'),
		graphile(id => 'graphile', label => 'graphile-worker add_jobs', script => 'graphile/enqueue_100'),
		pgmq(label => 'pgmq.send_batch', script => 'pgmq/enqueue_100'),
		node_ours(label => 'Node: pgqrs_enqueue_batch', workload => 'enqueue_100'),
		boss(label => 'Node: pg-boss insert', workload => 'enqueue_100'),
	],
},
{
	id => 'enqueue_10000', title => 'enqueue a batch of 10,000', rows => 10_000, clients => [ 1, 4 ],
	contenders => [
		ours(id => 'pgqrs', label => 'pgqrs_enqueue_batch', script => 'pgqrs/enqueue_10000', null => undef),
		plain(id => 'plain', label => 'INSERT … SELECT unnest', script => 'plain/enqueue_10000'),
	],
},
{
	id => 'trigger_10000', title => 'trigger a batch of 10,000', rows => 10_000, clients => [ 1, 4 ],
	contenders => [
		ours(id => 'pgqrs', label => 'pgqrs_trigger_batch', script => 'pgqrs/trigger_10000', null => undef),
		plain(id => 'plain', label => 'INSERT … SELECT unnest, two tables', script => 'plain/trigger_10000'),
	],
},
{
	id => 'claim', title => 'claim 1, from a backlog of ' . number($backlog) . ' that is used up',
	contenders => [
		ours(id => 'pgqrs', label => 'pgqrs_dequeue', script => 'pgqrs/claim', left => waiting('pgqrs_messages'),
			prepare => sub { load_pgqrs('bench', $_[1]) },
			count_buffers => 1),
		ours(id => 'sync', label => 'the same, async_claims = off', script => 'pgqrs/claim', left => waiting('pgqrs_messages'),
			prepare => sub { load_pgqrs('bench', $_[1]) }, server => { 'pgqrs.async_claims' => 'off' },
			against => 'pgqrs', null => 'null_durable'),
		plain(id => 'plain', label => 'UPDATE … SKIP LOCKED', script => 'plain/claim', left => waiting('plain_messages'),
			prepare => sub { load_plain($_[1]) }, count_buffers => 1),
		plain(id => 'known', label => 'UPDATE of a row whose key is known, asynchronous', script => 'plain/update_one',
			prepare => sub { load_plain($_[1]) }, server => { synchronous_commit => 'off' }),
		null(label => 'null: 1 round trip', script => 'null/claim'),
		null(id => 'null_durable', label => 'null: 1 round trip, durable', script => 'null/enqueue', against => 'sync'),
		pgmq(label => 'pgmq.read', script => 'pgmq/claim', prepare => sub { load_pgmq($_[1]) }),
		node_ours(label => 'Node: pgqrs_dequeue', workload => 'claim', left => waiting('pgqrs_messages'),
			prepare => sub { load_pgqrs('bench', $_[1]) }),
		boss(label => 'Node: pg-boss fetch', workload => 'claim', left => \&waiting_boss,
			prepare => sub { load_boss(int($_[1] / 6)) }),
	],
};

# A backlog that stays as it is: leases of a millisecond, so that what was
# claimed is at the end of the queue at once.
for my $size (1_000, $large)
{
	push @workloads, {
		id => $size == 1_000 ? 'ring_small' : 'ring_large',
		title => 'claim 1, from a backlog of ' . number($size) . ' that stays (leases of 1 ms)',
		contenders => [
			ours(id => 'pgqrs', label => 'pgqrs_dequeue', script => 'pgqrs/claim_ring', null => undef, keeps => 1,
				prepare => sub { keep_loaded('pgqrs', $size, sub { load_pgqrs('ring', $_[0]) }) },
				count_buffers => 1),
			plain(id => 'plain', label => 'UPDATE … SKIP LOCKED', script => 'plain/claim_ring', keeps => 1,
				prepare => sub { keep_loaded('plain', $size, \&load_plain) }, count_buffers => 1),
		],
	};
	push @workloads, {
		id => $size == 1_000 ? 'life' : 'life_large',
		title => 'enqueue, claim, archive 1, with a backlog of ' . number($size), sampling => 1,
		contenders => [
			ours(id => 'pgqrs', label => 'pgqrs', script => 'pgqrs/life', vars => { queue => 'ring' }, keeps => 1,
				prepare => sub { keep_loaded('pgqrs', $size, sub { load_pgqrs('ring', $_[0]) }) }),
			plain(id => 'plain', label => 'INSERT; UPDATE … SKIP LOCKED; DELETE, INSERT', script => 'plain/life', keeps => 1,
				prepare => sub { keep_loaded('plain', $size, \&load_plain) }),
			null(label => 'null: 3 round trips, 2 durable', script => 'null/life'),
			$size == 1_000 ? (
				ours(id => 'drop', label => 'pgqrs, retention 0', script => 'pgqrs/life', vars => { queue => 'bench_drop' },
					prepare => sub { load_pgqrs('bench_drop', 1_000) }),
				plain(id => 'plain_drop', label => 'INSERT; UPDATE … SKIP LOCKED; DELETE', script => 'plain/life_drop',
					prepare => sub { load_plain(1_000) }, against => 'drop'),
				pgmq(label => 'pgmq send; read; archive', script => 'pgmq/life', prepare => sub { load_pgmq(1_000) }),
				node_ours(label => 'Node: pgqrs', workload => 'life', prepare => sub { load_pgqrs('bench', 1_000) }),
				boss(label => 'Node: pg-boss send; fetch; complete', workload => 'life', prepare => sub { load_boss(1_000) }),
			) : (),
		],
	};
}

# SQL and graphile-worker drain the same backlog; for SQL a tenth more is there,
# so that no batch is short.  The other Node clients drain a larger one for as
# long as other runs last.
push @workloads, {
	id => 'drain', title => 'claim 50, archive 50, of a backlog of ' . number($drain_rows), rows => 50, sampling => 1,
	transactions => $drain_rows / 50,
	contenders => [
		ours(id => 'pgqrs', label => 'pgqrs', script => 'pgqrs/drain_50',
			prepare => sub { load_pgqrs('bench', $drain_backlog) }),
		plain(id => 'plain', label => 'UPDATE … SKIP LOCKED; DELETE, INSERT', script => 'plain/drain_50',
			prepare => sub { load_plain($drain_backlog) }),
		null(label => 'null: 2 round trips, 1 durable', script => 'null/drain_50', against => undef),
		graphile(id => 'graphile', label => 'graphile-worker, a process per client', client => 'graphile', workload => 'drain',
			prepare => sub { load_graphile($drain_rows) }),
		graphile(id => 'graphile_1', label => 'graphile-worker, 1 process', client => 'graphile', workload => 'drain',
			prepare => sub { load_graphile($drain_rows) }, fixed_clients => 1),
		pgq(label => 'PgQ, batches of 500, 1 consumer, a fourth of it', script => 'pgq/drain', rows => 500, fixed_clients => 1,
			transactions => $drain_rows / 2_000, prepare => sub { load_pgq($drain_backlog / 4) }),
		pgmq(label => 'pgmq read; archive', script => 'pgmq/drain_50', prepare => sub { load_pgmq($drain_backlog) }),
		node_ours(label => 'Node: pgqrs', workload => 'drain_50', left => waiting('pgqrs_messages'),
			prepare => sub { load_pgqrs('bench', $_[1]) }),
		boss(label => 'Node: pg-boss fetch; complete', workload => 'drain_50', left => \&waiting_boss,
			prepare => sub { load_boss(int($_[1] / 6)) }),
	],
},
{
	id => 'cycle', title => 'a workflow of two steps', sampling => 1,
	contenders => [
		ours(id => 'pgqrs_7', label => 'pgqrs, 7 transactions', script => 'pgqrs/cycle_7', null => 'null_7',
			prepare => sub { load_runs(1_000) }),
		null(id => 'null_7', label => 'null: 7 round trips, 4 durable', script => 'null/cycle_7', against => 'pgqrs_7'),
		ours(id => 'pgqrs', label => 'pgqrs, 4 statements', script => 'pgqrs/cycle_4', null => 'null_4',
			prepare => sub { load_runs(1_000) }),
		ours(id => 'pgqrs_lateral', label => 'pgqrs, 4 statements, LATERAL', script => 'pgqrs/cycle_4_lateral', null => 'null_4',
			prepare => sub { load_runs(1_000) }),
		ours(id => 'pgqrs_fused', label => 'pgqrs, pgqrs_start and pgqrs_step_next', script => 'pgqrs/cycle_fused', null => 'null_4',
			prepare => sub { load_runs(1_000) }),
		null(id => 'null_4', label => 'null: 4 round trips, 3 durable', script => 'null/cycle_4'),
		node_ours(label => 'Node: pgqrs, 4 statements', workload => 'cycle_4', prepare => sub { load_runs(1_000) }),
		python_ours(id => 'python_hand', label => 'Python: a poll, 2 steps and the end, by hand', workload => 'hand'),
		python_ours(id => 'python', label => 'Python: the client', workload => 'worker', against => 'python_hand'),
		node_ours(id => 'node_client', label => 'Node: pgqrs, the client for TypeScript', client => 'typescript', workload => 'client',
			prepare => sub { load_runs(1_000) }),
		node_ours(id => 'node_by_hand', label => 'Node: pgqrs, the calls of that client by hand', client => 'typescript',
			workload => 'by_hand', prepare => sub { load_runs(1_000) }, against => 'node_client'),
		node_ours(id => 'node_execute', label => 'Node: pgqrs, executed by the client for TypeScript', client => 'typescript',
			workload => 'execute'),
		node_ours(id => 'node_execute_hand', label => 'Node: pgqrs, the calls of that by hand', client => 'typescript',
			workload => 'execute_by_hand', against => 'node_execute'),
		{ id => 'dbos', peer => 'node', label => 'Node: DBOS SDK', client => 'dbos', workload => 'cycle',
			database => 'dbos', prepare => sub { settle('dbos') }, against => 'pgqrs' },
		{ id => 'dbos_32', peer => 'node', label => 'Node: DBOS SDK, 32 in flight', client => 'dbos', workload => 'cycle',
			database => 'dbos', prepare => sub { settle('dbos') }, against => 'pgqrs', fixed_clients => 32 },
		{ id => 'absurd', peer => 'absurd', label => 'absurd, 6 transactions', script => 'absurd/cycle',
			database => 'absurd', prepare => \&empty_absurd, against => 'pgqrs' },
	],
},
{
	id => 'wakeups', title => 'Python: one session wakes another, 200 times a second at most', clients => [4],
	contenders => [
		map { my ($id, $label) = @$_; python_ours(id => $id, label => $label, workload => $id, prepare => \&empty_pgqrs, fixed_clients => 1) }
		  [ 'poll', 'pgqrs_enqueue to the answer of pgqrs_poll, which has claimed the message' ],
		[ 'listen', 'pg_notify to the notification' ],
		[ 'lock', 'pg_advisory_unlock to the answer of pg_advisory_lock' ],
	],
},
{
	id => 'connections', title => 'Python: 20 runs at once', clients => [4],
	contenders => [
		python_ours(id => 'python', label => 'a worker, from its start', workload => 'connections',
			prepare => sub { load_runs(20) }, fixed_clients => 20),
	],
},
{
	id => 'held', title => "$held_seconds s while another session holds a snapshot; first and last $held_window s",
	clients => [4], seconds => $held_seconds,
	contenders => [
		ours(id => 'life_free', label => 'enqueue, claim, archive without it', script => 'pgqrs/life', window => 1,
			sampling => 1, prepare => sub { load_pgqrs('bench', 1_000) }, null => undef),
		ours(id => 'life', label => 'enqueue, claim, archive', script => 'pgqrs/life', hold => 1, sampling => 1,
			prepare => sub { load_pgqrs('bench', 1_000) }, null => undef),
		plain(id => 'plain_life', label => 'the same in plain SQL', script => 'plain/life', hold => 1, sampling => 1,
			prepare => sub { load_plain(1_000) }, against => 'life'),
		ours(id => 'claim', label => 'claim 1, leases of 1 ms', script => 'pgqrs/claim_ring', hold => 1,
			prepare => sub { load_pgqrs('ring', 1_000) }, null => undef),
		plain(id => 'plain_claim', label => 'the same in plain SQL', script => 'plain/claim_ring', hold => 1,
			prepare => sub { load_plain(1_000) }, against => 'claim'),
	],
};

#
# Running
#

# Whether what a contender needs was installed.
sub available
{
	my ($contender) = @_;
	my $peer = $contender->{peer} or return 1;

	return $peer eq 'node' ? $ENV{NODE} : -e "$ENV{BENCH_WORK}/have_$peer";
}

sub run_once
{
	my ($workload, $contender, $clients, $rows_of_backlog) = @_;
	my $default = $contender->{script} && $contender->{script} =~ /claim|enqueue$/ && !$quick ? 0.1 : 1;
	my $transactions = $contender->{transactions} // $workload->{transactions};
	my $holder;
	my $result;

	$clients = $contender->{fixed_clients} if $contender->{fixed_clients};
	$contender->{prepare}->($clients, $rows_of_backlog);
	if (my $touched = $contender->{touches})
	{
		$loaded{$touched} = '' unless $contender->{keeps};
	}
	set_server(%{ $contender->{server} }) if $contender->{server};
	$holder = hold_snapshot($contender->{database}) if $contender->{hold};
	if ($contender->{script})
	{
		$result = pgbench(database => $contender->{database}, script => script($contender->{script}),
			clients => $clients, rows => $contender->{rows} // $workload->{rows} // 1,
			seconds => $workload->{seconds} // $seconds,
			transactions => $transactions && int($transactions / $clients),
			sampling => $contender->{sampling} // $workload->{sampling} // $default,
			vars => { %vars, backlog => $rows_of_backlog, %{ $contender->{vars} // {} } },
			window => $contender->{hold} || $contender->{window} ? $held_window : undef);
	}
	else
	{
		my $run = $contender->{python} ? \&python : \&node;
		$result = $run->(database => $contender->{database}, script => $contender->{client},
			workload => $contender->{workload}, clients => $clients, seconds => $seconds);
	}
	release_snapshot($holder) if $holder;
	set_server(map { $_ => 'on' } keys %{ $contender->{server} }) if $contender->{server};
	return $result;
}

# The same, again with more if the backlog was used up.
sub run_contender
{
	my ($workload, $contender, $clients) = @_;

	for my $try (0 .. 4)
	{
		my $result = run_once($workload, $contender, $clients, $backlog << $try);

		return $result unless $contender->{left} && !$contender->{left}->();
	}
	die "$workload->{id}: $contender->{id} uses up every backlog\n";
}

sub run_workload
{
	my ($workload) = @_;
	my @contenders = grep { available($_) } @{ $workload->{contenders} };
	my @counts = grep { my $c = $_; !$workload->{clients} || grep { $_ == $c } @{ $workload->{clients} } } @clients;

	@counts = ($workload->{clients}[-1]) if !@counts;
	for my $clients (@counts)
	{
		for my $round (0 .. $rounds - 1)
		{
			for my $i (0 .. $#contenders)
			{
				my $contender = $contenders[ ($i + $round) % @contenders ];
				my $start = time;

				next if $contender->{failed};
				my $result = eval { run_contender($workload, $contender, $clients) };
				if (!$result)
				{
					# without ours there is nothing to report
					die $@ if !$contender->{peer};
					print STDERR "$workload->{id}: $contender->{id} failed: $@";
					$contender->{failed} = 1;
					next;
				}
				$results{ $workload->{id} }{$clients}{ $contender->{id} }[$round] = $result;
				printf STDERR "%-14s %2d clients  round %d  %-14s %10.0f rows/s  (%.0f s)\n",
				  $workload->{id}, $clients, $round + 1, $contender->{id}, $result->{rate}, time - $start;
			}
		}
	}
	count_buffers($_) for @contenders;
	return;
}

# Buffers of a claim, from the backlog as it is before a run.
sub count_buffers
{
	my ($contender) = @_;
	my $statement;

	return if !$contender->{count_buffers};
	$statement = slurp(script($contender->{script})) =~ s/;\s*$//r;
	$contender->{prepare}->(1, $backlog);
	$contender->{buffers} = buffers_per_call($contender->{database}, $statement, $quick ? 50 : 300);
	return;
}

# WAL without full-page images, one client, nothing else going on.
sub measure_wal
{
	my %wanted = map { $_ => 1 } qw(enqueue enqueue_100 claim life drain cycle);

	set_server(full_page_writes => 'off', autovacuum => 'off');
	for my $workload (grep { $wanted{ $_->{id} } && $results{ $_->{id} } } @workloads)
	{
		for my $contender (grep { available($_) && $_->{script} } @{ $workload->{contenders} })
		{
			my $rows = $contender->{rows} // $workload->{rows} // 1;

			next if $contender->{id} =~ /^null|sync/;
			$wal{ $workload->{id} }{ $contender->{id} } = run_once(
				{ %$workload, transactions => undef },
				{ %$contender, sampling => 1, transactions => max(20, int($wal_rows / $rows)) }, 1,
				$wal_rows * 2)->{wal};
		}
	}
	set_server(full_page_writes => 'on', autovacuum => 'on');
	return;
}

# What a loop uses by itself that only starts such commands, one after the other, and waits for each.
my $bare_loop = <<'PY';
import os, resource, sys
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', ':'], os.environ), 0)
after = resource.getrusage(resource.RUSAGE_SELF)
print(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / int(sys.argv[1]))
PY

# The program pgqrs: its processor time for each of many short commands, and how long it takes to start,
# in turns with what does as little as can be done.
sub measure_program
{
	my $pgqrs = "$ENV{PG_BIN}/pgqrs";
	my %starts = (
		version => [ $pgqrs, '--version' ],
		queues => [ $pgqrs, 'queues' ],
		true => ['true'],
		psql => [ qw(psql -XAtqc), 'SELECT 1' ]);
	my $count = $quick ? 300 : 2_000;

	return if @only && !grep { $_ eq 'program' } @only;
	for my $round (1 .. $rounds)
	{
		my %ms;
		load_pgqrs('bench', $count);
		my ($said) = program('pgqrs', $pgqrs, qw(work --queue bench --concurrency 8 --until-empty --exec :));
		my ($work) = $said =~ /([\d.]+) ms of processor time each/ or die "pgqrs work says nothing:\n$said";
		my ($loop) = program('pgqrs', 'python3', '-c', $bare_loop, $count);
		push @{ $program{work} }, $work;
		push @{ $program{loop} }, $loop + 0;
		for (1 .. 20)
		{
			push @{ $ms{$_} }, (program('pgqrs', @{ $starts{$_} }))[1] for sort keys %starts;
		}
		push @{ $program{$_} }, median(@{ $ms{$_} }) for keys %starts;
		printf STDERR "program        round %d  %.3f ms a message, a bare loop %.3f; starts %.1f ms, with a call %.1f, true %.1f, psql %.1f\n",
		  $round, map { $program{$_}[-1] } qw(work loop version queues true psql);
	}
	return;
}

#
# What is required
#

sub runs
{
	my ($workload, $contender) = @_;

	return $results{$workload}{4}{$contender} // [];
}

# The fastest of several contenders.
sub best
{
	my ($workload, @contenders) = @_;

	my ($best) = sort {
		median(map { $_->{rate} } @$b) <=> median(map { $_->{rate} } @$a)
	} grep { @$_ } map { runs($workload, $_) } @contenders;
	return $best // [];
}

sub rate_of
{
	my ($workload, $contender, $over) = @_;

	return [ ratios(runs($workload, $contender), ref $over ? $over : runs($workload, $over), 'rate') ];
}

sub buffers
{
	my ($workload) = @_;
	my ($of) = grep { $_->{id} eq $workload } @workloads;

	return $of->{contenders}[0]{buffers};
}

sub requirements
{
	my $held = runs('held', 'life');
	my $drain = best('drain', 'graphile', 'graphile_1');
	my @small = map { $_->{p99} } @{ runs('ring_small', 'pgqrs') };
	my @large = map { $_->{p99} } @{ runs('ring_large', 'pgqrs') };
	my $pairs = min(scalar @small, scalar @large);
	my $wal_life = $wal{life};

	return (
		{ text => 'claim 1 ÷ SKIP LOCKED', min => 6, values => rate_of('claim', 'pgqrs', 'plain'),
			null => rate_of('claim', 'null', 'plain') },
		{ text => 'claim 1, async_claims off ÷ SKIP LOCKED', min => 3, values => rate_of('claim', 'sync', 'plain'),
			null => rate_of('claim', 'null_durable', 'plain') },
		{ text => 'claim 1 of 1 client ÷ SKIP LOCKED', values =>
			[ ratios($results{claim}{1}{pgqrs} // [], $results{claim}{1}{plain} // [], 'rate') ] },
		{ text => 'claim 1 ÷ UPDATE of a row whose key is known, asynchronous', values => rate_of('claim', 'pgqrs', 'known') },
		{ text => 'enqueue 1 ÷ INSERT', min => 0.95, values => rate_of('enqueue', 'pgqrs', 'plain'),
			null => rate_of('enqueue', 'null', 'plain') },
		{ text => 'enqueue, claim, archive ÷ plain SQL', min => 1.6, values => rate_of('life', 'pgqrs', 'plain'),
			null => rate_of('life', 'null', 'plain') },
		{ text => 'enqueue, claim, archive ÷ null cycle', min => 0.65, values => rate_of('life', 'pgqrs', 'null') },
		{ text => 'workflow, 7 transactions ÷ null cycle', min => 0.6, values => rate_of('cycle', 'pgqrs_7', 'null_7') },
		{ text => 'workflow, 7 transactions ÷ DBOS', min => 5, values => rate_of('cycle', 'pgqrs_7', 'dbos'),
			null => rate_of('cycle', 'null_7', 'dbos') },
		{ text => 'workflow, 4 statements ÷ null cycle', min => 0.6, values => rate_of('cycle', 'pgqrs', 'null_4') },
		{ text => 'workflow, 4 statements ÷ DBOS', min => 8, values => rate_of('cycle', 'pgqrs', 'dbos'),
			null => rate_of('cycle', 'null_4', 'dbos') },
		{ text => 'the same with LATERAL ÷ null cycle', min => 0.6, values => rate_of('cycle', 'pgqrs_lateral', 'null_4') },
		{ text => 'the same with LATERAL ÷ DBOS', min => 8, values => rate_of('cycle', 'pgqrs_lateral', 'dbos'),
			null => rate_of('cycle', 'null_4', 'dbos') },
		{ text => 'workflow, 4 statements, Node ÷ DBOS', min => 4, values => rate_of('cycle', 'node', 'dbos') },
		{ text => 'workflow through the client for TypeScript ÷ the same calls by hand', min => 0.7,
			values => rate_of('cycle', 'node_client', 'node_by_hand') },
		{ text => 'the same, executed where it is started', min => 0.7, values => rate_of('cycle', 'node_execute', 'node_execute_hand') },
		{ text => 'workflow executed by the client for TypeScript ÷ DBOS', min => 5, values => rate_of('cycle', 'node_execute', 'dbos') },
		{ text => 'workflow through a worker of the client for TypeScript ÷ DBOS', values => rate_of('cycle', 'node_client', 'dbos') },
		{ text => 'workflow, 4 statements ÷ DBOS, 32 in flight', values => rate_of('cycle', 'pgqrs', 'dbos_32') },
		{ text => 'workflow, Python client ÷ the same calls by hand', min => 0.7, values => rate_of('cycle', 'python', 'python_hand') },
		{ text => 'a message wakes a poll, in Python: p50', max => 1, unit => 'ms', values => [ map { $_->{p50} } @{ runs('wakeups', 'poll') } ] },
		(map { my ($id, $text) = @$_; +{ text => "a message wakes a poll, in Python ÷ $text: p50", values => [ ratios(runs('wakeups', 'poll'), runs('wakeups', $id), 'p50') ] } }
			[ 'listen', 'a notification reaches a listener' ], [ 'lock', 'the release of a lock wakes a session' ]),
		{ text => 'connections of a Python worker with 20 runs at once', max => 6, unit => 'connections', values => [ map { $_->{connections} } @{ runs('connections', 'python') } ] },
		{ text => 'WAL of a workflow, 7 transactions', max => 2_900, unit => 'bytes', values => [ grep { defined } $wal{cycle}{pgqrs_7} ] },
		{ text => 'WAL of a workflow, 4 statements', max => 2_600, unit => 'bytes', values => [ grep { defined } $wal{cycle}{pgqrs} ] },
		{ text => 'WAL of a message\'s life ÷ plain SQL', max => 1.1,
			values => [ $wal_life ? $wal_life->{pgqrs} / $wal_life->{plain} : () ] },
		{ text => 'held snapshot, enqueue, claim, archive: last ÷ first', min => 0.95,
			values => [ map { $_->{last} / $_->{first} } grep { $_->{first} } @$held ] },
		{ text => 'held snapshot, enqueue, claim, archive ÷ without it', min => 0.9,
			values => rate_of('held', 'life', 'life_free') },
		{ text => 'held snapshot, claim 1: last ÷ first',
			values => [ map { $_->{last} / $_->{first} } grep { $_->{first} } @{ runs('held', 'claim') } ] },
		{ text => 'buffers of a claim: backlog of ' . number($large) . ' − of 1,000', max => 4, unit => 'more',
			values => [ defined buffers('ring_large') && defined buffers('ring_small')
				? buffers('ring_large') - buffers('ring_small') : () ] },
		{ text => 'p99 of a claim: backlog of ' . number($large) . ' ÷ of 1,000', max => 1.3,
			values => [ map { $large[$_] / $small[$_] } 0 .. $pairs - 1 ] },
		{ text => 'claim 50 + archive 50 ÷ graphile-worker at its best (aim: 2)', min => 1.5, values => rate_of('drain', 'pgqrs', $drain) },
		{ text => 'claim 50 + archive 50, Node ÷ graphile-worker at its best', min => 1, values => rate_of('drain', 'node', $drain) },
		{ text => 'enqueue a batch of 100 ÷ graphile-worker', min => 4, values => rate_of('enqueue_100', 'pgqrs', 'graphile') },
		{ text => 'enqueue a batch of 10,000 ÷ INSERT', min => 0.7, values => rate_of('enqueue_10000', 'pgqrs', 'plain') },
		{ text => 'trigger a batch of 10,000 ÷ INSERT', min => 0.7, values => rate_of('trigger_10000', 'pgqrs', 'plain') },
		{ text => 'pgqrs work, 8 commands at once: its own processor time a message', max => 0.2, unit => 'ms', values => $program{work} },
		{ text => 'the same of a bare loop of posix_spawn and waitpid', unit => 'ms', values => $program{loop} },
		{ text => 'pgqrs --version, from start to end', max => 20, unit => 'ms', values => $program{version} },
		{ text => 'pgqrs queues, with a connection, from start to end', max => 20, unit => 'ms', values => $program{queues} },
		{ text => 'true, from start to end', unit => 'ms', values => $program{true} },
		{ text => 'psql -c "SELECT 1", from start to end', unit => 'ms', values => $program{psql} },
	);
}

#
# Writing
#

sub wal_table
{
	my @rows = [ 'workload', 'what', 'bytes per row', 'pgqrs ÷ this' ];

	for my $workload (@workloads)
	{
		my $measured = $wal{ $workload->{id} } or next;

		for my $c (@{ $workload->{contenders} })
		{
			my $bytes = $measured->{ $c->{id} } or next;
			my $ours = $c->{against} && $measured->{ $c->{against} };

			push @rows, [ $workload->{title}, $c->{label}, number($bytes),
				$ours ? sprintf('%.2f', $ours / $bytes) : '' ];
		}
	}
	return table(@rows);
}

sub slurp
{
	my ($file) = @_;

	local (@ARGV, $/) = ($file);
	return scalar <>;
}

# The scripts in full, so that the file stands for itself.
sub sources
{
	my $text = '';

	for my $file (sort map { glob "$FindBin::Bin/$_" } 'setup/*.sql', 'scripts/*/*.sql', 'clients/*.mjs', 'clients/*.py')
	{
		my $name = substr $file, length("$FindBin::Bin/");
		my ($kind) = $name =~ /(sql|mjs|py)$/;

		$text .= "`$name`\n\n```" . { sql => 'sql', mjs => 'js', py => 'python' }->{$kind} . "\n" . slurp($file) . "```\n\n";
	}
	return $text;
}

my $how = slurp("$FindBin::Bin/how.md");
my $began = time;
my $fsync = fsync_times("$ENV{PRIVATE}/fsync_probe");
my $machine = machine($fsync);
my @tables;

# What was measured until something failed is told all the same.
sub run_all
{
	for my $workload (@workloads)
	{
		next if @only && !grep { $_ eq $workload->{id} } @only;
		run_workload($workload);
		my $table = "### $workload->{title}\n\n" . workload_table($workload, $results{ $workload->{id} });
		push @tables, $table;
		print "\n$table";
	}
	measure_program();
	measure_wal();
	return 1;
}

print "$machine\n";
my $failure = eval { run_all() } ? '' : $@;

my $wal_table = wal_table();
my $required = requirements_table(requirements());
my $settings = ($failure ? "**Not complete:** something failed.\n\n" : '') . sprintf "%s of %d s, %d round%s, %s clients; %s.", $quick ? 'A quick run: runs' : 'Runs', $seconds,
  $rounds, $rounds == 1 ? '' : 's', join(', ', @clients),
  strftime('%Y-%m-%d', gmtime) . sprintf(', %.0f minutes', (time - $began) / 60);

print "\n### WAL without full-page images\n\n$wal_table\n### Required\n\n$required";

open my $out, '>', $ENV{BENCH_RESULTS} or die "$ENV{BENCH_RESULTS}: $!\n";
print $out "# Results of `make bench`\n\n$settings\n\n## Required\n\n",
  "With 4 clients unless said otherwise; the median of the ratios of each round.  What the null cycle\n",
  "reaches of the same measure is the most that is possible.\n\n$required\n",
  "## Machine and settings\n\n$machine\n$how\n## Workloads\n\n", join("\n", @tables),
  "\n### WAL without full-page images\n\nOne client, `full_page_writes` and `autovacuum` off.\n\n$wal_table\n",
  "## Scripts\n\n", sources();
close $out or die "$ENV{BENCH_RESULTS}: $!\n";
die $failure if $failure;
