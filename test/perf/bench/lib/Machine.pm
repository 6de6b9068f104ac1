# Describes the machine, the versions and the settings of a benchmark.
package Machine;

use strict;
use warnings;

use Exporter 'import';
use Fcntl;
use IO::Handle;
use JSON::PP;
use Measure qw(sql percentile);
use Report qw(table number);
use Time::HiRes qw(time);

our @EXPORT_OK = qw(machine fsync_times);

# Microseconds to overwrite 8 kB of a file and flush it: median and 99th of 100.
# wal_sync_method is fdatasync by default, which does the same here.
sub fsync_times
{
	my ($file) = @_;
	my @times;

	sysopen my $out, $file, O_RDWR | O_CREAT or die "$file: $!\n";
	syswrite $out, "\0" x (1024 * 1024) or die "$file: $!\n";
	$out->sync;
	for (1 .. 100)
	{
		my $before = time;

		sysseek $out, 8192 * ($_ % 100), 0;
		syswrite $out, "\1" x 8192;
		$out->sync or die "fsync: $!\n";
		push @times, (time - $before) * 1e6;
	}
	close $out;
	unlink $file;
	@times = sort { $a <=> $b } @times;
	return [ percentile(0.5, @times), percentile(0.99, @times) ];
}

sub first_match
{
	my ($file, $pattern) = @_;

	open my $in, '<', $file or return '';
	while (my $line = <$in>)
	{
		return $1 if $line =~ $pattern;
	}
	return '';
}

sub output
{
	my ($command) = @_;
	my $output = qx{$command 2>/dev/null} // '';

	$output =~ s/\s+$//;
	return $output;
}

# The version of an npm package that was installed.
sub package_version
{
	my ($name) = @_;
	my $file = "$ENV{PEERS}/node_modules/$name/package.json";

	return -e $file ? "$name " . first_match($file, qr/"version": *"([^"]+)"/) : ();
}

sub peers
{
	my @peers = map { package_version($_) } 'graphile-worker', 'pg-boss', '@dbos-inc/dbos-sdk', 'pg';

	push @peers, 'Node ' . output("'$ENV{NODE}' --version") if $ENV{NODE};
	for my $peer ('pgq', 'pgmq', 'absurd')
	{
		open my $in, '<', "$ENV{BENCH_WORK}/have_$peer" or next;
		chomp(my $version = <$in>);
		push @peers, "$peer $version";
	}
	return join(', ', @peers) || 'none';
}

sub machine
{
	my ($fsync) = @_;
	my $memory = first_match('/proc/meminfo', qr/^MemTotal: +(\d+)/) / 1024 / 1024;
	my ($device, $type) = split ' ', output("df --output=source,fstype '$ENV{PRIVATE}' | tail -n 1");
	my $settings = sql('postgres', "SELECT string_agg(format('`%s = %s`', name, current_setting(name)), ', ' ORDER BY name)
		FROM pg_settings
		WHERE name IN ('synchronous_commit', 'fsync', 'full_page_writes', 'wal_sync_method', 'wal_level', 'autovacuum')
			OR source = 'configuration file' AND name NOT IN ('unix_socket_directories', 'listen_addresses',
				'log_line_prefix', 'log_timezone', 'TimeZone', 'DateStyle', 'default_text_search_config',
				'lc_messages', 'lc_monetary', 'lc_numeric', 'lc_time', 'dynamic_shared_memory_type')");

	return table(
		[ 'what', 'value' ],
		[ 'processor', first_match('/proc/cpuinfo', qr/^model name\s*: (.*)/) . ", $ENV{BENCH_CORES} cores" ],
		[ 'memory', sprintf('%.0f GiB', $memory) ],
		[ 'kernel', output('uname -sr') ],
		[ 'data directory', "$type on $device" ],
		[ 'write and fsync of 8 kB', sprintf('%s µs, 99th percentile %s µs', map { number($_) } @$fsync) ],
		[ 'load before the start', first_match('/proc/loadavg', qr/^(\S+)/) ],
		[ 'PostgreSQL', sql('postgres', 'SHOW server_version') ],
		[ 'pgqrs', $ENV{BENCH_VERSION} ],
		[ 'peers', peers() ],
		[ 'settings', $settings ]);
}

1;
