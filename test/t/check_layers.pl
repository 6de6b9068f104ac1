# The check of the source layers finds what it should and nothing else.
use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

# Checks a source folder of the given files, as name => text.
sub check
{
	my (%files) = @_;
	my $dir = tempdir(CLEANUP => 1);
	append_to_file("$dir/$_", $files{$_}) for keys %files;
	my ($out, $err) = run_command(
		[ $^X, "$FindBin::Bin/../check_layers", $dir ]);
	return $err;
}

my %sound = (
	'compat.h' => "#if PG_VERSION_NUM >= 160000\n#endif\n",
	'rows.c' => qq(#include "executor/executor.h"\n#include "compat.h"\n),
	'rows.h' => '',
	'queue.h' => '',
	'message.h' => qq(#include "rows.h"\n),
	'message.c' => qq(#include "message.h"\n#include "queue.h"\n),
	'api_message.c' => qq(#include "message.h"\n#include "api_args.h"\n),
	'api_args.h' => '');

is(check(%sound), '', 'a sound tree has no faults');

my @faults = (
	[ 'a higher layer', 'queue.c', '#include "message.h"',
		qr/queue\.c:1: message\.h is not below queue/ ],
	[ 'a later module of the layer', 'grants.c', '#include "queue.h"',
		qr/grants\.c:1: queue\.h is not below grants/ ],
	[ 'a header that includes upwards', 'rows.h', "\n# include \"queue.h\"",
		qr/rows\.h:2: queue\.h is not below rows/ ],
	[ 'the executor outside of the row layer', 'queue.c',
		'#include "executor/executor.h"',
		qr/queue\.c:1: only the row layer may include/ ],
	[ 'a table access method outside of the row layer', 'step.c',
		'#include "access/tableam.h"',
		qr/step\.c:1: only the row layer may include/ ],
	[ 'a version test', 'rows.c', '#if PG_VERSION_NUM >= 170000',
		qr/rows\.c:1: PG_VERSION_NUM belongs in compat\.h/ ],
	[ 'an unknown file', 'helpers.c', '', qr/helpers\.c: is in no layer/ ]);

for my $fault (@faults)
{
	my ($name, $file, $text, $message) = @$fault;
	like(check(%sound, $file => "$text\n"), $message, "$name is found");
}

done_testing();
