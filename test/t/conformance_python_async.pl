# The Python client passes the conformance suite with handlers that are coroutine functions. What crashes and
# loses connections is left to conformance_python.pl: it is the same code.
use strict;
use warnings;
use Conformance;
use FindBin;

conformance('--without', 'uninterrupted', '--only', 'any*,calls*,cancel*,children*,deliver*,queues*,steps*,values*,waits*',
	'/usr/bin/python3', "$FindBin::RealBin/../../clients/conformance/drivers/python.py", '--async');
