"""Connections: small pools that make them when needed, and the text of calls."""
from __future__ import annotations

import asyncio
import contextlib
import datetime
import queue
import select
import zlib
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Optional, Sequence, Union

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus

from . import codec as codecs

Duration = Union[float, int, datetime.timedelta]

# Arguments that are durations: seconds may be given.  And those that are JSON of no codec.
DURATIONS = {'initial_interval', 'max_interval', 'timeout', 'visibility_timeout', 'retention', 'dead_retention',
             'rate_period', 'delay'}
JSON = {'tags', 'headers', 'retry_policy', 'labels'}


def interval(duration: Any) -> Any:
    """Seconds as an interval; what is none of Python's numbers is left to the server."""
    return datetime.timedelta(seconds=duration) if isinstance(duration, (int, float)) else duration


class Array(list[Any]):
    """JSON texts, for an argument of type jsonb[]."""


def call(function: str, args: Sequence[Any], options: Mapping[str, Any] = {}) -> tuple[str, list[Any]]:
    """The statement for a function's call; options are passed by name, and those that are None are left out."""
    marks, values = ['%s::jsonb[]' if isinstance(a, Array) else '%s' for a in args], list(args)
    for name, value in options.items():
        if not name.isidentifier():
            raise ValueError(f'{name!r} is no name of an argument')
        if value is None:
            continue
        marks.append(f'{name} => %s')
        values.append(interval(value) if name in DURATIONS else codecs.dumps(codecs.PLAIN, value) if name in JSON else value)
    return f'SELECT * FROM {function}({", ".join(marks)})', values


def ask(connection: Any, sql: str, args: Sequence[Any]) -> Optional[bool]:
    """What a statement says that answers one boolean, prepared and without a cursor, which costs more than the rest of
    the call.  None: it was not done, and execute() is to be called, which tells why."""
    text = '\0'.join(map(str, args))
    if connection.prepare_threshold is None or not text.isascii() or text.count('\0') != len(args) - 1:
        return None
    name = b'pgqrs_%08x' % zlib.crc32(sql.encode())
    prepared, pgconn = connection.__dict__.setdefault('pgqrs_prepared', set()), connection.pgconn
    with contextlib.suppress(MemoryError):      # which psycopg raises if nothing could be sent
        if name not in prepared:
            made = pgconn.prepare(name, (sql % tuple(f'${n}' for n in range(1, len(args) + 1))).encode())
            if made.status != ExecStatus.COMMAND_OK and made.error_field(DiagnosticField.SQLSTATE) != b'42P05':
                return None
            prepared.add(name)
        result = pgconn.exec_prepared(name, text.encode().split(b'\0'))
        if result.status == ExecStatus.TUPLES_OK:
            return bool(result.get_value(0, 0) == b't')
        # 26000: the application has thrown them away; 0A000: one is of another time; none: the connection is lost
        if result.error_field(DiagnosticField.SQLSTATE) not in (b'26000', b'0A000', None):
            raise psycopg.errors.error_from_result(result, connection.info.encoding)
        prepared.clear()
    return None


class Pool:
    """At most `size` connections, in autocommit mode, for threads.

    tests: whether each is looked at before it is used; not needed where a call is repeated if its connection was lost."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], size: int, tests: bool = True):
        self._connect, self._tests = connect, tests
        self._idle: list[psycopg.Connection[Any]] = []
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._places.put(None)

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        connection = None
        self._places.get()
        try:
            connection = _take(self._idle)
            if connection is not None and self._tests and _was_closed(connection):
                connection.close()
                connection = None
            connection = connection or self._connect()
            yield connection
        finally:
            if connection is not None and not _give(self._idle, connection):
                connection.close()
            self._places.put(None)

    def close(self) -> None:
        """Closes the idle ones."""
        while (connection := _take(self._idle)) is not None:
            connection.close()


class AsyncPool:
    """The same for coroutines of one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]], size: int, tests: bool = True):
        self._connect, self._tests = connect, tests
        self._idle: list[psycopg.AsyncConnection[Any]] = []
        self._places = asyncio.Semaphore(size)
        self.loop = asyncio.get_running_loop()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection = None
        async with self._places:
            try:
                connection = _take(self._idle)
                if connection is not None and self._tests and _was_closed(connection):
                    await connection.close()
                    connection = None
                connection = connection or await self._connect()
                yield connection
            finally:
                if connection is not None and not _give(self._idle, connection):
                    await connection.close()

    async def close(self) -> None:
        while (connection := _take(self._idle)) is not None:
            await connection.close()


def _take(idle: list[Any]) -> Any:
    """The one that was used last, so that few are made; None if there is none."""
    with contextlib.suppress(IndexError):
        return idle.pop()
    return None


def _give(idle: list[Any], connection: Any) -> bool:
    """Whether it is in order, and idle from now on."""
    is_idle: bool = connection.pgconn.transaction_status == TransactionStatus.IDLE
    if is_idle:
        idle.append(connection)
    return is_idle


def _was_closed(connection: Any) -> bool:
    """Whether the server has closed an idle connection: there is nothing else to read from it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
