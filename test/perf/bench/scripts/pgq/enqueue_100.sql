SELECT count(pgq.insert_event('bench', 'mail', p::text)) FROM unnest(:payloads::jsonb[]) AS p;
