# Everything at once under kills: clients that run random workflows, a server
# and clients that are killed, and a check of what was acknowledged against what
# the tables hold; test/soak/chaos/checker.py has the rules.  `make chaos` does the
# same for ten minutes.  When something is violated the folder stays.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;
use File::Path qw(rmtree);
use File::Temp qw(tempdir);
use PostgreSQL::Test::Utils;
use Test::More;

my $chaos = dirname(abs_path(__FILE__)) . '/../soak/chaos/chaos.py';
my $folder = tempdir('pgqrs-chaos.XXXXXX', TMPDIR => 1);
my $seed = $ENV{CHAOS_SEED} // int rand 1e6;
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
my $output = '';
my $ok = IPC::Run::run(
	[ '/usr/bin/python3', $chaos, '--seconds', 30, '--runs', 150, '--kills', 3, '--clients', 4, '--seed', $seed, "$folder/chaos" ],
	'<', '/dev/null', '>', \$output, '2>&1');
note($output);
ok($ok, 'nothing that was promised is broken')
  or diag(join("\n", grep { /VIOLATION|violations|Error/ } split /\n/, $output), "\nkept: $folder");
like($output, qr/ [1-9]\d{2,} runs, /, 'hundreds of runs were made');
like($output, qr/ 3 kills, /, 'the harness made as many kills as were asked for');
for my $kind (qw(Python TypeScript program))
{
  SKIP:
	{
		skip("workers of the kind $kind: $1", 1) if $output =~ /^workers of the kind $kind are left out: (.*)$/m;
		like($output, qr/^workers of the kind $kind completed [1-9]/m, "workers of the kind $kind completed orders under the kills");
	}
}
rmtree($folder) if $ok;

done_testing();
