# What ALTER DEFAULT PRIVILEGES gives other roles is taken from the objects of
# the extension, at once and by pgqrs_sync_grants(); and settings of the
# configuration files hold where a session loads the library itself.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nclient_min_messages = error\npgqrs.audit = on\npgqrs.payload_max = '10kB'\n");
$node->start;

sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

sql(q{
CREATE ROLE anon LOGIN; CREATE ROLE reader; CREATE ROLE worker LOGIN; CREATE SCHEMA jobs; GRANT USAGE ON SCHEMA jobs TO anon, reader;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO anon WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO anon, PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA jobs GRANT ALL ON TABLES TO reader, PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA jobs GRANT ALL ON SEQUENCES TO reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA jobs GRANT ALL ON FUNCTIONS TO anon;
ALTER DEFAULT PRIVILEGES GRANT ALL ON ROUTINES TO reader;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO reader;
CREATE EXTENSION pgqrs SCHEMA jobs;
});

# Every right on a table, view, sequence, function or type that is not its
# owner's; PUBLIC may use types.
my $rights = q{
WITH own AS (SELECT classid, objid FROM pg_depend WHERE refclassid = 'pg_extension'::regclass
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs') AND deptype = 'e')
SELECT count(*) FROM (
	SELECT a.grantee, c.relowner FROM own JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass, aclexplode(c.relacl) a
	UNION ALL
	SELECT a.grantee, p.proowner FROM own JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
	UNION ALL
	SELECT a.grantee, t.typowner FROM own JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass, aclexplode(t.typacl) a WHERE a.grantee <> 0
) r (grantee, owner) WHERE r.grantee <> r.owner
};
is(sql($rights), '0', 'default privileges open nothing of the extension');
is(sql(q{SELECT value, ok FROM jobs.pgqrs_health WHERE item = 'tables readable by others'}), '0|t', 'pgqrs_health finds nothing open');
is(sql(q{SELECT ok FROM jobs.pgqrs_verify() WHERE check_name = 'open tables'}), 't', 'pgqrs_verify() reports no open table');

# Given afterwards, also by a grantee, and to a column.
sql(q{SELECT jobs.pgqrs_create_queue('a.q'), jobs.pgqrs_grant('a.*', 'worker', 'work'); SELECT jobs.pgqrs_sync_grants()});
my $granted = sql($rights);
cmp_ok($granted, '>', 20, 'pgqrs_grant() grants rights on tables');
sql(q{
GRANT ALL ON ALL TABLES IN SCHEMA jobs TO anon, worker; GRANT ALL ON ALL SEQUENCES IN SCHEMA jobs TO anon;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA jobs TO anon, worker; GRANT USAGE ON TYPE jobs.pgqrs_run TO anon;
GRANT SELECT ON jobs.pgqrs_messages TO anon WITH GRANT OPTION; SET ROLE anon; GRANT SELECT ON jobs.pgqrs_messages TO reader; RESET ROLE;
});
like(sql(q{SELECT value, ok FROM jobs.pgqrs_health WHERE item = 'tables readable by others'}), qr/^\d{2}\|f$/, 'pgqrs_health tells of tables that were opened');
like(sql(q{SELECT detail FROM jobs.pgqrs_verify() WHERE check_name = 'open tables'}), qr/ to anon/, 'pgqrs_verify() names the role with rights on tables');
sql('SELECT jobs.pgqrs_sync_grants()');
is(sql($rights), $granted, 'pgqrs_sync_grants() leaves what pgqrs_grant() gave');
is(sql(q{SELECT value, ok FROM jobs.pgqrs_health WHERE item = 'tables readable by others'}), '0|t', 'pgqrs_health reports no open table any more');
is(sqlstate($node, 'SET ROLE worker; SELECT * FROM jobs.pgqrs_dequeue(\'a.q\')'), '', 'a grantee works on');
is(sqlstate($node, 'SET ROLE worker; UPDATE jobs.pgqrs_runs SET attempt = 0'), '42501', 'a role with the privilege work cannot write a view');
sql(q{GRANT SELECT (payload) ON jobs.pgqrs_messages TO anon});
is(sql(q{SELECT detail FROM jobs.pgqrs_verify() WHERE check_name = 'open tables'}), '1: SELECT of pgqrs_messages to anon', 'a column counts, too');

# The library is loaded by the first call.
my $loads = "SELECT jobs.pgqrs_version() IS NULL; SELECT current_setting('pgqrs.audit'), current_setting('pgqrs.payload_max')";
my @ways = (
	[ 'no setting of its own', '', '' ],
	[ 'PGOPTIONS', '-c pgqrs.audit=off -c pgqrs.payload_max=1024', '' ],
	[ 'PGOPTIONS in capitals', '-c PGQRS.AUDIT=off --pgqrs.payload-max=1024', '' ],
	[ 'SET', '', "SET pgqrs.audit = off; SET pgqrs.payload_max = 1024;" ],
	[ 'SET LOCAL', '', "BEGIN; SET LOCAL pgqrs.audit = off;" ],
	[ 'a transaction that is rolled back', '-c pgqrs.audit=off', 'BEGIN; SELECT jobs.pgqrs_version() IS NULL; ROLLBACK;' ]);
for my $way (@ways)
{
	my ($name, $options, $before) = @$way;
	local $ENV{PGOPTIONS} = $options;
	like(sql("$before $loads"), qr/^on\|10kB$/m, "the files' settings hold against $name");
}
sql("ALTER SYSTEM SET pgqrs.payload_max = '20kB'");
sql('SELECT pg_reload_conf()');
{
	local $ENV{PGOPTIONS} = '-c pgqrs.payload_max=1024';
	$node->poll_query_until('postgres', 'SELECT jobs.pgqrs_version() IS NULL; SELECT current_setting(\'pgqrs.payload_max\')', "f\n20kB");
	like(sql($loads), qr/^on\|20kB$/m, 'and so does that of ALTER SYSTEM');
}

$node->stop;
done_testing();
