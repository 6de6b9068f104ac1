"""App: the handlers of a program, and its calls."""
from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
from types import ModuleType
from typing import Any, Callable, Iterable, Optional, Sequence, Union

import psycopg

from . import codec as codecs
from . import trace
from .connection import AsyncPool, Duration, Pool, call, interval
from .driver import Awaiting, Blocking, Invoke, Operation, Statement, operation
from .errors import REPEATABLE, PgqrsError, describe, is_connection_lost, retry_of, typed
from .run import name_of
from .workflow import Handle, Queue, Workflow, workflow

log = logging.getLogger('pgqrs')

CONNECTIONS = 4     # of the calls of an app outside of its handlers
TRIES = 5           # of a call whose connection was lost, where it may be repeated


class Calls:
    """What App and AsyncApp have in common.

    conninfo: as libpq has it; empty, the environment says where.  schema: that of the extension, if it is not
    in the search_path.  codec: see Codec.  Further options are those of psycopg.connect()."""

    def __init__(self, conninfo: str = '', *, schema: Optional[str] = None, codec: Optional[codecs.Codec] = None,
                 name: Optional[str] = None, **options: Any):
        self.conninfo, self.schema, self.name = conninfo, schema, name
        self.codec = codec or codecs.PLAIN
        self.options: dict[str, Any] = {'application_name': name or 'pgqrs', 'client_encoding': 'utf8', **options, 'autocommit': True}
        self.workflows: dict[str, Workflow] = {}
        self.queues: dict[str, Queue] = {}
        self.schedules: list[dict[str, Any]] = []
        self.pools: dict[str, Any] = {}
        self.calling = 0
        super().__init__()

    pool = property(lambda self: self._pool('calls', CONNECTIONS))
    waits = property(lambda self: self._pool('waits', 1000))

    #
    # What it runs
    #

    def workflow(self, function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None, **options: Any) -> Any:
        """Makes a function the handler of a workflow; it gets a Context, and the input if it has a second
        parameter.  Options are the arguments of pgqrs_create_workflow()."""
        if function is None:
            return lambda f: self.workflow(f, name=name, **options)
        return self.add(workflow(function, name=name, **options))

    def queue(self, name: str, *, raw: bool = False, transaction: bool = False, **options: Any) -> Callable[..., Any]:
        """Makes a function the handler of a queue's messages; it gets the payload, with raw the Message.

        transaction: before that it gets a connection; what it writes there commits with the end of the
        message.  Options are the arguments of pgqrs_create_queue()."""
        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
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

    def discover(self, module: Union[str, ModuleType]) -> list[Workflow]:
        """Imports a module, or a package with its modules, and adds the workflows that are defined there."""
        root = importlib.import_module(module) if isinstance(module, str) else module
        modules = [root]
        for found in pkgutil.walk_packages(getattr(root, '__path__', []), root.__name__ + '.'):
            modules.append(importlib.import_module(found.name))
        return [self.add(item) for m in modules for item in list(vars(m).values())
                if isinstance(item, Workflow) and item.function.__module__ == m.__name__]

    @operation
    def install(self) -> Operation:
        """Makes the workflows, queues and schedules as they are declared, in one transaction.

        What exists gets these settings.  A hundred workers may do so at the same time."""
        calls: list[tuple[str, str, dict[str, Any]]] = [('pgqrs_create_workflow', w.name, {**w.options, 'replace': True}) for w in self.workflows.values()]
        calls += [('pgqrs_create_queue', q.name, {**q.options, 'replace': True}) for q in self.queues.values()]
        calls.sort(key=lambda c: c[1])
        for s in sorted(self.schedules, key=lambda s: str(s['name'])):
            options = {**s, 'input': self.dumps(s['input'])}
            calls.append(('pgqrs_schedule', options.pop('name'), options))
        statements = [self.statement(function, [name], options) for function, name, options in calls]
        text = ', '.join(f'({s.sql.replace(" * ", " count(*) ", 1)})' for s in statements)
        yield Statement(f'SELECT {text}', [arg for s in statements for arg in s.args])

    def work(self, **options: Any) -> None:
        """Works until SIGTERM or SIGINT; options are those of Worker."""
        asyncio.run(self.awork(**options))

    async def awork(self, **options: Any) -> None:
        from .worker import Worker
        await Worker(self, **options).work()

    #
    # What it calls
    #

    @operation
    def start(self, workflow: Union[str, Workflow], input: Any = None, *, key: Optional[str] = None, conn: Any = None,
              **options: Any) -> Operation:
        """Starts a run: its Handle.  key: its idempotency key.  conn: a connection, in whose transaction that happens.

        Options are the arguments of pgqrs_trigger()."""
        row = yield self._sending('pgqrs_trigger', [name_of(workflow), self.dumps(input)], key, conn, options)
        return Handle(self, row[0], getattr(workflow, 'output_type', None))

    def handle(self, run_id: int, result: Any = None) -> Handle:
        """The handle of a run; result: the type of its output."""
        return Handle(self, run_id, result)

    @operation
    def wait_any(self, handles: Iterable[Handle], timeout: Duration = 300) -> Operation:
        """Waits until one of several runs has ended: its handle, whose result() then answers at once; or WaitTimeout.

        Of several that have ended, the one that did so first.  None, if there are no handles."""
        handles = list(handles)
        found = (yield self.wait('pgqrs_wait_any', [handle.run_id for handle in handles], timeout))[0]
        return next((handle for handle in handles if handle.run_id == found), None)

    @operation
    def signal(self, run_id: int, name: str, payload: Any = None, *, key: Optional[str] = None, conn: Any = None) -> Operation:
        """Sends a signal to a run: its id."""
        return (yield self._sending('pgqrs_signal', [run_id, name, self.dumps(payload)], key, conn, {}))[0]

    @operation
    def produce(self, queue: str, payload: Any, *, key: Optional[str] = None, conn: Any = None, **options: Any) -> Operation:
        """Sends a message: its id.  Options are the arguments of pgqrs_enqueue()."""
        return (yield self._sending('pgqrs_enqueue', [queue, self.dumps(payload)], key, conn, options))[0]

    @operation
    def consume(self, queue: str, handler: Callable[[Any], Any], *, batch_size: int = 1,
                visibility_timeout: Optional[Duration] = None) -> Operation:
        """Claims messages and calls a handler with the payload of each, which then ends, or fails with it: how
        many there were.  Without a worker: their leases are not extended, see visibility_timeout."""
        claim = self.statement('pgqrs_dequeue', [queue, None, batch_size, interval(visibility_timeout)], repeat=False)
        claims = (yield claim._replace(sql=claim.sql.replace('*', 'jsonb_agg(to_jsonb(d))', 1) + ' AS d'))[0] or []
        for claimed in claims:
            message = [claimed['message_id'], claimed['lease']]
            try:
                payload = codecs.loads(self.codec, claimed['payload'], codecs.parameter_type(handler, 0))
                yield Invoke(handler, (payload,))
            except Exception as e:
                log.warning('message %s of %s failed: %s', claimed['message_id'], queue, describe(e)['message'])
                retryable, after = retry_of(e)
                yield self.statement('pgqrs_nack_message', [*message, codecs.dumps(codecs.PLAIN, describe(e)),
                                                            interval(after), retryable], repeat=False)
            else:
                yield self.statement('pgqrs_archive_message', message)
        return len(claims)

    #
    # How it calls
    #

    def _sending(self, function: str, args: list[Any], key: Optional[str], conn: Any, options: dict[str, Any]) -> Statement:
        options = {'idempotency_key': key, **options, 'headers': trace.outgoing(options.get('headers'))}
        return self.statement(function, args, options, conn=conn, repeat=key is not None)

    def qualified(self, function: str) -> str:
        return function if self.schema is None else '"' + self.schema.replace('"', '""') + f'".{function}'

    def dumps(self, value: Any) -> str:
        return codecs.dumps(self.codec, value)

    def statement(self, function: str, args: Sequence[Any] = (), options: dict[str, Any] = {}, *, conn: Any = None,
                  repeat: bool = True) -> Statement:
        """A function's call.  repeat: it does no harm to call it again if its answer is lost."""
        return Statement(*call(self.qualified(function), args, options), connection=conn, repeat=repeat and conn is None)

    def wait(self, procedure: str, runs: Any, timeout: Duration) -> Statement:
        return Statement(f'CALL {self.qualified(procedure)}(%s, %s)', (runs, interval(timeout)), waits=True)

    def drive(self, generator: Operation) -> Any:
        raise NotImplementedError

    def before_repeat(self, request: Any, error: psycopg.Error, own: bool, tries: int) -> float:
        """Seconds after which to repeat a call; or raises what it is to the caller."""
        if not request.repeat or tries >= TRIES or not (is_connection_lost(error) or error.sqlstate in REPEATABLE):
            raise typed(error) from error
        return 0.1 * 2.0 ** tries

    def connect(self) -> psycopg.Connection[Any]:
        """A connection, in autocommit mode."""
        return psycopg.connect(self.conninfo, **self.options)

    async def aconnect(self) -> psycopg.AsyncConnection[Any]:
        connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(self.conninfo, **self.options)
        return connection


class App(Blocking, Calls):
    """What a program runs and calls."""

    def _pool(self, name: str, size: int) -> Pool:
        pool: Pool = self.pools.get(name) or self.pools.setdefault(name, Pool(self.connect, size))
        return pool

    def close(self) -> None:
        """Closes the connections of its calls that are idle."""
        for pool in self.pools.values():
            pool.close()


class AsyncApp(Awaiting, Calls):
    """An App whose calls are awaited: start(), signal(), produce(), consume() and install(), and those of handles."""

    def _pool(self, name: str, size: int) -> AsyncPool:
        pool: Optional[AsyncPool] = self.pools.get(name)
        if pool is None or pool.loop is not asyncio.get_running_loop():
            pool = self.pools[name] = AsyncPool(self.aconnect, size)
        return pool

    async def close(self) -> None:
        for pool in self.pools.values():
            await pool.close()
