SELECT pgqrs_enqueue('bench', :payload);
