# The pages of pgqrs_report() and pgqrs_report_run() in a browser: at the width
# of a phone and of a desk, light and dark, they overflow nowhere, load
# nothing, and the console stays empty.  PGQRS_SCREENSHOTS: a folder for
# pictures of them.
use strict;
use warnings;

use Browser;
use Cwd qw(abs_path);
use FindBin;
use IPC::Run;
use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('report', "fsync = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;

# Frames with pages, each of a width and a colour scheme, and a script that
# tells how each came out, since pages have none themselves.
sub frames
{
	my (@frames) = @_;
	my $file = "$dir/frames.html";
	unlink $file;
	append_to_file($file, '<!DOCTYPE html><meta charset="utf-8"><style>body { margin: 0 } iframe { display: block; border: 0 }</style>'
		. join('', map { qq(<iframe name="$_->{name}" src="file://$_->{file}" style="width: $_->{width}px; height: $_->{height}px; color-scheme: $_->{scheme}"></iframe>\n) } @frames)
		. <<'HTML');
<script>onload = function ()
{
	document.querySelectorAll('iframe').forEach(function (f)
	{
		var w = f.contentWindow, d = w.document, wide = 'none', p = document.createElement('p');
		d.querySelectorAll('body *').forEach(function (e)
		{
			var r = e.getBoundingClientRect();
			if (r.right > w.innerWidth + 1 && r.width > 1 && !e.closest('svg') && !e.closest('thead')) wide = e.tagName;
		});
		p.textContent = [f.name, 'width', w.innerWidth, 'scroll', Math.max(d.documentElement.scrollWidth, w.innerWidth),
			'dark', w.matchMedia('(prefers-color-scheme: dark)').matches, 'back', w.getComputedStyle(d.body).backgroundColor,
			'wide', wide, 'loaded', w.performance.getEntriesByType('resource').length,
			'title', d.title, 'height', d.documentElement.scrollHeight].join(' ');
		document.body.appendChild(p);
	});
}</script>
HTML
	return "file://$file";
}

sub page
{
	my ($name, $query) = @_;
	my $file = abs_path($dir) . "/$name.html";
	append_to_file($file, $node->safe_psql('postgres', "SELECT $query"));
	return $file;
}

my %pages = (empty => page('empty', 'pgqrs_report()'));
IPC::Run::run([ 'psql', '-XAtqd', $node->connstr('postgres'), '-v', 'ON_ERROR_STOP=1', '-f', "$FindBin::Bin/../pgtap/include/busy.sql" ],
	'<', '/dev/null') or die 'the database cannot be filled';
$pages{busy} = page('busy', 'pgqrs_report()');
$pages{run} = page('run', "pgqrs_report_run(min(run_id)) FROM pgqrs_runs WHERE workflow = 'parcel.<b>label</b>'");

my %background = (light => 'rgb(252, 252, 250)', dark => 'rgb(21, 22, 24)');
my %title = (empty => 'pgqrs: postgres', busy => 'pgqrs: postgres', run => 'Run \d+ of parcel.&lt;b&gt;label&lt;/b&gt;');
my @frames;
for my $name (sort keys %pages)
{
	for my $width (360, 1400)
	{
		push @frames, map { { name => "$name-$width-$_", page => $name, file => $pages{$name}, width => $width, height => 1600, scheme => $_ } } 'light', 'dark';
	}
}
my ($dom, $log) = browse($dir, '--window-size=1400,1600', '--virtual-time-budget=1000', '--dump-dom', frames(@frames));
for my $frame (@frames)
{
	my ($found) = $dom =~ m{<p>\Q$frame->{name}\E (.*?)</p>};
	my $dark = $frame->{scheme} eq 'dark' ? 'true' : 'false';
	like($found, qr/^width $frame->{width} scroll $frame->{width} dark $dark back \Q$background{$frame->{scheme}}\E wide none loaded 0 title $title{$frame->{page}} height \d+$/, $frame->{name});
	next unless $ENV{PGQRS_SCREENSHOTS};
	my ($height) = $found =~ /height (\d+)/;
	browse($dir, '--window-size=' . ($frame->{width} < 500 ? 500 : $frame->{width}) . ",$height", "--screenshot=$ENV{PGQRS_SCREENSHOTS}/$frame->{name}.png",
		frames({ %$frame, height => $height }));
}
unlike($log, qr/CONSOLE/, 'the browser logs no message of the report');

# The check finds what it looks for: a page that is too wide and complains.
append_to_file("$dir/bad.html", '<!DOCTYPE html><html><body style="width: 2000px"><p>wide</p><script>console.error("complaint")</script></body></html>');
($dom, $log) = browse($dir, '--window-size=1400,1600', '--virtual-time-budget=1000', '--dump-dom',
	frames({ name => 'bad', file => abs_path($dir) . '/bad.html', width => 360, height => 1600, scheme => 'light' }));
like($dom, qr/bad width 360 scroll \d{4} .* wide P /, 'the check finds an element that is too wide');
like($log, qr/CONSOLE.*complaint/, 'the check finds a message of the console');

$node->stop;
done_testing();
