SELECT pgqrs_trigger('bench_wf', :payload);
SELECT d.run_id, d.lease, d.input, (pgqrs_step_begin(d.run_id, d.lease, 'one')).should_execute
	FROM pgqrs_dequeue('bench_wf') AS d \gset
SELECT pgqrs_step_complete(:run_id, :lease, 'one', :output), (pgqrs_step_begin(:run_id, :lease, 'two')).should_execute;
SELECT pgqrs_step_complete(:run_id, :lease, 'two', :output), pgqrs_complete_run(:run_id, :lease, :output);
