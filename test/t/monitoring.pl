# examples/monitoring: the one file is a collector of sql_exporter, the other
# has queries of postgres_exporter, and each query runs as the role that
# docs/operations/install.md describes and returns the columns that its metrics name, as numbers.
use strict;
use warnings;

use FindBin;
use JSON::PP;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

# A file as JSON, read by a YAML parser; Debian's own python3 has the module.
sub parsed
{
	my ($file) = @_;
	my ($json, $err) = run_command([ '/usr/bin/python3', '-c',
		'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))',
		"$FindBin::Bin/../../examples/monitoring/$file" ]);
	is($err, '', "Python reads $file as YAML");
	return decode_json($json);
}

my $collector = parsed('pgqrs.collector.yml');
my $exporter = parsed('pgqrs.queries.yml');
my %queries = map { $_->{query_name} => $_->{query} } @{ $collector->{queries} };

my $node = new_node('monitoring', "fsync = off\n");
$node->safe_psql('postgres', q{
	CREATE ROLE monitor LOGIN;
	SELECT pgqrs_grant('*', 'monitor', 'monitor');
	SELECT pgqrs_create_queue('mail'), pgqrs_create_workflow('ship');
	SELECT pgqrs_enqueue('mail', '1'), pgqrs_enqueue('mail', '2'), pgqrs_trigger('ship');
	SELECT pgqrs_register_worker('w', '{ship}');
	SELECT pgqrs_dequeue('mail');
	WITH d AS MATERIALIZED (SELECT * FROM pgqrs_dequeue('ship')) SELECT pgqrs_complete_run(run_id, lease) FROM d;
});

# The rows of a query, as the role sees them.
sub rows_of
{
	my ($query) = @_;
	return decode_json($node->safe_psql('postgres',
		"SET ROLE monitor; SELECT coalesce(json_agg(r), '[]') FROM ($query) AS r"));
}

# Rows that lack a label, or a number for a value.
sub wrong
{
	my ($rows, $labels, $values) = @_;
	return grep {
		my $row = $_;
		grep({ !defined $row->{$_} } @$labels) || grep({ ($row->{$_} // '') !~ /^-?\d+(\.\d+)?(e[-+]\d+)?$/ } @$values)
	} @$rows;
}

my %rows = map { $_ => rows_of($queries{$_}) } sort keys %queries;
my (%used, %names);
foreach my $metric (@{ $collector->{metrics} })
{
	my $name = $metric->{metric_name};
	my $rows = $rows{ $metric->{query_ref} };
	my @labels = @{ $metric->{key_labels} // [] };
	my @values = @{ $metric->{values} };
	$used{ $metric->{query_ref} } = 1;
	like($name, qr/^pgqrs_[a-z0-9_]+$/, "$name: the metric has a valid name");
	ok(!$names{$name}++, "$name is there once");
	like($metric->{type}, qr/^(gauge|counter)$/, "$name: the metric is a gauge or a counter");
	like($metric->{help}, qr/^[A-Z0-9].*\.$/, "$name: the help is a sentence");
	ok(@values == 1 || $metric->{value_label}, "$name: several values have a label");
	ok(@$rows && !wrong($rows, \@labels, \@values), "$name: the query returns rows with its labels and values") or diag(encode_json($rows));
}
is(join(' ', sort keys %used), join(' ', sort keys %queries), 'each query is used');

my ($mail) = grep { $_->{queue} eq 'mail' } @{ $rows{pgqrs_queues} };
is("$mail->{ready} $mail->{in_flight}", '1 1', 'the query counts the messages of a queue');
my ($counted) = grep { $_->{queue} eq 'mail' } @{ $rows{pgqrs_counters} };
is("$counted->{sent} $counted->{claimed} $counted->{done}", '2 1 0', 'the query has the counters of a queue');
is(join(' ', map { "$_->{le} $_->{wait_bucket}" } grep { $_->{queue} eq 'mail' && $_->{le} =~ /^(\+Inf|3600)$/ } @{ $rows{pgqrs_buckets} }),
	'3600 1 +Inf 1', 'the query has the buckets of a queue');
my ($ship) = @{ $rows{pgqrs_workflows} };
is("$ship->{success} $ship->{queued} $ship->{live_workers}", '1 0 1', 'runs of a workflow');
ok((grep { $_->{item} eq 'oldest xmin' } @{ $rows{pgqrs_health_items} }), 'members of pg_read_all_stats see the session that holds back vacuum');

# Those of postgres_exporter, whose metrics are named by query and column.
foreach my $name (sort keys %$exporter)
{
	my %columns = map { %$_ } @{ $exporter->{$name}{metrics} };
	my %usage = ('LABEL' => [], 'GAUGE' => [], 'COUNTER' => [], 'HISTOGRAM' => []);
	my $rows = rows_of($exporter->{$name}{query});

	push @{ $usage{ $columns{$_}{usage} } }, $_ for sort keys %columns;
	like($columns{$_}{description}, qr/^[A-Z0-9].*\.$/, "$name: the description of $_ is a sentence") for sort keys %columns;
	my @parts = map { my $histogram = $_; map { "${histogram}_$_" } qw(bucket count sum) } @{ $usage{HISTOGRAM} };
	is_deeply([ sort keys %{ $rows->[0] } ], [ sort keys(%columns), @parts ], "$name: the query returns the columns of the file");
	my @numbers = (@{ $usage{GAUGE} }, @{ $usage{COUNTER} }, grep { !/_bucket$/ } @parts);
	ok(@$rows && !wrong($rows, $usage{LABEL}, \@numbers), "$name: the query returns rows with labels and numbers") or diag(encode_json($rows));
	$names{"${name}_$_"}++ for @{ $usage{GAUGE} }, @{ $usage{COUNTER} }, @parts;
}
is($names{$_}, 2, "$_ is in both") for 'pgqrs_health_ok', 'pgqrs_queue_oldest_ready_seconds',
  (map { "pgqrs_messages_${_}_total" } qw(sent claimed done failed dead cancelled)),
  (map { my $part = $_; map { "pgqrs_messages_${_}_seconds_$part" } qw(wait work) } qw(bucket sum count));

done_testing();
