SELECT pgqrs_enqueue_batch('bench', :payloads);
