SELECT count(pgq.insert_event('bench', 'mail', payloads[n]::text)) FROM payloads, generate_series(1, 500) AS n;
SELECT pgq.ticker('bench');
