SELECT pgqrs_trigger('bench_wf', :payload);
SELECT d.run_id, d.lease, d.input, s.should_execute, s.output AS stored
	FROM pgqrs_dequeue('bench_wf') AS d, pgqrs_step_begin(d.run_id, d.lease, 'one') AS s \gset
SELECT s.should_execute, s.output AS stored
	FROM pgqrs_step_complete(:run_id, :lease, 'one', :output), pgqrs_step_begin(:run_id, :lease, 'two') AS s;
SELECT pgqrs_step_complete(:run_id, :lease, 'two', :output), pgqrs_complete_run(:run_id, :lease, :output);
