-- What pgqrs_grant() and pgqrs_revoke() say; what they do is in pgtap.
CREATE ROLE regress_pgqrs;
SELECT pgqrs_grant('tenant.*', 'regress_pgqrs', 'trigger');
SELECT pgqrs_grant('tenant.*', 'regress_pgqrs', 'trigger');
SELECT pgqrs_revoke('tenant.*', 'regress_pgqrs', 'work');
SELECT pgqrs_revoke('tenant.*', 'regress_pgqrs', 'trigger');
SELECT pgqrs_revoke('tenant.*', 'regress_pgqrs', 'trigger');
SELECT pgqrs_grant('tenant.*', 'no_such_role', 'trigger');
SELECT pgqrs_revoke('tenant.*', 'no_such_role', 'trigger');
SELECT pgqrs_grant('tenant.*', 'regress_pgqrs', 'everything');
SELECT pgqrs_grant('tenant*', 'regress_pgqrs', 'work');

-- EXECUTE alone gives no rights of the owner.
GRANT EXECUTE ON FUNCTION pgqrs_grant, pgqrs_revoke TO regress_pgqrs;
SET ROLE regress_pgqrs;
SELECT pgqrs_grant('tenant.*', 'regress_pgqrs', 'admin');
SELECT pgqrs_revoke('tenant.*', 'regress_pgqrs', 'admin');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pgqrs_grant, pgqrs_revoke FROM regress_pgqrs;

-- Nothing is left that would keep the role from being dropped.
DROP ROLE regress_pgqrs;

BEGIN READ ONLY;
SELECT pgqrs_grant('tenant.*', 'public', 'work');
ROLLBACK;
