-- Types.  Every label exists from the first version on, because a label that
-- ALTER TYPE adds cannot be used in the transaction that adds it.

CREATE TYPE pgqrs_run_status AS ENUM
	('QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'ERROR', 'CANCELLED');
COMMENT ON TYPE pgqrs_run_status IS 'state of a workflow run; SUCCESS, ERROR and CANCELLED are terminal';

CREATE TYPE pgqrs_step_status AS ENUM
	('PENDING', 'RUNNING', 'PAUSED', 'SUCCESS', 'ERROR');
COMMENT ON TYPE pgqrs_step_status IS 'state of a workflow step; PENDING waits for a retry';

CREATE TYPE pgqrs_step_kind AS ENUM
	('FUNCTION', 'SLEEP', 'SIGNAL', 'CHILD', 'PAUSE');
COMMENT ON TYPE pgqrs_step_kind IS 'what a workflow step is; a step id keeps its kind';

CREATE TYPE pgqrs_outcome AS ENUM
	('DONE', 'DEAD', 'DELETED', 'CANCELLED');
COMMENT ON TYPE pgqrs_outcome IS 'how an archived message ended';

CREATE TYPE pgqrs_worker_status AS ENUM
	('READY', 'SUSPENDED', 'STOPPED');
COMMENT ON TYPE pgqrs_worker_status IS 'state of a worker; STOPPED is final';

CREATE TYPE pgqrs_key_scope AS ENUM
	('retained', 'active');
COMMENT ON TYPE pgqrs_key_scope IS 'how long an idempotency key keeps later triggers out: while its run is kept, or while it has not ended';

CREATE TYPE pgqrs_parent_end AS ENUM
	('cancel', 'abandon');
COMMENT ON TYPE pgqrs_parent_end IS 'what becomes of a live child run when its parent ends badly';

CREATE TYPE pgqrs_overlap AS ENUM
	('allow', 'skip', 'cancel');
COMMENT ON TYPE pgqrs_overlap IS 'what a schedule does when its previous run is still live';

CREATE TYPE pgqrs_privilege AS ENUM
	('trigger', 'work', 'admin');
COMMENT ON TYPE pgqrs_privilege IS 'what pgqrs_grant() can allow on a pattern of names';

