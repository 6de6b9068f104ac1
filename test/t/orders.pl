# The application of examples/orders does what its page says: its tests, each one check.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TypeScript;

my $example = "$FindBin::RealBin/../../examples/orders";
my $node = new_node('orders', "pgqrs.paused = off\nfsync = off\n");
local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PYTHONDONTWRITEBYTECODE => 1,
	PYTHONPATH => "$FindBin::RealBin/../../clients/python");
my $why = why_no_typescript();
if (!$why)
{
	my ($dir) = client_folder();
	my ($compiled, $said) = compile($dir, '.');
	($compiled, $said) = compile_programs($dir, mail => slurp_file("$example/mail.ts")) if $compiled;
	ok($compiled, 'the mailer compiles') or diag($said);
	$ENV{MAILER} = "$dir/build/programs/mail.js";
}
my $out = '';
my $passed = IPC::Run::run([ '/usr/bin/python3', '-m', 'pytest', '-v', '--tb=short', '-p', 'no:cacheprovider', '-o',
		'console_output_style=classic', "$example/test_shop.py" ], '<', '/dev/null', '>&', \$out);
while ($out =~ /::test_(\w+) (PASSED|FAILED|ERROR|SKIPPED)/g)
{
	my ($name, $end) = ($1 =~ tr/_/ /r, $2);
  SKIP: { skip("$name: $why", 1) if $end eq 'SKIPPED'; is($end, 'PASSED', $name); }
}
ok($passed, 'pytest says that all is well') or diag($out);
is_well($node, 'after the orders');
$node->stop;
done_testing();
