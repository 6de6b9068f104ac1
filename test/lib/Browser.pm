# A headless Chromium: browse() shows one page, a Browser is driven by its keyboard.
package Browser;

use strict;
use warnings;

use Exporter qw(import);
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(browse is_installed);

my @options = ('--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
	'--disable-background-networking', '--disable-component-update', '--hide-scrollbars');

sub is_installed
{
	my ($program) = @_;
	return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

# Starts the browser, whose files are below the folder; what it printed, and what it logged.
sub browse
{
	my ($dir, @more) = @_;
	my ($out, $err) = ('', '');
	local $ENV{HOME} = $dir;
	IPC::Run::run([ 'chromium', @options, "--user-data-dir=$dir/profile", '--enable-logging=stderr', '--allow-file-access-from-files', @more ],
		'<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	  or diag($err);
	return ($out, $err);
}

# A browser that chromedriver starts.
sub new
{
	my ($class, $dir) = @_;
	my $self = bless { out => '', http => HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default) }, $class;
	{
		local $ENV{HOME} = $dir;
		$self->{driver} = IPC::Run::start([ 'chromedriver', '--port=0' ], '<', '/dev/null', '>', \$self->{out}, '2>&1',
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	}
	$self->{driver}->pump until $self->{out} =~ /successfully on port (\d+)/ || !$self->{driver}->pumpable;
	$self->{url} = "http://127.0.0.1:$1/session";
	my $chrome = { args => [ @options, "--user-data-dir=$dir/driven" ] };
	my $session = $self->send('POST', '', { capabilities => { alwaysMatch => { 'goog:chromeOptions' => $chrome } } });
	$self->{url} .= "/$session->{sessionId}";
	return $self;
}

sub send
{
	my ($self, $method, $path, $body) = @_;
	my $answer = $self->{http}->request($method, "$self->{url}$path",
		{ headers => { 'Content-Type' => 'application/json' }, $body ? (content => encode_json($body)) : () });
	die "$method $path: $answer->{content}" unless $answer->{success};
	return decode_json($answer->{content})->{value};
}

sub go { my ($self, $url) = @_; return $self->send('POST', '/url', { url => $url }) }

sub execute { my ($self, $script, @args) = @_; return $self->send('POST', '/execute/sync', { script => $script, args => \@args }) }

# Presses keys one after the other: characters, or names.
sub press
{
	my ($self, @keys) = @_;
	my %code = (Tab => "\x{E004}", Enter => "\x{E007}", Shift => "\x{E008}", Space => ' ');
	my @actions = map { my $key = $code{$_} // $_; ({ type => 'keyDown', value => $key }, { type => 'keyUp', value => $key }) } @keys;
	return $self->send('POST', '/actions', { actions => [ { type => 'key', id => 'keyboard', actions => \@actions } ] });
}

# Presses Enter where that opens a page, and waits for the page.
sub enter
{
	my ($self) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	$self->execute('window.isLeft = true');
	$self->press('Enter');
	until (eval { $self->execute(q{return !window.isLeft && document.readyState === 'complete'}) })
	{
		die "Enter opens no page: $@" if time > $end;
		select undef, undef, undef, 0.01;
	}
	return;
}

# The page as it looks in a window of that width, light or dark, in a file.
sub photograph
{
	my ($self, $file, $width, $scheme) = @_;
	$self->cdp('Emulation.setEmulatedMedia', { features => [ { name => 'prefers-color-scheme', value => $scheme } ] });
	$self->cdp('Emulation.setDeviceMetricsOverride', { width => $width, height => 900, deviceScaleFactor => 1, mobile => JSON::PP::false });
	my $picture = $self->cdp('Page.captureScreenshot', { captureBeyondViewport => JSON::PP::true });
	PostgreSQL::Test::Utils::append_to_file("$file.base64", $picture->{data});
	return;
}

sub cdp { my ($self, $command, $parameters) = @_; return $self->send('POST', '/goog/cdp/execute', { cmd => $command, params => $parameters }) }

sub quit
{
	my ($self) = @_;
	$self->send('DELETE', '');
	$self->{driver}->signal('TERM');
	$self->{driver}->finish;
	return;
}

1;
