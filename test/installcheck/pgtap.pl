# make installcheck runs the files of test/pgtap by this, each in a database of its
# own on the running server.  PGTAP: the names of some of them.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Temp qw(tempdir);
use Test::More;

# prove_installcheck has set PGPORT for servers that tests start.
delete $ENV{PGPORT};
$ENV{PGPORT} = $ENV{RUNNING_PGPORT} if $ENV{RUNNING_PGPORT};
$ENV{PGOPTIONS} = '-c client_min_messages=warning';

my $test = abs_path(dirname(__FILE__) . '/..');
my $prefix = "pgqrs_pgtap_$$";
my $database = '';
my $counts = tempdir(CLEANUP => 1) . '/counts';

sub sql
{
	my ($name, $query) = @_;
	open my $psql, '-|', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $name, '-c', $query
	  or die "psql: $!";
	my $answer = do { local $/; <$psql> };
	close $psql or BAIL_OUT("psql failed: $query");
	chomp $answer;
	return $answer;
}

# A database from one that has the extensions.
sub new_database
{
	my ($name, $template) = @_;
	sql('postgres', "CREATE DATABASE $name TEMPLATE $template");
	return $name;
}

plan skip_all => 'pgtap is not installed'
  if sql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'pgtap'") eq '0';

new_database("${prefix}_template", 'template0');
sql("${prefix}_template", 'CREATE EXTENSION pgqrs');
sql("${prefix}_template", 'CREATE EXTENSION pgtap');
chdir "$test/pgtap" or die "$test/pgtap: $!";
for my $file ($ENV{PGTAP} ? map({ "$_.sql" } split ' ', $ENV{PGTAP}) : sort glob '*.sql')
{
	my $name = basename($file, '.sql');
	$database = new_database("${prefix}_$name", "${prefix}_template");
	local $ENV{PGDATABASE} = $database;
	my $output = qx{'$^X' '$test/../tools/tap' '$counts' psql -XqAt -v ON_ERROR_STOP=1 -f '$file' 2>&1};
	ok($? == 0, "$name.sql: every assertion holds") or diag($output);
	sql('postgres', "DROP DATABASE $database WITH (FORCE)");
}
sql('postgres', "DROP DATABASE ${prefix}_template WITH (FORCE)");

done_testing();
