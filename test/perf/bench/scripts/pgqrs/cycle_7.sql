SELECT pgqrs_trigger('bench_wf', :payload);
SELECT * FROM pgqrs_dequeue('bench_wf') \gset
SELECT * FROM pgqrs_step_begin(:run_id, :lease, 'one');
SELECT pgqrs_step_complete(:run_id, :lease, 'one', :output);
SELECT * FROM pgqrs_step_begin(:run_id, :lease, 'two');
SELECT pgqrs_step_complete(:run_id, :lease, 'two', :output);
SELECT pgqrs_complete_run(:run_id, :lease, :output);
