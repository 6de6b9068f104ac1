"""The driver of the conformance suite for the Python client; README.md says what it does.

    python.py [--async] JOB        --async: handlers and steps are coroutine functions
"""
import asyncio
import json
import logging
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../python'))
import pgqrs
from pgqrs.errors import BY_SQLSTATE
from script import Script

CATCH = {'step_failed': pgqrs.StepFailed, 'child_failed': pgqrs.ChildFailed, 'timeout': pgqrs.SignalTimeout,
         'cancelled': pgqrs.Cancelled, 'not_serializable': pgqrs.NotSerializable, 'invalid_step': pgqrs.InvalidStep,
         'run_failed': pgqrs.RunFailed, 'run_cancelled': pgqrs.RunCancelled, 'wait_timeout': pgqrs.WaitTimeout,
         'any': Exception, **BY_SQLSTATE}


class Return(Exception):
    """The handler's end."""


def error(spec):
    """An error that is stored with this type."""
    if spec.get('permanent'):
        return pgqrs.Permanent(spec['message'], type=spec['type'])
    if 'after' in spec:
        return pgqrs.Retry(spec['message'], spec['after'], type=spec['type'])
    return type(spec['type'], (Exception,), {'__module__': '__main__'})(spec['message'])


def caught(e):
    kind = getattr(e, 'type', None) or getattr(e, 'sqlstate', None) or type(e).__name__
    return {'type': kind, 'message': str(e), 'status': getattr(e, 'status', None), 'error': getattr(e, 'error', None)}


class Handler(Script):
    """One delivery: a script, interpreted by generators.  What they yield is awaited in a coroutine function;
    in a plain one it has been done already."""

    def __init__(self, app, definition, work, value, connection=None):
        super().__init__(work.id, definition['dir'], {'input': value, 'attempt': work.attempt, 'headers': work.headers})
        self.app, self.script, self.work, self.connection = app, definition['script'], work, connection
        self.is_async = isinstance(app, pgqrs.AsyncApp)
        self.caught = []

    def drive(self, generator):
        return drive_async(generator) if self.is_async else drive(generator)

    def pause(self):
        return asyncio.sleep(0.01) if self.is_async else time.sleep(0.01)

    def body(self, op, name, connection=None):
        n = self.count(name)
        if connection is not None:
            yield connection.execute('INSERT INTO effects (id, name) VALUES (%s, %s)', (self.work.id, name))
            if 'sql' in op:
                yield connection.execute(op['sql'])
            if 'start' in op:
                yield self.app.start(op['start']['start'], self.value(op['start'].get('input')), conn=connection)
        if 'hold' in op:
            yield from self.do_hold(op)
        if n <= op.get('crash', 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if n <= op.get('fail', 0):
            raise error(op.get('error') or {'type': 'failed', 'message': 'failed'})
        return self.value(op.get('return'))

    def function(self, op, name):
        """A body as a function for the client."""
        return lambda connection=None: self.drive(self.body(op, name, connection))

    def run(self):
        try:
            yield from self.do(self.script)
        except Return as end:
            return end.args[0]

    def do(self, script):
        for op in script:
            answer = yield from getattr(self, 'do_' + next(iter(op)))(op)
            if 'as' in op and 'try' not in op:
                self.variables[op['as']] = answer

    def do_step(self, op):
        return (yield self.work.step(op['step'], self.function(op, op['step']), max_attempts=op.get('max_attempts')))

    def do_transaction(self, op):
        if isinstance(self.work, pgqrs.Message):
            return (yield from self.body(op, op['transaction'], self.connection))
        return (yield self.work.transaction(op['transaction'], self.function(op, op['transaction']), max_attempts=op.get('max_attempts')))

    def do_body(self, op):
        return (yield from self.body(op, op['body']))

    def do_sleep(self, op):
        return (yield self.work.sleep(op['sleep'], id=op['id']))

    def do_receive(self, op):
        return (yield self.work.receive(op['receive'], timeout=op.get('timeout'), id=op['id']))

    def do_pause(self, op):
        return (yield self.work.pause(self.value(op.get('reason')), check_after=op.get('check_after'), id=op['pause']))

    def do_child(self, op):
        return (yield self.work.child(op['child'], self.value(op.get('input')), id=op['id'], **op.get('options', {})))

    def do_children(self, op):
        return (yield self.work.children(op['children'], self.value(op['inputs']), id=op['id'], **op.get('options', {})))

    def do_start_child(self, op):
        return (yield self.work.start_child(op['start_child'], self.value(op.get('input')), id=op['id'], **op.get('options', {})))

    def do_result_of(self, op):
        return (yield self.work.result_of(op['result_of']))

    def do_await_any(self, op):
        return (yield self.work.await_any(op.get('signals', []), op.get('children', []), timeout=op.get('timeout'),
                                          id=op['await_any']))._asdict()

    def do_progress(self, op):
        yield self.work.progress(self.value(op['progress']))

    def do_check(self, op):
        deadline = time.monotonic() + op['check']
        while time.monotonic() < deadline:
            self.work.check()
            yield self.pause()

    def do_hold(self, op):
        while not os.path.exists(os.path.join(self.dir, op['hold'])):
            yield self.pause()

    def do_crash(self, op):
        yield from self.body({'crash': 1}, op['crash'])

    def do_raise(self, op):
        if 'times' not in op or self.count(op['id']) <= op['times']:
            raise error(op['raise'])
        yield from ()

    def do_try(self, op):
        try:
            yield from self.do(op['try'])
        except Return:
            raise
        except CATCH[op['catch']] as e:
            self.variables[op.get('as', 'error')] = caught(e)
            self.caught.append(e)
            yield from self.do(op['then'])
            self.caught.pop()

    def do_again(self, op):
        yield from ()
        raise self.caught[-1]

    def do_return(self, op):
        yield from ()
        raise Return(self.value(op['return']))

    def do_start(self, op):
        return (yield self.app.start(op['start'], self.value(op.get('input')), key=op.get('key'), **op.get('options', {}))).run_id

    def do_result(self, op):
        return (yield self.app.handle(self.value(op['result'])).result(timeout=op.get('timeout', 60)))

    def do_signal(self, op):
        return (yield self.app.signal(self.value(op['signal']), op['name'], self.value(op.get('payload')), key=op.get('key')))

    def do_cancel(self, op):
        return (yield self.app.handle(self.value(op['cancel'])).cancel(op.get('reason')))

    def do_enqueue(self, op):
        return (yield self.app.produce(op['enqueue'], self.value(op.get('payload')), key=op.get('key'), **op.get('options', {})))


def drive(generator):
    answer = None
    while True:
        try:
            answer = generator.send(answer)
        except StopIteration as end:
            return end.value


async def drive_async(generator):
    step, answer = generator.send, None
    while True:
        try:
            awaited = step(answer)
        except StopIteration as end:
            return end.value
        try:
            step, answer = generator.send, await awaited
        except BaseException as e:
            step, answer = generator.throw, e


def handlers(app, definition):
    """The handler of a workflow, of a queue, and of a queue within a transaction."""
    def run(context, value):
        handler = Handler(app, definition, context, value)
        return handler.drive(handler.run())

    def handle(message):
        handler = Handler(app, definition, message, message.payload())
        return handler.drive(handler.run())

    def write(connection, message):
        handler = Handler(app, definition, message, message.payload(), connection)
        return handler.drive(handler.run())
    if not isinstance(app, pgqrs.AsyncApp):
        return run, handle, write

    async def run_async(context, value):
        return await run(context, value)

    async def handle_async(message):
        return await handle(message)

    async def write_async(connection, message):
        return await write(connection, message)
    return run_async, handle_async, write_async


def main():
    *flags, path = sys.argv[1:]
    logging.basicConfig(level='INFO', format='%(asctime)s %(message)s')
    with open(path, encoding='utf-8') as file:
        job = json.load(file)
    app = (pgqrs.AsyncApp if '--async' in flags else pgqrs.App)(name=job['worker'])
    for name, definition in job['workflows'].items():
        app.workflow(handlers(app, definition)[0], name=name, **definition['options'])
    for name, definition in job['queues'].items():
        transaction = definition.get('transactional', False)
        handler = handlers(app, definition)[1 + transaction]
        app.queue(name, raw=True, transaction=transaction, **definition['options'])(handler)
    if job['install']:
        asyncio.run(app.install()) if '--async' in flags else app.install()
    app.work(concurrency=job['concurrency'], grace=job['grace'], name=job['worker'],
             queues=[*job['workflows'], *job['queues'], *job['also']])


main()
