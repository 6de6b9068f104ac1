INSERT INTO null_rows VALUES (pg_backend_pid());
SELECT pg_backend_pid();
INSERT INTO null_rows VALUES (pg_backend_pid());
