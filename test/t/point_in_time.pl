# Recovery to a point in time: work in every state is as it was at that moment, and
# goes on from there, although more was done after it.
use strict;
use warnings;

use EveryState;
use Pgqrs;
use Test::More;

my $node = new_node('main', "fsync = off\nautovacuum = off\n", allows_streaming => 1, has_archiving => 1);
$node->backup('backup');
$node->safe_psql('postgres', 'CREATE ROLE tom; CREATE DATABASE every');
work_in_every_state($node, 'every');
$node->safe_psql('every', 'CREATE EXTENSION amcheck');
my @live = undelivered($node, 'every');
my $rows = contents($node, 'every', q{'r'});
$node->safe_psql('every', q{SELECT pg_create_restore_point('moment')});

# What the moment does not have: claims, ends and new messages.
$node->safe_psql('every', q{SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_dequeue('jobs', batch_size => 100);
	SELECT cardinality(pgqrs_enqueue_batch('jobs', array_fill('"later"'::jsonb, '{50}')));
	SELECT pgqrs_maintain() IS NULL});
isnt(contents($node, 'every', q{'r'}), $rows, 'the source goes on after the moment');
my $last = $node->safe_psql('every', 'SELECT pg_walfile_name(pg_current_wal_lsn())');
$node->safe_psql('every', 'SELECT pg_switch_wal()');
$node->poll_query_until('every', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die 'the WAL is not archived';
$node->stop;

my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'backup', has_restoring => 1, standby => 0);
$copy->append_conf('postgresql.conf', "recovery_target_name = 'moment'\nrecovery_target_action = 'promote'\n");
$copy->start;
$copy->poll_query_until('every', 'SELECT NOT pg_is_in_recovery()') or die 'the recovery does not end';
is(contents($copy, 'every', q{'r'}), $rows, 'each row is as it was at the moment');
goes_on($copy, 'work in every state after a recovery', 'every', @live);

done_testing();
