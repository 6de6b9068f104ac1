-- Types.  Every label exists from the first version on, because a label that
-- ALTER TYPE adds cannot be used in the transaction that adds it.

CREATE TYPE pgqrs_run_status AS ENUM
	('QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'ERROR', 'CANCELLED');
COMMENT ON TYPE pgqrs_run_status IS 'state of a workflow run; SUCCESS, ERROR and CANCELLED are terminal';

CREATE TYPE pgqrs_step_status AS ENUM
	('PENDING', 'RUNNING', 'PAUSED', 'SUCCESS', 'ERROR');
COMMENT ON TYPE pgqrs_step_status IS 'state of a workflow step; PENDING waits for a retry';

CREATE TYPE pgqrs_step_kind AS ENUM
	('FUNCTION', 'SLEEP', 'SIGNAL', 'CHILD', 'PAUSE', 'ANY');
COMMENT ON TYPE pgqrs_step_kind IS 'kind of a workflow step; a step id keeps its kind';

CREATE TYPE pgqrs_outcome AS ENUM
	('DONE', 'DEAD', 'DELETED', 'CANCELLED');
COMMENT ON TYPE pgqrs_outcome IS 'how an archived message ended';

CREATE TYPE pgqrs_worker_status AS ENUM
	('READY', 'SUSPENDED', 'STOPPED');
COMMENT ON TYPE pgqrs_worker_status IS 'state of a worker; STOPPED is final';

CREATE TYPE pgqrs_key_scope AS ENUM
	('retained', 'active');
COMMENT ON TYPE pgqrs_key_scope IS 'how long an idempotency key excludes later triggers: while its run is retained, or while the run is active';

CREATE TYPE pgqrs_parent_end AS ENUM
	('cancel', 'abandon');
COMMENT ON TYPE pgqrs_parent_end IS 'what happens to a live child when its parent ends in ERROR or CANCELLED';

CREATE TYPE pgqrs_on_cancel AS ENUM
	('end', 'deliver');
COMMENT ON TYPE pgqrs_on_cancel IS 'what a request to stop does with a run that was claimed before: ends it, or delivers it once more, so that its handler undoes what it did';

CREATE TYPE pgqrs_undo_cause AS ENUM
	('cancel', 'timeout');
COMMENT ON TYPE pgqrs_undo_cause IS 'why a run is undone: a cancel, or its deadline';

CREATE TYPE pgqrs_overlap AS ENUM
	('allow', 'skip', 'cancel');
COMMENT ON TYPE pgqrs_overlap IS 'what a schedule does while its previous run is live';

CREATE TYPE pgqrs_privilege AS ENUM
	('monitor', 'read', 'trigger', 'work', 'admin');
COMMENT ON TYPE pgqrs_privilege IS 'privilege that pgqrs_grant() gives on a pattern of names';

