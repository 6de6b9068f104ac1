"""Exceptions: of the server by SQLSTATE, of steps and runs, and those that leave a handler."""
from __future__ import annotations

import traceback
from typing import Any, Optional

import psycopg


class PgqrsError(Exception):
    """An error of pgqrs, raised by the server or by this client."""

    sqlstate: Optional[str] = None


class QueueNotFound(PgqrsError):
    sqlstate = 'PQ001'


class WorkflowNotFound(PgqrsError):
    sqlstate = 'PQ002'


class RunNotFound(PgqrsError):
    sqlstate = 'PQ003'


class MessageNotFound(PgqrsError):
    sqlstate = 'PQ004'


class WorkerNotFound(PgqrsError):
    sqlstate = 'PQ005'


class PayloadTooLarge(PgqrsError):
    sqlstate = 'PQ008'


class InUse(PgqrsError):
    sqlstate = 'PQ009'


class OtherNode(PgqrsError):
    sqlstate = 'PQ011'


class WaitTimeout(PgqrsError, TimeoutError):
    sqlstate = 'PQ012'


class NoWorker(PgqrsError):
    sqlstate = 'PQ013'


class WorkerStopped(PgqrsError):
    sqlstate = 'PQ014'


class ScheduleInvalid(PgqrsError):
    sqlstate = 'PQ015'


class InvalidState(PgqrsError):
    sqlstate = 'PQ016'


class Incompatible(PgqrsError):
    """The extension in the database and this client do not fit together."""


class NotSerializable(PgqrsError):
    """A value cannot be stored as JSON."""


class InvalidInput(PgqrsError):
    """A stored value cannot be made into what the handler takes."""


class InvalidStep(PgqrsError):
    """A step id is empty, too long or used by two kinds of steps, or a step is begun inside another one."""


class SignalTimeout(PgqrsError, TimeoutError):
    """A signal did not come in time."""


class Failure(PgqrsError):
    """What was stored as an error: `error` is the JSON object, `type` its type."""

    def __init__(self, error: Any):
        self.error: dict[str, Any] = error if isinstance(error, dict) else {'message': error}
        self.type: Optional[str] = self.error.get('type')
        super().__init__(self.error.get('message') or self.type or 'failed')


class StepFailed(Failure):
    """A step failed for good."""


class ChildFailed(Failure):
    """A child run did not succeed; `status` is ERROR or CANCELLED."""

    def __init__(self, status: str, error: Any):
        self.status = status
        super().__init__(error or {'type': status.lower(), 'message': f'the child is {status}'})


class RunFailed(Failure):
    """A run ended in ERROR."""


class RunCancelled(Failure):
    """A run was cancelled."""


class Verdict(Exception):
    """What a handler or step says of its own failure; `type` is that of the stored error."""

    def __init__(self, message: str = '', *, type: Optional[str] = None):
        self.type = type or self.__class__.__name__
        super().__init__(message or self.type)


class Retry(Verdict):
    """Raised by a handler or step: try again, `after` so many seconds if given."""

    def __init__(self, message: str = '', after: Optional[float] = None, *, type: Optional[str] = None):
        self.after = after
        super().__init__(message, type=type)


class Permanent(Verdict):
    """Raised by a handler or step: another try is useless."""


class Leave(BaseException):
    """Leaves a handler.  Not an Exception, so that `except Exception` lets it pass."""


class Parked(Leave):
    """The run is given back until something happens or is tried again."""


class LeaseLost(Leave):
    """The lease is not the worker's any more: the work is dropped."""


class Cancelled(Leave):
    """The run was asked to stop.  A handler may catch it to undo, and raises it again."""


BY_SQLSTATE = {c.sqlstate: c for c in (
    QueueNotFound, WorkflowNotFound, RunNotFound, MessageNotFound, WorkerNotFound, PayloadTooLarge, InUse,
    OtherNode, WaitTimeout, NoWorker, WorkerStopped, ScheduleInvalid, InvalidState)}
LOST_LEASE = ('PQ006', 'PQ007', 'PQ014')        # of a call under the lease
NOT_OURS = ('PQ003', 'PQ005', 'PQ010')          # of the call that gives the work up, besides
READ_ONLY = '25006'                             # of a server that is a standby for the moment
REPEATABLE = ('40001', '40P01', READ_ONLY)
UNSTORABLE = ('22021', '22P02', '22P05')


def typed(error: psycopg.Error) -> Exception:
    """The exception for an error of the server; other errors stay what they are."""
    kind = BY_SQLSTATE.get(error.sqlstate or '')
    if kind is None:
        return error
    parts = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    return kind('. '.join(part.rstrip('.') for part in parts if part))


def is_connection_lost(error: BaseException) -> bool:
    """Whether the answer of a statement is lost with its connection."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    state = error.sqlstate
    return state is None or state[:2] == '08' or state in ('53300', '57P01', '57P02', '57P03', '57P05', '25P03')


def type_name(kind: type) -> str:
    """The type of the stored error for a class of exceptions."""
    own = kind.__module__ in ('builtins', '__main__') or kind.__module__.startswith('pgqrs.')
    return kind.__qualname__ if own else f'{kind.__module__}.{kind.__qualname__}'


def describe(error: BaseException) -> dict[str, Any]:
    """The JSON object that is stored for an exception."""
    if isinstance(error, Failure):
        return error.error
    name = error.type if isinstance(error, Verdict) else getattr(error, 'sqlstate', None) or type_name(type(error))
    try:
        message = str(error)
    except Exception as e:
        message = f'its text raises {type(e).__name__}'
    where = ''.join(traceback.format_exception(type(error), error, error.__traceback__, limit=-8, chain=False))
    return {'type': clean(name), 'message': clean(message), 'traceback': clean(where)[-8000:]}


def clean(text: str) -> str:
    """Text as jsonb can store it: without NUL and lone surrogates."""
    return text.replace('\0', '\ufffd').encode('utf-8', 'replace').decode('utf-8')


def retry_of(error: BaseException) -> tuple[bool, Optional[float]]:
    """Whether another try may help, and after how many seconds (None: by the policy)."""
    if isinstance(error, Retry):
        return True, error.after
    return not isinstance(error, (Permanent, Failure, NotSerializable, InvalidInput, InvalidStep)), None
