# The client for TypeScript passes the conformance suite: clients/conformance.
use strict;
use warnings;
use Conformance;
use Test::More;
use TypeScript;

my ($dir) = client_folder();
my ($compiled, $out) = compile($dir, 'test');
ok($compiled, 'the driver of the conformance suite compiles') or diag($out);
# Node takes longer to start than Python, and each case that kills its worker starts several.
conformance('--jobs', 8, 'node', "$dir/build/test/driver.js");
