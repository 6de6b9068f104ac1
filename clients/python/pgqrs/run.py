"""A run or message under its lease, and its operations.

Each operation is written once, as a generator that yields what has to be done outside: a
statement, a function of the handler's, or a transaction of both.  context.py does these, in
the calling thread or on an event loop.
"""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime
import functools
import json
import logging
from typing import Any, Callable, Dict, Generator, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import psycopg

from . import codec as codecs
from . import trace
from .connection import Duration, call, interval
from .errors import (LOST_LEASE, NOT_OURS, REPEATABLE, UNSTORABLE, Cancelled, ChildFailed, InvalidState, InvalidStep,
                     LeaseLost, Leave, Parked, PgqrsError, SignalTimeout, StepFailed, describe, is_connection_lost,
                     retry_of, typed)

log = logging.getLogger('pgqrs')

TRIES = 20      # of a transaction that the server asks to repeat

# The run whose handler is being executed, and whether a step of it is.
current: contextvars.ContextVar = contextvars.ContextVar('pgqrs_run', default=None)
in_step: contextvars.ContextVar = contextvars.ContextVar('pgqrs_in_step', default=False)


class Statement(NamedTuple):
    """A call under the lease; the answer is its one row."""
    sql: str
    args: Sequence


class Invoke(NamedTuple):
    """A function of the application's; the answer is its result."""
    function: Callable
    args: Tuple
    options: Mapping


class Together(NamedTuple):
    """A function that is given a connection, and a statement made of its result, in one transaction.

    The answer is (True, result), or (False, result) if the statement said that it was done before."""
    function: Callable
    args: Tuple
    options: Mapping
    statement: Callable[[Any], Statement]


class Pause(NamedTuple):
    """Seconds to wait."""
    duration: float


class Signal(NamedTuple):
    payload: Any
    headers: Optional[dict]


class Event(NamedTuple):
    """What await_any() waited for: source is signal, child or timeout."""
    source: str
    name: Optional[str]
    payload: Any


class Work:
    """What a run and a message have in common."""

    def __init__(self, worker: Any, claim: dict):
        self.worker = worker
        self.codec: codecs.Codec = worker.app.codec
        self.id: int = claim['message_id']
        self.queue: str = claim['queue']
        self.lease: int = claim['lease']
        self.attempt: int = claim['attempt']
        self.failures: int = claim['failures']
        self.headers: dict = claim.get('headers') or {}
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

    def statement(self, function: str, args: Sequence, options: Mapping = {}) -> Statement:
        self.require_lease()
        return Statement(*call(self.worker.app.qualified(function), [self.id, self.lease, *args], options))

    def call(self, function: str, *args: Any) -> Generator:
        return (yield self.statement(function, args))

    def last(self, function: str, *args: Any) -> Generator:
        """A call that gives the lease up."""
        answer = yield from self.call(function, *args)
        self.ended = True
        return answer

    def give_up(self, function: str, *args: Any, error: Optional[dict] = None) -> Generator:
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
                    error = {'type': 'unserializable_error'}
                log.warning('%s of %s %s: %s: trying again in %.1f s', function, self.queue, self.id, str(e).strip(), pause)
            yield Pause(pause)
            pause = min(10, pause * 2)

    def before_repeat(self, error: psycopg.Error, own: bool, tries: int) -> float:
        """Seconds after which to repeat what raised this; or raises what it is to the handler.  own: it came from
        a call under the lease, not from the application's SQL."""
        if self.lost:
            raise LeaseLost() from error
        if is_connection_lost(error):
            return min(2, 0.05 * 2 ** min(tries, 10))
        if error.sqlstate in REPEATABLE and tries < TRIES:
            return min(1, 0.01 * 2 ** min(tries, 10))
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

    def __init__(self, worker: Any, claim: dict):
        super().__init__(worker, claim)
        self.stored = claim['payload']
        self.enqueued_at = claim['enqueued_at']

    def payload(self, kind: Any = None) -> Any:
        return self.loads(self.stored, kind)

    def deliver(self, definition: Any) -> Generator:
        """One delivery, to the end of it."""
        try:
            with trace.span(f'{self.queue} message', self.headers, message_id=self.id, attempt=self.attempt):
                if definition is None:
                    raise PgqrsError(f'this worker has no handler for queue {self.queue!r}')
                argument = self if definition.raw else self.payload(definition.payload_type)
                if definition.transaction:
                    yield Together(definition.function, (argument,), {}, lambda _: self.statement('pgqrs_archive_message', ()))
                    self.ended = True
                else:
                    yield Invoke(definition.function, (argument,), {})
                    yield from self.last('pgqrs_archive_message')
        except BaseException as e:
            self.require_lease(e)
            log.warning('message %s of %s failed: %s', self.id, self.queue, describe(e)['message'])
            retryable, after = retry_of(e)
            yield from self.give_up('pgqrs_nack_message', interval(after), retryable, error=describe(e))


class Run(Work):
    """A run of a workflow; of its operations `id` None is the next automatic one."""

    def __init__(self, worker: Any, claim: dict):
        super().__init__(worker, claim)
        self.run_id = self.id
        self.workflow: str = claim['workflow']
        self.stored = claim['input']
        self.cancelling = bool(claim.get('cancel_requested'))
        self.steps: Dict[str, dict] = claim.get('steps') or {}
        self.all_steps = not claim.get('steps_truncated')
        self.replaying = bool(self.steps)
        self.kinds: Dict[str, str] = {}
        self.names: Dict[str, int] = {}

    def deliver(self, definition: Any) -> Generator:
        """One delivery, to the end of it."""
        try:
            with trace.span(self.workflow, self.headers, run_id=self.id, attempt=self.attempt):
                if definition is None:
                    yield from self.give_up('pgqrs_fail_run', False, error={
                        'type': 'no_handler_registered',
                        'message': f'this worker has no handler for workflow {self.workflow!r}'})
                    return
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
    # Steps
    #

    def begin(self, id: Optional[str], name: str, kind: str) -> str:
        """The id of a step, which is checked; raises Cancelled where that is due."""
        if in_step.get():
            raise InvalidStep('a step cannot have steps of its own')
        if id is None:
            count = self.names[name] = self.names.get(name, 0) + 1
            id = name if count == 1 else f'{name} #{count}'
        if not isinstance(id, str) or not 0 < len(id.encode('utf-8', 'replace')) <= 255:
            raise InvalidStep(f'a step id has 1 to 255 bytes, this one has not: {str(id)[:60]!r}')
        known = self.steps.get(id)
        before = self.kinds.setdefault(id, known['kind'] if known else kind)
        if before != kind:
            raise InvalidStep(f'step {id!r} is of kind {before}, not {kind}: give one of them another id')
        self.require_lease()
        if known is None:
            self.replaying = False
        if known is None or known.get('undo'):
            self.raise_cancelled()
        return id

    def raise_cancelled(self) -> None:
        """Once per delivery, at the first step that was not finished before the undo."""
        if self.cancelling and not self.told:
            self.told = True
            raise Cancelled()

    def finished(self, id: str) -> Generator:
        """(True, stored output) if the step has finished, (False, None) if it is to be executed."""
        step = self.steps.get(id)
        if step is None and self.all_steps:
            return False, None
        if step is None:
            execute, status, output, error, _ = yield from self.call('pgqrs_step_begin', id)
            if execute:
                return False, None
            step = {'status': status, 'output': output, 'error': error}
        if step['status'] == 'ERROR':
            raise StepFailed(step['error'])
        return True, step['output']

    def do_step(self, id: Optional[str], name: str, function: Callable, args: Tuple, options: Mapping,
                max_attempts: Optional[int], result: Any, transaction: bool) -> Generator:
        id = self.begin(id, name, 'FUNCTION')
        done, stored = yield from self.finished(id)
        if done:
            return self.loads(stored, result)
        started = datetime.datetime.now(datetime.timezone.utc)
        output = ''

        def complete(value: Any) -> Statement:
            nonlocal output
            output = self.dumps(value)
            return self.statement('pgqrs_step_complete', [id, output, started])
        try:
            with trace.span(id, run_id=self.id), inside_step():
                if transaction:
                    now, _ = yield Together(function, args, options, complete)
                else:
                    value = yield Invoke(function, args, options)
                    now = (yield complete(value))[0]
        except Exception as e:
            yield from self.fail_step(id, e, max_attempts)
        if not now:
            # Stored by an earlier call; that output stays.
            _, _, stored, _, _ = yield from self.call('pgqrs_step_begin', id)
        else:
            stored = json.loads(output)
        self.steps[id] = {'kind': 'FUNCTION', 'status': 'SUCCESS', 'output': stored, 'undo': self.told}
        # Not the value itself: the handler sees the same now as after a crash.
        return self.loads(stored, result)

    def fail_step(self, id: str, error: Exception, max_attempts: Optional[int]) -> Generator:
        retryable, after = retry_of(error)
        described = describe(error)
        log.info('step %r of run %s failed: %s', id, self.id, described['message'])
        try:
            answer = yield from self.call('pgqrs_step_fail', id, codecs.dumps(codecs.PLAIN, described), retryable,
                                          interval(after), max_attempts, False)
        except psycopg.Error as e:
            if e.sqlstate not in UNSTORABLE:
                raise
            described = {'type': 'unserializable_error'}
            answer = yield from self.call('pgqrs_step_fail', id, codecs.dumps(codecs.PLAIN, described), retryable,
                                          interval(after), max_attempts, False)
        if answer[0] != 'STEP_FAILED':
            self.ended = True
            raise Parked() from error
        raise StepFailed(described) from error

    #
    # Waits
    #

    def park_unless(self, ready: bool) -> None:
        if not ready:
            self.ended = True
            raise Parked()

    def do_sleep(self, duration: Optional[Duration], until: Optional[datetime.datetime], id: Optional[str]) -> Generator:
        id = self.begin(id, 'sleep', 'SLEEP')
        if id not in self.steps:
            self.park_unless((yield from self.call('pgqrs_sleep', id, interval(duration), until))[0])

    def do_receive(self, signal: str, timeout: Optional[Duration], id: Optional[str], result: Any) -> Generator:
        id = self.begin(id, signal, 'SIGNAL')
        received, late, payload, headers = yield from self.call('pgqrs_await_signal', id, signal, interval(timeout))
        self.park_unless(received or late)
        if late:
            raise SignalTimeout(f'signal {signal!r} did not come in time')
        return Signal(self.loads(payload, result), headers)

    def do_pause(self, reason: Any, check_after: Optional[Duration], id: Optional[str], result: Any) -> Generator:
        id = self.begin(id, 'pause', 'PAUSE')
        stored = None if reason is None else self.dumps(reason)
        resumed, output = yield from self.call('pgqrs_pause_run', id, interval(check_after), stored)
        self.park_unless(resumed)
        return self.loads(output, result)

    def do_start_child(self, workflow: Any, input: Any, id: Optional[str], options: Mapping) -> Generator:
        name = getattr(workflow, 'name', workflow)
        id = self.begin(id, name, 'CHILD')
        yield from self.begin_child(id, name, input, options)
        return id

    def begin_child(self, id: str, name: str, input: Any, options: Mapping) -> Generator:
        options = {**options, 'headers': trace.outgoing(options.get('headers'))}
        yield self.statement('pgqrs_start_child', [id, name, self.dumps(input)], options)

    def await_child(self, id: str, result: Any) -> Generator:
        done, status, output, error = yield from self.call('pgqrs_await_child', id)
        self.park_unless(done)
        if status != 'SUCCESS':
            raise ChildFailed(status, error)
        return self.loads(output, result)

    def do_child(self, workflow: Any, input: Any, id: Optional[str], result: Any, options: Mapping) -> Generator:
        name = getattr(workflow, 'name', workflow)
        id = self.begin(id, name, 'CHILD')
        if self.attempt > 1:
            # Most likely it was started before: then this is one call instead of two.
            try:
                return (yield from self.await_child(id, result))
            except InvalidState:
                pass
        yield from self.begin_child(id, name, input, options)
        return (yield from self.await_child(id, result))

    def do_children(self, workflow: Any, inputs: Sequence, id: Optional[str], result: Any, options: Mapping) -> Generator:
        name = getattr(workflow, 'name', workflow)
        id = self.begin(id, name, 'CHILD')
        statement = self.statement('pgqrs_start_children', [id, name], options)
        yield statement._replace(sql=statement.sql[:-1] + ', inputs => %s::jsonb[])',
                                 args=[*statement.args, [self.dumps(i) for i in inputs]])
        done, results = yield from self.call('pgqrs_await_children', id)
        self.park_unless(done)
        outputs: List = []
        for n, child in enumerate(results, 1):
            if child['status'] != 'SUCCESS':
                raise ChildFailed(child['status'], child.get('error'))
            if child.get('truncated'):
                outputs.append((yield from self.await_child(f'{id}[{n}]', result)))
            else:
                outputs.append(self.loads(child.get('output'), result))
        return outputs

    def do_await_any(self, signals: Sequence[str], children: Sequence[str], timeout: Optional[Duration],
                  id: Optional[str]) -> Generator:
        id = self.begin(id, 'any', 'ANY')
        ready, source, name, payload = yield from self.call('pgqrs_await_any', id, list(signals), list(children),
                                                            interval(timeout))
        self.park_unless(ready)
        if source == 'child':
            payload = {**payload, 'output': self.loads(payload.get('output'))}
        elif source == 'signal':
            payload = self.loads(payload)
        return Event(source, name, payload)

    def do_progress(self, value: Any) -> Generator:
        """What was told before a wait is not told again when the handler runs anew."""
        if not self.replaying:
            yield from self.call('pgqrs_set_progress', self.dumps(value))


@contextlib.contextmanager
def inside_step() -> Iterator[None]:
    token = in_step.set(True)
    try:
        yield
    finally:
        in_step.reset(token)


def name_of(function: Callable) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, '__name__', type(function).__name__)
