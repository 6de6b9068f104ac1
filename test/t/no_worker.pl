# Triggers of a workflow that no live worker serves.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('no_worker');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'pgqrs'
pgqrs.paused = on
fsync = off
CONF
$node->start;

# Runs statements in one session; the names of what it was warned of.
sub warnings_of
{
	my (@statements) = @_;
	my ($stdout, $stderr);
	my $status = $node->psql('postgres', join(";\n", @statements),
		stdout => \$stdout, stderr => \$stderr);
	return "failed: $stderr" if $status != 0;
	return join ' ', $stderr =~ /WARNING:  no live worker serves workflow "(\S+)"/g;
}

# Moves the clock of the extension, seen by the session before it goes on.
sub clock
{
	my ($offset) = @_;
	return ("ALTER SYSTEM SET pgqrs.clock_offset = '$offset'", "ALTER SYSTEM SET pgqrs.time_passed = '$offset'",
		'SELECT pg_reload_conf()',
		("SELECT pg_sleep(0.05) WHERE current_setting('pgqrs.clock_offset') <> '$offset'") x 200,
		"SELECT 1 / (current_setting('pgqrs.clock_offset') = '$offset')::int");
}

my $trigger = q{SELECT pgqrs_trigger('job')};
my $required = q{SELECT pgqrs_trigger('job', require_worker => true)};

$node->safe_psql('postgres', q{CREATE EXTENSION pgqrs;
	SELECT pgqrs_create_workflow('job'), pgqrs_create_workflow('team.job')});

is(warnings_of($trigger), 'job', 'a trigger warns of a workflow that no worker serves');
is(warnings_of($trigger), 'job', 'another session is told, too');
is(warnings_of($trigger, $trigger, $trigger), 'job', 'a session once');
is(warnings_of($trigger, q{SELECT pgqrs_trigger('team.job')}, $trigger),
	'job team.job', 'for each workflow');
is(warnings_of(q{SELECT pgqrs_trigger_batch('job', '{1,2,3}')}, $trigger),
	'job', 'a batch is one call');
is(warnings_of($trigger, clock('59s'), $trigger), 'job', 'not within a minute');
is(warnings_of(clock('0'), $trigger, clock('61s'), $trigger), 'job job', 'again after a minute');
is(warnings_of(clock('0')), '', 'the clock as it was');

my ($stdout, $stderr);
$node->psql('postgres', "\\set VERBOSITY verbose\n$trigger", stdout => \$stdout, stderr => \$stderr);
like($stderr, qr/WARNING:  PQ013: .*\nHINT:  \S/, 'with SQLSTATE and hint');

my $runs = $node->safe_psql('postgres', 'SELECT count(*) FROM pgqrs_workflow_runs');
like(warnings_of("\\set VERBOSITY verbose\n$required"),
	qr/ERROR:  PQ013: .*\nHINT:  \S/, 'refused where a worker is required');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pgqrs_workflow_runs'), $runs, 'nothing was written');
is(warnings_of("\\set ON_ERROR_STOP off\n$required", $required, $trigger), 'job',
	'a refusal is no warning: that comes with the next trigger');

# A worker whose pattern covers one of them.
my $worker = $node->safe_psql('postgres', q{SELECT pgqrs_register_worker('w', '{other,team.*}')});
is(warnings_of(q{SELECT pgqrs_trigger('team.job')}), '', 'a live worker serves it');
is(warnings_of(q{SELECT pgqrs_trigger('team.job', require_worker => true)}), '', 'as required');
is(warnings_of($trigger), 'job', 'but not the other one');
is(warnings_of(clock('61s'), q{SELECT pgqrs_trigger('team.job')}), 'team.job', 'one that is silent does not count');
is(warnings_of("SELECT pgqrs_heartbeat($worker)", q{SELECT pgqrs_trigger('team.job')}), '', 'until it gives a sign of life');
is(warnings_of("SELECT pgqrs_suspend_worker($worker)", q{SELECT pgqrs_trigger('team.job')}), 'team.job', 'a suspended one gets nothing new');
is(warnings_of("SELECT pgqrs_resume_worker($worker)", "SELECT pgqrs_stop_worker($worker)", q{SELECT pgqrs_trigger('team.job')}),
	'team.job', 'a stopped one is gone');


# A worker of a role that may not take the runs does not serve them.
$node->safe_psql('postgres', q{CREATE ROLE stranger; CREATE ROLE crew; CREATE ROLE member IN ROLE crew;
	SELECT pgqrs_grant('elsewhere', 'stranger', 'work'), pgqrs_grant('job', 'stranger', 'trigger'), pgqrs_grant('elsewhere', 'member', 'work')});
my $register = q{SELECT pgqrs_register_worker('all', '{*}')};
is(warnings_of("SET ROLE stranger; $register; RESET ROLE", $trigger), 'job', 'the worker of a stranger does not count');
is(warnings_of("SET ROLE member; $register; RESET ROLE", $trigger), 'job', 'nor that of a second one');
like(warnings_of("\\set VERBOSITY verbose\n$required"), qr/ERROR:  PQ013: /, 'where one is required');
is(warnings_of(q{SELECT pgqrs_grant('job', 'crew', 'work')}, $trigger), '', 'until it may, here by a membership');
is(warnings_of(q{SELECT pgqrs_revoke('job', 'crew', 'work')}, $trigger), 'job', 'and when it may no more');
is(warnings_of(q{SELECT pgqrs_grant('job', 'public', 'work')}, $required), '', 'everybody may');
is(warnings_of(q{SELECT pgqrs_revoke('job', 'public', 'work')}, q{SELECT pgqrs_grant('*', 'stranger', 'admin')}, $required), '', 'or one by a pattern, with another privilege');
is(warnings_of(q{SELECT pgqrs_revoke('*', 'stranger', 'admin')}, $register, $trigger), '', 'the owner may');

$node->stop;
done_testing();
