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
is(warnings_of($trigger), 'job', 'a trigger warns in another session too');
is(warnings_of($trigger, $trigger, $trigger), 'job', 'a session is warned once of a workflow');
is(warnings_of($trigger, q{SELECT pgqrs_trigger('team.job')}, $trigger),
	'job team.job', 'a session is warned of each workflow');
is(warnings_of(q{SELECT pgqrs_trigger_batch('job', '{1,2,3}')}, $trigger),
	'job', 'a batch warns once');
is(warnings_of($trigger, clock('59s'), $trigger), 'job', 'a session is not warned again within a minute');
is(warnings_of(clock('0'), $trigger, clock('61s'), $trigger), 'job job', 'a session is warned again after a minute');
is(warnings_of(clock('0')), '', 'setting the clock back warns of no workflow');

my ($stdout, $stderr);
$node->psql('postgres', "\\set VERBOSITY verbose\n$trigger", stdout => \$stdout, stderr => \$stderr);
like($stderr, qr/WARNING:  PQ013: .*\nHINT:  \S/, 'the warning has SQLSTATE PQ013 and a hint');

my $runs = $node->safe_psql('postgres', 'SELECT count(*) FROM pgqrs_workflow_runs');
like(warnings_of("\\set VERBOSITY verbose\n$required"),
	qr/ERROR:  PQ013: .*\nHINT:  \S/, 'a trigger that requires a worker is refused with PQ013 and a hint');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pgqrs_workflow_runs'), $runs, 'the refused trigger stores no run');
is(warnings_of("\\set ON_ERROR_STOP off\n$required", $required, $trigger), 'job',
	'a refusal does not count as a warning: the next trigger warns');

# A worker whose pattern covers one of them.
my $worker = $node->safe_psql('postgres', q{SELECT pgqrs_register_worker('w', '{other,team.*}')});
is(warnings_of(q{SELECT pgqrs_trigger('team.job')}), '', 'a trigger does not warn of a workflow that a live worker serves');
is(warnings_of(q{SELECT pgqrs_trigger('team.job', require_worker => true)}), '', 'a trigger that requires a worker succeeds where one is live');
is(warnings_of($trigger), 'job', 'a trigger warns of a workflow outside of the pattern of the worker');
is(warnings_of(clock('61s'), q{SELECT pgqrs_trigger('team.job')}), 'team.job', 'a trigger warns where the only worker is silent');
is(warnings_of("SELECT pgqrs_heartbeat($worker)", q{SELECT pgqrs_trigger('team.job')}), '', 'a trigger does not warn after a heartbeat of that worker');
is(warnings_of("SELECT pgqrs_suspend_worker($worker)", q{SELECT pgqrs_trigger('team.job')}), 'team.job', 'a trigger warns where the only worker is suspended');
is(warnings_of("SELECT pgqrs_resume_worker($worker)", "SELECT pgqrs_stop_worker($worker)", q{SELECT pgqrs_trigger('team.job')}),
	'team.job', 'a trigger warns where the only worker is stopped');


# A worker of a role that may not take the runs does not serve them.
$node->safe_psql('postgres', q{CREATE ROLE stranger; CREATE ROLE crew; CREATE ROLE member IN ROLE crew;
	SELECT pgqrs_grant('elsewhere', 'stranger', 'work'), pgqrs_grant('job', 'stranger', 'trigger'), pgqrs_grant('elsewhere', 'member', 'work')});
my $register = q{SELECT pgqrs_register_worker('all', '{*}')};
is(warnings_of("SET ROLE stranger; $register; RESET ROLE", $trigger), 'job', 'a trigger warns where the role of the worker may not claim the runs');
is(warnings_of("SET ROLE member; $register; RESET ROLE", $trigger), 'job', 'a trigger warns where the roles of two workers may not claim the runs');
like(warnings_of("\\set VERBOSITY verbose\n$required"), qr/ERROR:  PQ013: /, 'a trigger that requires a worker is refused where no role may claim the runs');
is(warnings_of(q{SELECT pgqrs_grant('job', 'crew', 'work')}, $trigger), '', 'a trigger does not warn after a role of the member got the privilege');
is(warnings_of(q{SELECT pgqrs_revoke('job', 'crew', 'work')}, $trigger), 'job', 'a trigger warns after that privilege was revoked');
is(warnings_of(q{SELECT pgqrs_grant('job', 'public', 'work')}, $required), '', 'a trigger that requires a worker succeeds where PUBLIC may claim');
is(warnings_of(q{SELECT pgqrs_revoke('job', 'public', 'work')}, q{SELECT pgqrs_grant('*', 'stranger', 'admin')}, $required), '', 'a trigger that requires a worker succeeds where a role has admin by a pattern');
is(warnings_of(q{SELECT pgqrs_revoke('*', 'stranger', 'admin')}, $register, $trigger), '', 'a trigger does not warn where the owner has registered the worker');

$node->stop;
done_testing();
