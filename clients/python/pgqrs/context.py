"""What a handler is given: the operations of a run, in a thread or on an event loop."""
from __future__ import annotations

import asyncio
import datetime
import functools
import inspect
import random
import time
from typing import Any, Callable, Generator, Optional, Sequence

import psycopg

from . import codec as codecs
from .connection import Duration
from .errors import Cancelled, LeaseLost, is_connection_lost
from .run import Invoke, Message, Pause, Run, Statement, Together, current, in_step, name_of


class Refused(Exception):
    """Around an error of a call under the lease."""

    def __init__(self, error: psycopg.Error):
        self.error = error


class Foreign(Exception):
    """Around an error of a connection of the application's own."""

    def __init__(self, error: psycopg.Error):
        self.error = error


class Blocking:
    """Does what the operations ask for, in the calling thread."""

    def drive(self: Any, operation: Generator) -> Any:
        resume, value = operation.send, None
        while True:
            try:
                request = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = operation.send, self._do(request)
            except BaseException as e:
                resume, value = operation.throw, e

    def _do(self: Any, request: Any) -> Any:
        if isinstance(request, Invoke):
            return request.function(*request.args, **request.options)
        if isinstance(request, Pause):
            return time.sleep(request.duration)
        run = self._execute if isinstance(request, Statement) else self._execute_together
        tries = 0
        while True:
            try:
                return run(request)
            except Refused as e:
                pause = self.before_repeat(e.error, True, tries)
            except Foreign as e:
                raise e.error
            except psycopg.Error as e:
                pause = self.before_repeat(e, False, tries)
            tries += 1
            time.sleep(pause * random.uniform(0.5, 1))

    def _execute(self: Any, request: Statement) -> Any:
        self.calling += 1
        try:
            with self.worker.pool.connection() as connection:
                return connection.execute(request.sql, request.args).fetchone()
        except psycopg.Error as e:
            raise Refused(e) from e
        finally:
            self.calling -= 1

    def _execute_together(self: Any, request: Together) -> Any:
        with self.worker.pool.connection() as connection:
            stored = False
            with connection.transaction():
                try:
                    value = request.function(connection, *request.args, **request.options)
                except psycopg.Error as e:
                    raise Foreign(e) if is_connection_lost(e) and not connection.closed else e
                statement = request.statement(value)
                try:
                    stored = connection.execute(statement.sql, statement.args).fetchone()[0]
                except psycopg.Error as e:
                    raise Refused(e) from e
                if not stored:
                    raise psycopg.Rollback()
            return stored, value


class Awaiting:
    """The same on an event loop."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.running: set = set()       # the tasks of steps
        self.interrupted: set = set()   # and of these, those that interrupt() has ended

    async def drive(self: Any, operation: Generator) -> Any:
        resume, value = operation.send, None
        while True:
            try:
                request = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = operation.send, await self._do(request)
            except BaseException as e:
                resume, value = operation.throw, e

    async def _do(self: Any, request: Any) -> Any:
        if isinstance(request, Invoke):
            return await self._invoke(request.function, *request.args, **request.options)
        if isinstance(request, Pause):
            return await asyncio.sleep(request.duration)
        run = self._execute if isinstance(request, Statement) else self._execute_together
        tries = 0
        while True:
            try:
                return await run(request)
            except Refused as e:
                pause = self.before_repeat(e.error, True, tries)
            except Foreign as e:
                raise e.error
            except psycopg.Error as e:
                pause = self.before_repeat(e, False, tries)
            tries += 1
            await asyncio.sleep(pause * random.uniform(0.5, 1))

    async def _invoke(self: Any, function: Callable, *args: Any, **options: Any) -> Any:
        """A step's function as a task of its own, so that it can be interrupted alone."""
        value = function(*args, **options)
        if not inspect.isawaitable(value):
            return value
        if not in_step.get():
            return await value
        task = asyncio.ensure_future(value)
        self.running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self.lost:
                raise LeaseLost() from None
            if task in self.interrupted:
                self.told = True
                raise Cancelled() from None
            raise
        finally:
            self.running.discard(task)

    def interrupt(self) -> None:
        """Ends the steps that are being executed."""
        self.interrupted = set(self.running)
        for task in self.interrupted:
            task.cancel()

    async def _execute(self: Any, request: Statement) -> Any:
        self.calling += 1
        try:
            async with self.worker.async_pool.connection() as connection:
                return await (await connection.execute(request.sql, request.args)).fetchone()
        except psycopg.Error as e:
            raise Refused(e) from e
        finally:
            self.calling -= 1

    async def _execute_together(self: Any, request: Together) -> Any:
        async with self.worker.async_pool.connection() as connection:
            stored = False
            async with connection.transaction():
                try:
                    value = await self._invoke(request.function, connection, *request.args, **request.options)
                except psycopg.Error as e:
                    raise Foreign(e) if is_connection_lost(e) and not connection.closed else e
                statement = request.statement(value)
                try:
                    stored = (await (await connection.execute(statement.sql, statement.args)).fetchone())[0]
                except psycopg.Error as e:
                    raise Refused(e) from e
                if not stored:
                    raise psycopg.Rollback()
            return stored, value


class Operations(Run):
    """What a handler calls.  In a coroutine function each of these is awaited, but check()."""

    def drive(self, operation: Generator) -> Any:
        raise NotImplementedError

    @property
    def cancel_requested(self) -> bool:
        """Whether the run was asked to stop; its next step raises Cancelled."""
        return self.cancelling

    def check(self) -> None:
        """Raises if the run was asked to stop or its lease is lost: for long steps."""
        self.require_lease()
        self.raise_cancelled()

    def step(self, id: Optional[str], function: Callable, *args: Any, max_attempts: Optional[int] = None,
             result: Any = None, **options: Any) -> Any:
        """Calls a function once, stores its result, and answers the stored one ever after.

        id None: the function's name.  An exception is tried again by the workflow's policy, or
        max_attempts times; at last it is raised as StepFailed.  result: the type to answer, if the
        function's annotation does not say it."""
        return self._step(id, function, args, options, max_attempts, result, False)

    def transaction(self, id: Optional[str], function: Callable, *args: Any, max_attempts: Optional[int] = None,
                    result: Any = None, **options: Any) -> Any:
        """step() of a function whose first argument is a connection: what it writes there and the step's
        result are committed together, so exactly once.  It may be called more than once, and must not commit."""
        return self._step(id, function, args, options, max_attempts, result, True)

    def _step(self, id: Optional[str], function: Callable, args: tuple, options: dict, max_attempts: Optional[int],
              result: Any, transaction: bool) -> Any:
        declared = getattr(function, 'pgqrs_step', None)
        name = name_of(function)
        if declared is not None:        # decorated with step() or transaction()
            function, transaction = declared['function'], declared['transaction']
            name, max_attempts = declared['id'] or name, max_attempts or declared['max_attempts']
        if result is None:
            result = codecs.result_type(function)
        return self.drive(self.do_step(id, name, function, args, options, max_attempts, result, transaction))

    def sleep(self, duration: Duration, id: Optional[str] = None) -> Any:
        """Gives the run back for so many seconds."""
        return self.drive(self.do_sleep(duration, None, id))

    def sleep_until(self, instant: datetime.datetime, id: Optional[str] = None) -> Any:
        return self.drive(self.do_sleep(None, instant, id))

    def receive(self, signal: str, timeout: Optional[Duration] = None, id: Optional[str] = None, result: Any = None) -> Any:
        """The payload of the next signal of that name; SignalTimeout."""
        return self.drive(_first(self.do_receive(signal, timeout, id, result)))

    def receive_signal(self, signal: str, timeout: Optional[Duration] = None, id: Optional[str] = None,
                       result: Any = None) -> Any:
        """receive(), as Signal(payload, headers)."""
        return self.drive(self.do_receive(signal, timeout, id, result))

    def pause(self, reason: Any = None, check_after: Optional[Duration] = None, id: Optional[str] = None,
              result: Any = None) -> Any:
        """Gives the run back until it is resumed, and answers the output that came with that."""
        return self.drive(self.do_pause(reason, check_after, id, result))

    def start_child(self, workflow: Any, input: Any = None, id: Optional[str] = None, **options: Any) -> Any:
        """Starts a run of another workflow: the step's id, for result_of() and await_any().

        Options are the arguments of pgqrs_start_child()."""
        return self.drive(self.do_start_child(workflow, input, id, options))

    def result_of(self, child: str, result: Any = None) -> Any:
        """The output of a child that start_child() started; ChildFailed."""
        return self.drive(self.await_child(child, result))

    def child(self, workflow: Any, input: Any = None, id: Optional[str] = None, result: Any = None, **options: Any) -> Any:
        """Runs another workflow and answers its output; ChildFailed."""
        return self.drive(self.do_child(workflow, input, id, _output_type(workflow, result), options))

    def children(self, workflow: Any, inputs: Sequence, id: Optional[str] = None, result: Any = None,
                 **options: Any) -> Any:
        """Runs a child for each input: the outputs in that order; ChildFailed of the first that failed.

        Options are the arguments of pgqrs_start_children()."""
        return self.drive(self.do_children(workflow, inputs, id, _output_type(workflow, result), options))

    def await_any(self, signals: Sequence[str] = (), children: Sequence[str] = (), timeout: Optional[Duration] = None,
                  id: Optional[str] = None) -> Any:
        """The first of several signals, children and a time-out, as Event(source, name, payload)."""
        return self.drive(self.do_await_any(signals, children, timeout, id))

    def progress(self, value: Any) -> Any:
        """Shows how far the run is."""
        return self.drive(self.do_progress(value))


def _first(operation: Generator) -> Generator:
    return (yield from operation)[0]


def _output_type(workflow: Any, result: Any) -> Any:
    return result if result is not None else getattr(workflow, 'output_type', None)


class Context(Blocking, Operations):
    """A run, for a handler that is a plain function."""


class AsyncContext(Awaiting, Operations):
    """A run, for a handler that is a coroutine function."""


class BlockingMessage(Blocking, Message):
    """A message, for a handler that is a plain function."""


class AwaitingMessage(Awaiting, Message):
    """A message, for a handler that is a coroutine function."""


def step(function: Optional[Callable] = None, *, id: Optional[str] = None, max_attempts: Optional[int] = None) -> Any:
    """Makes a function a step: called in a handler it is executed once, and its result is stored.

    Called elsewhere, or in another step, it is a plain function."""
    return _declare(function, False, id, max_attempts)


def transaction(function: Optional[Callable] = None, *, id: Optional[str] = None, max_attempts: Optional[int] = None) -> Any:
    """The same for a function whose first argument is a connection, which a caller in a handler leaves out."""
    return _declare(function, True, id, max_attempts)


def _declare(function: Optional[Callable], transaction: bool, id: Optional[str], max_attempts: Optional[int]) -> Any:
    if function is None:
        return lambda f: _declare(f, transaction, id, max_attempts)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        run = current.get()
        if run is None or in_step.get():
            return function(*args, **options)
        return run._step(None, call, args, options, None, None, transaction)
    call.pgqrs_step = {'function': function, 'transaction': transaction, 'id': id,      # type: ignore[attr-defined]
                       'max_attempts': max_attempts}
    return call
