# What describes a release to others (META.json for PGXN, the Debian changelog and
# control file) is valid and agrees with pgqrs.control.
use strict;
use warnings;

use FindBin;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::Bin/../..";
my ($version) = slurp_file("$root/pgqrs.control") =~ /^default_version = '(.*)'/m;
my $meta = eval { JSON::PP->new->utf8->decode(slurp_file("$root/META.json")) };
is($@, '', 'META.json can be read as JSON');

# What PGXN's specification 1.0.0 requires, and the kinds of what else there is.
my %kind = (
	name => qr/^[^\s\/\\]{2,}$/,
	version => qr/^\d+\.\d+\.\d+$/,
	abstract => qr/\S/,
	description => qr/\S/,
	license => qr/^postgresql$/,
	generated_by => qr/\S/,
	release_status => qr/^(?:stable|testing|unstable)$/);
for my $key (qw(name version abstract maintainer license provides meta-spec))
{
	ok(defined $meta->{$key}, "META.json has $key");
}
for my $key (grep { !ref $meta->{$_} } sort keys %$meta)
{
	like($meta->{$key}, $kind{$key} // qr/^(?!)/, "$key in META.json is of the specification, and valid");
}
is($meta->{'meta-spec'}{version}, '1.0.0', 'META.json says which specification it follows');
is(ref $meta->{maintainer}, 'ARRAY', 'maintainers are a list');
is_deeply([ grep { ref || !/^[\w -]{1,255}$/ } @{ $meta->{tags} } ], [], 'tags are words without slashes');
is_deeply([ sort keys %$meta ],
	[ sort qw(name abstract description version maintainer license prereqs provides meta-spec tags) ],
	'META.json has the known keys alone');
is($meta->{version}, $version, 'META.json has the version of pgqrs.control');

my $provided = $meta->{provides}{pgqrs};
is($provided->{version}, $version, 'the extension has that version too');
for my $key (qw(file docfile))
{
	ok(-e "$root/$provided->{$key}", "the $key of the extension is there");
}
like($meta->{prereqs}{runtime}{requires}{PostgreSQL}, qr/^15\.0\.0$/, 'META.json requires PostgreSQL 15');

my ($newest) = slurp_file("$root/debian/changelog") =~ /^pgqrs \((\S+)-\d+\) /;
is($newest, $version, 'the newest entry of the Debian changelog has the version, too');
my $control = slurp_file("$root/debian/control");
my $made = slurp_file("$root/debian/control.in") =~ s/PGVERSION/15/gr;
is($control, $made, 'debian/control is what pg_buildext makes of debian/control.in for PostgreSQL 15');

my %named = (
	'CHANGELOG.md' => qr/^## (\S+) /m,
	'clients/python/pyproject.toml' => qr/^version = "(.*)"/m,
	'clients/python/pgqrs/worker.py' => qr/^VERSION = '(.*)'/m,
	'clients/typescript/package.json' => qr/"version": "(.*)"/,
	'clients/typescript/package-lock.json' => qr/"version": "(.*)"/,
	'clients/typescript/src/worker.ts' => qr/^export const VERSION = '(.*)'/m,
	'docs/clients/typescript.md' => qr/pgqrs-([0-9.]+)\.tgz/,
	'examples/orders/package.json' => qr/pgqrs-([0-9.]+)\.tgz/,
	'docs/operations/install.md' => qr/^ pgqrs\s+\| (\S+)/m);
for my $file (sort keys %named)
{
	my ($found) = slurp_file("$root/$file") =~ $named{$file};
	is($found, $version, "$file has the version, too");
}

# The program stays small: lines of code and declarations, without comments; the console is another matter.
my $lines = 0;
for my $file (grep { !/web\.c$/ } glob("$root/cli/*.[ch]"))
{
	$lines += grep { /\S/ } split /\n/, slurp_file($file) =~ s{/\*.*?\*/}{}gsr;
}
cmp_ok($lines, '<=', 2500, 'the program has at most 2,500 lines of code');

done_testing();
