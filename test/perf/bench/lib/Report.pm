# Tables of figures, in Markdown that is legible as it stands.
package Report;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT_OK = qw(median table spread number ratio workload_table
  requirements_table ratios);

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	my $middle = int(@sorted / 2);

	return undef unless @sorted;
	return @sorted % 2 ? $sorted[$middle] : ($sorted[ $middle - 1 ] + $sorted[$middle]) / 2;
}

# Three digits or more, thousands set apart.
sub number
{
	my ($n) = @_;

	return '' unless defined $n;
	my $text = sprintf $n >= 100 ? '%.0f' : $n >= 10 ? '%.1f' : $n >= 1 ? '%.2f' : '%.3f', $n;
	1 while $text =~ s/^(\d+)(\d{3})/$1,$2/;
	return $text;
}

sub ratio
{
	my ($n) = @_;

	return defined $n ? sprintf('%.2f', $n) : '';
}

# The least and the greatest of several values.
sub spread
{
	my ($format, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;

	return '' if @sorted < 2;
	return $format->($sorted[0]) . ' – ' . $format->($sorted[-1]);
}

# A table of the first row, which is its head, and the others.
sub table
{
	my @rows = @_;
	my @width;

	for my $row (@rows)
	{
		for my $i (0 .. $#$row)
		{
			my $length = display_length($row->[$i]);
			$width[$i] = $length if $length > ($width[$i] // 3);
			$width[$i] //= 3;
		}
	}
	my @lines = map { line($_, \@width) } @rows;
	my $rule = '|' . join('|', map { '-' x ($_ + 2) } @width) . '|';
	return join("\n", $lines[0], $rule, @lines[ 1 .. $#lines ]) . "\n";
}

sub line
{
	my ($row, $width) = @_;

	return '|' . join('|', map {
			' ' . $row->[$_] . ' ' x ($width->[$_] - display_length($row->[$_])) . ' '
		} 0 .. $#$row) . '|';
}

# Texts are UTF-8 in bytes.
sub display_length
{
	my ($text) = @_;

	return scalar(() = $text =~ /[^\x80-\xbf]/g);
}

# The values of a metric by which one contender divides another, per round.
sub ratios
{
	my ($of, $over, $metric) = @_;
	my @ratios;

	for my $i (0 .. $#$of)
	{
		my ($a, $b) = ($of->[$i]{$metric}, $over->[$i] && $over->[$i]{$metric});
		push @ratios, $a / $b if defined $a && $b;
	}
	return @ratios;
}

# One workload: contenders in turn for each number of clients.
# $results->{clients}{contender}[round]
sub workload_table
{
	my ($workload, $results) = @_;
	my $buffers = grep { defined $_->{buffers} } @{ $workload->{contenders} };
	my $window = grep { $_->{hold} } @{ $workload->{contenders} };
	my @rows = [ 'clients', 'what', 'rows/s', 'min – max', 'p50 ms', 'p99 ms', 'WAL B/row',
		$buffers ? 'buffers' : (), $window ? ('first rows/s', 'last rows/s', 'last ÷ first') : (),
		'pgqrs ÷ this', 'of null' ];

	for my $clients (sort { $a <=> $b } keys %$results)
	{
		my $by_name = $results->{$clients};

		for my $c (@{ $workload->{contenders} })
		{
			my $runs = $by_name->{ $c->{id} } or next;
			my %m = map { my $k = $_; $k => median(grep { defined } map { $_->{$k} } @$runs) }
			  qw(rate p50 p99 wal first last);
			my @against = $c->{against} ? ratios($by_name->{ $c->{against} } // [], $runs, 'rate') : ();
			my @null = $c->{null} ? ratios($runs, $by_name->{ $c->{null} } // [], 'rate') : ();

			push @rows, [ $clients, $c->{label}, number($m{rate}),
				spread(\&number, map { $_->{rate} } @$runs),
				number($m{p50}), number($m{p99}), number($m{wal}),
				$buffers ? number($c->{buffers}) : (),
				$window ? (number($m{first}), number($m{last}), ratio(median(map { $_->{last} / $_->{first} } grep { $_->{first} } @$runs))) : (),
				ratio(median(@against)), ratio(median(@null)) ];
		}
	}
	return table(@rows);
}

# What is required: text, the bound, and the values that were measured.
sub requirements_table
{
	my @requirements = @_;
	my @rows = [ 'figure', 'required', 'measured', 'min – max', 'null cycle', 'reached' ];

	for my $r (@requirements)
	{
		my $m = median(@{ $r->{values} });
		my $format = $r->{unit} ? \&number : \&ratio;
		my $unit = $r->{unit} // '×';
		my $bound = defined $r->{min} ? "≥ $r->{min} $unit" : defined $r->{max} ? "≤ $r->{max} $unit" : 'reported';
		my $reached =
			!defined $m ? 'not measured'
		  : defined $r->{min} ? ($m >= $r->{min} ? 'yes' : '**NO**')
		  : defined $r->{max} ? ($m <= $r->{max} ? 'yes' : '**NO**')
		  :                     '';

		push @rows, [ $r->{text}, $bound, defined $m ? $format->($m) . " $unit" : '',
			spread($format, @{ $r->{values} }), ratio(median(@{ $r->{null} // [] })), $reached ];
	}
	return table(@rows);
}

1;
