SELECT * FROM pgqrs_dequeue('ring', visibility_timeout => '1 ms');
