# F52: a disk that is really full.  Calls that need room fail with 53100 and
# change nothing; retention needs none, and after it and a vacuum the calls succeed.
# The database is on a small file system of a namespace of its own.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

# Before the test's output is redirected; a check of its syntax (perl -c) starts nothing.
BEGIN
{
	my @unshare = qw(unshare --user --mount --map-current-user --keep-caps);
	if (!$ENV{PGQRS_SMALL_DISK} && !$^C)
	{
		if (system(@unshare, "sh", "-c", "mount -t tmpfs none /mnt 2>/dev/null") != 0)
		{
			print "1..0 # SKIP user namespaces are not available\n";
			exit 0;
		}
		$ENV{PGQRS_SMALL_DISK} = 1;
		exec @unshare, $^X, $0 or die "unshare: $!";
	}
}

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $disk = PostgreSQL::Test::Utils::tempdir_short();
system_or_bail('mount', '-t', 'tmpfs', '-o', 'size=24m', 'none', $disk);
mkdir "$disk/space" or die "$disk/space: $!";

my $node = new_node('full_disk', "fsync = off\nautovacuum = off\n");
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$disk/space'");
$node->safe_psql('postgres', 'CREATE DATABASE full_disk TABLESPACE small');

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('full_disk', $query);
}

sub state_of
{
	my ($query) = @_;
	return sqlstate($node, $query, 'full_disk');
}

sql(q{CREATE EXTENSION pgqrs; SELECT pgqrs_create_queue('jobs', retention => '1 day')});
sql(q{SELECT pgqrs_enqueue_batch('jobs', array_agg(to_jsonb(repeat(md5(n::text), 60)))) FROM generate_series(1, 1000) n});
sql(q{ALTER TABLE pgqrs_archive ALTER COLUMN payload SET STORAGE PLAIN});
sql(q{SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_dequeue('jobs', batch_size => 1000)});
sql(q{UPDATE pgqrs_archive SET archived_at = archived_at - interval '100 days'});
# Vacuum itself needs some pages: a reserve for it, as an operator has elsewhere.
sql(q{CREATE TABLE reserve (filler text); ALTER TABLE reserve ALTER COLUMN filler SET STORAGE PLAIN;
	INSERT INTO reserve SELECT repeat('x', 7000) FROM generate_series(1, 100)});
sql(q{SELECT pgqrs_enqueue('jobs', '"last"')});

# Large rows first, then rows that fit into what is left.
sql('CREATE TABLE ballast (filler text); ALTER TABLE ballast ALTER COLUMN filler SET STORAGE PLAIN');
for my $rows (1000, 100, 10, 1)
{
	1 while state_of("INSERT INTO ballast SELECT repeat('x', 7000) FROM generate_series(1, $rows)") eq '';
}
my $live = sql(q{SELECT count(*) FROM pgqrs_messages});
is(state_of(q{SELECT pgqrs_enqueue('jobs', to_jsonb(repeat(md5(n::text), 60))) FROM generate_series(1, 1000) n}), '53100',
	'a message for which there is no room is refused as a full disk');
is(sql(q{SELECT count(*) FROM pgqrs_messages}), $live, 'a call that fails on a full disk stores no message');

1 while sql(q{SELECT pgqrs_apply_retention() ->> 'more'}) eq 'true';
is(sql(q{SELECT count(*) FROM pgqrs_archive}), '0', 'retention removes old messages while the disk is full');
sql('DROP TABLE reserve');
sql('VACUUM pgqrs_archive, pgqrs_messages');
is(state_of(q{SELECT pgqrs_enqueue('jobs', to_jsonb(repeat(md5(n::text), 60))) FROM generate_series(1, 500) n}), '',
	'messages fit into the room that retention and vacuum made');
is(sql(q{SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_dequeue('jobs', batch_size => 501)}), '501',
	'messages of before and after the full disk are claimed and archived');
is(sql('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '', 'pgqrs_verify() finds nothing after a full disk');
$node->stop;
system_or_bail('umount', $disk);
done_testing();
