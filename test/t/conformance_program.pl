# The program pgqrs passes the conformance suite: clients/conformance.
use strict;
use warnings;
use Conformance;
use FindBin;

my $drivers = "$FindBin::RealBin/../../clients/conformance/drivers";
conformance('--jobs', 8, '--lacks', "$drivers/program.json", '/usr/bin/python3', "$drivers/program.py");
