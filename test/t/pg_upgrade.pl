# F37: pg_upgrade, here to the same version: work in every state, leases, grants
# and ids are as they were, and the background worker goes on.  PGQRS_UPGRADE_FROM,
# folders with the bin and lib of older versions that have the extension, oldest
# first, makes it a way over all of them; tools/matrix says more.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use EveryState;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "shared_preload_libraries = 'pgqrs'\npgqrs.paused = on\nclient_min_messages = error\nfsync = off\n";
my @older = split ' ', $ENV{PGQRS_UPGRADE_FROM} // '';
# some versions have checksums by default, others have not
my @init = @older ? (force_initdb => 1, extra => ['--data-checksums']) : ();
my $old = new_cluster(@older ? (install_path => $older[0]) : ());
my $new;

sub new_cluster
{
	my (%path) = @_;
	my $node = PostgreSQL::Test::Cluster->new('cluster' . ++(our $clusters), %path);
	$node->init(@init);
	$node->append_conf('postgresql.conf', $conf);
	return $node;
}

$old->start;
$old->safe_psql('postgres', <<'SQL');
CREATE ROLE shop LOGIN;
CREATE SCHEMA jobs;
CREATE EXTENSION pgqrs SCHEMA jobs;
ALTER DATABASE postgres SET search_path = jobs, public;
SET search_path = jobs, public;
SELECT pgqrs_create_queue('shop.mail', max_attempts => 1, visibility_timeout => '1 hour'), pgqrs_create_workflow('shop.flow', visibility_timeout => '1 hour');
SELECT pgqrs_grant('shop.*', 'shop', 'work'), pgqrs_grant('shop.*', 'shop', 'trigger');
SELECT pgqrs_enqueue('shop.mail', '"dead"');
SELECT pgqrs_nack_message(message_id, lease) FROM pgqrs_dequeue('shop.mail');
SELECT pgqrs_enqueue('shop.mail', '"held"');
CREATE TABLE held AS SELECT message_id, lease FROM pgqrs_dequeue('shop.mail');
SELECT pgqrs_enqueue('shop.mail', '"ready"');
SELECT pgqrs_trigger('shop.flow', '1', idempotency_key => 'once');
SELECT pgqrs_step_complete(run_id, lease, 'first', '"kept"') FROM pgqrs_dequeue('shop.flow', visibility_timeout => '1 us');
SELECT pgqrs_schedule('yearly', '@yearly', 'shop.flow');
SQL
my $rows = q{SELECT (SELECT string_agg(m::text, E'\n' ORDER BY message_id) FROM pgqrs_messages m), (SELECT string_agg(a::text, E'\n') FROM pgqrs_archive a),
	(SELECT string_agg(r::text, E'\n') FROM pgqrs_workflow_runs r), (SELECT string_agg(s::text, E'\n') FROM pgqrs_workflow_steps s),
	(SELECT string_agg(reloptions::text, ' ' ORDER BY relname) FROM pg_class WHERE relname ~ '^pgqrs'), (SELECT last_value FROM pgqrs_message_id_seq)};
$old->safe_psql('postgres', 'CREATE ROLE tom; CREATE DATABASE every');
work_in_every_state($old, 'every');

# The counters that no flush has written are in no table.
my $counters = 'SELECT queue, sent, claimed, done, failed, died, cancelled FROM jobs.pgqrs_queue_stats ORDER BY 1';
my $flush = 'SELECT FROM jobs.pgqrs_maintain()';

# Everything that must not change.
sub everything
{
	my ($node) = @_;
	return join "\n", $node->safe_psql('postgres', $rows), $node->safe_psql('postgres', $counters),
	  $node->safe_psql('every', $counters =~ s/jobs\.//r), contents($node, 'every', "'r', 'S'");
}

sub version
{
	return $_[0]->config_data('--version') =~ /(\d+)/ ? $1 : undef;
}

for my $path (@older[ 1 .. $#older ], undef)
{
	$new = new_cluster(defined $path ? (install_path => $path) : ());
	$old->safe_psql('postgres', $flush);
	$old->safe_psql('every', $flush =~ s/jobs\.//r);
	my $before = everything($old);
	$old->stop;
	my ($from, $to) = map { version($_) } $old, $new;

	chdir PostgreSQL::Test::Utils::tempdir;
	$new->command_ok([ $new->config_data('--bindir') . '/pg_upgrade', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old->config_data('--bindir'),
			'-B', $new->config_data('--bindir'), '-s', $new->host, '-p', $old->port, '-P', $new->port, '-U', $ENV{PGUSER} // scalar getpwuid($>) ],
		"pg_upgrade from $from to $to succeeds with the extension in place");
	$new->start;
	is(everything($new), $before, "rows, storage parameters, sequences and counters are as they were before the upgrade from $from to $to");
	$old = $new;
}
is($new->safe_psql('postgres', 'SELECT pgqrs_archive_message(message_id, lease) FROM held'), 't', 'a lease from before is good');
is($new->safe_psql('postgres', "SELECT payload FROM pgqrs_dequeue('shop.mail')"), '"ready"', 'the upgraded server delivers a message that was ready');
is($new->safe_psql('postgres', "SELECT s.should_execute, s.output FROM pgqrs_dequeue('shop.flow') d, pgqrs_step_begin(d.run_id, d.lease, 'first') s"),
	'f|"kept"', 'a step from before is not executed again');
is($new->safe_psql('postgres', "SET ROLE shop; SELECT pgqrs_trigger('shop.flow', idempotency_key => 'once') = run_id FROM pgqrs_runs"),
	't', 'a role still has its privileges, and a key its run');
is_well($new, 'after pg_upgrade');
$new->safe_psql('every', 'CREATE EXTENSION amcheck');
goes_on($new, 'work in every state', 'every', undelivered($new, 'every'));
$new->append_conf('postgresql.conf', 'pgqrs.paused = off');
$new->reload;
ok(is_served($new, 'postgres'), 'the background worker comes');
$new->stop('fast');
done_testing();
