"""App: the handlers of a program, and its calls."""
from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
import time
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import psycopg

from . import codec as codecs
from . import trace
from .connection import AsyncPool, Duration, Pool, call, interval
from .errors import REPEATABLE, PgqrsError, describe, is_connection_lost, retry_of, typed
from .workflow import Handle, Queue, Workflow, workflow

log = logging.getLogger('pgqrs')

CONNECTIONS = 4     # of the calls of an app outside of its handlers
TRIES = 5           # of a call whose connection was lost, where it may be repeated


class App:
    """What a program runs and calls.

    conninfo: as libpq has it; empty, the environment says where.  schema: that of the extension, if it is not
    in the search_path.  codec: see Codec.  Further options are those of psycopg.connect()."""

    def __init__(self, conninfo: str = '', *, schema: Optional[str] = None, codec: Optional[codecs.Codec] = None,
                 name: Optional[str] = None, **options: Any):
        self.conninfo, self.schema, self.name = conninfo, schema, name
        self.codec = codec or codecs.Codec()
        self.options = {'application_name': name or 'pgqrs', 'client_encoding': 'utf8', **options, 'autocommit': True}
        self.workflows: Dict[str, Workflow] = {}
        self.queues: Dict[str, Queue] = {}
        self.schedules: List[dict] = []
        self._pool = Pool(self.connect, CONNECTIONS)
        self._async_pool: Optional[AsyncPool] = None

    #
    # What it runs
    #

    def workflow(self, function: Optional[Callable] = None, *, name: Optional[str] = None, **options: Any) -> Any:
        """Makes a function the handler of a workflow; it gets a Context, and the input if it has a second
        parameter.  Options are the arguments of pgqrs_create_workflow()."""
        if function is None:
            return lambda f: self.workflow(f, name=name, **options)
        return self.add(workflow(function, name=name, **options))

    def queue(self, name: str, *, raw: bool = False, transaction: bool = False, **options: Any) -> Callable:
        """Makes a function the handler of a queue's messages; it gets the payload, with raw the Message.

        transaction: before that it gets a connection; what it writes there commits with the end of the
        message.  Options are the arguments of pgqrs_create_queue()."""
        def declare(function: Callable) -> Callable:
            self._require_free(name)
            self.queues[name] = Queue(function, name, options, raw=raw, transaction=transaction)
            return function
        return declare

    def schedule(self, cron: str, workflow: Union[str, Workflow], input: Any = None, *, name: Optional[str] = None,
                 **options: Any) -> None:
        """install() makes this schedule, named as the workflow if it has no name.

        Options are the arguments of pgqrs_schedule()."""
        target = name_of(workflow)
        self.schedules.append({'name': name or target, 'cron': cron, 'workflow': target, 'input': input, **options})

    def add(self, definition: Workflow) -> Workflow:
        """Takes a workflow that was declared without an app."""
        if self.workflows.get(definition.name) is not definition:
            self._require_free(definition.name)
            definition.app = self
            self.workflows[definition.name] = definition
        return definition

    def _require_free(self, name: str) -> None:
        if name in self.workflows or name in self.queues:
            raise PgqrsError(f'{name!r} has a handler already')

    def discover(self, module: Union[str, ModuleType]) -> List[Workflow]:
        """Imports a module, or a package with its modules, and adds the workflows that are defined there."""
        root = importlib.import_module(module) if isinstance(module, str) else module
        modules = [root]
        for found in pkgutil.walk_packages(getattr(root, '__path__', []), root.__name__ + '.'):
            modules.append(importlib.import_module(found.name))
        return [self.add(item) for m in modules for item in list(vars(m).values())
                if isinstance(item, Workflow) and item.function.__module__ == m.__name__]

    def install(self) -> None:
        """Makes the workflows, queues and schedules as they are declared, in one transaction.

        What exists gets these settings.  A hundred workers may do so at the same time."""
        calls = [(self.qualified('pgqrs_create_workflow'), w.name, {**w.options, 'replace': True})
                 for w in self.workflows.values()]
        calls += [(self.qualified('pgqrs_create_queue'), q.name, {**q.options, 'replace': True}) for q in self.queues.values()]
        calls.sort(key=lambda c: c[1])
        for s in sorted(self.schedules, key=lambda s: s['name']):
            options = {**s, 'input': self.dumps(s['input'])}
            calls.append((self.qualified('pgqrs_schedule'), options.pop('name'), options))

        def run(connection: psycopg.Connection) -> None:
            with connection.transaction():
                for function, name, options in calls:
                    connection.execute(*call(function, [name], options))
        self._repeat(run, True)

    def work(self, **options: Any) -> None:
        """Works until SIGTERM or SIGINT; options are those of Worker."""
        asyncio.run(self.awork(**options))

    async def awork(self, **options: Any) -> None:
        from .worker import Worker
        await Worker(self, **options).work()

    #
    # What it calls
    #

    def start(self, workflow: Union[str, Workflow], input: Any = None, *, key: Optional[str] = None, conn: Any = None,
              **options: Any) -> Handle:
        """Starts a run.  key: its idempotency key.  conn: a connection, in whose transaction that happens.

        Options are the arguments of pgqrs_trigger()."""
        run_id = self.call('pgqrs_trigger', *self._sent(name_of(workflow), input, key, options), conn=conn, repeat=key is not None)[0]
        return Handle(self, run_id, getattr(workflow, 'output_type', None))

    async def astart(self, workflow: Union[str, Workflow], input: Any = None, *, key: Optional[str] = None, conn: Any = None,
                     **options: Any) -> Handle:
        run_id = (await self.acall('pgqrs_trigger', *self._sent(name_of(workflow), input, key, options), conn=conn,
                                   repeat=key is not None))[0]
        return Handle(self, run_id, getattr(workflow, 'output_type', None))

    def handle(self, run_id: int, result: Any = None) -> Handle:
        """The handle of a run; result: the type of its output."""
        return Handle(self, run_id, result)

    def signal(self, run_id: int, name: str, payload: Any = None, *, key: Optional[str] = None, conn: Any = None) -> int:
        """Sends a signal to a run: its id."""
        return self.call('pgqrs_signal', *self._signal(run_id, name, payload, key), conn=conn, repeat=key is not None)[0]

    async def asignal(self, run_id: int, name: str, payload: Any = None, *, key: Optional[str] = None, conn: Any = None) -> int:
        return (await self.acall('pgqrs_signal', *self._signal(run_id, name, payload, key), conn=conn, repeat=key is not None))[0]

    def produce(self, queue: str, payload: Any, *, key: Optional[str] = None, conn: Any = None, **options: Any) -> int:
        """Sends a message: its id.  Options are the arguments of pgqrs_enqueue()."""
        return self.call('pgqrs_enqueue', *self._sent(queue, payload, key, options), conn=conn, repeat=key is not None)[0]

    async def aproduce(self, queue: str, payload: Any, *, key: Optional[str] = None, conn: Any = None, **options: Any) -> int:
        return (await self.acall('pgqrs_enqueue', *self._sent(queue, payload, key, options), conn=conn, repeat=key is not None))[0]

    def consume(self, queue: str, handler: Callable[[Any], Any], *, batch_size: int = 1,
                visibility_timeout: Optional[Duration] = None) -> int:
        """Claims messages and calls a handler with the payload of each, which then ends, or fails with it: how
        many there were.  Without a worker: their leases are not extended, see visibility_timeout."""
        claims = self._all('pgqrs_dequeue', self._claim(queue, batch_size, visibility_timeout))
        for claim in claims:
            try:
                handler(codecs.loads(self.codec, claim['payload'], codecs.parameter_type(handler, 0)))
            except Exception as e:
                self.call('pgqrs_nack_message', *self._nack(claim, e))
            else:
                self.call('pgqrs_archive_message', [claim['message_id'], claim['lease']], repeat=True)
        return len(claims)

    async def aconsume(self, queue: str, handler: Callable[[Any], Any], *, batch_size: int = 1,
                       visibility_timeout: Optional[Duration] = None) -> int:
        claims = await self._aall('pgqrs_dequeue', self._claim(queue, batch_size, visibility_timeout))
        for claim in claims:
            try:
                await handler(codecs.loads(self.codec, claim['payload'], codecs.parameter_type(handler, 0)))
            except Exception as e:
                await self.acall('pgqrs_nack_message', *self._nack(claim, e))
            else:
                await self.acall('pgqrs_archive_message', [claim['message_id'], claim['lease']], repeat=True)
        return len(claims)

    def _sent(self, name: str, value: Any, key: Optional[str], options: dict) -> Tuple[List, dict]:
        return [name, self.dumps(value)], {'idempotency_key': key, **options, 'headers': trace.outgoing(options.get('headers'))}

    def _signal(self, run_id: int, name: str, payload: Any, key: Optional[str]) -> Tuple[List, dict]:
        return [run_id, name, self.dumps(payload), key], {'headers': trace.outgoing(None)}

    def _claim(self, queue: str, batch_size: int, visibility_timeout: Optional[Duration]) -> dict:
        return {'queue': queue, 'batch_size': batch_size, 'visibility_timeout': visibility_timeout}

    def _nack(self, claim: dict, error: Exception) -> Tuple[List, dict]:
        log.warning('message %s of %s failed: %s', claim['message_id'], claim['queue'], describe(error)['message'])
        retryable, after = retry_of(error)
        return ([claim['message_id'], claim['lease'], codecs.dumps(codecs.PLAIN, describe(error))],
                {'delay': after, 'retryable': retryable})

    #
    # How it calls
    #

    def qualified(self, function: str) -> str:
        return function if self.schema is None else '"' + self.schema.replace('"', '""') + f'".{function}'

    def dumps(self, value: Any) -> str:
        return codecs.dumps(self.codec, value)

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.conninfo, **self.options)

    async def aconnect(self) -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(self.conninfo, **self.options)

    def call(self, function: str, args: Sequence = (), options: dict = {}, *, conn: Any = None, repeat: bool = False) -> Any:
        """The row that a function answers: in the transaction of a connection, or in one of its own.

        repeat: it does no harm to call it again if its answer is lost."""
        sql, values = call(self.qualified(function), args, options)
        return self._repeat(lambda connection: connection.execute(sql, values).fetchone(), repeat, conn)

    async def acall(self, function: str, args: Sequence = (), options: dict = {}, *, conn: Any = None, repeat: bool = False) -> Any:
        sql, values = call(self.qualified(function), args, options)

        async def run(connection: psycopg.AsyncConnection) -> Any:
            return await (await connection.execute(sql, values)).fetchone()
        return await self._arepeat(run, repeat, conn)

    def _all(self, function: str, options: dict) -> List[dict]:
        sql, values = call(self.qualified(function), [], options)

        def run(connection: psycopg.Connection) -> List[dict]:
            cursor = connection.execute(sql, values)
            return [dict(zip((c.name for c in cursor.description or ()), row)) for row in cursor]
        return self._repeat(run, False)

    async def _aall(self, function: str, options: dict) -> List[dict]:
        sql, values = call(self.qualified(function), [], options)

        async def run(connection: psycopg.AsyncConnection) -> List[dict]:
            cursor = await connection.execute(sql, values)
            return [dict(zip((c.name for c in cursor.description or ()), row)) for row in await cursor.fetchall()]
        return await self._arepeat(run, False)

    def wait(self, run_id: int, timeout: Any) -> Any:
        """pgqrs_wait(), on a connection of its own: it may take long."""
        deadline = time.monotonic() + as_seconds(timeout)

        def run(connection: Any) -> Any:
            with self.connect() as connection:
                left = interval(max(0.0, deadline - time.monotonic()))
                return connection.execute(f'CALL {self.qualified("pgqrs_wait")}(%s, %s)', (run_id, left)).fetchone()
        return self._repeat(run, True, self)

    async def await_(self, run_id: int, timeout: Any) -> Any:
        deadline = time.monotonic() + as_seconds(timeout)

        async def run(connection: Any) -> Any:
            async with await self.aconnect() as connection:
                left = interval(max(0.0, deadline - time.monotonic()))
                sql = f'CALL {self.qualified("pgqrs_wait")}(%s, %s)'
                return await (await connection.execute(sql, (run_id, left))).fetchone()
        return await self._arepeat(run, True, self)

    def _repeat(self, run: Callable[[Any], Any], repeat: bool, conn: Any = None) -> Any:
        tries = 0
        while True:
            try:
                if conn is not None:
                    return run(conn)
                with self._pool.connection() as connection:
                    return run(connection)
            except psycopg.Error as e:
                pause = _before_repeat(e, repeat and (conn is None or conn is self), tries)
            tries += 1
            time.sleep(pause)

    async def _arepeat(self, run: Callable[[Any], Any], repeat: bool, conn: Any = None) -> Any:
        tries = 0
        while True:
            try:
                if conn is not None:
                    return await run(conn)
                if self._async_pool is None or self._async_pool.loop is not asyncio.get_running_loop():
                    self._async_pool = AsyncPool(self.aconnect, CONNECTIONS)
                async with self._async_pool.connection() as connection:
                    return await run(connection)
            except psycopg.Error as e:
                pause = _before_repeat(e, repeat and (conn is None or conn is self), tries)
            tries += 1
            await asyncio.sleep(pause)

    def close(self) -> None:
        """Closes the connections of its calls that are idle."""
        self._pool.close()

    async def aclose(self) -> None:
        self.close()
        if self._async_pool is not None:
            await self._async_pool.close()


def _before_repeat(error: psycopg.Error, repeat: bool, tries: int) -> float:
    """Seconds after which to repeat a call; or raises what it is to the caller."""
    if not repeat or tries >= TRIES or not (is_connection_lost(error) or error.sqlstate in REPEATABLE):
        raise typed(error) from error
    return 0.1 * 2 ** tries


def as_seconds(timeout: Any) -> float:
    return timeout.total_seconds()


def name_of(workflow: Union[str, Workflow]) -> str:
    return workflow.name if isinstance(workflow, Workflow) else workflow
