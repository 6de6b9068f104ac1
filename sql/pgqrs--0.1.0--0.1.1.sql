\echo Use "ALTER EXTENSION pgqrs UPDATE TO '0.1.1'" to load this file. \quit

ALTER FUNCTION @extschema@.pgqrs_extend_leases(bigint[], bigint[], interval) ROWS 10;
ALTER FUNCTION @extschema@.pgqrs_verify() ROWS 30;
ALTER FUNCTION @extschema@.pgqrs_install_cron() ROWS 5;
ALTER FUNCTION @extschema@.pgqrs_advance_sequences() ROWS 5;
