# A wait and a claim agree.  F44: whatever keeps something that is due from being
# claimed, a wait sleeps instead of answering true again and again; and as soon
# as that is over it answers true.  All reasons at once, each with queues of its
# own, on a server that is preloaded with the library and on one that is not.
# F-numbers: docs/design/known-failures.md.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('main', "fsync = off\nmax_prepared_transactions = 10\nmax_connections = 150\npgqrs.paused = off\npgqrs.worker_timeout = '1 hour'\n");

sub sql
{
	my ($query) = @_;
	return $node->safe_psql('postgres', $query);
}

# Q: the queue that has something due; W: the id of the worker that has its name.
# setup: beforehand; hold: in a session that stays open; free: there, or as told.
my $enqueue = "SELECT pgqrs_create_queue('Q'), pgqrs_enqueue('Q', '1')";
my $limited = "SELECT pgqrs_create_queue('Q', max_in_flight => 2), pgqrs_enqueue_batch('Q', '{1,2,3}')";
my $worker = "$enqueue, pgqrs_enqueue('Q', '2'), pgqrs_enqueue('Q', '3'), pgqrs_register_worker('Q', '{Q}', max_concurrent => MAX)";
my $held = "CREATE TABLE held_N AS SELECT message_id, lease FROM pgqrs_dequeue('Q', visibility_timeout => 'LEASE')";
my $run = "SELECT pgqrs_create_workflow('Q'), pgqrs_trigger('Q'); $held";
my $archive = 'SELECT pgqrs_archive_message(message_id, lease) FROM held_N';
my %reasons = (
	row_locked => { setup => $enqueue, hold => "BEGIN; SELECT FROM pgqrs_messages WHERE queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = 'Q') FOR UPDATE", free => 'COMMIT' },
	claim_open => { setup => $enqueue, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q')", free => 'ROLLBACK' },
	claim_prepared => { setup => $enqueue, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q'); PREPARE TRANSACTION 'N'", free => "ROLLBACK PREPARED 'N'" },
	step_open => { setup => $run, lease => '500 ms', hold => "BEGIN; SELECT pgqrs_step_begin(message_id, lease, 's') FROM held_N", free => 'COMMIT' },
	cancel_open => { setup => $run, lease => '1 ms', hold => 'BEGIN; SELECT pgqrs_cancel_run(message_id) FROM held_N', free => 'ROLLBACK' },
	extend_open => { setup => "$enqueue; $held", lease => '500 ms', hold => "BEGIN; SELECT pgqrs_extend_lease(message_id, lease, '1 hour') FROM held_N", free => 'ROLLBACK' },
	archive_open => { setup => "$enqueue; $held", lease => '500 ms', hold => "BEGIN; $archive", free => 'ROLLBACK' },
	paused => { setup => "$enqueue, pgqrs_pause_queue('Q')", free => "SELECT pgqrs_resume_queue('Q')" },
	delayed => { setup => "SELECT pgqrs_create_queue('Q'), pgqrs_enqueue('Q', '1', delay => '3 s')", delay => 1 },
	backing_off => { setup => "$enqueue; $held; SELECT pgqrs_nack_message(message_id, lease, delay => '3 s') FROM held_N", delay => 1 },
	deadline => { setup => "SELECT pgqrs_create_workflow('Q'), pgqrs_trigger('Q', timeout => '1 ms')", free => "SELECT pgqrs_trigger('Q')" },
	in_flight => { setup => "$limited; $held; INSERT INTO held_N SELECT message_id, lease FROM pgqrs_dequeue('Q', visibility_timeout => '1 hour')", free => "$archive LIMIT 1" },
	limit_locked => { setup => $limited, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q')", free => 'COMMIT' },
	limit_prepared => { setup => $limited, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q'); PREPARE TRANSACTION 'N'", free => "COMMIT PREPARED 'N'" },
	limit_rolled_back => { setup => $limited, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q')", free => 'ROLLBACK' },
	limit_extended => { setup => "SELECT pgqrs_create_queue('Q', max_in_flight => 1), pgqrs_enqueue_batch('Q', '{1,2}'); $held", lease => '1500 ms',
		hold => "BEGIN; SELECT pgqrs_extend_lease(message_id, lease, '1 hour') FROM held_N", free => 'ROLLBACK' },
	limit_consume => { setup => $limited, hold => "BEGIN; SELECT pgqrs_consume('Q', 'slow')", free => 'COMMIT' },
	slots_full => { setup => "$worker; CREATE TABLE held_N AS SELECT message_id, lease FROM pgqrs_workers w, pgqrs_dequeue('Q', worker_id, 1, '1 hour') WHERE name = 'Q'",
		max => 1, free => $archive },
	slots_locked => { setup => $worker, max => 2, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q', (W))", free => 'COMMIT' },
	slots_prepared => { setup => $worker, max => 2, hold => "BEGIN; SELECT 1 FROM pgqrs_dequeue('Q', (W)); PREPARE TRANSACTION 'N'", free => "COMMIT PREPARED 'N'" },
	suspended => { setup => "$worker; SELECT pgqrs_suspend_worker((W))", max => 9, free => 'SELECT pgqrs_resume_worker((W))' },
	no_privilege => { setup => "$enqueue; CREATE ROLE N LOGIN; SELECT pgqrs_grant('elsewhere', 'N', 'work')", role => 1, free => "SELECT pgqrs_grant('Q', 'N', 'work')" });

# A worker's loop: how often a wait has answered true goes into a table, and
# when something was claimed.
my $loop = q{%s DO $$ DECLARE a boolean; w bigint := (SELECT worker_id FROM pgqrs_workers WHERE name = '%s'); BEGIN
	LOOP
		CALL pgqrs_wait_for_work('%s', w, timeout => '1 hour', available => a);
		IF a THEN UPDATE loops SET n = n + 1 WHERE name = '%s'; END IF;
		COMMIT;
		EXIT WHEN EXISTS (SELECT FROM pgqrs_dequeue('%s', w));
		COMMIT;
	END LOOP;
	UPDATE loops SET done = true WHERE name = '%s';
	END $$;
};
my $asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pgqrs_wait_for_work(%' AND wait_event_type IN ('Extension', 'Timeout')";

sub all_reasons
{
	my ($when, $sizes) = @_;
	my (@clients, %holders, @free);
	my $setup = '';

	sql("DROP EXTENSION pgqrs; CREATE EXTENSION pgqrs; DROP TABLE IF EXISTS loops;
		CREATE TABLE loops (name text PRIMARY KEY, n int DEFAULT 0, done boolean DEFAULT false); GRANT ALL ON loops, pgqrs_workers TO PUBLIC;
		CREATE OR REPLACE FUNCTION slow(jsonb) RETURNS void LANGUAGE sql AS ''");
	for my $reason (sort keys %reasons)
	{
		my $r = $reasons{$reason};
		my $size = $sizes->{$reason} // 1;
		my $pattern = $r->{role} || $size > 1 ? "$reason.*" : "$reason.1";
		my $of_worker = "SELECT worker_id FROM pgqrs_workers WHERE name = '$reason.1'";
		my $fill = sub {
			my ($text) = @_;
			$text =~ s/\bMAX\b/$r->{max} \/\/ 1/ge;
			$text =~ s/\bLEASE\b/$r->{lease} \/\/ '1 hour'/ge;
			$text =~ s/\bQ\b/$reason.1/g;
			$text =~ s/\bW\b/$of_worker/g;
			$text =~ s/(held_|\b)N\b/$1$reason/g;
			return $text;
		};
		$setup .= "DROP TABLE IF EXISTS held_$reason; DROP ROLE IF EXISTS $reason;
			SELECT count(pgqrs_create_queue('$reason.' || g)) FROM generate_series(2, $size) g;
			INSERT INTO loops VALUES ('$reason');\n" . $fill->($r->{setup}) . ";\n";
		$setup .= "UPDATE pgqrs_workers SET queues = '{$pattern}' WHERE name = '$reason.1';\n" if $r->{max};
		$r->{held} = $fill->($r->{hold} // '');
		$r->{freed} = $fill->($r->{free} // '');
		$r->{client} = sprintf $loop, $r->{role} ? "SET ROLE $reason;" : '', "$reason.1", $pattern, $reason, $pattern, $reason;
	}
	sql($setup);
	for my $reason (sort keys %reasons)
	{
		my $r = $reasons{$reason};
		if ($r->{held})
		{
			$holders{$reason} = $node->background_psql('postgres');
			$holders{$reason}->query_safe($r->{held});
		}
		push @clients, start_client($node, $r->{client});
	}

	$node->poll_query_until('postgres', "SELECT ($asleep) + (SELECT count(*) FROM loops WHERE done) = " . keys(%reasons)) or die 'they do not all sleep: ';
	usleep(2_000_000);	# leases have run out, and several looks have been made
	is(sql("SELECT string_agg(name || ' ' || n, ', ') FROM loops WHERE (n > 1 OR done) AND name NOT IN ('delayed', 'backing_off')"), '', "$when: nothing can be claimed, and each wait sleeps");
	for my $reason (sort keys %reasons)
	{
		my $r = $reasons{$reason};
		if ($holders{$reason}) { $holders{$reason}->query_safe($r->{freed}) }
		else { push @free, $r->{freed} }
	}
	sql(join ";\n", @free);
	ok($node->poll_query_until('postgres', 'SELECT bool_and(done) FROM loops'), "$when: a wait ends after its reason")
	  or diag('left: ' . sql('SELECT string_agg(name, $$ $$) FROM loops WHERE NOT done'));
	is(sql("SELECT string_agg(name || ' ' || n, ', ') FROM loops WHERE n > 2"), '', "$when: at most two waits of a worker return true without a claim");
	is(finish_client($_), '', "$when: the loop of a worker ends without an error") for @clients;
	$_->quit for values %holders;
	return;
}

all_reasons('preloaded', { map { $_ => 20 } qw(claim_open limit_rolled_back suspended in_flight paused) });

all_reasons('many queues', { map { $_ => 1000 } qw(row_locked claim_open limit_locked slots_locked paused in_flight delayed) });
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;
all_reasons('not preloaded', { map { $_ => 20 } qw(claim_open limit_locked slots_full) });
$node->stop;
done_testing();
