# pgqrs web: the rules of its safety, each with a request that breaks it; actions; what
# a role may read; its pages in a browser, at two widths, light and dark; and every action
# by the keyboard alone.
use strict;
use warnings;

use Browser;
use Cwd qw(abs_path);
use FindBin;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

IPC::Run::run([ 'pgqrs', 'web', '--listen', 'nonsense' ], '<', '/dev/null', '2>', \my $built);
plan skip_all => 'pgqrs was built without libmicrohttpd' if $built =~ /without libmicrohttpd/;

my $node = new_node('web', "fsync = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

sub sql { return $node->safe_psql('postgres', $_[0]) }

IPC::Run::run([ 'psql', '-XAtqd', $node->connstr('postgres'), '-v', 'ON_ERROR_STOP=1', '-f', "$FindBin::Bin/../pgtap/include/busy.sql" ],
	'<', '/dev/null') or die 'the database cannot be filled';
sql(q{SELECT pgqrs_create_workflow('mine.w'), pgqrs_trigger('mine.w') FROM generate_series(1, 7);
	CREATE ROLE reader LOGIN; SELECT pgqrs_grant('mine.*', 'reader', 'read')});
sql(q{CREATE ROLE tenant LOGIN; SELECT pgqrs_grant('mine.*', 'tenant', 'trigger')});
my $run = sql(q{SELECT min(run_id) FROM pgqrs_runs WHERE workflow = 'mine.w'});

my @servers;

# Starts a server; it has the process, the address that it printed, and what it said.
sub start
{
	my (%options) = @_;
	my $server = { out => '', err => '', listen => $options{listen} // '127.0.0.1:0' };
	local @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', $options{user} // getpwuid($>) . '');
	delete $ENV{PGUSER} unless $options{user};
	$server->{run} = IPC::Run::start([ 'pgqrs', 'web', '--listen', $server->{listen}, @{ $options{arguments} // [] } ],
		'<', '/dev/null', '>', \$server->{out}, '2>', \$server->{err}, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$server->{run}->pump until $server->{out} =~ /\n/ || !$server->{run}->pumpable;
	@$server{qw(host token)} = $server->{out} =~ m{http://(.*?)/\?token=([0-9a-f]{48})$} or die "no address: $server->{out}$server->{err}";
	($server->{port}) = "$server->{listen} $server->{host}" =~ /:([1-9]\d*)(?:$| )/;
	push @servers, $server;
	return $server;
}

# Sends a request, with the right host and cookie unless told otherwise, and reads the answer.
sub request
{
	my ($server, $method, $path, %options) = @_;
	my $socket = $server->{listen} =~ m{/} ? IO::Socket::UNIX->new(Peer => $server->{listen})
		: IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->{port});
	die "cannot connect: $!" unless $socket;
	my $cookie = $options{cookie} // ($server->{port} ? "pgqrs_$server->{port}" : 'pgqrs') . "=$server->{token}";
	my @headers = ($cookie ? "Cookie: $cookie" : (), 'Connection: close', @{ $options{headers} // [] });
	my $host = exists $options{host} ? $options{host} : $server->{host};
	unshift @headers, "Host: $host" if defined $host;
	push @headers, 'Content-Type: ' . ($options{type} // 'application/x-www-form-urlencoded'), 'Content-Length: ' . length($options{body})
		if defined $options{body};
	my $text = join("\r\n", "$method $path HTTP/1." . (defined $host ? 1 : 0), @headers, '', $options{body} // '');
	local $SIG{PIPE} = 'IGNORE';
	$socket->syswrite($text);
	my $answer = '';
	while (IO::Select->new($socket)->can_read($PostgreSQL::Test::Utils::timeout_default))
	{
		last unless $socket->sysread($answer, 65536, length $answer);
	}
	my ($head, $body) = split /\r\n\r\n/, $answer, 2;
	my ($status) = ($head // '') =~ m{^HTTP/1\.\d (\d+)};
	my %header = map { /^([^:]+): (.*)/ ? (lc $1 => $2) : () } split /\r\n/, $head // '';
	return { status => $status // 0, header => \%header, body => $body // '' };
}

# Sends any bytes, and reads all that the server answers.
sub raw
{
	my ($server, $bytes) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->{port});
	my $answer = '';
	local $SIG{PIPE} = 'IGNORE';
	$socket->syswrite($bytes);
	shutdown $socket, 1;
	while (IO::Select->new($socket)->can_read($PostgreSQL::Test::Utils::timeout_default))
	{
		last unless $socket->sysread($answer, 65536, length $answer);
	}
	return $answer;
}

sub get { my ($server, $path, %options) = @_; return request($server, 'GET', $path, %options) }

# The secret of the forms, from a form.
sub csrf
{
	my ($server) = @_;
	my ($secret) = get($server, "/do?action=cancel&run=$run")->{body} =~ /name="csrf" value="([0-9a-f]{48})"/ or die 'no secret in the form';
	return $secret;
}

sub post
{
	my ($server, $fields, %options) = @_;
	return request($server, 'POST', $options{path} // '/do', %options, body => $options{body} // $fields);
}

my $server = start(arguments => ['--actions']);
my $reading = start();
my %pages = (overview => '/', queues => '/queues', queue => '/queue?queue=thumbnails', runs => '/runs', 'live runs' => '/runs?status=live',
	run => '/run?run=' . sql(q{SELECT min(run_id) FROM pgqrs_runs WHERE workflow LIKE 'parcel%'}), workers => '/workers', schedules => '/schedules',
	dead => '/dead', form => "/do?action=signal&run=$run", many => '/do?action=cancel_runs&workflow=mine.w');

# The token
for my $page (sort values %pages, '/style.css', '/nothing')
{
	is(get($server, $page, cookie => '')->{status}, 403, "without the token there is no page: $page");
}
is(get($server, '/', cookie => "pgqrs_$server->{port}=" . ('0' x 48))->{status}, 403, 'another token is refused');
is(get($server, '/', cookie => "pgqrs_$server->{port}=" . substr($server->{token}, 0, 47))->{status}, 403, 'a part of the token is refused');
is(get($server, '/', cookie => "pgqrs_$reading->{port}=$reading->{token}")->{status}, 403, 'the token of another server is refused');
is(get($server, '/?token=' . ('0' x 48), cookie => '')->{status}, 403, 'an address with another token is refused');
is(post($server, "action=cancel&run=$run&token=$server->{token}", cookie => '')->{status}, 403, 'an action needs the cookie');
my $answer = get($server, "/?token=$server->{token}", cookie => '');
is($answer->{status}, 303, 'the address with the token leads to a page without it');
is($answer->{header}{location}, '.', 'the address that follows has no token');
is($answer->{header}{'set-cookie'}, "pgqrs_$server->{port}=$server->{token}; HttpOnly; SameSite=Strict; Path=/",
	'the cookie is kept from scripts and other sites');
for my $name (sort keys %pages)
{
	my $page = get($server, $pages{$name});
	is($page->{status}, 200, "with the token there is a page: $name");
	unlike($page->{body}, qr/$server->{token}/, "the page does not have the token: $name");
}

# The name of the server
for my $host ('evil.example', "evil.example:$server->{port}", '127.0.0.1', "127.0.0.1.evil.example:$server->{port}", '', undef)
{
	is(get($server, '/', host => $host)->{status}, 421, 'a request to another name is refused: ' . ($host // 'none'));
	is(get($server, "/?token=$server->{token}", host => $host, cookie => '')->{status}, 421, 'also with the token: ' . ($host // 'none'));
}
is(get($server, '/', host => "localhost:$server->{port}")->{status}, 200, 'localhost is a name of the loopback address');

# Headers of every response
for my $response ([ 'a page', get($server, '/') ], [ 'the style', get($server, '/style.css') ], [ 'no token', get($server, '/', cookie => '') ],
	[ 'no such page', get($server, '/nothing') ], [ 'no such run', get($server, '/run?run=1') ], [ 'another host', get($server, '/', host => 'x') ],
	[ 'another method', request($server, 'PUT', '/') ])
{
	my ($name, $r) = @$response;
	like($r->{header}{'content-security-policy'}, qr/^default-src 'none'; style-src 'self'; form-action 'self';/, "the browser is told to load nothing else: $name");
	is($r->{header}{'cache-control'}, 'no-store', "the browser is told to keep nothing: $name");
	is($r->{header}{'x-content-type-options'}, 'nosniff', "the browser is told to take the type as it is: $name");
	is($r->{header}{'x-frame-options'}, 'DENY', "the browser is told to frame nothing: $name");
}

# Methods
for my $method (qw(PUT DELETE OPTIONS PATCH))
{
	is(request($server, $method, '/')->{status}, 405, "the method is refused: $method");
}
is(request($server, 'HEAD', '/')->{status}, 200, 'HEAD is answered');
is(request($server, 'HEAD', '/')->{body}, '', 'HEAD is answered without a page');
is(request($server, 'POST', '/runs', body => 'a=1')->{status}, 405, 'a page cannot be posted to');

# Actions
my $secret = csrf($server);
my $cancel = "action=cancel&run=$run";
my $status_of_run = "SELECT status FROM pgqrs_get_run($run)";
is(post($server, $cancel)->{status}, 403, 'an action without the secret of a form is refused');
is(post($server, "$cancel&csrf=" . ('0' x 48))->{status}, 403, 'an action with another secret is refused');
is(post($server, "$cancel&csrf=$server->{token}")->{status}, 403, 'the token is not the secret of a form');
is(post($server, "$cancel&csrf=${secret}0")->{status}, 403, 'a secret with something added is refused');
is(post($server, "$cancel&csrf=$secret", headers => ['Sec-Fetch-Site: cross-site'])->{status}, 403, 'an action from another site is refused');
is(post($server, "{\"action\": \"cancel\", \"csrf\": \"$secret\"}", type => 'application/json')->{status}, 415, 'an action that is no form is refused');
is(get($server, "/do?$cancel&csrf=$secret")->{status}, 200, 'an address shows the form of an action');
is(sql($status_of_run), 'QUEUED', 'nothing of that has changed the run');
is(post($reading, "$cancel&csrf=$secret")->{status}, 405, 'without --actions there are none');
unlike(get($reading, "/run?run=$run")->{body}, qr/<form|class="act"/, 'without --actions a page offers none');
is(get($reading, "/do?$cancel")->{status}, 404, 'without --actions there is no form');
$answer = post($server, "$cancel&reason=%3Cb%3E+%27x%27&csrf=$secret", headers => ['Sec-Fetch-Site: same-origin']);
is($answer->{status}, 200, 'an action of a form is done');
is(sql("$status_of_run"), 'CANCELLED', 'the action has changed the run');
is(sql("SELECT cancel_reason FROM pgqrs_get_run($run)"), q{<b> 'x'}, 'the action had the fields of the form');
like($answer->{body}, qr/SELECT \* FROM public.pgqrs_cancel_run\(run_id =&gt; $run, reason =&gt; &#39;&lt;b&gt; &#39;&#39;x&#39;&#39;&#39;\)/,
	'the answer shows the SQL that was run');
like($answer->{body}, qr/pgqrs_cancel_run: CANCELLED/, 'the answer shows the result');
$answer = post($server, "action=cancel&run=99999999&csrf=$secret");
is($answer->{status}, 404, 'an action on a run that does not exist is answered so');
like($answer->{body}, qr/PQ003/, 'the answer shows the error');
is(post($server, "action=drop&run=$run&csrf=$secret")->{status}, 400, 'an action that is none is refused');
is(post($server, "action=cancel_runs&workflow=mine.w&matching=6&number=5&csrf=$secret")->{status}, 400,
	'many are changed only with the number that was asked for');
is(sql(q{SELECT count(*) FROM pgqrs_live_runs WHERE workflow = 'mine.w'}), 6, 'without it none is changed');
$answer = post($server, "action=cancel_runs&workflow=mine.w&matching=5&number=5&csrf=$secret");
is($answer->{status}, 400, 'a number that has changed since the form was made is refused');
like($answer->{body}, qr/not the number of those that match now/, 'the answer says that the number has changed');
like($answer->{body}, qr/<strong>6<\/strong> runs match now.*name="matching" value="6"/s, 'the form asks for the new number');
is(sql(q{SELECT count(*) FROM pgqrs_live_runs WHERE workflow = 'mine.w'}), 6, 'with the old number none is changed');
is(post($server, "action=cancel_runs&workflow=mine.w&matching=6&number=6&csrf=$secret")->{status}, 200, 'with the number it is done');
is(sql(q{SELECT count(*) FROM pgqrs_live_runs WHERE workflow = 'mine.w'}), 0, 'with the number all are changed');
is(post($server, "action=pause_queue&queue=mine.w&csrf=$secret")->{status}, 200, 'a queue is paused');
is(sql(q{SELECT paused_at IS NOT NULL FROM pgqrs_queues_list WHERE queue = 'mine.w'}), 't', 'the queue was paused');
is(post($server, "action=signal&run=$run&signal=" . ('x' x (5 * 1024 * 1024)) . "&csrf=$secret")->{status}, 413, 'a form that is too large is refused');
is(get($server, "/runs?workflow=%FF")->{status}, 400, 'text that is no UTF-8 is refused');
is(get($server, '/run?run=x')->{status}, 400, 'a run that is no number is refused');

# Many at once, and a mended payload
sql(q{SELECT pgqrs_create_queue('mine.q'), pgqrs_enqueue('mine.q', to_jsonb(n)) FROM generate_series(1, 4) AS n;
	SELECT pgqrs_nack_message(message_id, lease, '{"type": "e"}', retryable => false) FROM pgqrs_dequeue('mine.q', batch_size => 4)});
my $letter = sql(q{SELECT min(message_id) FROM pgqrs_dead_letters WHERE queue = 'mine.q'});
my $letters = q{SELECT count(*) FROM pgqrs_dead_letters WHERE queue = 'mine.q'};
$answer = post($server, "action=replay&message=$letter&payload=%7B%22a%22&csrf=$secret");
is($answer->{status}, 400, 'a payload that is no JSON is refused');
like($answer->{body}, qr/22P02.*json.*<textarea name="payload"[^>]*>\{&quot;a&quot;<\/textarea>/s, 'the answer shows the error, and the form with the payload');
is(sql($letters), 4, 'a payload that is no JSON replays nothing');
is(post($server, "action=replay&message=$letter&payload=%7B%22mended%22%3A+1%7D&csrf=$secret")->{status}, 200, 'a dead letter is replayed with another payload');
is(sql(q{SELECT payload FROM pgqrs_peek('mine.q')}), '{"mended": 1}', 'the message has the new payload');
my $failed = q{SELECT count(*) FROM pgqrs_runs WHERE workflow = 'ship_order' AND status = 'ERROR'};
my $tenant = start(user => 'tenant', arguments => ['--actions']);
my ($tenants_secret) = get($tenant, "/do?action=rerun&run=$run")->{body} =~ /name="csrf" value="([0-9a-f]{48})"/;
for my $case ([ 'replay_queue', 'queue=mine.q', $letters, 0 ], [ 'rerun_runs', 'workflow=ship_order', q{SELECT count(*) FROM pgqrs_runs WHERE rerun_of IS NOT NULL AND workflow = 'ship_order'}, 8 ],
	[ 'replay_runs', 'workflow=ship_order', $failed, 0 ], [ 'cancel_runs', 'workflow=ship_order', q{SELECT count(*) FROM pgqrs_live_runs WHERE workflow = 'ship_order'}, 0 ])
{
	my ($action, $filter, $count, $after) = @$case;
	my ($number) = get($server, "/do?action=$action&$filter")->{body} =~ /<strong>(\d+)<\/strong> \S+ \S*\s?match now/;
	my $more = $number + 1;
	my $before = sql($count);
	is(post($server, "action=$action&$filter&matching=$more&number=$more&csrf=$secret")->{status}, 400, "a number that is not that of those that match is refused: $action");
	is(post($server, "action=$action&$filter&matching=$number&number=$number")->{status}, 403, "without the secret of a form many are not changed: $action");
	$answer = post($tenant, "action=$action&$filter&matching=$number&number=$number&csrf=$tenants_secret");
	like($answer->{status}, qr/^40[034]$/, "a role that may not is refused: $action");
	is(sql($count), $before, "nothing of that has changed any: $action");
	$answer = post($server, "action=$action&$filter&matching=$number&number=$number&csrf=$secret");
	is($answer->{status}, 200, "with its number it is done: $action");
	is(sql($count), $after, "all that matched were changed: $action");
}

# The end of a request, its size, and clients that are slow
my $token_cookie = "Cookie: pgqrs_$server->{port}=$server->{token}\r\n";
my $smuggled = "GET /style.css HTTP/1.1\r\nHost: $server->{host}\r\n${token_cookie}\r\n";
for my $headers ([ 'Transfer-Encoding: chunked', "0\r\n\r\n$smuggled" ], [ 'Content-Length: 5', "a=b&c$smuggled" ],
	[ "Content-Length: 0\r\nContent-Length: 5", "a=b&c$smuggled" ], [ "Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n$smuggled" ],
	[ "Host: $server->{host}", $smuggled ])
{
	my $text = raw($server, "POST /do HTTP/1.1\r\nHost: $server->{host}\r\n$headers->[0]\r\n\r\n$headers->[1]");
	unlike($text, qr/text\/css/, 'what follows a request that is refused is no request: ' . $headers->[0] =~ s/\r\n/, /r);
}
for my $request ("GET / HTTP/1.1\r\nHost: $server->{host}\r\nHost: evil.example\r\n${token_cookie}\r\n",
	"POST /do HTTP/1.1\r\nHost: $server->{host}\r\n${token_cookie}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: $server->{host}\r\n${token_cookie}X: " . ('x' x 100_000) . "\r\n\r\n",
	'GET /?' . ('x' x 100_000) . " HTTP/1.1\r\nHost: $server->{host}\r\n${token_cookie}\r\n")
{
	like(raw($server, $request), qr/^(?:HTTP\/1\.1 4|$)/, 'a request with an unclear end or too large a head is refused: ' . substr($request, 0, 6));
}
my @slow = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->{port}) } 1 .. 150;
$_->syswrite("GET / HTTP/1.1\r\nHost: ") for @slow;
is(get($server, '/style.css')->{status}, 200, 'clients that do not end their requests keep no other from being served');
is(scalar(grep { IO::Select->new($_)->can_read($PostgreSQL::Test::Utils::timeout_default) } @slow[ 0 .. 39 ]), 40, 'the first of too many clients are closed');

# Nothing of a page can write
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgqrs web'}) <= 8, 1, 'two servers have at most 8 connections');
my $limited = start();
my @sockets = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $limited->{port}) } 1 .. 12;
$_->syswrite("GET / HTTP/1.1\r\nHost: $limited->{host}\r\nCookie: pgqrs_$limited->{port}=$limited->{token}\r\nConnection: close\r\n\r\n") for @sockets;
my $served = grep { my $socket = $_; my $text = ''; 1 while $socket->sysread($text, 65536, length $text); $text =~ m{^HTTP/1.1 200} } @sockets;
is($served, 12, 'twelve requests at once are served');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgqrs web'}) <= 12, 1, 'a server has at most 4 connections');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgqrs web'});
is(get($server, '/workers')->{status}, 200, 'a connection that was lost is made again');
$node->restart;
is(scalar(grep { get($server, '/style.css')->{status} == 200 } 1 .. 12), 12, 'pages are there again after a restart of the database');
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE pgqrs_queues');
is(get($server, '/queues')->{status}, 504, 'a page that takes longer than 5 s is given up');
$locker->quit;

# What a role may read
my $reader = start(user => 'reader', arguments => ['--actions']);
my $hidden = sql(q{SELECT min(run_id) FROM pgqrs_runs WHERE workflow = 'ship_order'});
sub without_ids { my ($r) = @_; return $r->{body} =~ s/\d+//gr }
for my $pair ([ "/run?run=$hidden", '/run?run=99999999' ], [ '/queue?queue=mail', '/queue?queue=liam' ])
{
	my ($there, $missing) = map { get($reader, $_) } @$pair;
	is($there->{status}, 404, "the role may not read it: $pair->[0]");
	is(without_ids($there) =~ s/mail/liam/gr, without_ids($missing), "that is as if it did not exist: $pair->[0]");
}
my $gone = sql(q{SELECT max(run_id) FROM pgqrs_runs WHERE workflow = 'ship_order' AND status = 'SUCCESS'});
like(get($server, '/runs?status=SUCCESS&workflow=ship_order')->{body}, qr/"run\?run=$gone"/, 'a list has the run');
sql("DELETE FROM pgqrs_workflow_runs WHERE run_id = $gone");
my ($page_of_gone, $absent) = map { get($server, "/run?run=$_") } $gone, 99999999;
is($page_of_gone->{status}, 404, 'a run that was removed after the list was made is not found');
is(without_ids($page_of_gone), without_ids($absent), 'that is as if it had never existed');
# a child and a rerun that belong to others
sql(qq{SELECT pgqrs_resume_queue('mine.w'), pgqrs_trigger('mine.w', tags => '{"shop": "<i>main</i>"}');
	SELECT pgqrs_start_child(run_id, lease, 'kid', 'nightly_report') FROM pgqrs_dequeue('mine.w')});
sql(qq{UPDATE pgqrs_workflow_runs SET rerun_of = $run WHERE run_id = (SELECT max(run_id) FROM pgqrs_runs WHERE workflow = 'ship_order')});
sql(qq{UPDATE pgqrs_workflow_runs SET parent_run_id = $hidden, parent_step_id = 's' WHERE run_id = $run});
my $parent = sql(q{SELECT parent_run_id FROM pgqrs_run_parents WHERE parent_step_id = 'kid'});
like(get($server, "/run?run=$parent")->{body}, qr/nightly_report/, 'a role that may read a child sees it');
like(get($server, "/run?run=$run")->{body}, qr/child of.*Reruns/s, 'a role that may read a parent and a rerun sees them');
for my $page ('/', '/queues', '/queues?contains=mail', '/queue?queue=mine.w', '/queue?queue=mine.q', '/runs', '/runs?status=live', '/runs?workflow=ship_order', '/runs?workflow=ship_order&status=live',
	'/runs?workflow=*', '/runs?status=ERROR', '/runs?tags=shop%3D%3Ci%3Emain%3C/i%3E', '/runs?error=payment.declined', '/runs?after=2000-01-01&before=2999-01-01',
	"/runs?from=99999999", "/run?run=$run", "/run?run=$parent", "/run?run=$parent&child=1", '/workers', '/schedules', '/dead', '/dead?queue=mail', '/dead?error=smtp')
{
	my $r = get($reader, $page);
	is($r->{status}, 200, "a role that only reads gets the page: $page");
	# but for what was asked for
	$r->{body} =~ s/<form.*?<\/form>|href="[^"]*"//gs;
	unlike($r->{body}, qr/>$hidden</, "it sees no id of others: $page");
	unlike($r->{body}, qr/mail|thumbnails|ship_order|nightly|parcel|node-|labels|payment/, "it sees nothing of others: $page");
}
is(get($reader, "/do?$cancel")->{status}, 404, 'a role that only reads gets no form');
is(get($reader, "/run?run=$run")->{status}, 200, 'a role reads what it may');

# Where it listens
my $socket = "$dir/s";
my $local = start(listen => $socket);
is((stat $socket)[2] & oct '77', 0, 'others cannot connect to the socket');
is(get($local, '/')->{status}, 200, 'a socket is served');
is(get($local, '/', host => 'evil.example')->{status}, 421, 'a socket has a name, too');
is($local->{err}, '', 'a socket is nothing to warn of');
my $open = start(listen => '0.0.0.0:' . PostgreSQL::Test::Cluster::get_free_port(), arguments => [ '--name', 'console.example' ]);
like($open->{err}, qr/proxy/, 'an address that others can reach is warned of');
is(get($open, '/', host => 'console.example')->{status}, 200, 'a proxy may give it a name');
for my $listen ('nonsense', '127.0.0.1', '127.0.0.1:x', 'localhost:80', '127.0.0.1:99999')
{
	my $err;
	IPC::Run::run([ 'pgqrs', 'web', '--listen', $listen ], '<', '/dev/null', '2>', \$err);
	is($? >> 8, 64, "what is no address is refused: $listen");
}

# In a browser
SKIP:
{
	skip 'chromium is not installed', 1 unless grep { -x "$_/chromium" } split /:/, $ENV{PATH};
	mkdir "$dir/pages";

	# with the server, which tells what may be loaded
	my ($dom, $log) = browse($dir, '--dump-dom', "http://$server->{host}/?token=$server->{token}");
	like($dom, qr{<h1>postgres</h1>}, 'a browser gets to the first page');
	unlike($log, qr/CONSOLE/, 'the policy forbids nothing that the page needs');

	append_to_file("$dir/pages/style.css", get($server, '/style.css')->{body});
	append_to_file("$dir/pages/$_.html", get($server, $pages{$_})->{body}) for keys %pages;
	my @frames;
	for my $name (sort keys %pages)
	{
		for my $width (500, 1400)
		{
			push @frames, map { { name => "$name-$width-$_" =~ tr/ /_/r, file => abs_path($dir) . "/pages/$name.html", width => $width, scheme => $_ } } 'light', 'dark';
		}
	}
	append_to_file("$dir/frames.html", '<!DOCTYPE html><meta charset="utf-8"><style>body { margin: 0 } iframe { display: block; border: 0; height: 1600px }</style>'
		. join('', map { qq(<iframe name="$_->{name}" src="file://$_->{file}" style="width: $_->{width}px; color-scheme: $_->{scheme}"></iframe>\n) } @frames)
		. <<'HTML');
<script>onload = function ()
{
	document.querySelectorAll('iframe').forEach(function (f)
	{
		var w = f.contentWindow, d = w.document, wide = 'none', lost = 'none', p = document.createElement('p');
		d.querySelectorAll('body *').forEach(function (e)
		{
			var r = e.getBoundingClientRect();
			if (r.right > w.innerWidth + 1 && r.width > 1 && !e.closest('svg') && !e.closest('thead')) wide = e.tagName + e.className;
		});
		d.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary').forEach(function (e)
		{
			e.focus();
			if (d.activeElement != e || e.tabIndex != 0) lost = e.tagName + e.className;
		});
		p.textContent = [f.name, 'width', w.innerWidth, 'scroll', Math.max(d.documentElement.scrollWidth, w.innerWidth),
			'dark', w.matchMedia('(prefers-color-scheme: dark)').matches, 'back', w.getComputedStyle(d.body).backgroundColor,
			'wide', wide, 'lost', lost, 'first', (d.querySelector('a') || d.body).className, 'loaded', w.performance.getEntriesByType('resource').length].join(' ');
		document.body.appendChild(p);
	});
}</script>
HTML
	my %background = (light => 'rgb(252, 252, 250)', dark => 'rgb(21, 22, 24)');
	($dom, $log) = browse($dir, '--window-size=1400,1600', '--virtual-time-budget=2000', '--dump-dom', "file://$dir/frames.html");
	for my $frame (@frames)
	{
		my ($found) = $dom =~ m{<p>\Q$frame->{name}\E (.*?)</p>};
		my $dark = $frame->{scheme} eq 'dark' ? 'true' : 'false';
		is($found, "width $frame->{width} scroll $frame->{width} dark $dark back $background{$frame->{scheme}} wide none lost none first skip loaded 0",
			"the page fits its window, and keys reach all of it: $frame->{name}");
	}
	unlike($log, qr/CONSOLE/, 'nothing in the console of the browser');
}

# By the keyboard alone
my $browser;

# Goes to a control by Tab: the first whose text, or whose field, is that.
sub tab_to
{
	my ($what) = @_;
	my $find = q{var all = [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary, [tabindex]')].filter(e => e.checkVisibility()),
			wanted = all.find(e => e.name == arguments[0] || e.textContent.trim() == arguments[0]);
		return [all.indexOf(wanted) - all.indexOf(document.activeElement), document.activeElement == wanted];};
	my ($steps, $is_there) = @{ $browser->execute($find, $what) };
	$browser->press(('Tab') x $steps) if $steps > 0;
	# a field for a time has several places
	for (1 .. 20)
	{
		last if ($is_there = $browser->execute($find, $what)->[1]);
		$browser->press('Tab');
	}
	return $is_there && is_seen();
}

# Whether the control that has the focus is in view, with a frame around it.
sub is_seen
{
	return $browser->execute(q{var e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
		return s.outlineStyle == 'solid' && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.left >= 0 && r.top >= 0 && r.bottom <= innerHeight && r.right <= innerWidth});
}

SKIP:
{
	skip 'chromedriver is not installed', 1 unless is_installed('chromedriver');
	sql(q{SELECT pgqrs_create_workflow('keys.w'), pgqrs_create_queue('keys.q'), pgqrs_schedule('keys', '@daily', 'keys.w');
		SELECT pgqrs_trigger('keys.w') FROM generate_series(1, 8);
		SELECT pgqrs_fail_run(run_id, lease, '{"type": "e"}', retryable => false) FROM pgqrs_dequeue('keys.w', batch_size => 4);
		SELECT pgqrs_pause_run(run_id, lease, 'hold') FROM pgqrs_dequeue('keys.w');
		SELECT pgqrs_enqueue('keys.q', '1') FROM generate_series(1, 4);
		SELECT pgqrs_nack_message(message_id, lease, '{"type": "e"}', retryable => false) FROM pgqrs_dequeue('keys.q', batch_size => 4)});
	my ($dead, $paused, $live) = split /\|/, sql(q{SELECT min(run_id) FILTER (WHERE status = 'ERROR'), min(run_id) FILTER (WHERE status = 'PAUSED'), max(run_id) FROM pgqrs_runs WHERE workflow = 'keys.w'});
	my $base = "http://$server->{host}";
	$browser = Browser->new($dir);
	$browser->go("$base/?token=$server->{token}");
	$browser->press('Tab');
	is($browser->execute('return document.activeElement.textContent'), 'Skip to the page', 'the first key goes to the link that skips the others');
	ok(is_seen(), 'that link is seen once it has the focus');
	$browser->press('Enter', 'Tab');
	ok($browser->execute(q{return document.activeElement.closest('main') != null}), 'after it the keys are on the page itself');
	ok(tab_to('All checks'), 'the checks of health can be reached');
	$browser->press('Space');
	ok($browser->execute(q{return document.querySelector('details').open}), 'and opened');
	$browser->go("$base/");
	ok(tab_to('Runs'), 'the other pages can be reached');
	$browser->enter;
	is($browser->execute('return document.title'), 'Runs - pgqrs', 'and opened');
	ok(tab_to('workflow') && do { $browser->press(split //, 'keys.*'); tab_to('status') }, 'the fields of a filter can be reached');
	$browser->press('E');
	ok(tab_to('Filter'), 'a filter can be sent');
	$browser->enter;
	is($browser->execute(q{return [...document.querySelectorAll('tbody th')].length}), 4, 'the filter has what was typed');

	# page, link to the form, what to type where
	for my $case ([ "run?run=$live", 'Send a signal', 'Send a signal', signal => 'go', payload => '{"a": 1}' ], [ "run?run=$paused", 'Resume a pause', 'Resume a pause', output => '1' ],
		[ "run?run=$live", 'Cancel', 'Cancel the run', reason => 'keys' ], [ "run?run=$dead", 'Rerun', 'Rerun' ], [ "run?run=$dead", 'Replay', 'Replay' ],
		[ 'queue?queue=keys.q', 'Pause', 'Pause the queue' ], [ 'queue?queue=keys.q', 'Resume', 'Resume the queue' ],
		[ 'schedules', 'Run now', 'Run the schedule now' ], [ 'schedules', 'Disable', 'Enable or disable the schedule' ],
		[ 'dead?queue=keys.q&error=e', 'Replay', 'Replay dead letters', number => 4 ], [ 'dead?queue=mail', 'Dismiss', 'Dismiss' ],
		[ 'runs?workflow=keys.w&status=ERROR', 'Rerun', 'Rerun runs', number => 3 ], [ 'runs?workflow=keys.w&status=ERROR', 'Replay', 'Replay runs', number => 3 ],
		[ 'runs?workflow=keys.w', 'Cancel', 'Cancel runs', number => undef ])
	{
		my ($page, $link, $button, @fields) = @$case;
		$browser->go("$base/$page");
		ok(tab_to($link), "the link to the form is reached: $page, $link");
		$browser->enter;
		while (my ($field, $text) = splice @fields, 0, 2)
		{
			$text //= $browser->execute(q{return document.querySelector('.note strong').textContent});
			ok(tab_to($field), "the field of the form is reached: $button, $field");
			$browser->press(split //, $text);
		}
		ok(tab_to($button), "the button is reached: $button");
		$browser->enter;
		is($browser->execute(q{return document.querySelector('h1').textContent}), 'Done', "the action is done by keys alone: $button");
	}
	$browser->quit;
}

for my $started (@servers)
{
	$started->{run}->signal('TERM');
	is($started->{run}->finish, 1, "the server ends when it is asked to: $started->{listen}");
}
is(-e $socket, undef, 'the socket is removed at the end');
$node->stop;
done_testing();
