# Claims beside transactions that end what the claims have just found: both have
# ended, the message and its run, so that the run is not damaged.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', "fsync = off\n");
my $dir = $node->basedir;

$node->safe_psql('postgres', q{SELECT pgqrs_create_workflow('w'), pgqrs_register_worker('w', '{w}')});
append_to_file("$dir/end.sql", "SELECT pgqrs_trigger('w') AS run \\gset\nSELECT pgqrs_cancel_run(:run);\n");
append_to_file("$dir/claim.sql", "BEGIN;\nSELECT count(*) FROM pgqrs_dequeue('w');\nROLLBACK;\n");

# Without a look at whether the message is still there, one in 50,000 claims says so.
my ($out, $err) = run_command([ 'pgbench', '-n', '-c', 6, '-j', 2, '-t', 70000, '-f', "$dir/end.sql", '-f', "$dir/claim.sql", $node->connstr('postgres') ]);
like($out, qr{actually processed: 420000/420000}, 'all clients come to their end');
unlike(slurp_file($node->logfile) . $err, qr/was skipped/, 'no run that has ended is reported as damaged');
is_well($node, 'after the claims');
$node->stop;
done_testing();
