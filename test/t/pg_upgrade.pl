# F37: pg_upgrade, here to the same version: work in every state, leases, grants
# and ids are as they were, and the background worker goes on.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "shared_preload_libraries = 'pgqrs'\nclient_min_messages = error\nfsync = off\n";
my $old = PostgreSQL::Test::Cluster->new('old');
my $new = PostgreSQL::Test::Cluster->new('new');
for my $node ($old, $new)
{
	$node->init;
	$node->append_conf('postgresql.conf', $conf);
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
my $before = $old->safe_psql('postgres', $rows);
$old->stop;

my $bin = $old->config_data('--bindir');
chdir PostgreSQL::Test::Utils::tempdir;
command_ok([ 'pg_upgrade', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin, '-s', $new->host,
		'-p', $old->port, '-P', $new->port, '-U', $ENV{PGUSER} // scalar getpwuid($>) ],
	'pg_upgrade succeeds with the extension in place');

$new->append_conf('postgresql.conf', 'pgqrs.paused = on');
$new->start;
is($new->safe_psql('postgres', $rows), $before, 'rows, storage parameters and sequences are as they were');
is($new->safe_psql('postgres', 'SELECT pgqrs_archive_message(message_id, lease) FROM held'), 't', 'a lease from before is good');
is($new->safe_psql('postgres', "SELECT payload FROM pgqrs_dequeue('shop.mail')"), '"ready"', 'the upgraded server delivers a message that was ready');
is($new->safe_psql('postgres', "SELECT s.should_execute, s.output FROM pgqrs_dequeue('shop.flow') d, pgqrs_step_begin(d.run_id, d.lease, 'first') s"),
	'f|"kept"', 'a step from before is not executed again');
is($new->safe_psql('postgres', "SET ROLE shop; SELECT pgqrs_trigger('shop.flow', idempotency_key => 'once') = run_id FROM pgqrs_runs"),
	't', 'a role still has its privileges, and a key its run');
is_well($new, 'after pg_upgrade');
$new->append_conf('postgresql.conf', 'pgqrs.paused = off');
$new->reload;
ok(is_served($new, 'postgres'), 'the background worker comes');
$new->stop('fast');
done_testing();
