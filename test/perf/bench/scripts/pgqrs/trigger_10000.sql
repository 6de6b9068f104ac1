SELECT cardinality(pgqrs_trigger_batch('bench_wf', payloads)) FROM payloads;
