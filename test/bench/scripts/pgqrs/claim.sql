SELECT * FROM pgqrs_dequeue('bench', visibility_timeout => '1 hour');
