# The check of the source layers finds what it should and nothing else.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

# Checks a source folder of the given files, as name => text.
sub check
{
	my (%files) = @_;
	my $dir = tempdir(CLEANUP => 1);
	for my $file (keys %files)
	{
		make_path(dirname("$dir/$file"));
		append_to_file("$dir/$file", $files{$file});
	}
	my ($out, $err) = run_command(
		[ $^X, "$FindBin::Bin/../../tools/check_layers", $dir ]);
	return $err;
}

my %sound = (
	'base/compat.h' => "#if PG_VERSION_NUM >= 160000\n#endif\n",
	'store/table.c' => qq(#include "executor/executor.h"\n#include "base/compat.h"\n),
	'store/table.h' => '',
	'queue/queue.h' => '',
	'queue/message.h' => qq(#include "store/table.h"\n),
	'queue/message.c' => qq(#include "queue/message.h"\n#include "queue/queue.h"\n),
	'api/message.c' => qq(#include "queue/message.h"\n#include "api/args.h"\n),
	'api/args.h' => '',
	'pgqrs.c' => qq(#include "api/args.h"\n));

is(check(%sound), '', 'a sound tree has no faults');

my @faults = (
	[ 'a higher folder', 'store/tid_set.c', '#include "queue/message.h"',
		qr{store/tid_set\.c:1: queue/message\.h is in a higher folder} ],
	[ 'a header that includes upwards', 'store/table.h', "\n# include \"queue/queue.h\"",
		qr{store/table\.h:2: queue/queue\.h is in a higher folder} ],
	[ 'a circle', 'queue/queue.h', '#include "queue/message.h"' . "\n" . '#include "queue/queue.h"',
		qr{queue/queue\.h: includes itself by way of} ],
	[ 'the executor outside of store/', 'queue/privileges.c',
		'#include "executor/executor.h"',
		qr{queue/privileges\.c:1: only store/ may include} ],
	[ 'a table access method outside of store/', 'workflow/step.c',
		'#include "access/tableam.h"',
		qr{workflow/step\.c:1: only store/ may include} ],
	[ 'a version test', 'store/table.c', '#if PG_VERSION_NUM >= 170000',
		qr{store/table\.c:1: PG_VERSION_NUM belongs in base/compat\.h} ],
	[ 'a second transaction callback', 'queue/queue.c', "\tRegisterSubXactCallback(forget_queues, NULL);",
		qr{queue/queue\.c:1: only shmem/xact_hooks\.c may call RegisterSubXactCallback} ],
	[ 'a module of shared memory that is not listed', 'shmem/heartbeats.c', "\tshared = ShmemInitStruct(\"x\", 1, &found);",
		qr{shmem/heartbeats\.c:1: only pgqrs\.c may call ShmemInitStruct} ],
	[ 'an unknown folder', 'misc/helpers.c', '', qr{misc/helpers\.c: is in no known folder} ]);

for my $fault (@faults)
{
	my ($name, $file, $text, $message) = @$fault;
	like(check(%sound, $file => "$text\n"), $message, "the check finds $name");
}

done_testing();
