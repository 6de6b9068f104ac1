# A headless Chromium.
package Browser;

use strict;
use warnings;

use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(browse);

# Starts the browser, whose files are below the folder; what it printed, and what it logged.
sub browse
{
	my ($dir, @options) = @_;
	my ($out, $err) = ('', '');
	local $ENV{HOME} = $dir;
	IPC::Run::run([ 'chromium', '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
			'--no-first-run', '--disable-background-networking', '--disable-component-update', '--hide-scrollbars',
			"--user-data-dir=$dir/profile", '--enable-logging=stderr', '--allow-file-access-from-files', @options ],
		'<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	  or diag($err);
	return ($out, $err);
}

1;
