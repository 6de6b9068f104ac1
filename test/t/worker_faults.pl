# The worker of examples/worker, written by the rules of docs/workers.md, under errors of every
# SQLSTATE from every call, lost connections and lost answers.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use Test::More;

my $node = new_node('worker', "fsync = off\n");
my $seed = $ENV{WORKER_SEED} // int rand 1e6;
my $output = '';
$ENV{PYTHONDONTWRITEBYTECODE} = 1;
my $ok = IPC::Run::run([ '/usr/bin/python3', "$FindBin::RealBin/../lib/worker_faults.py", $node->connstr('postgres'), $seed ],
	'<', '/dev/null', '>', \$output, '2>&1');
ok($ok, "the worker's program runs to its end, seed $seed") or diag($output);
is($output, '', "no run stands still, no effect is there twice, no worker ends for an input, seed $seed");
$node->stop;

done_testing();
