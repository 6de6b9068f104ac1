SELECT * FROM absurd.spawn_task('bench', 'bench', :payload);
SELECT run_id, task_id, params FROM absurd.claim_task('bench', 'bench', 30, 1) \gset
SELECT * FROM absurd.get_task_checkpoint_states('bench', :task_id, :run_id);
SELECT absurd.set_task_checkpoint_state('bench', :task_id, 'one', :output, :run_id, 30);
SELECT absurd.set_task_checkpoint_state('bench', :task_id, 'two', :output, :run_id, 30);
SELECT absurd.complete_run('bench', :run_id, :output);
