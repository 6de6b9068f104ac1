# The tests of clients/python, each one check, on a server of their own.
use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $client = abs_path("$FindBin::Bin/../../clients/python");
my $node = new_node('python', "pgqrs.paused = off\nfsync = off\n");
my $out = '';

$ENV{PYTHONPATH} = $client;
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGDATABASE} = 'postgres';
$ENV{PGQRS_RESTART} = join ' ', 'pg_ctl', '-D', $node->data_dir, '-l', $node->logfile, '-m', 'immediate', '-w', 'restart';
my $passed = IPC::Run::run([ '/usr/bin/python3', '-m', 'pytest', '-v', '--tb=short', '-p', 'no:cacheprovider', '-o', 'console_output_style=classic', "$client/tests" ],
	'<', '/dev/null', '>&', \$out);

my $tests = 0;
while ($out =~ /^\S*?(\w+)\.py::(\S+) (PASSED|FAILED|ERROR|SKIPPED)/mg)
{
	$tests++;
	my ($test, $outcome) = ($2, $3);
	ok($outcome =~ /PASSED|SKIPPED/, $test =~ s/^test_//r =~ tr/_/ /r);
}
diag($out) unless $passed;
cmp_ok($tests, '>', 60, 'more than 60 tests of the client ran');
ok($passed, 'pytest says that all is well');
is_well($node, 'after the tests of the client');
$node->stop;
done_testing();
