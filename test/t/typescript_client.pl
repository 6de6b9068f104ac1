# The tests of clients/typescript, each one check, on a server of their own; and that its package
# is what a program in TypeScript can use.
#
# Takes Node (18 or later) of the system, and typescript, pg and their types from the first folder
# that has them: clients/typescript/node_modules (npm ci), the global one of npm, or Debian's
# (nodejs, node-pg, node-typescript).  Without these nothing is tested: no registry is asked.
use strict;
use warnings;

use FindBin;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $client = "$FindBin::RealBin/../../clients/typescript";

# The folder with the modules; skips everything if there is none.
sub modules
{
	my $version = `node --version 2>/dev/null` // '';
	plan skip_all => 'there is no Node of version 18 or later: apt-get install nodejs node-pg node-typescript'
	  unless $version =~ /^v(\d+)/ && $1 >= 18;
	for my $folder ("$client/node_modules", '/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs')
	{
		return $folder unless grep { !-e "$folder/$_" } qw(typescript/bin/tsc pg/package.json @types/pg @types/node);
	}
	plan skip_all => 'Node has no modules typescript, pg, @types/pg and @types/node: npm ci in clients/typescript, '
	  . 'or apt-get install node-pg node-typescript';
	return;
}

# Whether a program succeeds, and what it prints.
sub run_program
{
	my ($dir, @command) = @_;
	my $out = '';
	my $ok = IPC::Run::run(\@command, '<', '/dev/null', '>&', \$out, init => sub { chdir $dir or die "$dir: $!\n" });
	return ($ok, $out);
}

my $modules = modules();
my $dir = PostgreSQL::Test::Utils::tempdir();
system('cp', '-r', (map { "$client/$_" } qw(src test example package.json tsconfig.json README.md)), $dir) == 0
  or die "the client cannot be copied\n";
symlink $modules, "$dir/node_modules" or die "node_modules: $!\n";

sub compiles
{
	my ($project, $what) = @_;
	my ($ok, $out) = run_program($dir, 'node', "$dir/node_modules/typescript/bin/tsc", '-p', $project, '--preserveSymlinks');
	ok($ok, "$what, with the modules of $modules") or diag($out);
	return;
}

compiles('.', 'the client compiles');
compiles('test', 'its tests compile');
compiles('example', 'a program that imports the package compiles, and has its types');

SKIP:
{
	skip 'npm is not there', 1 unless `npm --version 2>/dev/null`;
	local $ENV{npm_config_cache} = "$dir/cache";
	my ($ok, $out) = run_program($dir, qw(npm pack --offline --ignore-scripts --silent));
	my $files = $ok ? `tar -tzf $dir/pgqrs-*.tgz` : $out;
	is_deeply([ grep { $files !~ m{^package/\Q$_\E$}m } qw(dist/index.js dist/index.d.ts dist/testing.d.ts package.json README.md) ],
		[], 'npm packs what a program needs, without a network')
	  or diag($files);
}

my $node = new_node('typescript', "fsync = off\npgqrs.paused = off\n");
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGDATABASE} = 'postgres';
$ENV{NODE_NO_WARNINGS} = 1;
my ($passed, $out) = run_program($dir, qw(node --test-reporter=tap build/test/client.test.js));
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
