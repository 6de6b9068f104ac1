SELECT cardinality(pgqrs_enqueue_batch('bench', payloads)) FROM payloads;
