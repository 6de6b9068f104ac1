# A message that dies and is replayed, over and over, exists at every moment:
# a replay never reports that the message does not exist.
use strict;
use warnings;

use Pgqrs;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('replay_race', "fsync = off\n");
my $times = $ENV{REPLAY_RACE_TIMES} || 500;
my $limit = $PostgreSQL::Test::Utils::timeout_default;

$node->safe_psql('postgres', q{SELECT pgqrs_create_queue('q', max_attempts => 1)});
my $id = $node->safe_psql('postgres', q{SELECT pgqrs_enqueue('q', '1')});

# Each call is a transaction of its own.
my $dying = start_client($node, <<"SQL");
DO \$\$
DECLARE
	until timestamptz := clock_timestamp() + '$limit s';
	deaths int := 0;
	m record;
BEGIN
	WHILE deaths < $times AND clock_timestamp() < until LOOP
		SELECT message_id, lease INTO m FROM pgqrs_dequeue('q');
		IF FOUND THEN
			COMMIT;
			PERFORM pgqrs_nack_message(m.message_id, m.lease);
			deaths := deaths + 1;
		END IF;
		COMMIT;
	END LOOP;
	CREATE TABLE deaths AS SELECT deaths;
END
\$\$;
SELECT deaths = $times FROM deaths;
SQL
my $replaying = start_client($node, <<"SQL");
CREATE TABLE answers (state text, count bigint);
DO \$\$
DECLARE
	until timestamptz := clock_timestamp() + '$limit s';
	counts jsonb := '{}';
	state text;
BEGIN
	WHILE COALESCE((counts->'ok')::bigint, 0) < $times AND clock_timestamp() < until LOOP
		state := 'ok';
		BEGIN
			PERFORM pgqrs_replay_message($id);
		EXCEPTION WHEN OTHERS THEN
			state := SQLSTATE;
		END;
		COMMIT;
		counts := counts || jsonb_build_object(state, COALESCE((counts->state)::bigint, 0) + 1);
	END LOOP;
	INSERT INTO answers SELECT key, value::bigint FROM jsonb_each(counts);
END
\$\$;
SELECT count(*) FILTER (WHERE state = 'ok' AND count = $times), COALESCE(string_agg(DISTINCT state, ' ') FILTER (WHERE state NOT IN ('ok', 'PQ007', 'PQ016')), 'nothing else') FROM answers;
SQL
is(finish_client($dying), 't', 'the message became a dead letter again and again');
is(finish_client($replaying), '1|nothing else', 'a replay succeeds or finds the message alive');
done_testing();
