# examples/monitoring with the real programs: postgres_exporter answers with
# metrics that promtool accepts, Prometheus scrapes them once, loads the alerts,
# and finds data for each panel of the dashboard.
use strict;
use warnings;

use FindBin;
use HTTP::Tiny;
use JSON::PP;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @programs = qw(prometheus-postgres-exporter prometheus promtool);
foreach my $program (@programs)
{
	plan skip_all => "the package of $program is not installed"
	  unless grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

my $examples = "$FindBin::Bin/../../examples/monitoring";
my $dir = PostgreSQL::Test::Utils::tempdir;
my ($exporter_port, $prometheus_port) = map { PostgreSQL::Test::Cluster::get_free_port() } 1, 2;

my $node = new_node('prometheus', "fsync = off\n");
$node->safe_psql('postgres', q{
	CREATE ROLE monitor LOGIN;
	SELECT pgqrs_grant('*', 'monitor', 'monitor');
	SELECT pgqrs_create_queue('mail'), pgqrs_create_workflow('ship');
	SELECT pgqrs_enqueue_batch('mail', '{1,2,3}'), pgqrs_trigger('ship');
	SELECT pgqrs_archive_message(message_id, lease) FROM pgqrs_dequeue('mail');
	SELECT pgqrs_nack_message(message_id, lease, retryable => false) FROM pgqrs_dequeue('mail');
});

# A program that runs until the test ends.
my @running;

sub start_program
{
	my @command = @_;
	push @running, IPC::Run::start(\@command, '<', '/dev/null', '>', "$dir/log", '2>&1');
	return;
}

END
{
	my $status = $?;
	$_->kill_kill for @running;
	$? = $status;
}

# The answer to a request, as soon as it is as wanted.
sub answer
{
	my ($url, $wanted) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	my $response;
	do
	{
		$response = HTTP::Tiny->new(timeout => 30)->get($url);
		return $response->{content} if $response->{success} && $wanted->($response->{content});
		select undef, undef, undef, 0.2;
	} while (time < $deadline);
	diag("$url: $response->{status} $response->{content}\n" . slurp_file("$dir/log"));
	return '';
}

$ENV{DATA_SOURCE_NAME} = 'host=' . $node->host . ' port=' . $node->port . ' user=monitor dbname=postgres sslmode=disable';
# Its versions differ in the collectors that they have.
my @own = map { "--no-$_" } `prometheus-postgres-exporter --help 2>&1` =~ /^\s*--(collector\.\w+)\s/mg;
start_program('prometheus-postgres-exporter', "--extend.query-path=$examples/pgqrs.queries.yml", '--disable-default-metrics',
	'--disable-settings-metrics', @own, "--web.listen-address=127.0.0.1:$exporter_port");
my $metrics = answer("http://127.0.0.1:$exporter_port/metrics", sub { $_[0] =~ /^pgqrs_queue_ready/m });

foreach my $sample ('sent_total 3', 'claimed_total 2', 'done_total 1', 'failed_total 1', 'dead_total 1', 'cancelled_total 0',
	'wait_seconds_count 2', 'work_seconds_count 2')
{
	my ($name, $value) = split / /, $sample;
	like($metrics, qr/^pgqrs_messages_$name\{[^}]*queue="mail"[^}]*\} $value$/m, "the exporter has $sample");
}
like($metrics, qr/^pgqrs_messages_work_seconds_bucket\{[^}]*queue="mail"[^}]*le="\+Inf"\} 2$/m, 'the exporter has the last bucket');
like($metrics, qr/^# TYPE pgqrs_messages_wait_seconds histogram$/m, 'the exporter has a histogram');
my ($out, $err);
IPC::Run::run([ 'promtool', 'check', 'metrics' ], '<', \$metrics, '>', \$out, '2>', \$err);
is("$out$err", '', 'promtool has nothing to say about the metrics');

append_to_file("$dir/prometheus.yml", <<"YML");
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ['$examples/pgqrs.rules.yml']
scrape_configs:
  - job_name: pgqrs
    static_configs: [{targets: ['127.0.0.1:$exporter_port']}]
YML
command_ok([ 'promtool', 'check', 'config', "$dir/prometheus.yml" ], 'promtool accepts the alerts');
start_program('prometheus', "--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/data", "--web.listen-address=127.0.0.1:$prometheus_port");
my $api = "http://127.0.0.1:$prometheus_port/api/v1";
ok(answer("$api/query?query=pgqrs_messages_sent_total", sub { $_[0] =~ /"queue":"mail"/ }), 'Prometheus has scraped the exporter');

# Rates need two scrapes: the metric of each panel is there, and its query runs.
my $dashboard = decode_json(slurp_file("$examples/pgqrs.dashboard.json"));
foreach my $panel (@{ $dashboard->{panels} })
{
	foreach my $target (@{ $panel->{targets} })
	{
		(my $query = $target->{expr}) =~ s/\$__rate_interval/1m/g;
		$query =~ s/\$queue/.*/g;
		my %found;
		foreach my $name ($query =~ /\b(pgqrs_[a-z_]+)/g)
		{
			my $has = decode_json(answer("$api/query?query=" . ($name =~ /_$/ ? 'pgqrs_workflow_queued' : $name), sub { 1 }));
			$found{$name} = @{ $has->{data}{result} };
		}
		my $encoded = $query =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger;
		my $result = decode_json(answer("$api/query?query=$encoded", sub { 1 }) || '{}');
		is($result->{status}, 'success', "the query of \"$panel->{title}\" runs");
		ok((grep { $_ } values %found), 'the query reads a metric that is there') or diag($query);
	}
}
my $rules = decode_json(answer("$api/rules", sub { $_[0] !~ /"health":"unknown"/ }) || '{}');
is(join(' ', map { $_->{health} } map { @{ $_->{rules} } } @{ $rules->{data}{groups} }), 'ok ok ok ok ok', 'each alert can be evaluated');

done_testing();
