# What the TAP tests share: a server with the extension, clients that run
# beside the test, and answers in forms that are easy to compare.
package Pgqrs;

use strict;
use warnings;

use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_node sqlstate clock step_clock start_client finish_client waits_for_lock
  background_pid await_worker is_served log_count await_log is_well);

# Polls in one session for a second or two, instead of in a new one for each
# look: a test spends most of its processor time in psql and new backends.
# Only for SELECTs that are to answer true; the rest is left to PostgreSQL's own.
{
	no warnings 'redefine';
	my $poll_in_new_sessions = \&PostgreSQL::Test::Cluster::poll_query_until;
	*PostgreSQL::Test::Cluster::poll_query_until = sub {
		my ($node, $database, $query, $expected) = @_;
		(my $select = $query // '') =~ s/;\s*$//;
		return $poll_in_new_sessions->(@_) if defined $expected || $select !~ /^\s*SELECT\b/i || $select =~ /;/;

		my $look = "SELECT coalesce((\n$select\n)::text IN ('t', 'true'), false) AS found \\gset\n"
		  . "\\if :found\n\\echo found\n\\q\n\\endif\n";
		my $script = join('', map { $look . "SELECT pg_sleep($_) \\g /dev/null\n" } (0.02) x 20, (0.05) x 20) . $look;
		my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
		my ($out, $err);
		do
		{
			IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database) ],
				'<', \$script, '>', \$out, '2>', \$err);
			return 1 if $out eq "found\n";
			return $poll_in_new_sessions->(@_) if $err =~ /subquery/;
			select undef, undef, undef, 0.1;
		} while (time < $deadline);
		diag("this has not become true: $query\n$err");
		return 0;
	};
}

# A session beside the test may take so long for each query, and for its end,
# however long the test itself took before.
{
	no warnings 'redefine';
	my ($query, $until, $quit) = map { PostgreSQL::Test::BackgroundPsql->can($_) } qw(query query_until quit);
	*PostgreSQL::Test::BackgroundPsql::query = sub { $_[0]{timeout}->start; return $query->(@_); };
	*PostgreSQL::Test::BackgroundPsql::query_until = sub { $_[0]{timeout}->start; return $until->(@_); };
	*PostgreSQL::Test::BackgroundPsql::quit = sub { $_[0]{timeout}->start; return $quit->(@_); };
}

# A server that is preloaded with the library, and the extension in the
# database postgres; conf: further settings.  Nothing happens in the background
# unless that is what is tested: pgqrs.paused = off.
sub new_node
{
	my ($name, $conf, %init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(%init);
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'pgqrs'\npgqrs.paused = on\nclient_min_messages = error\n"
		  . ($conf // ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pgqrs');
	return $node;
}

# A test: the tables say only what they can.
sub is_well
{
	my ($node, $when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', 'SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok'), '', "pgqrs_verify() finds nothing $when");
}

# The SQLSTATE that a statement, or the first that fails of several, raises;
# empty if all succeed.
sub sqlstate
{
	my ($node, $query, $database) = @_;
	my ($status, $out, $err) = $node->psql($database // 'postgres',
		"\\set VERBOSITY sqlstate\n$query", on_error_stop => 1);
	return $err =~ /ERROR:  (\w{5})/ ? $1 : $status == 0 ? '' : "status $status: $err";
}

# Moves the clock of the extension, in a time that no test takes: time passes.
sub clock
{
	my ($node, $offset) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET pgqrs.time_passed = '$offset'");
	return step_clock($node, $offset);
}

# The same as a step of a clock that was wrong or is corrected.
sub step_clock
{
	my ($node, $offset) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET pgqrs.clock_offset = '$offset'");
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$node->poll_query_until('postgres',
		"SELECT current_setting('pgqrs.clock_offset')::interval = '$offset'")
	  or die 'the setting does not arrive';
	return;
}

# Starts psql with a script.  It goes on by itself: nothing passes through
# pipes that the test would have to serve.
sub start_client
{
	my ($node, $script, %o) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $client = { out => "$dir/out", err => "$dir/err", timeout => IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default) };
	append_to_file("$dir/script", $script);
	$client->{harness} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
			'-d', $node->connstr($o{database} // 'postgres'), '-f', "$dir/script" ],
		'<', '/dev/null', '>', $client->{out}, '2>', $client->{err}, $client->{timeout});
	return $client;
}

# Waits for its end: what it printed, or the SQLSTATE that ended it.
sub finish_client
{
	my ($client) = @_;
	$client->{timeout}->start;
	$client->{harness}->finish;
	my $err = slurp_file($client->{err});
	my $out = slurp_file($client->{out});
	chomp $out;
	return $err =~ /ERROR:  (\w{5}):/ ? $1 : $out;
}

# True as soon as a session waits for a lock; application: its name.
sub waits_for_lock
{
	my ($node, $application) = @_;
	return $node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM pg_stat_activity
		WHERE application_name = '$application' AND wait_event_type = 'Lock'");
}

# The process id of a database's background worker, or of the launcher; empty
# if there is none.
sub background_pid
{
	my ($node, $database) = @_;
	return $node->safe_psql('postgres', defined $database
		? "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgqrs worker' AND datname = '$database'"
		: "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgqrs launcher'");
}

# Makes something due in a database; the process id of the worker that came.
sub await_worker
{
	my ($node, $database) = @_;
	is_served($node, $database) or die "nothing happens in $database";
	return background_pid($node, $database);
}

# True as soon as a run has ended by its deadline, which no claim looks at.
sub is_served
{
	my ($node, $database) = @_;
	my $run = $node->safe_psql($database, q{SELECT pgqrs_create_workflow('deadline');
		SELECT pgqrs_trigger('deadline', timeout => '1 ms')});
	$run =~ s/.*\n//s;
	return $node->poll_query_until($database, "SELECT status = 'ERROR' FROM pgqrs_result($run)");
}

# How often a pattern is in the server's log.
sub log_count
{
	my ($node, $pattern) = @_;
	return scalar(() = slurp_file($node->logfile) =~ /$pattern/g);
}

# True as soon as a pattern is in the server's log that often.
sub await_log
{
	my ($node, $pattern, $count) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if log_count($node, $pattern) >= ($count // 1);
		select undef, undef, undef, 0.1;
	}
	return 0;
}

1;
