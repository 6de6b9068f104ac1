# The application of examples/orders does what its page says: its tests, each one check.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use Test::More;

my $example = "$FindBin::RealBin/../../examples/orders";
my $node = new_node('orders', "pgqrs.paused = off\nfsync = off\n");
local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PYTHONDONTWRITEBYTECODE => 1,
	PYTHONPATH => "$FindBin::RealBin/../../clients/python");
my $out = '';
my $passed = IPC::Run::run([ '/usr/bin/python3', '-m', 'pytest', '-v', '--tb=short', '-p', 'no:cacheprovider', '-o',
		'console_output_style=classic', "$example/test_shop.py" ], '<', '/dev/null', '>&', \$out);
is($2, 'PASSED', $1 =~ tr/_/ /r) while $out =~ /::test_(\w+) (PASSED|FAILED|ERROR|SKIPPED)/g;
ok($passed, 'pytest says that all is well') or diag($out);
is_well($node, 'after the orders');
$node->stop;
done_testing();
