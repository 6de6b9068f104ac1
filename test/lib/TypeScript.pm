# The client for TypeScript, compiled, for TAP tests.
#
# Takes Node (18 or later) of the system, and typescript, pg and their types from the first folder
# that has them: clients/typescript/node_modules (npm ci), the global one of npm, or Debian's, which
# tools/packages installs.  Without these a test is skipped: no registry of npm is asked.
package TypeScript;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(why_no_typescript client_folder compile compile_programs run_in);

my $client = "$FindBin::RealBin/../../clients/typescript";

# The folder with the modules; or nothing, and why there is none.
sub modules
{
	my $version = `node --version 2>/dev/null` // '';
	return (undef, 'there is no Node of version 18 or later: call tools/packages') unless $version =~ /^v(\d+)/ && $1 >= 18;
	for my $folder ("$client/node_modules",
		qw(/usr/local/lib/node_modules /usr/lib/node_modules /usr/local/share/nodejs/node_modules /usr/share/nodejs))
	{
		return $folder unless grep { !-e "$folder/$_" } qw(typescript/bin/tsc pg/package.json @types/pg @types/node);
	}
	return (undef, 'Node has no modules typescript, pg, @types/pg and @types/node: call tools/packages, or npm ci in clients/typescript');
}

sub why_no_typescript
{
	return (modules())[1];
}

# A copy of the client that can be compiled, and where its modules are from; without modules the whole test is skipped.
sub client_folder
{
	my ($modules, $why) = modules();
	plan skip_all => $why if $why;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	system('cp', '-r', (map { "$client/$_" } qw(src test package.json tsconfig.json README.md)), $dir) == 0
	  or die "the client cannot be copied\n";
	symlink $modules, "$dir/node_modules" or die "node_modules: $!\n";
	return ($dir, $modules);
}

# Whether a program succeeds in a folder, and what it prints.
sub run_in
{
	my ($dir, @command) = @_;
	my $out = '';
	my $ok = IPC::Run::run(\@command, '<', '/dev/null', '>&', \$out, init => sub { chdir $dir or die "$dir: $!\n" });
	return ($ok, $out);
}

# Compiles a project of the client: '.', test or programs.
sub compile
{
	my ($dir, $project) = @_;
	return run_in($dir, 'node', "$dir/node_modules/typescript/bin/tsc", '-p', $project, '--preserveSymlinks');
}

# Compiles programs that use the package, by their names and texts, into build/programs.
sub compile_programs
{
	my ($dir, %programs) = @_;
	mkdir "$dir/programs" or die "$dir/programs: $!\n";
	append_to_file("$dir/programs/$_.ts", $programs{$_}) for keys %programs;
	append_to_file("$dir/programs/tsconfig.json", <<'JSON');
{ "extends": "../tsconfig.json", "compilerOptions": { "rootDir": ".", "outDir": "../build/programs", "lib": ["es2022", "dom"] }, "include": ["."] }
JSON
	return compile($dir, 'programs');
}

1;
