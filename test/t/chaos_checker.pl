# The checker of test/soak/chaos finds what it is meant to find: a recorded history is
# altered so that it breaks one rule after the other.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename;

$ENV{PYTHONDONTWRITEBYTECODE} = 1;
exec '/usr/bin/python3', dirname(abs_path(__FILE__)) . '/../soak/chaos/test_checker.py';
