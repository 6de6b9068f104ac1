# Where a library that writes at the end of a transaction is loaded before
# pgqrs, so that pgqrs looks at what the transaction has written first, a claim
# is flushed all the same; and neither order keeps the other one from working.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The library: writes a record at each commit while its setting is on.
my $dir = PostgreSQL::Test::Utils::tempdir;
open my $c, '>', "$dir/late.c" or die $!;
print $c <<'C';
#include "postgres.h"
#include "access/xact.h"
#include "fmgr.h"
#include "replication/message.h"
#include "utils/guc.h"
PG_MODULE_MAGIC;
void _PG_init(void);
static bool writes = false;
static void
at_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT && writes)
#if PG_VERSION_NUM >= 170000
		LogLogicalMessage("late", "written", 7, true, false);
#else
		LogLogicalMessage("late", "written", 7, true);
#endif
}
void
_PG_init(void)
{
	DefineCustomBoolVariable("late.writes", "whether to", NULL, &writes, false, PGC_USERSET, 0, NULL, NULL, NULL);
	RegisterXactCallback(at_end, NULL);
}
C
close $c;
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
chomp(my $include = `$pg_config --includedir-server`);
system('gcc', '-O1', '-shared', '-fPIC', "-I$include", '-o', "$dir/late.so", "$dir/late.c") == 0 or die 'the library does not compile';

my $node = PostgreSQL::Test::Cluster->new('order');
$node->init(allows_streaming => 1);
# Nothing but commits flushes the WAL.
$node->append_conf('postgresql.conf', <<CONF);
dynamic_library_path = '$dir:\$libdir'
pgqrs.paused = on
fsync = off
autovacuum = off
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
bgwriter_delay = 10s
checkpoint_timeout = 1h
client_min_messages = error
CONF

my $created;
for my $order ('late, pgqrs', 'pgqrs, late')
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$order'\n");
	$created ? $node->restart : $node->start;
	$node->safe_psql('postgres', q{CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('q', visibility_timeout => '1 hour')}) unless $created++;
	$node->safe_psql('postgres', q{SELECT pgqrs_enqueue_batch('q', array_fill('1'::jsonb, '{10}')); VACUUM});
	for my $writes ('off', 'on')
	{
		my $flushed = $node->safe_psql('postgres', <<SQL);
\\o /dev/null
SET late.writes = $writes;
SELECT count(*) FROM pgqrs_dequeue('q');
SET late.writes = off;
SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn() AS flushed \\gset
\\o
\\echo :flushed
SQL
		is($flushed, $writes eq 'on' ? 't' : 'f', "$order: a claim to which the other library adds with $writes");
	}
}

# Standbys, of which there is none, are waited for as well.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'late, pgqrs'\nsynchronous_standby_names = 'absent'\n");
$node->restart;
my $session = $node->background_psql('postgres');
$session->{stdin} .= "SELECT count(*), set_config('late.writes', 'on', false) FROM pgqrs_dequeue('q');\n";
$session->{run}->pump_nb;
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%dequeue%')}), 'such a claim waits for a standby');
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
$session->{stdin} .= "SET late.writes = off;\n\\q\n";
$session->{run}->finish;

done_testing();
