-- What the administration of queues and workflows says.

-- An existing queue stays, and is quiet about what was not asked for.
SELECT pgqrs_create_queue('jobs', max_in_flight => 3) > 0 AS created;
SELECT pgqrs_create_queue('jobs') > 0 AS exists;
SELECT pgqrs_create_queue('jobs', max_in_flight => 3, max_attempts => 5) > 0 AS exists;
SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 min', max_attempts => 7, max_in_flight => 4, retention => '1 h', dead_retention => '2 days') > 0 AS exists;
SET IntervalStyle = iso_8601;
SELECT pgqrs_create_queue('jobs', visibility_timeout => '1 min') > 0 AS exists;
SELECT pgqrs_create_queue('jobs', retention => '168 h') > 0 AS exists;
RESET IntervalStyle;

SELECT pgqrs_create_workflow('flow', non_retryable => '{a}', timeout => '1 h') > 0 AS created;
SELECT pgqrs_create_workflow('flow') > 0 AS exists;
SELECT pgqrs_create_workflow('flow', timeout => '60 min', non_retryable => '{a}') > 0 AS exists;
SELECT pgqrs_create_workflow('flow', max_attempts => -1, initial_interval => '2 s', backoff_coefficient => 1.5, max_interval => '1 h', jitter => 0,
	non_retryable => '{b,c}', timeout => '2 h', visibility_timeout => '1 s', max_crashes => 1, key_scope => 'active') > 0 AS exists;

-- Names that are taken.
SELECT pgqrs_create_queue('flow');
SELECT pgqrs_create_workflow('jobs');

-- Bad settings.
SELECT pgqrs_create_queue('pgqrs.jobs');
SELECT pgqrs_create_queue('x', visibility_timeout => NULL);
SELECT pgqrs_create_queue('x', visibility_timeout => '0');
SELECT pgqrs_create_queue('x', visibility_timeout => '400 days');
SELECT pgqrs_create_queue('x', max_attempts => 0);
SELECT pgqrs_create_queue('x', retention => '1 month');
SELECT pgqrs_create_workflow('x', handler => 'f');
SELECT pgqrs_create_workflow('x', max_attempts => 0);
SELECT pgqrs_create_workflow('x', backoff_coefficient => 'Infinity');
SELECT pgqrs_create_workflow('x', non_retryable => '{a,NULL}');
SELECT pgqrs_create_workflow('x', timeout => '0');
SELECT pgqrs_create_workflow('x', key_scope => 'forever');
SELECT pgqrs_alter_queue('jobs', max_attempts => 1, reset => '{max_attempts}');
SELECT pgqrs_alter_queue('jobs', reset => '{name}');
SELECT pgqrs_alter_queue('flow', max_attempts => 1);
SELECT pgqrs_alter_workflow('jobs', max_attempts => 1);

-- Bad retry policies.
SELECT pgqrs_trigger('flow', retry_policy => '[]');
SELECT pgqrs_trigger('flow', retry_policy => '{"attempts": 1}');
SELECT pgqrs_trigger('flow', retry_policy => '{"max_attempts": 1.5}');
SELECT pgqrs_trigger('flow', retry_policy => '{"initial_interval": "soon"}');
SELECT pgqrs_trigger('flow', retry_policy => '{"initial_interval": "1 month"}');
SELECT pgqrs_trigger('flow', retry_policy => '{"initial_interval": 1}');
SELECT pgqrs_trigger('flow', retry_policy => '{"non_retryable": [""]}');

-- Deleting.
SET client_min_messages = error;
SELECT pgqrs_enqueue('jobs', '1') > 0 AS sent, pgqrs_trigger('flow') > 0 AS triggered;
RESET client_min_messages;
SELECT pgqrs_delete_queue('jobs');
SELECT pgqrs_delete_queue('flow');
SELECT pgqrs_delete_workflow('flow');
SELECT count(pgqrs_archive_message(message_id, lease)) FROM pgqrs_dequeue('jobs');
SELECT pgqrs_delete_queue('jobs');
SELECT pgqrs_purge_queue('flow');
SELECT pgqrs_delete_workflow('flow');
SELECT pgqrs_delete_workflow('flow', force => true), pgqrs_delete_queue('jobs', force => true), pgqrs_delete_queue('jobs');
SELECT pgqrs_alter_queue('jobs');
SELECT pgqrs_alter_workflow('flow');
SELECT pgqrs_purge_queue('jobs');
