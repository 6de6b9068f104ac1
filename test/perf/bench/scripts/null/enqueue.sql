INSERT INTO null_rows VALUES (pg_backend_pid());
