# The Python client passes the conformance suite: clients/conformance.
use strict;
use warnings;
use Conformance;
use FindBin;

conformance('/usr/bin/python3', "$FindBin::RealBin/../../clients/conformance/drivers/python.py");
