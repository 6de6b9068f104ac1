# Runs workloads against the private cluster and measures them.
package Measure;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use JSON::PP;
use Time::HiRes qw(time sleep);

our @EXPORT_OK = qw(psql sql wal_position pgbench node python percentile set_server
  hold_snapshot release_snapshot buffers_per_call program);

my $work = $ENV{BENCH_WORK};
my $cores = $ENV{BENCH_CORES};

# Runs SQL in a database and returns what it prints.
sub sql
{
	my ($database, @statements) = @_;

	return psql($database, join("\n", map { "$_;" } @statements));
}

# The same for a script with anything psql knows.
sub psql
{
	my ($database, $script) = @_;
	my $file = "$work/psql.sql";

	open my $out, '>', $file or die "$file: $!\n";
	print $out $script, "\n";
	close $out or die "$file: $!\n";
	my $result = qx{psql -X -q -A -t -v ON_ERROR_STOP=1 -d '$database' -f '$file' 2>'$work/psql.err'};
	die "psql failed:\n$script\n" . slurp("$work/psql.err") if $?;
	chomp $result;
	return $result;
}

sub slurp
{
	my ($file) = @_;

	local (@ARGV, $/) = ($file);
	return scalar <>;
}

sub wal_position
{
	return sql('postgres', "SELECT pg_current_wal_insert_lsn() - '0/0'");
}

# Changes settings that a reload applies, and waits until they are.
sub set_server
{
	my (%settings) = @_;

	sql('postgres', (map { "ALTER SYSTEM SET $_ = '$settings{$_}'" } sort keys %settings),
		'SELECT pg_reload_conf()');
	for my $name (sort keys %settings)
	{
		my $deadline = time + 30;
		until (sql('postgres', "SHOW $name") eq $settings{$name})
		{
			die "$name does not become $settings{$name}\n" if time > $deadline;
			sleep 0.05;
		}
	}
	return;
}

# The value below which a share of the sorted values lies.
sub percentile
{
	my ($share, @sorted) = @_;

	return undef unless @sorted;
	my $at = int($share * @sorted);
	return $sorted[$at < @sorted ? $at : $#sorted];
}

# Runs a pgbench script.  Either seconds or transactions (of each client).
# rows: how many each transaction is about; sampling: share of transactions
# whose latency is kept; window: seconds at the begin and end whose rates are
# to be known, too.
# Returns rate (rows/s), p50 and p99 (ms, of a transaction), wal (bytes per row).
sub pgbench
{
	my (%o) = @_;
	my $rows = $o{rows} // 1;
	my $threads = $o{clients} < $cores ? $o{clients} : $cores;
	my @command = ("$ENV{PG_BIN}/pgbench", '-n', '-M', 'prepared',
		'-c', $o{clients}, '-j', $threads, '-f', $o{script},
		$o{transactions} ? ('-t', $o{transactions}) : ('-T', $o{seconds}),
		'-l', "--log-prefix=$work/latency", "--sampling-rate=" . ($o{sampling} // 1));
	my $vars = $o{vars} // {};

	push @command, '-D', "$_=$vars->{$_}" for sort keys %$vars;
	unlink glob "$work/latency.*";
	my $before = wal_position();
	my $output = run_command(@command, $o{database});
	my $wal = wal_position() - $before;
	my ($tps) = $output =~ /^tps = ([\d.]+)/m or die "pgbench says nothing:\n$output";
	my ($count) = $output =~ /actually processed: (\d+)/ or die "pgbench says nothing:\n$output";
	die "nothing was processed:\n$output" if $count == 0;

	my %result = (rate => $tps * $rows, wal => $wal / ($count * $rows), count => $count);
	read_latencies(\%result, $o{window});
	return \%result;
}

# Fills in what the logs of pgbench say.
sub read_latencies
{
	my ($result, $window) = @_;
	my (@latencies, @ends);

	for my $file (glob "$work/latency.*")
	{
		open my $in, '<', $file or die "$file: $!\n";
		while (my $line = <$in>)
		{
			my (undef, undef, $latency, undef, $s, $us) = split ' ', $line;
			push @latencies, $latency / 1000;
			push @ends, $s + $us / 1e6 if $window;
		}
		close $in;
	}
	@latencies = sort { $a <=> $b } @latencies;
	$result->{p50} = percentile(0.5, @latencies);
	$result->{p99} = percentile(0.99, @latencies);
	return unless $window && @ends;

	@ends = sort { $a <=> $b } @ends;
	my $share = $result->{count} / @ends;
	my $first = grep { $_ < $ends[0] + $window } @ends;
	my $last = grep { $_ >= $ends[-1] - $window } @ends;
	$result->{first} = $first * $share / $window;
	$result->{last} = $last * $share / $window;
	return;
}

# Runs a Node client: its name, a workload and two numbers, see loop.mjs.
sub node
{
	my (%o) = @_;

	return client([ $ENV{NODE}, "$ENV{PEERS}/$o{script}.mjs" ], %o);
}

# The same with the program for Python.
sub python
{
	my (%o) = @_;

	return client([ '/usr/bin/python3', "$FindBin::Bin/clients/python.py" ], %o);
}

sub client
{
	my ($program, %o) = @_;
	my @command = (@$program, $o{workload}, $o{clients}, $o{seconds} // 0);

	local $ENV{PGDATABASE} = $o{database};
	my $output = run_command(@command);
	return unless $output =~ /^(\{"rows".*\})$/m;
	my $result = decode_json($1);
	die "@$program: no rows\n" unless $result->{rows};
	$result->{rate} = $result->{rows} / $result->{elapsed};
	$result->{wal} /= $result->{rows};
	return $result;
}

# Runs a command without a shell and returns what it prints; dies if it fails.
sub run_command
{
	my (@command) = @_;
	my $pid = open(my $in, '-|') // die "fork: $!\n";

	if ($pid == 0)
	{
		open STDERR, '>', "$work/command.err";
		exec @command or die "$command[0]: $!\n";
	}
	my $output = do { local $/; <$in> } // '';
	close $in;
	die "@command[0 .. 3] … failed:\n$output" . slurp("$work/command.err") if $?;
	return $output;
}

# Runs a program with that database: what it says, and how many milliseconds it took.
sub program
{
	my ($database, @command) = @_;

	local $ENV{PGDATABASE} = $database;
	my $start = time;
	my $output = run_command(@command);
	my $ms = 1000 * (time - $start);
	return ($output . slurp("$work/command.err"), $ms);
}

# A session that holds a snapshot, until it is released.
sub hold_snapshot
{
	my ($database) = @_;
	my $application = 'bench holder';

	open my $holder, '|-', "psql -X -q -d '$database' >/dev/null 2>&1"
	  or die "psql: $!\n";
	$holder->autoflush(1);
	print $holder "SET application_name = '$application';\n",
	  "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM pg_class;\n";
	my $deadline = time + 30;
	until (sql('postgres', "SELECT count(*) FROM pg_stat_activity
		WHERE application_name = '$application' AND state = 'idle in transaction'
			AND backend_xmin IS NOT NULL") == 1)
	{
		die "the snapshot is not held\n" if time > $deadline;
		sleep 0.05;
	}
	return $holder;
}

sub release_snapshot
{
	my ($holder) = @_;

	print $holder "COMMIT;\n";
	close $holder;
	return;
}

# The average number of buffers that a statement touches, each time in a
# transaction of its own.
sub buffers_per_call
{
	my ($database, $statement, $calls) = @_;
	my $warm = 20;
	my @plans = split /^(?=\[)/m, psql($database,
		"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) $statement;\n" x ($warm + $calls));
	my $sum = 0;

	for my $plan (@plans[ $warm .. $#plans ])
	{
		my $top = decode_json($plan)->[0]{Plan};
		$sum += $top->{'Shared Hit Blocks'} + $top->{'Shared Read Blocks'};
	}
	return $sum / $calls;
}

1;
