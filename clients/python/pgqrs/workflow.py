"""Workflows and queues as they are declared, and the handle of a run."""
from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import codec as codecs
from .connection import Duration
from .driver import Operation, operation
from .errors import PgqrsError, RunCancelled, RunFailed

if TYPE_CHECKING:
    from .app import Calls


class Workflow:
    """A handler, and what pgqrs_create_workflow() is told of it.  Called, it is the function itself."""

    def __init__(self, function: Callable[..., Any], name: str, options: dict[str, Any]):
        self.function, self.name, self.options = function, name, options
        self.is_async = inspect.iscoroutinefunction(function)
        self.takes_input = len(inspect.signature(function).parameters) > 1
        self.app: Optional[Calls] = None
        functools.update_wrapper(self, function)

    @functools.cached_property
    def input_type(self) -> Any:
        return codecs.parameter_type(self.function, 1)

    @functools.cached_property
    def output_type(self) -> Any:
        return codecs.result_type(self.function)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.function(*args, **options)

    def start(self, input: Any = None, **options: Any) -> Any:
        """App.start() of this workflow."""
        if self.app is None:
            raise PgqrsError(f'workflow {self.name!r} belongs to no app: use app.workflow or app.discover()')
        return self.app.start(self, input, **options)


class Queue:
    """The handler of a plain queue, and what pgqrs_create_queue() is told of it."""

    def __init__(self, function: Callable[..., Any], name: str, options: dict[str, Any], *, raw: bool, transaction: bool):
        self.function, self.name, self.options = function, name, options
        self.raw, self.transaction = raw, transaction
        self.is_async = inspect.iscoroutinefunction(function)

    @functools.cached_property
    def payload_type(self) -> Any:
        return codecs.parameter_type(self.function, 1 if self.transaction else 0)


def workflow(function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None, **options: Any) -> Any:
    """A workflow of no app yet: app.discover() finds it.  Options are the arguments of pgqrs_create_workflow()."""
    if function is None:
        return lambda f: workflow(f, name=name, **options)
    return Workflow(function, name or function.__name__, options)


class Handle:
    """A run that was started.  That of an AsyncApp has to be awaited."""

    def __init__(self, app: Calls, run_id: int, output_type: Any = None):
        self.app, self.run_id, self.output_type = app, run_id, output_type
        self.drive = app.drive

    def __repr__(self) -> str:
        return f'<run {self.run_id}>'

    @operation
    def result(self, timeout: Duration = 300) -> Operation:
        """Waits for the run's end: its output, or RunFailed, RunCancelled or WaitTimeout."""
        status, output, error = yield self.app.wait('pgqrs_wait', self.run_id, timeout)
        if status == 'CANCELLED':
            raise RunCancelled(error or {'type': 'cancelled', 'message': f'run {self.run_id} was cancelled'})
        if status != 'SUCCESS':
            raise RunFailed(error)
        return codecs.loads(self.app.codec, output, self.output_type)

    @operation
    def status(self) -> Operation:
        return (yield self.app.statement('pgqrs_result', [self.run_id]))[0]

    def signal(self, name: str, payload: Any = None, *, key: Optional[str] = None, conn: Any = None) -> Any:
        """Sends a signal: its id.  key: its idempotency key."""
        return self.app.signal(self.run_id, name, payload, key=key, conn=conn)

    @operation
    def cancel(self, reason: Optional[str] = None) -> Operation:
        """Asks it to stop: the status after that."""
        return (yield self.app.statement('pgqrs_cancel_run', [self.run_id, reason]))[0]

    @operation
    def resume(self, step_id: Optional[str] = None, output: Any = None) -> Operation:
        """Ends its pause, or the one with that step id, with an output; False if there was none."""
        return (yield self.app.statement('pgqrs_resume_run', [self.run_id, step_id, self.app.dumps(output)], repeat=False))[0]
