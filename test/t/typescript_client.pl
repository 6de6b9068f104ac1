# The tests of clients/typescript, each one check, on a server of their own; and that its package
# is what a program in TypeScript can use.
use strict;
use warnings;

use FindBin;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TypeScript;

my ($dir, $modules) = client_folder();

sub compiles
{
	my ($project, $what) = @_;
	my ($ok, $out) = compile($dir, $project);
	return ok($ok, "$what, with the modules of $modules") || diag($out);
}

compiles('.', 'the client compiles');
compiles('test', 'the tests of the client compile');
my $page = slurp_file("$FindBin::RealBin/../../docs/clients/typescript.md");
my ($compiled, $errors) = compile_programs($dir, page => join("\n", $page =~ /^```ts\n(.*?)^```/msg),
	mail => slurp_file("$FindBin::RealBin/../../examples/orders/mail.ts"));
ok($compiled, 'the program of the page and an example compile, with the types of the package') or diag($errors);

SKIP:
{
	skip 'npm is not there', 2 unless `npm --version 2>/dev/null`;
	local $ENV{npm_config_cache} = "$dir/cache";
	my ($ok, $out) = run_in($dir, qw(npm pack --offline --ignore-scripts --silent));
	my $files = $ok ? `tar -tzf $dir/pgqrs-*.tgz` : $out;
	is_deeply([ grep { $files !~ m{^package/\Q$_\E$}m } qw(dist/index.js dist/index.d.ts dist/testing.d.ts package.json README.md) ],
		[], 'npm packs what a program needs, without a network')
	  or diag($files);
	my $program = "$dir/program/node_modules";
	my ($runs, $said) = run_in($dir, 'sh', '-c', "mkdir -p $program && tar -xzf pgqrs-*.tgz -C $program && mv $program/package $program/pgqrs && "
		  . qq{cd program && node --input-type=module -e "import { App } from 'pgqrs'; import { drain } from 'pgqrs/testing'; new App(); drain.call"});
	ok($runs, 'a program imports what was packed') or diag($said);
}

my $node = new_node('typescript', "fsync = off\npgqrs.paused = off\n");
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGDATABASE} = 'postgres';
$ENV{PGUSER} = getpwuid $<;
my ($passed, $out) = run_in($dir, qw(node --test-reporter=tap build/test/client.test.js));
my $tests = 0;
while ($out =~ /^(not )?ok \d+ - (.*)$/mg)
{
	$tests++;
	ok(!$1, $2);
}
diag($out) unless $passed;
cmp_ok($tests, '>', 20, 'all tests of the client were run');
is_well($node, 'after the tests of the client');
$node->stop;

done_testing();
