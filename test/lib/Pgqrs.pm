# What the TAP tests share: a server with the extension, clients that run
# beside the test, and answers in forms that are easy to compare.
package Pgqrs;

use strict;
use warnings;

use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_node sqlstate clock start_client finish_client waits_for_lock);

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

# The SQLSTATE that a statement, or the first that fails of several, raises;
# empty if all succeed.
sub sqlstate
{
	my ($node, $query, $database) = @_;
	my ($status, $out, $err) = $node->psql($database // 'postgres',
		"\\set VERBOSITY sqlstate\n$query", on_error_stop => 1);
	return $err =~ /ERROR:  (\w{5})/ ? $1 : $status == 0 ? '' : "status $status: $err";
}

# Moves the clock of the extension, in a time that no test takes.
sub clock
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
# pipes that somebody would have to serve.
sub start_client
{
	my ($node, $script, %o) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $client = { out => "$dir/out", err => "$dir/err" };
	append_to_file("$dir/script", $script);
	$client->{harness} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
			'-d', $node->connstr($o{database} // 'postgres'), '-f', "$dir/script" ],
		'<', '/dev/null', '>', $client->{out}, '2>', $client->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $client;
}

# Waits for its end: what it printed, or the SQLSTATE that ended it.
sub finish_client
{
	my ($client) = @_;
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

1;
