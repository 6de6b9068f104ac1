# The conformance suite of the clients, as assertions of a TAP test.
package Conformance;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use IPC::Run;
use Pgqrs;
use Test::More;

our @EXPORT = qw(conformance);

# Runs it against a server of its own; options of conformance.py, then the command of a driver.
sub conformance
{
	my (@command) = @_;
	my $node = new_node('conformance', "pgqrs.paused = off\npgqrs.worker_timeout = '1 hour'\nfsync = off\nmax_connections = 300\n");
	my $restart = sprintf '%s/pg_ctl restart -s -w -D %s -l %s -o --cluster-name=conformance -m',
	  $node->config_data('--bindir'), $node->data_dir, $node->logfile;
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PYTHONDONTWRITEBYTECODE => 1);
	my ($rest, $failed, $failures) = ('', 0, 0);
	my $take = sub {
		$rest .= $_[0];
		while ($rest =~ s/^(.*)\n//)
		{
			my $line = $1;
			if ($line =~ /^(not )?ok \d+ - (.*?)(?: # SKIP (.*))?$/)
			{
				my ($not, $name, $skipped) = ($1, $2, $3);
				$failed = $not;
				$failures++ if $not;
			  SKIP: { skip("$name: $skipped", 1) if $skipped; ok(!$not, $name); }
			}
			elsif ($failed && $line =~ /^# ?(.*)/) { diag($1); }
		}
	};
	my $ended = IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../../clients/conformance/conformance.py", '--restart', $restart, @command ],
		'<', '/dev/null', '>', $take, '2>', \my $err);
	ok($ended || $failures, 'the runner comes to its end') or diag($err);
	$node->stop;
	done_testing();
	return;
}

1;
