"""Does what operations ask for, in the calling thread or on an event loop.

An operation is written once, as a generator that yields what has to be done outside: a
statement, a function of the application's, or a transaction of both.
"""
from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import random
import time
from typing import TYPE_CHECKING, Any, Callable, Generator, Mapping, NamedTuple, Sequence

import psycopg

from .connection import ask
from .errors import Cancelled, LeaseLost, is_connection_lost

if TYPE_CHECKING:
    from typing_extensions import ParamSpec
    P = ParamSpec('P')

# What a generator that is written once for both is to its callers.
Operation = Generator[Any, Any, Any]

# Whether a step's function is being executed.
in_step: contextvars.ContextVar[Any] = contextvars.ContextVar('pgqrs_in_step', default=False)


class Statement(NamedTuple):
    """The answer is its one row; connection: instead of one of the pool."""
    sql: str
    args: Sequence[Any]
    connection: Any = None
    repeat: bool = True         # if its answer is lost
    waits: bool = False         # it may take long
    asks: bool = False          # it answers one boolean, and is called often


class Invoke(NamedTuple):
    """A function of the application's; the answer is its result."""
    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any] = {}


class Together(NamedTuple):
    """A function that is given a connection, and a statement made of its result, in one transaction.

    The answer is what the statement said: true, or false if it was done before, which rolls back."""
    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    statement: Callable[[Any], Statement]
    repeat: bool = True


class Pause(NamedTuple):
    """Seconds to wait."""
    duration: float


class Refused(Exception):
    """Around an error of the statement itself, not of the application's SQL."""

    def __init__(self, error: psycopg.Error):
        self.error = error


class Foreign(Refused):
    """Around an error of a connection that is the application's own."""


def operation(function: Callable[P, Operation]) -> Callable[P, Any]:
    """Makes a generator a method: with AsyncApp and AsyncContext it is to be awaited."""
    @functools.wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return self.drive(function(self, *args, **options))
    return call     # type: ignore[return-value]


class Blocking:
    """In the calling thread.  `pool`, `waits` and before_repeat() come from the class that has this one as a base."""

    def drive(self, generator: Operation) -> Any:
        resume: Any = generator.send
        value: Any = None
        while True:
            try:
                request = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = generator.send, self._do(request)
            except BaseException as e:
                resume, value = generator.throw, e

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
            except Exception as e:
                pause = before_repeat(self, request, e, tries)
            tries += 1
            time.sleep(pause)

    def _execute(self: Any, request: Statement) -> Any:
        self.calling += 1
        try:
            if request.connection is not None:
                return request.connection.execute(request.sql, request.args).fetchone()
            with (self.waits if request.waits else self.pool).connection() as connection:
                answer = ask(connection, request.sql, request.args) if request.asks else None
                return connection.execute(request.sql, request.args).fetchone() if answer is None else (answer,)
        except psycopg.Error as e:
            raise Refused(e) from e
        finally:
            self.calling -= 1

    def _execute_together(self: Any, request: Together) -> Any:
        with self.pool.connection() as connection, connection.transaction():
            try:
                value = request.function(connection, *request.args, **request.options)
            except psycopg.Error as e:
                raise Foreign(e) if is_connection_lost(e) and not connection.closed else e
            statement = request.statement(value)
            try:
                done = connection.execute(statement.sql, statement.args).fetchone()[0]
            except psycopg.Error as e:
                raise Refused(e) from e
            if not done:
                raise psycopg.Rollback()
        return done


class Awaiting:
    """On an event loop."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.running: set[Any] = set()       # the tasks of steps
        self.interrupted: set[Any] = set()   # and of these, those that interrupt() has ended

    async def drive(self, generator: Operation) -> Any:
        resume: Any = generator.send
        value: Any = None
        while True:
            try:
                request = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = generator.send, await self._do(request)
            except BaseException as e:
                resume, value = generator.throw, e

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
            except Exception as e:
                pause = before_repeat(self, request, e, tries)
            tries += 1
            await asyncio.sleep(pause)

    async def _execute(self: Any, request: Statement) -> Any:
        self.calling += 1
        try:
            if request.connection is not None:
                return await (await request.connection.execute(request.sql, request.args)).fetchone()
            async with (self.waits if request.waits else self.pool).connection() as connection:
                return await (await connection.execute(request.sql, request.args)).fetchone()
        except psycopg.Error as e:
            raise Refused(e) from e
        finally:
            self.calling -= 1

    async def _execute_together(self: Any, request: Together) -> Any:
        async with self.pool.connection() as connection, connection.transaction():
            try:
                value = await self._invoke(request.function, connection, *request.args, **request.options)
            except psycopg.Error as e:
                raise Foreign(e) if is_connection_lost(e) and not connection.closed else e
            statement = request.statement(value)
            try:
                done = (await (await connection.execute(statement.sql, statement.args)).fetchone())[0]
            except psycopg.Error as e:
                raise Refused(e) from e
            if not done:
                raise psycopg.Rollback()
        return done

    async def _invoke(self: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
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


def before_repeat(driver: Any, request: Any, error: Exception, tries: int) -> float:
    """Seconds after which to do it again, or raises what the error is to the operation."""
    own = isinstance(error, Refused) and not isinstance(error, Foreign)
    cause = error.error if isinstance(error, Refused) else error
    if not isinstance(cause, psycopg.Error) or isinstance(error, Foreign):
        raise cause
    return float(driver.before_repeat(request, cause, own, tries)) * random.uniform(0.5, 1)
