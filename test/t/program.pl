# The program pgqrs: its workers and what they do with each end of a command, shell
# workflows, calls, lists, exit codes, and what is lost when things are killed.
use strict;
use warnings;

use FindBin;
use IPC::Run;
use JSON::PP;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('program', "pgqrs.paused = off\nfsync = off\nmax_prepared_transactions = 2\n");
my $dir = PostgreSQL::Test::Utils::tempdir;
my ($out, $err);

$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGDATABASE} = 'postgres';
delete @ENV{ grep { /^PGQRS_/ } keys %ENV };
$ENV{TEST_DIR} = $dir;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Runs the program; its exit code. What it prints is in $out and $err.
sub pgqrs
{
	my (@arguments) = @_;
	IPC::Run::run([ 'pgqrs', @arguments ], '<', '/dev/null', '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	chomp $out;
	return $? >> 8;
}

# What a call prints, which has to succeed.
sub printed
{
	my (@arguments) = @_;
	my $code = pgqrs(@arguments);
	die "pgqrs @arguments: exit code $code\n$err" if $code;
	return $out;
}

sub json { return JSON::PP->new->decode(printed(@_)) }

# True as soon as a condition of the test itself holds.
sub wait_until
{
	my ($condition) = @_;
	for (1 .. 50 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $condition->();
		select undef, undef, undef, 0.02;
	}
	return 0;
}

my $workers = 0;

# A worker that goes on by itself.
sub start_worker
{
	my (@arguments) = @_;
	my $name = 'w' . ++$workers;
	my $worker = { name => $name, log => "$dir/$name.log", out => "$dir/$name.out" };
	$worker->{harness} = IPC::Run::start([ 'pgqrs', 'work', '--name', $name, @arguments ],
		'<', '/dev/null', '>', $worker->{out}, '2>', $worker->{log});
	$worker->{pid} = $worker->{harness}{KIDS}[0]{PID};
	return $worker;
}

sub finish_worker
{
	my ($worker, $signal) = @_;
	kill $signal, $worker->{pid} if $signal;
	$worker->{harness}->finish;
	return $worker->{harness}->result(0);
}

sub log_has { my ($worker, $pattern) = @_; return wait_until(sub { slurp_file($worker->{log}) =~ $pattern }) }

# The number that a command has written into a file.
sub pid_in
{
	my ($name) = @_;
	wait_until(sub { -s "$dir/$name" }) or die "there is no $name";
	return slurp_file("$dir/$name") =~ s/\s//gr;
}

sub is_gone { my ($pid) = @_; return wait_until(sub { !kill 0, $pid }) }

sub state_of { return sql("SELECT status, attempt, error ->> 'type' FROM pgqrs_get_run($_[0])") }

# What a command does is its input.
append_to_file("$dir/command", "#!/bin/sh\n" . <<'SH');
read -r what
case $what in
	'"ok"') echo '{"n":  1}' ;;
	'"nothing"') ;;
	'"text"') echo hello ;;
	'"for good"') echo 'that is why' >&2; exit 65 ;;
	'"typed"') echo 'so it goes' >&2; echo '{"type": "declined", "message": "no money"}' >&2; exit 65 ;;
	'"typed later"') [ "$PGQRS_ATTEMPT" = 2 ] && exit; echo '{"type": "busy", "retry_after": "1 ms"}' >&2; exit 75 ;;
	'"typed wrongly"') echo '{"type": }' >&2; exit 65 ;;
	'"typed absurdly"') echo '{"type": "odd", "retry_after": "soon"}' >&2; exit 65 ;;
	'"typed step"') pgqrs step a -- sh -c 'echo "{\"type\": \"declined\", \"message\": \"no money\"}" >&2; exit 65' ;;
	'"step typed wrongly"') pgqrs step a -- sh -c 'echo "{no object" >&2; exit 65' ;;
	'"again"') [ "$PGQRS_ATTEMPT" = 2 ] && echo 2 || exit 75 ;;
	'"fails"') exit 3 ;;
	'"killed"') kill -9 $$ ;;
	'"large"') head -c 10000000 /dev/zero ;;
	'"loud"') head -c 10000000 /dev/zero | tr '\0' x >&2; exit 65 ;;
	'"large step"') pgqrs step a -- head -c 10000000 /dev/zero ;;
	'"fails while it sleeps"') pgqrs sleep nap '1 ms' || exit 3; echo 1 ;;
	'"lives on"') sleep 1000 & echo $! > "$TEST_DIR/left"; echo 1 ;;
	'"waits"') echo $$ > "$TEST_DIR/waits$PGQRS_RUN_ID"; [ "$PGQRS_ATTEMPT" = 2 ] && echo 2 || exec sleep 1000 ;;
	'"stays"') trap '' TERM; echo $$ > "$TEST_DIR/stays"; while :; do sleep 0.1; done ;;
	'"is let go"') echo $$ > "$TEST_DIR/holds$PGQRS_RUN_ID"; while ! [ -e "$TEST_DIR/go$PGQRS_RUN_ID" ]; do sleep 0.02; done; echo '"went"' ;;
	'"environment"') echo "{\"run\": $PGQRS_RUN_ID, \"attempt\": $PGQRS_ATTEMPT, \"queue\": \"$PGQRS_QUEUE\", \"lease\": $(tr '\0' '\n' < /proc/$$/cmdline | grep -c "$PGQRS_LEASE")}" ;;
	'"script"') exec "$TEST_DIR/script" ;;
	'"cancelled script"') trap : TERM; code=0; while [ $code != 80 ]; do code=0; pgqrs step s$((n += 1)) -- true || code=$?; done
		(trap '' TERM; pgqrs step last -- true); echo $? > "$TEST_DIR/code"; exit 0 ;;
	'"long id"') pgqrs step "$(printf %0300d 1)" -- true ;;
	'"no program"') pgqrs step a -- /nowhere/program ;;
	'"no json"') pgqrs step a -- echo no ;;
	'"no json of sql"') pgqrs step a --sql -- echo "INSERT INTO written VALUES (1); SELECT 'no'" ;;
	'"copy"') pgqrs step a --sql -- echo "INSERT INTO written VALUES (1); COPY written FROM STDIN" ;;
	'"sql '*) what=${what#'"sql '}; pgqrs step a --sql -- echo "${what%'"'}" ;;
	'"zero byte"') printf '{}\0x' ;;
	'"zero byte of a step"') pgqrs step a --text -- printf 'a\0b' ;;
	'"optional"') pgqrs step --optional --max-attempts 1 a -- sh -c 'exit 7' || echo $? ;;
	'"step retried"') pgqrs step a -- sh -c 'echo x >> "$TEST_DIR/tries"; [ $(wc -l < "$TEST_DIR/tries") = 2 ]'; echo "$?" ;;
	1 | 2) echo "$what" ;;
	'"family"') exec "$TEST_DIR/family" ;;
	'"sad family"') pgqrs child kid leaf '"for good"' ;;
	'"no signal"') pgqrs wait-signal s --timeout '1 ms'; echo $? ;;
	*) exec true ;;
esac
SH
append_to_file("$dir/script", "#!/bin/sh -e\n" . <<'SH');
echo x >> "$TEST_DIR/starts"
word=$(pgqrs step word --text -- sh -c 'echo w >> "$TEST_DIR/words"; echo "two  words"')
pgqrs step number -- echo '{"n":  1}' > "$TEST_DIR/number$(wc -l < "$TEST_DIR/starts")"
pgqrs step nothing -- true
pgqrs sleep nap '1 ms' || { code=$?; pgqrs step after -- true || code="$code $?"; echo "$code" > "$TEST_DIR/parked"; exit 0; }
signal=$(pgqrs wait-signal approved)
pgqrs step last -- echo "{\"word\": \"$word\", \"signal\": $signal}"
SH
append_to_file("$dir/family", "#!/bin/sh -e\n" . <<'SH');
pgqrs progress '"half"'
pgqrs child --start kid leaf 1
first=$(pgqrs wait-any first --signal stop --child kid)
kids=$(pgqrs children kids leaf '[2, 1]')
code=0; pgqrs child bad leaf '"for good"' || code=$?
[ $code = 79 ] && exit
note=$(pgqrs pause note '"why"' --text)
row=$(pgqrs step write --sql -- echo "INSERT INTO written SELECT $PGQRS_RUN_ID RETURNING 7")
echo "{\"first\": $first, \"kids\": $kids, \"kid\": $(pgqrs child kid), \"code\": $code, \"note\": \"$note\", \"row\": $row}"
SH
chmod 0755, "$dir/command", "$dir/script", "$dir/family";

sql(q{SELECT pgqrs_create_queue('q'), pgqrs_create_queue('large'), pgqrs_create_queue('null'), pgqrs_create_workflow('stubborn'), pgqrs_create_workflow('leaf'), pgqrs_create_workflow('wf', max_attempts => 2, initial_interval => '1 ms', jitter => 0)});

#
# Usage
#

is(pgqrs('--help'), 0, 'there is help');
my @subcommands = ($out =~ s/.*Sub-commands:\n//sr) =~ /^  ([a-z-]+) /mg;
is(scalar @subcommands, 24, 'which names each sub-command');
is(printed('--version'), 'pgqrs ' . sql('SELECT pgqrs_version()'), 'the version is that of the extension');

my $share = $node->config_data('--bindir') . '/../share';
ok(-s "$share/bash-completion/completions/pgqrs", 'completion is installed beside the program, where no other version of PostgreSQL puts it');
ok(-s $node->config_data('--mandir') . '/man1/pgqrs.1', 'and the page for man');

my $completion = slurp_file("$FindBin::Bin/../../cli/pgqrs.bash");
my $page = slurp_file("$FindBin::Bin/../../docs/clients/command-line.md");
my @missing;
for my $name (@subcommands)
{
	my $help = printed($name, '--help');
	my @options = $help =~ /--([a-z-]+)/g;
	my ($offered) = $completion =~ /(?<!-)\b\Q$name\E(?: \| \w+)*\) words='([^']*--[^']*)'/;
	push @missing, "completion: $name" unless $completion =~ /words='[^']*\b\Q$name\E\b/;
	push @missing, "page: $name" unless $page =~ /pgqrs \Q$name\E\b/;
	for my $option (@options)
	{
		push @missing, "page: --$option of $name" unless $page =~ /--\Q$option\E\b/ || $option eq 'help';
		push @missing, "completion: --$option of $name"
		  unless ($offered // '') =~ /--\Q$option\E\b/ || "--dbname --host --port --username --help" =~ /--\Q$option\E\b/;
	}
}
is("@missing", '', 'completion and page have each sub-command and each option');
is(`bash -c '. "$FindBin::Bin/../../cli/pgqrs.bash"; COMP_WORDS=(pgqrs re) COMP_CWORD=1; _pgqrs; echo "\${COMPREPLY[*]}"'`, "result resume replay report\n",
	'bash completes sub-commands');

is(pgqrs(), 64, 'without a sub-command it is used wrongly');
is(pgqrs('nothing'), 64, 'so it is with one that there is not');
is(pgqrs('trigger'), 64, 'without an argument');
is(pgqrs('work', '--queue', 'q'), 64, 'without an option that is needed');
is(pgqrs('work', '-q', 'q', '-x', 'true', '-j', 'many'), 64, 'with a number that is none');
like($err, qr/--concurrency is a number from 1 to 1000, not "many"/, 'which is said');
is(pgqrs('runs', '--format', 'xml'), 64, 'with a format that there is not');
is(pgqrs('step', 'a', '--', 'true'), 64, 'and outside of a command');

is(pgqrs('queues', '-h', "$dir/nowhere"), 75, 'without a server it is worth another try');
is(pgqrs('queues', '-d', 'template1'), 78, 'a database without the extension is told');
like($err, qr/database "template1" does not have the extension pgqrs/, 'by its name');
is(pgqrs('trigger', 'wf', '{'), 65, 'input that is no JSON is refused');
is(pgqrs('trigger', 'nothing'), 65, 'so is a workflow that there is not');
like($err, qr/PQ002: workflow "nothing" does not exist/, 'with its SQLSTATE');

#
# Each end of a command
#

my $main = start_worker('-q', 'q', '-q', 'wf', '-q', 'leaf', '-j', '4', '--grace', '60', '--exec', "exec $dir/command");

# Triggers a run and waits for its end; the exit code of result.
sub result_of
{
	my ($input) = @_;
	my $run = printed('trigger', 'wf', qq{"$input"});
	my $code = pgqrs('result', '--wait', '--timeout', '180 s', $run);
	return wantarray ? ($code, $run) : $code;
}

is(result_of('ok'), 0, 'exit code 0 completes a run');
is($out, '{"n": 1}', 'with the output');
is(result_of('nothing'), 0, 'without an output too');
is($out, 'null', 'which is null then');

my ($code, $run) = result_of('text');
is($code, 3, 'an output that is no JSON is an error');
is(state_of($run), 'ERROR|2|no_json', 'which is retried by the policy');
like($err, qr/the output of the command is no JSON: invalid input syntax/, 'and says so');

($code, $run) = result_of('for good');
is(state_of($run), 'ERROR|1|exit_65', 'exit code 65 ends a run for good');
like($err, qr/that is why/, 'with what the command said');
for my $end (
	[ 'typed', 'ERROR|1|declined', 'the last line of standard error may be the error' ],
	[ 'typed wrongly', 'ERROR|1|exit_65', 'but not if it is no JSON' ],
	[ 'typed absurdly', 'ERROR|1|exit_65', 'nor if it asks for another try at no time' ],
	[ 'step typed wrongly', 'ERROR|1|exit_65', 'of a step, too, it has to be JSON' ],
	[ 'typed step', 'ERROR|1|declined', 'and is the error then' ])
{
	($code, $run) = result_of($end->[0]);
	is(state_of($run), $end->[1], $end->[2]);
}
is(sql("SELECT error ->> 'message', error ->> 'status' FROM pgqrs_list_steps($run)"), 'no money|65', 'with its message');
sql(q{SELECT pgqrs_create_workflow('patient', initial_interval => '1 day', max_interval => '1 day')});
$run = printed('trigger', 'patient', '"typed later"');
my $patient = start_worker('-q', 'patient', '--exec', "exec $dir/command");
is(pgqrs('result', '--wait', '--timeout', '180 s', $run), 0, 'an error may say when the next try comes');
finish_worker($patient, 'TERM');
($code, $run) = result_of('again');
is("$code $out", '0 2', 'exit code 75 has it retried');
($code, $run) = result_of('fails');
is(state_of($run), 'ERROR|2|exit_3', 'any other code is retried by the policy');
($code, $run) = result_of('killed');
is(state_of($run), 'ERROR|2|signal_9', 'a command that is killed is too');
($code, $run) = result_of('large');
is(state_of($run), 'ERROR|2|output_too_large', 'an output of 10 MB is not kept');
($code, $run) = result_of('loud');
like(sql("SELECT length(error ->> 'message') FROM pgqrs_get_run($run)"), qr/^10[0-9]{2}$/, 'of 10 MB on standard error the end is kept');
($code, $run) = result_of('large step');
is(sql("SELECT error ->> 'type' FROM pgqrs_list_steps($run)"), 'output_too_large', 'nor is that of a step');
is(result_of('lives on'), 0, 'a command that leaves a process behind is not waited for');
ok(is_gone(pid_in('left')), 'the process is ended');
ok(log_has($main, qr/left processes behind/), 'which is said');
($code, $run) = result_of('environment');
is_deeply(JSON::PP->new->decode($out), { run => $run, attempt => 1, queue => 'wf', lease => 0 }, 'the environment says what it works on');
is(sql("SELECT count(*) FROM pgqrs_worker_stats WHERE worker = 'w1' AND status = 'READY'"), '1', 'the worker lives');

sql(q{SELECT pgqrs_enqueue('null', 'null')});
my $reader = start_worker('-q', 'null', '--until-empty', '--exec', 'cat');
finish_worker($reader);
is(slurp_file($reader->{out}), 'null', 'a payload that is null is given as such');

# Messages of a queue.
my $id = printed('enqueue', 'q', '"ok"');
my $dead = printed('enqueue', 'q', '"for good"');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_archive WHERE message_id = $id AND outcome = 'DONE'"), 'a message is archived');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_dead_letters WHERE message_id = $dead"), 'or a dead letter');
is(slurp_file($main->{out}), qq({"n":  1}\n), 'the output of its command is that of the worker');
my $letters = json('dead', 'q', '--format', 'json');
is("$letters->[0]{message_id} $letters->[0]{error}{type}", "$dead exit_65", 'dead lists it');
printed('replay', $dead);
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pgqrs_dead_letters WHERE message_id = $dead AND attempt = 1"), 'replay has it tried again');
is(printed('replay', '--queue', 'q', '--limit', '5'), '1', 'also by the name of the queue');
is(pgqrs('replay', $id), 65, 'what did not fail is not replayed');

#
# Shell workflows
#

$run = printed('trigger', 'wf', '"script"');
ok($node->poll_query_until('postgres', "SELECT status = 'PAUSED' AND waiting_for = 'signal approved' FROM pgqrs_get_run($run)"),
	'a script waits for a signal without a lease');
is(pgqrs('result', $run), 5, 'a run that has not ended has no result');
printed('signal', $run, 'approved', '[1]');
is(pgqrs('result', '--wait', $run), 0, 'the script ends well');
is($out, '{"word": "two  words", "signal": [1]}', 'with what its steps printed');
is(slurp_file("$dir/words"), "w\n", 'a step ran once');
cmp_ok(scalar(() = slurp_file("$dir/starts") =~ /x/g), '>', 1, 'in a script that began several times');
is(slurp_file("$dir/number2"), slurp_file("$dir/number1"), 'the output of a step is the same ever after');
wait_until(sub { -s "$dir/parked" });
is(slurp_file("$dir/parked"), "79 79\n", 'a sub-command that gave the lease up exits with 79, and so do those after it');
my $shown = json('run', $run, '--format', 'json');
is(join(' ', map { "$_->{step_id}:$_->{status}" } grep { $_->{kind} eq 'FUNCTION' } @{ $shown->{steps} }),
	'word:SUCCESS number:SUCCESS nothing:SUCCESS last:SUCCESS', 'run shows its steps');

# Children, a pause, and SQL that commits with its step.
sql('CREATE TABLE written (run_id bigint)');
$run = printed('trigger', 'wf', '"family"');
ok($node->poll_query_until('postgres', "SELECT waiting_for = 'pause note' AND progress = '\"half\"' FROM pgqrs_get_run($run)"),
	'a script has children, shows how far it is, and pauses');
is(printed('resume', $run, 'note', '"well done"'), 'true', 'it is resumed');
is(pgqrs('result', '--wait', $run), 0, 'and goes on');
is($out, '{"kid": 1, "row": 7, "code": 3, "kids": [2, 1], "note": "well done", "first": {"name": "kid", "source": "child",'
	  . ' "payload": {"error": null, "output": 1, "status": "SUCCESS"}}}', 'with what each sub-command has printed');
is(sql("SELECT count(*) FROM written WHERE run_id = $run"), '1', 'what a step writes as SQL is there once');
($code, $run) = result_of('sad family');
is(state_of($run), 'ERROR|3|exit_65', 'the error of a child is that of its parent');

($code, $run) = result_of('long id');
is(state_of($run), 'ERROR|1|exit_65', 'a step id over 255 bytes is refused for good');
like($err, qr/22023/, 'which is said');
($code, $run) = result_of('no program');
is(sql("SELECT status, error ->> 'type', error ->> 'status' FROM pgqrs_list_steps($run)"), 'ERROR|not_started|127', 'so is a program that there is not');
($code, $run) = result_of('no json');
is(sql("SELECT error ->> 'type' FROM pgqrs_list_steps($run)"), 'no_json', 'the output of a step is JSON');
($code, $run) = result_of('no json of sql');
is(sql("SELECT error ->> 'type' FROM pgqrs_list_steps($run)"), 'no_json', 'so is what SQL of a step ends with');
($code, $run) = result_of('copy');
is(sql("SELECT error ->> 'type', failures FROM pgqrs_list_steps($run)"), '0A000|1', 'SQL that copies from the client is refused for good');
is(sql('SELECT count(*) FROM written WHERE run_id = 1'), '0', 'what either has written is not there');
for my $end ('ROLLBACK', 'ROLLBACK AND CHAIN', 'COMMIT', 'COMMIT; BEGIN', 'COMMIT AND CHAIN', 'END; SELECT 1 / 0', q{PREPARE TRANSACTION 'x'; BEGIN},
	'COMMIT; SELECT pg_terminate_backend(pg_backend_pid())')
{
	($code, $run) = result_of("sql INSERT INTO written VALUES (2); $end");
	is(sql("SELECT error ->> 'type', failures FROM pgqrs_list_steps($run)"), '0A000|1', "SQL that ends its transaction is refused for good: $end");
}
is(sql('SELECT (SELECT count(*) FROM written WHERE run_id = 2), (SELECT count(*) FROM pg_prepared_xacts)'), '0|0',
	'and can have committed nothing, so that a COMMIT whose answer is lost may be repeated');
like(sql("SELECT error ->> 'message' FROM pgqrs_list_steps($run)"), qr/leave out COMMIT/, 'it is told what to do');
is(result_of('sql SAVEPOINT s; PREPARE p AS SELECT 1; RELEASE s; EXECUTE p'), 0, 'SQL that does not goes well');
($code, $run) = result_of('sql SAVEPOINT s; SELECT 2; ROLLBACK TO s; SELECT 3; -- done');
is("$code $out", '0 3', 'also if it goes back to a savepoint, and has a comment at its end');
is(result_of('sql '), 0, 'or nothing but that');
for my $state (qw(57014 53200 25006 55P03))
{
	($code, $run) = result_of("sql DO 'BEGIN RAISE USING ERRCODE = ''$state''; END'");
	is(sql("SELECT error ->> 'type', failures FROM pgqrs_list_steps($run)"), "$state|2", "$state of the SQL of a step is a failure of it");
}
sql('CREATE SEQUENCE tries');
for my $what (q{RAISE USING ERRCODE = ''40001''}, q{RAISE USING ERRCODE = ''40P01''}, 'PERFORM pg_terminate_backend(pg_backend_pid())')
{
	($code, $run) = result_of("sql DO 'BEGIN IF nextval(''tries'') % 2 = 1 THEN $what; END IF; END'; SELECT 3");
	is("$out " . state_of($run), '3 SUCCESS|1|', "SQL is repeated after $what");
}
($code, $run) = result_of('zero byte');
is(state_of($run), 'ERROR|2|22021', 'an output with a zero byte is not cut');
($code, $run) = result_of('zero byte of a step');
is(sql("SELECT error ->> 'type', error ->> 'message' FROM pgqrs_list_steps($run)"), '22021|the output has a zero byte', 'nor is that of a step');
($code, $run) = result_of('fails while it sleeps');
is(state_of($run), 'SUCCESS|2|', 'a script that fails after it gave its lease up has not failed');
is(result_of('optional'), 0, 'a script goes on after an optional step');
is($out, '7', 'with its exit code');
is(result_of('step retried'), 0, 'a step that fails is retried');
is($out, '0', 'and its script begins again');
is(result_of('no signal'), 0, 'a wait for a signal ends after its time-out');
is($out, '5', 'with another exit code');

#
# Cancelled, lost, killed, drained
#

sub wait_for_command { my ($run) = @_; return pid_in("waits$run") }

$run = printed('trigger', 'wf', '"waits"');
my $pid = wait_for_command($run);
is(printed('cancel', $run, 'not needed'), 'RUNNING', 'a run that is worked on is asked to stop');
is(pgqrs('result', '--wait', $run), 4, 'it is cancelled');
ok(is_gone($pid), 'and its command has ended');

my $strict = start_worker('-q', 'stubborn', '--grace', '1', '--exec', "exec $dir/command");
$run = printed('trigger', 'stubborn', '"stays"');
$pid = pid_in('stays');
printed('cancel', $run);
is(pgqrs('result', '--wait', $run), 4, 'a command that ignores SIGTERM does not keep a run');
ok(is_gone($pid), 'it is killed after the grace');
finish_worker($strict, 'TERM');

$run = printed('trigger', 'wf', '"cancelled script"');
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pgqrs_list_steps($run)"), 'a script is at work');
printed('cancel', $run);
is(pgqrs('result', '--wait', $run), 4, 'a script that exits with 0 after a cancel is cancelled');
is(pid_in('code'), '80', 'its sub-commands have exited with 80');

$run = printed('trigger', 'wf', '"waits"');
$pid = wait_for_command($run);
sql("SELECT pgqrs_set_visibility($run, clock_timestamp())");
is(pgqrs('result', '--wait', $run), 0, 'a run whose lease was revoked is worked on again');
is($out, '2', 'by a second command');
ok(is_gone($pid), 'and the first one has ended');
ok(log_has($main, qr/run $run: its lease is gone/), 'which is said');

# A command that is killed from outside, and no zombie of all that came before.
$run = printed('trigger', 'wf', '"waits"');
kill 'KILL', wait_for_command($run);
is(pgqrs('result', '--wait', $run), 0, 'a command that is killed is tried again');
ok(wait_until(sub { slurp_file("/proc/$main->{pid}/task/$main->{pid}/children") !~ /\d/ }), 'the worker has no child any more, and no zombie');

# The server restarts under a command.
$run = printed('trigger', 'wf', '"is let go"');
pid_in("holds$run");
$node->restart;
append_to_file("$dir/go$run", '');
is(pgqrs('result', '--wait', $run), 0, 'what ended while the server restarted is told to it');
is(state_of($run), 'SUCCESS|1|', 'nothing is repeated');

# Drained by SIGTERM.
$run = printed('trigger', 'wf', '"is let go"');
pid_in("holds$run");
kill 'TERM', $main->{pid};
ok($node->poll_query_until('postgres', "SELECT status = 'SUSPENDED' FROM pgqrs_worker_stats WHERE worker = 'w1'"), 'SIGTERM suspends the worker');
my $later = printed('trigger', 'wf', '"ok"');
append_to_file("$dir/go$run", '');
is(finish_worker($main), 0, 'the worker ends when its command has ended');
is(sql("SELECT status FROM pgqrs_get_run($run)"), 'SUCCESS', 'which was told to the server');
is(sql("SELECT status FROM pgqrs_get_run($later)"), 'QUEUED', 'nothing new was begun');
unlike(slurp_file($main->{log}), qr/PQ014/, 'it ended by itself');
is(finish_worker(start_worker('-q', 'wf', '--until-empty', '--exec', "exec $dir/command")), 0, 'a worker ends when nothing is due');
is(sql("SELECT status FROM pgqrs_get_run($later)"), 'SUCCESS', 'having done what was');

# One signal, and two.
my $worker = start_worker('-q', 'wf', '--grace', '1', '--exec', "exec $dir/command");
$run = printed('trigger', 'wf', '"waits"');
$pid = wait_for_command($run);
is(finish_worker($worker, 'TERM'), 0, 'a worker ends when the grace of its commands is over');
ok(is_gone($pid), 'a command that has not come to its end by then is told to end');
is(sql("SELECT failures, crashes, (SELECT lease IS NULL FROM pgqrs_messages WHERE message_id = $run) FROM pgqrs_get_run($run)"),
	'0|0|t', 'and what it worked on is given back without a failure');
printed('cancel', $run);

$worker = start_worker('-q', 'wf', '--grace', '600', '--exec', "exec $dir/command");
$run = printed('trigger', 'wf', '"waits"');
wait_for_command($run);
kill 'TERM', $worker->{pid};
ok($node->poll_query_until('postgres', "SELECT status = 'SUSPENDED' FROM pgqrs_worker_stats WHERE worker = '$worker->{name}'"), 'a worker is drained');
is(finish_worker($worker, 'TERM'), 0, 'a second signal ends its commands');
is(sql("SELECT failures, crashes, (SELECT lease IS NULL FROM pgqrs_messages WHERE message_id = $run) FROM pgqrs_get_run($run)"),
	'0|0|t', 'what they worked on is given back without a failure');

# Killed, and superseded.
$worker = start_worker('-q', 'wf', '--exec', "exec $dir/command");
my $waits = printed('trigger', 'wf', '"waits"');
$pid = wait_for_command($waits);
finish_worker($worker, 'KILL');
ok(is_gone($pid), 'a worker that is killed takes its commands with it');
$workers--;
$worker = start_worker('-q', 'wf', '--exec', "exec $dir/command");
is(pgqrs('result', '--wait', $waits), 0, 'one of the same name goes on');
sql("SELECT pgqrs_register_worker('$worker->{name}', '{wf}')");
is(finish_worker($worker), 1, 'a worker that is superseded ends');
like(slurp_file($worker->{log}), qr/PQ014/, 'and says why');

# Input that its command does not read.
sql(q{SELECT pgqrs_enqueue('large', to_jsonb(repeat('x', 1000000)))});
$worker = start_worker('-q', 'large', '--until-empty', '--exec', 'exec true');
is(finish_worker($worker), 0, 'a command need not read its input');
like(slurp_file($worker->{log}), qr/did not read all of its input/, 'which is said');
is(sql("SELECT outcome FROM pgqrs_archive WHERE queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = 'large')"), 'DONE', 'the message is archived');

sql(q{SELECT pgqrs_enqueue('large', to_jsonb(repeat('x', 1000000)))});
is(finish_worker(start_worker('-q', 'large', '--until-empty', '--exec', 'exec 0<&-; sleep 0.1')), 0, 'it may close it');
is(sql("SELECT count(*) FROM pgqrs_archive WHERE outcome = 'DONE' AND queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = 'large')"), '2', 'which is no failure');

# A process left behind that does not heed SIGTERM.
sql(q{SELECT pgqrs_create_queue('daemons'), pgqrs_enqueue('daemons', '1')});
my $log_size = -s $node->logfile;
$worker = start_worker('-q', 'daemons', '--grace', '1', '--until-empty', '--exec', q{trap '' TERM; sleep 1000 & echo $! > "$TEST_DIR/daemon"});
is(finish_worker($worker), 0, 'a worker waits for what is left behind');
ok(is_gone(pid_in('daemon')), 'and kills it after the grace');
is(scalar(() = slurp_file($node->logfile, $log_size) =~ /SELECT pgqrs_stop_worker/g), 1, 'it calls nothing again meanwhile');

# A command that there is not.
sql(q{SELECT pgqrs_create_workflow('nothing there', max_attempts => 1)});
$run = printed('trigger', 'nothing there');
is(finish_worker(start_worker('-q', 'nothing there', '--until-empty', '--exec', 'no-such-command')), 0, 'a worker whose command is not there lives');
is(state_of($run), 'ERROR|1|exit_127', 'and the error of the run says so');

# Many at once, most of which end together; of some the output is refused.
sql(q{SELECT pgqrs_create_workflow('many', max_attempts => 1), pgqrs_trigger_batch('many', array_agg(to_jsonb(n))) FROM generate_series(1, 60) AS n});
sql(q{SELECT pgqrs_create_queue('mails'), pgqrs_enqueue_batch('mails', array_agg(to_jsonb(n))) FROM generate_series(1, 40) AS n});
is(finish_worker(start_worker('-q', 'many', '-q', 'mails', '-j', '8', '--until-empty', '--exec', 'read -r n; case $n in *5) echo no ;; *) echo "{\"n\": $n}" ;; esac')),
	0, 'a worker with eight commands at once ends when nothing is left');
is(sql(q{SELECT count(*), count(*) FILTER (WHERE status = 'ERROR' AND error ->> 'type' = 'no_json'), count(*) FILTER (WHERE output -> 'n' = input)
	FROM pgqrs_runs WHERE workflow = 'many'}), '60|6|54', 'each run has ended by its own output');
is(sql(q{SELECT count(*), max(attempt) FROM pgqrs_archive WHERE outcome = 'DONE' AND queue_id = (SELECT queue_id FROM pgqrs_queues WHERE name = 'mails')}),
	'40|1', 'and each message by its own end');

#
# A database that is not as it should be
#

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{CREATE SCHEMA "Odd schema"; CREATE EXTENSION pgqrs SCHEMA "Odd schema"; SET search_path = "Odd schema";
	SELECT pgqrs_create_workflow('wf'), pgqrs_trigger('wf', '"ok"')});
$node->safe_psql('other', q{UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'pgqrs';
	ALTER DATABASE other SET default_transaction_read_only = on});
is(pgqrs('runs', '-d', 'other'), 78, 'an extension that is older is told');
like($err, qr/is version 0.0.9, older than/, 'with its version');
$worker = start_worker('-d', 'dbname=other', '-q', 'wf', '--exec', 'cat');
ok(log_has($worker, qr/is version 0.0.9, older than/), 'a worker tells so, and lives');
$node->safe_psql('other', q{SET default_transaction_read_only = off; UPDATE pg_extension SET extversion = v.version
	FROM "Odd schema".pgqrs_version() AS v (version) WHERE extname = 'pgqrs'});
ok(log_has($worker, qr/read-only transaction/), 'and that the database is read-only');
is(pgqrs('trigger', '-d', 'other', 'wf'), 75, 'which is worth another try');
like($err, qr/25006/, 'by its SQLSTATE');
$node->safe_psql('postgres', 'ALTER DATABASE other RESET default_transaction_read_only');
ok($node->poll_query_until('other', q{SELECT count(*) = 1 FROM "Odd schema".pgqrs_runs WHERE status = 'SUCCESS'}), 'and goes on when it is not any more');
cmp_ok(scalar(() = slurp_file($worker->{log}) =~ /read-only transaction/g), '<=', 2, 'each of its connections says so once');
is(finish_worker($worker, 'INT'), 0, 'SIGINT drains it too');

#
# Lists
#

is_deeply([ map { $_->{queue} } @{ json('queues', '-f', 'json') } ], [ 'daemons', 'large', 'leaf', 'mails', 'many', 'nothing there', 'null', 'patient', 'q', 'stubborn', 'wf' ], 'queues lists them');
is(scalar @{ json('runs', 'wf', '--status', 'CANCELLED', '--limit', '2', '-f', 'json') }, 2, 'runs lists some');
like(printed('runs'), qr/ run_id +\| workflow/, 'as a table');
is(json('why', 'mails', '-f', 'json')->[0]{reason}, 'no worker', 'why tells the reason why a queue stands still');
like(printed('run', $run), qr/^run_id +\| $run$/m, 'run shows one');
like(printed('top'), qr/Queues.*\n.*queue.*Workers.*In flight/s, 'top shows all');
like(printed('report'), qr/<html/, 'report prints a page');
like(printed('report', $run), qr/<html/, 'also of a run');
is(json('result', $run, '--format', 'json')->{run_id}, $run, 'result prints JSON') if pgqrs('result', $run) == 0;
is(pgqrs('run', '1e'), 65, 'an id that is no number is refused');

is_well($node, 'after all of this');
$node->stop;
done_testing();
