"""Connections: small pools that make them when needed, and the text of calls."""
from __future__ import annotations

import asyncio
import contextlib
import datetime
import queue
import select
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Optional, Sequence, Union

import psycopg
from psycopg.pq import TransactionStatus

from . import codec as codecs

Duration = Union[float, int, datetime.timedelta]

# Arguments that are durations: seconds may be given.  And those that are JSON of no codec.
DURATIONS = {'initial_interval', 'max_interval', 'timeout', 'visibility_timeout', 'retention', 'dead_retention',
             'rate_period', 'delay'}
JSON = {'tags', 'headers', 'retry_policy', 'labels'}


def interval(duration: Any) -> Any:
    """Seconds as an interval; what is none of Python's numbers is left to the server."""
    if isinstance(duration, (int, float)):
        return datetime.timedelta(seconds=duration)
    return duration


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
        values.append(interval(value) if name in DURATIONS else
                      codecs.dumps(codecs.PLAIN, value) if name in JSON else value)
    return f'SELECT * FROM {function}({", ".join(marks)})', values


def _is_usable(connection: Any) -> bool:
    """Whether an idle connection is in order.  There is nothing to read from it unless the server has closed it."""
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


class Pool:
    """At most `size` connections, in autocommit mode, for threads."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], size: int):
        self._connect = connect
        self._places: queue.LifoQueue[Optional[psycopg.Connection[Any]]] = queue.LifoQueue()       # the one used last comes first
        for _ in range(size):
            self._places.put(None)

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self._places.get()
        try:
            if connection is not None and not _is_usable(connection):
                connection.close()
                connection = None
            if connection is None:
                connection = self._connect()
            yield connection
        finally:
            if connection is not None and connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
                connection = None
            self._places.put(connection)

    def close(self) -> None:
        """Closes the idle ones."""
        for connection in _take_all(self._places):
            self._places.put(None)
            if connection is not None:
                connection.close()


class AsyncPool:
    """The same for coroutines of one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]], size: int):
        self._connect = connect
        self._places: asyncio.LifoQueue[Optional[psycopg.AsyncConnection[Any]]] = asyncio.LifoQueue()
        self.loop = asyncio.get_running_loop()
        for _ in range(size):
            self._places.put_nowait(None)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection: Optional[psycopg.AsyncConnection[Any]] = await self._places.get()
        try:
            if connection is not None and not _is_usable(connection):
                await connection.close()
                connection = None
            if connection is None:
                connection = await self._connect()
            yield connection
        finally:
            if connection is not None and connection.info.transaction_status != TransactionStatus.IDLE:
                await connection.close()
                connection = None
            self._places.put_nowait(connection)

    async def close(self) -> None:
        for connection in _take_all(self._places):
            self._places.put_nowait(None)
            if connection is not None:
                await connection.close()


def _take_all(places: Any) -> list[Any]:
    taken = []
    while not places.empty():
        with contextlib.suppress(queue.Empty):
            taken.append(places.get_nowait())
    return taken
