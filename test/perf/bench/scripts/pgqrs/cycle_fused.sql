SELECT run_id, lease, input FROM pgqrs_start('bench_wf', :payload) \gset
SELECT should_execute FROM pgqrs_step_begin(:run_id, :lease, 'one');
SELECT stored, should_execute FROM pgqrs_step_next(:run_id, :lease, 'one', :output, 'two');
SELECT pgqrs_step_complete(:run_id, :lease, 'two', :output), pgqrs_complete_run(:run_id, :lease, :output);
