"""A worker: one poll, which extends what is held and claims, and the handlers beside it.

The poll runs on the event loop and has a connection of its own.  Handlers that are coroutine
functions run on the loop, others in threads; their calls share a few connections.
"""
from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import random
import signal
import socket
import threading
from typing import Any, Awaitable, Callable, Iterable, Iterator, Optional, Union

import psycopg

from . import trace
from .app import Calls
from .connection import AsyncPool, Pool, call, interval
from .errors import Incompatible, Leave, PgqrsError, WorkerNotFound, WorkerStopped, is_connection_lost, typed
from .run import AsyncContext, AwaitingMessage, BlockingMessage, Context, current
from .workflow import Queue, Workflow

log = logging.getLogger('pgqrs')

VERSION = '0.1.1'       # of this client: it fits extensions with the same first two numbers
POLL = 30               # seconds
# Seconds for which no poll is begun: handlers that are quick end meanwhile, and one poll tells of several ends.
LINGER = 0.002
FULL = 0.02             # if there was no place for a claim, and half of them are not free yet

Delivery = Union[Context, AsyncContext, BlockingMessage, AwaitingMessage]


class Task:
    """A claim that is being worked on."""

    def __init__(self, work: Delivery):
        self.work = work
        self.future: Optional[asyncio.Task[None]] = None      # of a coroutine
        self.gone = False                               # the server said that the lease has ended


class Threads:
    """As many as were busy at once.  No executor: a handler that hangs would keep the program from ending."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.idle, self.lock = 0, threading.Lock()

    def run(self, *call: Any) -> None:
        with self.lock:
            starts = self.idle == 0
            self.idle -= not starts
        self.calls.put(call)
        if starts:
            threading.Thread(target=self._work, daemon=True, name='pgqrs handler').start()

    def _work(self) -> None:
        while True:
            call = self.calls.get()
            if call is None:
                return
            call[0](*call[1:])
            with self.lock:
                self.idle += 1

    def end(self) -> None:
        """Ends those that have nothing to do."""
        for _ in range(self.idle):
            self.calls.put(None)


class Worker:
    """Works for an app.

    concurrency: how many runs and messages at once.  grace: how many seconds those may take to end after
    SIGTERM; what has not ended then is given back.  queues: patterns, by default all that the app has handlers
    for.  connections: how many the handlers share, besides that of the poll."""

    def __init__(self, app: Calls, *, concurrency: int = 10, grace: float = 30, name: Optional[str] = None,
                 queues: Optional[list[str]] = None, connections: int = 4, labels: Optional[dict[str, Any]] = None):
        self.app, self.concurrency, self.grace, self.labels = app, concurrency, grace, labels
        self.name = name or app.name or f'{socket.gethostname()}:{os.getpid()}'
        self.queues = queues or sorted([*app.workflows, *app.queues])
        self.connections = connections
        self.worker_id: Optional[int] = None
        self.held: dict[tuple[int, int], Task] = {}
        self.most = 0                                   # of these, until which the loop waits
        self.fewer: Optional[asyncio.Future[None]] = None
        self.draining = False
        self.deadline: Optional[float] = None
        self.suspending: Optional[asyncio.Task[None]] = None
        self.connection: Optional[psycopg.AsyncConnection[Any]] = None
        if not self.queues:
            raise PgqrsError('there is no handler: declare one with app.workflow or app.queue')
        for w in app.workflows.values():
            w.input_type, w.output_type         # raises if they cannot be resolved
        for q in app.queues.values():
            q.payload_type

    #
    # Start and end
    #

    async def work(self, until_idle: bool = False) -> None:
        """Works until it is told to drain; until_idle: or there is nothing that can be claimed."""
        self.loop = asyncio.get_running_loop()
        kinds = {w.is_async for w in self.app.workflows.values()} | {q.is_async for q in self.app.queues.values()}
        share = max(1, self.connections // (len(kinds) or 1))
        self.threads = Threads()
        self.pool = Pool(self.app.connect, share, tests=False)
        self.async_pool = AsyncPool(self.app.aconnect, share, tests=False)
        with self._signals():
            try:
                await self._register()
                await self._loop(until_idle)
            finally:
                await self._stop()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            self.loop.add_signal_handler(number, self.drain)
        try:
            yield
        finally:
            for number in numbers:
                self.loop.remove_signal_handler(number)

    async def _register(self) -> None:
        """However long the database is away or cannot be written to."""
        answer = await self._persist(lambda: self._execute(
            *call(self.app.qualified('pgqrs_register_worker'), [self.name, self.queues],
                  {'hostname': socket.gethostname(), 'version': VERSION, 'max_concurrent': self.concurrency, 'labels': self.labels})))
        if answer is not None:
            self.worker_id = answer[0]
            log.info('worker %s is registered as %r for %s', self.worker_id, self.name, ', '.join(self.queues))

    def drain(self) -> None:
        """Takes nothing new; the worker ends when what it holds has ended.  The second time: gives that back."""
        now = self.loop.time()
        self.deadline = now if self.draining else now + self.grace
        if not self.draining:
            self.draining = True
            log.info('draining: %s to end', len(self.held))
            self.suspending = self.loop.create_task(self._suspend())

    async def _suspend(self) -> None:
        """Ends the poll that is asleep, on a connection of its own."""
        with contextlib.suppress(psycopg.Error):
            async with await self.app.aconnect() as connection:
                await connection.execute(*call(self.app.qualified('pgqrs_suspend_worker'), [self.worker_id]))

    async def _stop(self) -> None:
        for task in list(self.held.values()):
            task.work.lost = True
            if task.future is not None:
                task.future.cancel()
        if self.suspending is not None:     # the poll may end before the answer to what ended it is here
            await asyncio.wait([self.suspending], timeout=5)
        with contextlib.suppress(psycopg.Error, PgqrsError, asyncio.TimeoutError):
            if self.worker_id is not None:
                await asyncio.wait_for(self._execute(*call(self.app.qualified('pgqrs_stop_worker'), [self.worker_id])), 5)
        if self.connection is not None:
            await self.connection.close()
        self.threads.end()
        await self.async_pool.close()
        self.pool.close()

    #
    # Calls without work
    #

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        """A connection to an extension that fits."""
        connection = await self.app.aconnect()
        found = await (await connection.execute(
            'SELECT current_database(), extversion, extnamespace::regnamespace::text, to_regproc(%s) IS NOT NULL '
            "FROM (VALUES ('pgqrs')) AS wanted (name) LEFT JOIN pg_extension ON extname = name",
            (self.app.qualified('pgqrs_version'),))).fetchone()
        database, version, schema, is_visible = found or ('', None, None, False)
        fault = None
        if version is None:
            fault = f'database {database!r} has no extension pgqrs: CREATE EXTENSION pgqrs'
        elif version.split('.')[:2] != VERSION.split('.')[:2]:
            fault = (f'extension pgqrs of database {database!r} has version {version}, this client has {VERSION}: '
                     'ALTER EXTENSION pgqrs UPDATE, or install the client of that version')
        elif not is_visible:
            fault = f'extension pgqrs is in schema {schema}: App(schema={schema!r})'
        if fault is not None:
            await connection.close()
            raise Incompatible(fault)
        return connection

    async def _execute(self, sql: str, args: Any) -> Any:
        try:
            if self.connection is None or self.connection.closed:
                self.connection = await self._connect()
            return await (await self.connection.execute(sql, args)).fetchone()
        except psycopg.Error as e:
            if self.connection is not None and is_connection_lost(e):
                await self.connection.close()
            raise typed(e) from e

    async def _persist(self, make: Callable[[], Awaitable[Any]]) -> Any:
        """Calls until it is answered: what has no work yet loses nothing by waiting.  None: time is up."""
        pause = 0.1
        while True:
            try:
                return await make()
            except (WorkerStopped, WorkerNotFound, Incompatible):
                raise
            except (psycopg.Error, PgqrsError) as e:
                log.warning('%s: trying again in %.1f s', str(e).strip() or type(e).__name__, pause)
            end = self.loop.time() + pause * random.uniform(0.5, 1)
            while self.loop.time() < end:
                if self.draining and (not self.held or self.loop.time() >= (self.deadline or 0)):
                    return None
                await asyncio.sleep(0.05)
            pause = min(10, pause * 2)

    #
    # The poll
    #

    async def _loop(self, until_idle: bool) -> None:
        while self.worker_id is not None and not (self.draining and not self._working()):
            if self.deadline is not None and self.loop.time() >= self.deadline:
                log.warning('giving back %s that did not end in time', len(self._working()))
                return
            if len(self.held) >= self.concurrency:
                await self._await_ends(self.concurrency // 2, FULL)
            await self._await_ends(0, LINGER)
            busy = bool(self.held)
            answer = await self._persist(lambda: self._poll(0 if until_idle and not busy else POLL))
            if answer is None:
                continue
            work, gone = answer
            for claim in work:
                self._begin(claim)
            if gone:
                # Most often the handler is about to see the answer to its last call.
                await self._await_ends(len(self.held) - gone, 0.1)
            if until_idle and not work and not busy:
                return
            await asyncio.sleep(0)

    async def _await_ends(self, most: int, seconds: float) -> None:
        """Until so many at most are held, or time is up."""
        if len(self.held) <= most:
            return
        self.most, self.fewer = most, self.loop.create_future()
        timer = self.loop.call_later(seconds, resume, self.fewer)
        if len(self.held) > most:           # a thread that ends from here on sees that it is awaited
            await self.fewer
        timer.cancel()
        self.fewer = None

    def _working(self) -> list[Task]:
        return [task for task in list(self.held.values()) if not task.gone]

    async def _poll(self, timeout: float) -> tuple[list[dict[str, Any]], int]:
        """What was claimed, and how many leases have ended."""
        tasks = self._working()
        free = 0 if self.draining else max(0, self.concurrency - len(self.held))
        if len(tasks) < len(self.held):
            timeout = min(timeout, 1)   # the server does not know when those without a lease end
        if self.deadline is not None:   # a second signal moves it
            timeout = min(timeout, 1, max(0.0, self.deadline - self.loop.time()))
        work, held, _ = await self._execute(
            f'CALL {self.app.qualified("pgqrs_poll")}(%s, %s, %s, %s::bigint[], %s::bigint[])',
            (self.worker_id, interval(timeout), free, array(t.work.id for t in tasks), array(t.work.lease for t in tasks)))
        for task, answer in zip(tasks, held):
            self._heed(task, answer['state'])
        return work, sum(task.gone for task in tasks)

    def _heed(self, task: Task, state: str) -> None:
        work = task.work
        if state == 'gone':
            task.gone = True
            if work.ended or work.calling:      # the call that is under way tells what became of it
                return
            work.lost = True
            if task.future is not None:
                task.future.cancel()
        elif state == 'cancel_requested' and not work.cancelling:
            work.cancelling = True
            if isinstance(work, AsyncContext):
                work.interrupt()

    #
    # Handlers
    #

    def _begin(self, claim: dict[str, Any]) -> None:
        definition: Any = self.app.workflows.get(claim['queue']) or self.app.queues.get(claim['queue'])
        is_async = definition is None or definition.is_async
        work: Delivery
        if claim.get('run_id') is not None:
            definition = definition if isinstance(definition, Workflow) else None
            work = (AsyncContext if is_async else Context)(self, claim)
        else:
            definition = definition if isinstance(definition, Queue) else None
            work = (AwaitingMessage if is_async else BlockingMessage)(self, claim)
        for earlier in self._working():
            if earlier.work.id == work.id:      # lost while the poll was asleep, after it had extended it
                self._heed(earlier, 'gone')
        task = Task(work)
        self.held[work.id, work.lease] = task
        if is_async:
            task.future = self.loop.create_task(self._handle_async(task, definition))
        else:
            self.threads.run(self._handle, task, definition)

    def _end(self, task: Task) -> None:
        """Called by the thread of the handler."""
        self.held.pop((task.work.id, task.work.lease), None)
        fewer = self.fewer
        if fewer is not None and len(self.held) <= self.most:
            with contextlib.suppress(RuntimeError):     # the loop has ended
                self.loop.call_soon_threadsafe(resume, fewer)

    def _handle(self, task: Task, definition: Any) -> None:
        try:
            with working_on(task.work):
                task.work.drive(task.work.deliver(definition))
        except BaseException as e:
            log_end(task.work, e)
        finally:
            self._end(task)

    async def _handle_async(self, task: Task, definition: Any) -> None:
        try:
            with working_on(task.work):
                await task.work.drive(task.work.deliver(definition))
        except BaseException as e:
            log_end(task.work, e)
        finally:
            self._end(task)


def resume(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def array(ids: Iterable[int]) -> str:
    return '{' + ','.join(map(str, ids)) + '}'


@contextlib.contextmanager
def working_on(work: Delivery) -> Iterator[None]:
    tokens = current.set(work if isinstance(work, (Context, AsyncContext)) else None), trace.received.set(work.headers)
    try:
        yield
    finally:
        current.reset(tokens[0])
        trace.received.reset(tokens[1])


def log_end(work: Delivery, error: BaseException) -> None:
    if isinstance(error, (Leave, asyncio.CancelledError)):
        log.debug('%s %s was left: %s', work.queue, work.id, type(error).__name__)
    else:
        log.error('%s %s is left to the time-out of its lease', work.queue, work.id, exc_info=error)
