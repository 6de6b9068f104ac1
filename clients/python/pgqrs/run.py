"""A run or message under its lease: what a handler is given."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime
import functools
import json
import logging
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import psycopg

from . import codec as codecs
from . import trace
from .connection import Array, Duration, call, interval
from .driver import Awaiting, Blocking, Invoke, Pause, Operation, Statement, Together, in_step, operation
from .errors import (LOST_LEASE, NOT_OURS, READ_ONLY, REPEATABLE, UNSTORABLE, Cancelled, ChildFailed, InvalidStep,
                     LeaseLost, Leave, Parked, PgqrsError, SignalTimeout, StepFailed, describe, is_connection_lost, retry_of, typed)

log = logging.getLogger('pgqrs')

UNSERIALIZABLE = {'type': 'unserializable_error'}
# Calls that answer one boolean, and of which most runs and messages consist.
ASKING = ('pgqrs_step_complete', 'pgqrs_complete_run', 'pgqrs_archive_message')
FINISHED = "SELECT jsonb_object_agg(step_id, jsonb_build_object('kind', kind, 'undo', undo)) FROM %s(%%s) WHERE status IN ('SUCCESS', 'ERROR')"
TRIES = 20      # of a transaction that the server asks to repeat

# The run whose handler is being executed.
current: contextvars.ContextVar[Any] = contextvars.ContextVar('pgqrs_run', default=None)


class Signal(NamedTuple):
    payload: Any
    headers: Optional[dict[str, Any]]


class Event(NamedTuple):
    """What await_any() waited for: source is signal, child or timeout."""
    source: str
    name: Optional[str]
    payload: Any


class Work:
    """What a run and a message have in common."""

    def __init__(self, worker: Any, claim: dict[str, Any]):
        self.worker = worker
        self.codec: codecs.Codec = worker.app.codec
        self.id: int = claim['message_id']
        self.queue: str = claim['queue']
        self.lease: int = claim['lease']
        self.attempt: int = claim['attempt']
        self.failures: int = claim['failures']
        self.headers: dict[str, Any] = claim.get('headers') or {}
        self.cancelling = False  # it was asked to stop
        self.told = False        # Cancelled was raised in this delivery
        self.lost = False        # the lease is not ours any more
        self.ended = False       # the lease was given up, or the work has ended
        self.calling = 0         # statements under way

    def require_lease(self, error: Optional[BaseException] = None) -> None:
        if not self.lost and not self.ended:
            return
        if isinstance(error, Leave):
            raise error
        if error is not None and not isinstance(error, asyncio.CancelledError):
            log.warning('%s %s raised this after its lease was given up or lost: %r', self.queue, self.id, error)
        raise LeaseLost() from error

    def statement(self, function: str, args: Sequence[Any], options: Mapping[str, Any] = {}) -> Statement:
        self.require_lease()
        return Statement(*call(self.worker.app.qualified(function), [self.id, self.lease, *args], options), asks=function in ASKING)

    def call(self, function: str, *args: Any) -> Operation:
        return (yield self.statement(function, args))

    def last(self, function: str, *args: Any) -> Operation:
        """A call that gives the lease up."""
        answer = yield from self.call(function, *args)
        self.ended = True
        return answer

    def give_up(self, function: str, *args: Any, error: Optional[dict[str, Any]] = None) -> Operation:
        """The last call of work that failed or was cancelled.  Whatever it raises that does not speak of the
        lease, it is made again: the work is not dropped as long as the lease may be good."""
        pause = 0.1
        while True:
            try:
                stored = () if error is None else (codecs.dumps(codecs.PLAIN, error),)
                return (yield from self.last(function, *stored, *args))
            except (psycopg.Error, PgqrsError) as e:
                state = getattr(e, 'sqlstate', None)
                if state in NOT_OURS:
                    raise LeaseLost() from e
                if error is not None and state in UNSTORABLE:
                    error = UNSERIALIZABLE
                log.warning('%s of %s %s: %s: trying again in %.1f s', function, self.queue, self.id, str(e).strip(), pause)
            yield Pause(pause)
            pause = min(10, pause * 2)

    def before_repeat(self, request: Any, error: psycopg.Error, own: bool, tries: int) -> float:
        """Seconds after which to repeat what raised this; or raises what it is to the handler.  own: it came from
        a call under the lease, not from the application's SQL."""
        if self.lost:
            raise LeaseLost() from error
        if tries == 3:
            log.warning('%s %s: repeating what failed: %s', self.queue, self.id, str(error).strip())
        if is_connection_lost(error) or own and error.sqlstate == READ_ONLY:
            return min(2, 0.05 * 2.0 ** min(tries, 10))
        if error.sqlstate in REPEATABLE and tries < TRIES:
            return min(1, 0.01 * 2.0 ** min(tries, 10))
        if not own:
            raise error
        if error.sqlstate in LOST_LEASE:
            self.lost = True
            raise LeaseLost() from error
        if error.sqlstate == 'PQ010':
            self.cancelling = self.told = True
            raise Cancelled() from error
        raise typed(error) from error

    def dumps(self, value: Any) -> str:
        return codecs.dumps(self.codec, value)

    def loads(self, value: Any, kind: Any = None) -> Any:
        return codecs.loads(self.codec, value, kind)


class Message(Work):
    """A message of a plain queue."""

    def __init__(self, worker: Any, claim: dict[str, Any]):
        super().__init__(worker, claim)
        self.stored = claim['payload']
        self.enqueued_at = claim['enqueued_at']

    def payload(self, kind: Any = None) -> Any:
        return self.loads(self.stored, kind)

    def deliver(self, definition: Any) -> Operation:
        """One delivery, to the end of it."""
        try:
            with trace.span(f'{self.queue} message', self.headers, message_id=self.id, attempt=self.attempt):
                if definition is None:
                    raise PgqrsError(f'this worker has no handler for queue {self.queue!r}')
                argument = self if definition.raw else self.payload(definition.payload_type)
                if definition.transaction:
                    yield Together(definition.function, (argument,), {}, self._end)
                    self.ended = True
                else:
                    yield Invoke(definition.function, (argument,), {})
                    yield from self.last('pgqrs_archive_message')
        except BaseException as e:
            self.require_lease(e)
            log.warning('message %s of %s failed: %s', self.id, self.queue, describe(e)['message'])
            retryable, after = retry_of(e)
            yield from self.give_up('pgqrs_nack_message', interval(after), retryable, error=describe(e))

    def _end(self, _: Any) -> Statement:
        statement = self.statement('pgqrs_archive_message', ())
        self.calling += 1               # until the commit: a poll that says that the lease has ended is right
        return statement


class Run(Work):
    """A run of a workflow; of its operations `id` None is the next automatic one."""

    def __init__(self, worker: Any, claim: dict[str, Any]):
        super().__init__(worker, claim)
        self.run_id = self.id
        self.workflow: str = claim['workflow']
        self.stored = claim['input']
        self.cancelling = bool(claim.get('cancel_requested'))
        self.steps: dict[str, dict[str, Any]] = claim.get('steps') or {}
        self.all_steps = not claim.get('steps_truncated')
        self.left_out: dict[str, dict[str, Any]] = {}   # if these are not all: all that have finished, without their outputs
        self.replaying = bool(self.steps)
        self.kinds: dict[str, str] = {}
        self.names: dict[str, int] = {}

    def deliver(self, definition: Any) -> Operation:
        """One delivery, to the end of it."""
        try:
            with trace.span(self.workflow, self.headers, run_id=self.id, attempt=self.attempt):
                if definition is None:
                    missing = {'type': 'no_handler_registered', 'message': f'this worker has no handler for workflow {self.workflow!r}'}
                    yield from self.give_up('pgqrs_fail_run', False, error=missing)
                    return
                if not self.all_steps:
                    self.left_out = (yield Statement(FINISHED % self.worker.app.qualified('pgqrs_list_steps'), [self.id]))[0] or {}
                args = (self, self.loads(self.stored, definition.input_type))[:1 + definition.takes_input]
                output = yield Invoke(definition.function, args, {})
                yield from self.last('pgqrs_complete_run', self.dumps(output))
        except BaseException as e:
            self.require_lease(e)
            if isinstance(e, Cancelled) and self.cancelling:
                log.info('run %s of %s was cancelled', self.id, self.workflow)
                yield from self.give_up('pgqrs_acknowledge_cancel')
                return
            log.warning('run %s of %s failed: %s', self.id, self.workflow, describe(e)['message'])
            retryable, after = retry_of(e)
            yield from self.give_up('pgqrs_fail_run', retryable, interval(after), error=describe(e))

    #
    # What a handler calls; in a coroutine function all but check() is awaited.  A step's id that is
    # None is the next automatic one.
    #

    @property
    def cancel_requested(self) -> bool:
        """Whether the run was asked to stop; its next step raises Cancelled."""
        return self.cancelling

    def check(self) -> None:
        """Raises if the run was asked to stop or its lease is lost: for long steps."""
        self.require_lease()
        self._raise_cancelled()

    def step(self, id: Optional[str], function: Callable[..., Any], *args: Any, max_attempts: Optional[int] = None,
             result: Any = None, **options: Any) -> Any:
        """Calls a function once, stores its result, and answers the stored one ever after.

        An exception is tried again by the workflow's policy, or max_attempts times; at last it is raised as
        StepFailed.  result: the type to answer, if the function's annotation does not say it."""
        return self._declared_step(id, function, args, options, max_attempts, result, False)

    def transaction(self, id: Optional[str], function: Callable[..., Any], *args: Any, max_attempts: Optional[int] = None,
                    result: Any = None, **options: Any) -> Any:
        """step() of a function whose first argument is a connection: what it writes there and the step's
        result are committed together, so exactly once.  It may be called more than once, and must not commit."""
        return self._declared_step(id, function, args, options, max_attempts, result, True)

    @operation
    def sleep(self, duration: Duration, id: Optional[str] = None) -> Operation:
        """Gives the run back for so many seconds."""
        yield from self._sleep(id, interval(duration), None)

    @operation
    def sleep_until(self, instant: datetime.datetime, id: Optional[str] = None) -> Operation:
        yield from self._sleep(id, None, instant)

    @operation
    def receive(self, signal: str, timeout: Optional[Duration] = None, id: Optional[str] = None, result: Any = None) -> Operation:
        """The payload of the next signal of that name; SignalTimeout."""
        return (yield from self._receive(signal, timeout, id, result)).payload

    @operation
    def receive_signal(self, signal: str, timeout: Optional[Duration] = None, id: Optional[str] = None, result: Any = None) -> Operation:
        """receive(), as Signal(payload, headers)."""
        return (yield from self._receive(signal, timeout, id, result, with_headers=True))

    @operation
    def pause(self, reason: Any = None, check_after: Optional[Duration] = None, id: Optional[str] = None,
              result: Any = None) -> Operation:
        """Gives the run back until it is resumed, and answers the output that came with that."""
        id = self._begin(id, 'pause', 'PAUSE')
        if id in self.steps:
            return self.loads(self.steps[id]['output'], result)
        resumed, output = yield from self.call('pgqrs_pause_run', id, interval(check_after), None if reason is None else self.dumps(reason))
        self._park_unless(resumed)
        return self.loads(output, result)

    @operation
    def start_child(self, workflow: Any, input: Any = None, id: Optional[str] = None, **options: Any) -> Operation:
        """Starts a run of another workflow: the step's id, for result_of() and await_any().

        Options are the arguments of pgqrs_start_child()."""
        id = self._begin(id, name_of(workflow), 'CHILD')
        yield self._start_child(id, workflow, input, options)
        return id

    @operation
    def result_of(self, child: str, result: Any = None) -> Operation:
        """The output of a child that start_child() started; ChildFailed."""
        return (yield from self._await_child(child, result))

    @operation
    def child(self, workflow: Any, input: Any = None, id: Optional[str] = None, result: Any = None, **options: Any) -> Operation:
        """Runs another workflow and answers its output; ChildFailed."""
        id = self._begin(id, name_of(workflow), 'CHILD')
        result = result or getattr(workflow, 'output_type', None)
        if self.steps.get(id, {}).get('status') == 'SUCCESS' and options.get('on_duplicate') != 'null':
            return self.loads(self.steps[id]['output'], result)
        child = yield from self._start_and('pgqrs_await_child', id, self._start_child(id, workflow, input, options))
        return self._output_of(child, result)

    @operation
    def children(self, workflow: Any, inputs: Sequence[Any], id: Optional[str] = None, result: Any = None,
                 **options: Any) -> Operation:
        """Runs a child for each input: the outputs in that order; ChildFailed of the first that failed.

        Options are the arguments of pgqrs_start_children()."""
        id = self._begin(id, name_of(workflow), 'CHILD')
        result = result or getattr(workflow, 'output_type', None)
        start = self.statement('pgqrs_start_children', [id, name_of(workflow), Array([self.dumps(i) for i in inputs])], options)
        outputs: list[Any] = []
        for n, child in enumerate((yield from self._start_and('pgqrs_await_children', id, start))['results'], 1):
            if child['status'] == 'SUCCESS' and child.get('truncated'):
                outputs.append((yield from self._await_child(f'{id}[{n}]', result)))
            else:
                outputs.append(self._output_of(child, result))
        return outputs

    @operation
    def await_any(self, signals: Sequence[str] = (), children: Sequence[str] = (), timeout: Optional[Duration] = None,
                  id: Optional[str] = None) -> Operation:
        """The first of several signals, children and a time-out, as Event(source, name, payload)."""
        id = self._begin(id, 'any', 'ANY')
        ready, source, name, payload = yield from self.call('pgqrs_await_any', id, list(signals), list(children), interval(timeout))
        self._park_unless(ready)
        if source == 'child':
            payload = {**payload, 'output': self.loads(payload.get('output'))}
        elif source == 'signal':
            payload = self.loads(payload)
        return Event(source, name, payload)

    @operation
    def progress(self, value: Any) -> Operation:
        """Shows how far the run is.  What was shown before a wait is not shown again as the handler runs anew."""
        if not self.replaying:
            yield from self.call('pgqrs_set_progress', self.dumps(value))

    #
    # How it is done
    #

    def drive(self, generator: Operation) -> Any:
        raise NotImplementedError

    def _begin(self, id: Optional[str], name: str, kind: str) -> str:
        """The id of a step, which is checked; raises Cancelled where that is due."""
        if in_step.get():
            raise InvalidStep('a step cannot have steps of its own')
        if id is None:
            count = self.names[name] = self.names.get(name, 0) + 1
            id = name if count == 1 else f'{name} #{count}'
        if not isinstance(id, str) or not 0 < len(id.encode('utf-8', 'replace')) <= 255:
            raise InvalidStep(f'a step id has 1 to 255 bytes, this one has not: {str(id)[:60]!r}')
        known = self.steps.get(id) or self.left_out.get(id)
        before = self.kinds.setdefault(id, known['kind'] if known else kind)
        if before != kind:
            raise InvalidStep(f'step {id!r} is of kind {before}, not {kind}: give one of them another id')
        self.require_lease()
        if known is None:
            self.replaying = False
        if known is None or known.get('undo'):
            self._raise_cancelled()
        return id

    def _raise_cancelled(self) -> None:
        """Once per delivery, at the first step that was not finished before the undo."""
        if self.cancelling and not self.told:
            self.told = True
            raise Cancelled()

    def _declared_step(self, id: Optional[str], function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any],
                       max_attempts: Optional[int], result: Any, transaction: bool) -> Any:
        name, declared = name_of(function), getattr(function, 'pgqrs_step', None)
        if declared is not None:        # decorated with step() or transaction()
            function, transaction = declared['function'], declared['transaction']
            name, max_attempts = declared['id'] or name, max_attempts or declared['max_attempts']
        return self.drive(self._step(id, name, function, args, options, max_attempts,
                                     result or codecs.result_type(function), transaction))

    def _step(self, id: Optional[str], name: str, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any],
              max_attempts: Optional[int], result: Any, transaction: bool) -> Operation:
        id = self._begin(id, name, 'FUNCTION')
        step = self.steps.get(id)
        if step is None and id in self.left_out:
            execute, status, output, error, _ = yield from self.call('pgqrs_step_begin', id)
            step = None if execute else {'status': status, 'output': output, 'error': error}
        if step is not None:
            if step['status'] == 'ERROR':
                raise StepFailed(step['error'])
            return self.loads(step['output'], result)
        started = datetime.datetime.now(datetime.timezone.utc).isoformat()
        stored = ''

        def complete(value: Any) -> Statement:
            nonlocal stored
            stored = self.dumps(value)
            return self.statement('pgqrs_step_complete', [id, stored, started])
        try:
            with trace.span(id, run_id=self.id), inside_step():
                if transaction:
                    now = yield Together(function, args, options, complete)
                else:
                    now = (yield complete((yield Invoke(function, args, options))))[0]
        except Exception as e:
            yield from self._fail_step(id, e, max_attempts)
        # If not now, an earlier call has stored its output, which stays.
        output = json.loads(stored) if now else (yield from self.call('pgqrs_step_begin', id))[2]
        self.steps[id] = {'kind': 'FUNCTION', 'status': 'SUCCESS', 'output': output, 'undo': self.told}
        # Not the value itself: the handler sees the same now as after a crash.
        return self.loads(output, result)

    def _fail_step(self, id: str, error: Exception, max_attempts: Optional[int]) -> Operation:
        retryable, after = retry_of(error)
        described = describe(error)
        log.info('step %r of run %s failed: %s', id, self.id, described['message'])
        while True:
            try:
                outcome, _ = yield from self.call('pgqrs_step_fail', id, codecs.dumps(codecs.PLAIN, described), retryable,
                                                  interval(after), max_attempts, False)
                break
            except psycopg.Error as e:
                if e.sqlstate not in UNSTORABLE or described is UNSERIALIZABLE:
                    raise
                described = UNSERIALIZABLE
        if outcome != 'STEP_FAILED':
            self.ended = True
            raise Parked() from error
        raise StepFailed(described) from error

    def _park_unless(self, ready: bool) -> None:
        if not ready:
            self.ended = True
            raise Parked()

    def _sleep(self, id: Optional[str], duration: Any, until: Optional[datetime.datetime]) -> Operation:
        id = self._begin(id, 'sleep', 'SLEEP')
        if id not in self.steps:
            self._park_unless((yield from self.call('pgqrs_sleep', id, duration, until))[0])

    def _receive(self, signal: str, timeout: Optional[Duration], id: Optional[str], result: Any,
                 with_headers: bool = False) -> Operation:
        id = self._begin(id, signal, 'SIGNAL')
        headers = None
        if id in self.steps and not with_headers:
            payload, late = self.steps[id]['output'], self.steps[id]['error'] is not None
        else:
            received, late, payload, headers = yield from self.call('pgqrs_await_signal', id, signal, interval(timeout))
            self._park_unless(received or late)
        if late:
            raise SignalTimeout(f'signal {signal!r} did not come in time')
        return Signal(self.loads(payload, result), headers)

    def _start_child(self, id: str, workflow: Any, input: Any, options: Mapping[str, Any]) -> Statement:
        options = {**options, 'headers': trace.outgoing(options.get('headers'))}
        return self.statement('pgqrs_start_child', [id, name_of(workflow), self.dumps(input)], options)

    def _start_and(self, wait: str, id: str, start: Statement) -> Operation:
        """Starts what was not started before, and waits for it, in one round trip: what the wait answers."""
        call = self.statement(wait, [id])
        first, second = (s.sql.replace('SELECT * FROM ', '', 1) for s in (start, call))
        answer = (yield Statement(f'SELECT {first}, to_jsonb({second})', [*start.args, *call.args]))[1]
        self._park_unless(answer['done'])
        return answer

    def _await_child(self, id: str, result: Any) -> Operation:
        done, status, output, error = yield from self.call('pgqrs_await_child', id)
        self._park_unless(done)
        return self._output_of({'status': status, 'output': output, 'error': error}, result)

    def _output_of(self, child: dict[str, Any], result: Any) -> Any:
        if child['status'] != 'SUCCESS':
            raise ChildFailed(child['status'], child.get('error'))
        return self.loads(child.get('output'), result)


class Context(Blocking, Run):
    """A run, for a handler that is a plain function."""

    pool = property(lambda self: self.worker.pool)


class AsyncContext(Awaiting, Run):
    """A run, for a handler that is a coroutine function."""

    pool = property(lambda self: self.worker.async_pool)


class BlockingMessage(Blocking, Message):
    pool = property(lambda self: self.worker.pool)


class AwaitingMessage(Awaiting, Message):
    pool = property(lambda self: self.worker.async_pool)


@contextlib.contextmanager
def inside_step() -> Iterator[None]:
    token = in_step.set(True)
    try:
        yield
    finally:
        in_step.reset(token)


def name_of(item: Any) -> str:
    """The name of a workflow, which may be given by its name, or of a function."""
    while isinstance(item, functools.partial):
        item = item.func
    return item if isinstance(item, str) else str(getattr(item, 'name', None) or getattr(item, '__name__', type(item).__name__))


def step(function: Optional[Callable[..., Any]] = None, *, id: Optional[str] = None, max_attempts: Optional[int] = None) -> Any:
    """Makes a function a step: called in a handler it is executed once, and its result is stored.

    Called elsewhere, or in another step, it is a plain function."""
    return _declare(function, False, id, max_attempts)


def transaction(function: Optional[Callable[..., Any]] = None, *, id: Optional[str] = None, max_attempts: Optional[int] = None) -> Any:
    """The same for a function whose first argument is a connection, which a caller in a handler leaves out."""
    return _declare(function, True, id, max_attempts)


def _declare(function: Optional[Callable[..., Any]], transaction: bool, id: Optional[str], max_attempts: Optional[int]) -> Any:
    if function is None:
        return lambda f: _declare(f, transaction, id, max_attempts)

    declared: Callable[..., Any] = function

    @functools.wraps(declared)
    def call(*args: Any, **options: Any) -> Any:
        run = current.get()
        if run is None or in_step.get():
            return declared(*args, **options)
        return run._declared_step(None, call, args, options, None, None, transaction)
    call.pgqrs_step = {'function': function, 'transaction': transaction, 'id': id,      # type: ignore[attr-defined]
                       'max_attempts': max_attempts}
    return call
