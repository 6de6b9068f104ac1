SELECT graphile_worker.add_job('noop', :payload);
