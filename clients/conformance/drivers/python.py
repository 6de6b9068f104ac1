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

CATCH = {'step_failed': pgqrs.StepFailed, 'child_failed': pgqrs.ChildFailed, 'timeout': pgqrs.SignalTimeout,
         'cancelled': pgqrs.Cancelled, 'not_serializable': pgqrs.NotSerializable, 'step_reused': pgqrs.StepReused,
         'run_failed': pgqrs.RunFailed, 'run_cancelled': pgqrs.RunCancelled, 'wait_timeout': pgqrs.WaitTimeout,
         'any': Exception, **pgqrs.errors.BY_SQLSTATE}
EFFECT = 'INSERT INTO effects (id, name) VALUES (%s, %s)'


class Return(Exception):
    """The handler's end."""


def error(spec):
    """An error that is stored with this type."""
    spec = spec or {'type': 'failed', 'message': 'failed'}
    if spec.get('permanent'):
        kind = type(spec['type'], (pgqrs.Permanent,), {'__module__': '__main__'})
    elif 'after' in spec:
        return type(spec['type'], (pgqrs.Retry,), {'__module__': '__main__'})(spec.get('message', ''), after=spec['after'])
    else:
        kind = type(spec['type'], (Exception,), {'__module__': '__main__'})
    return kind(spec.get('message', ''))


def caught(e):
    found = {'type': getattr(e, 'type', None) or getattr(e, 'sqlstate', None) or type(e).__name__, 'message': str(e)}
    for name in ('status', 'error'):
        if hasattr(e, name):
            found[name] = getattr(e, name)
    return found


class Handler:
    """One delivery: a script, interpreted.  Its methods are generators, which yield what is awaited."""

    def __init__(self, app, definition, id, context, variables, is_async):
        self.app, self.dir, self.script = app, definition['dir'], definition['script']
        self.id, self.context, self.variables, self.is_async = id, context, variables, is_async

    def value(self, v):
        if isinstance(v, dict) and v.keys() == {'$'}:
            name, *path = v['$'].split('.')
            found = self.variables[name]
            for key in path:
                found = found[int(key) if isinstance(found, list) else key]
            return found
        if isinstance(v, dict):
            return {key: self.value(item) for key, item in v.items()}
        return [self.value(item) for item in v] if isinstance(v, list) else v

    def count(self, name):
        """Writes that a body is executed: the n-th time."""
        line = f'{self.id} {name}\n'.encode()
        path = os.path.join(self.dir, 'trace')
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(file, line)
        os.close(file)
        with open(path, 'rb') as trace:
            return sum(other == line for other in trace)

    def hold(self, name):
        while not os.path.exists(os.path.join(self.dir, name)):
            yield asyncio.sleep(0.01) if self.is_async else time.sleep(0.01)

    def body(self, op, name, connection=None):
        n = self.count(name)
        if connection is not None:
            yield connection.execute(EFFECT, (self.id, name))
            if 'sql' in op:
                yield connection.execute(op['sql'])
            if 'start' in op:
                self.app.start(op['start']['start'], self.value(op['start'].get('input')), conn=connection)
        if 'hold' in op:
            yield from self.hold(op['hold'])
        if n <= op.get('crash', 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if n <= op.get('fail', 0):
            raise error(op.get('error'))
        return self.value(op.get('return'))

    def function(self, op, name):
        """A body as a function for the client."""
        def plain(connection=None):
            return drive(self.body(op, name, connection))

        async def coroutine(connection=None):
            return await drive_async(self.body(op, name, connection))
        return coroutine if self.is_async else plain

    def run(self):
        try:
            yield from self.do(self.script)
        except Return as end:
            return end.args[0]

    def do(self, script):
        for op in script:
            answer = yield from getattr(self, 'do_' + next(iter(op)).replace('return', 'return_').replace('raise', 'raise_')
                                        .replace('try', 'try_'))(op)
            if 'as' in op and 'try' not in op:
                self.variables[op['as']] = answer

    def do_step(self, op):
        return (yield self.context.step(op['step'], self.function(op, op['step']), max_attempts=op.get('max_attempts')))

    def do_transaction(self, op):
        return (yield self.context.transaction(op['transaction'], self.function(op, op['transaction']),
                                               max_attempts=op.get('max_attempts')))

    def do_body(self, op):
        return (yield from self.body(op, op['body']))

    def do_sleep(self, op):
        return (yield self.context.sleep(op['sleep'], id=op.get('id')))

    def do_receive(self, op):
        return (yield self.context.receive(op['receive'], timeout=op.get('timeout'), id=op.get('id'))).payload

    def do_pause(self, op):
        return (yield self.context.pause(self.value(op.get('reason')), check_after=op.get('check_after'), id=op['pause']))

    def do_child(self, op):
        return (yield self.context.child(op['child'], self.value(op.get('input')), id=op.get('id'), **op.get('options', {})))

    def do_children(self, op):
        return (yield self.context.children(op['children'], self.value(op['inputs']), id=op.get('id'), **op.get('options', {})))

    def do_start_child(self, op):
        return (yield self.context.start_child(op['start_child'], self.value(op.get('input')), id=op.get('id'),
                                               **op.get('options', {})))

    def do_result_of(self, op):
        return (yield self.context.result_of(op['result_of']))

    def do_await_any(self, op):
        event = yield self.context.await_any(op.get('signals', []), op.get('children', []), timeout=op.get('timeout'),
                                             id=op['await_any'])
        return {'source': event.source, 'name': event.name, 'payload': event.payload}

    def do_progress(self, op):
        yield self.context.set_progress(self.value(op['progress']))

    def do_check(self, op):
        deadline = time.monotonic() + op['check']
        while time.monotonic() < deadline:
            self.context.check()
            yield asyncio.sleep(0.01) if self.is_async else time.sleep(0.01)

    def do_hold(self, op):
        yield from self.hold(op['hold'])

    def do_crash(self, op):
        yield from self.body({'crash': 1}, op['crash'])

    def do_raise_(self, op):
        if 'times' not in op or self.count(op['id']) <= op['times']:
            raise error(op['raise'])
        yield from ()

    def do_try_(self, op):
        try:
            yield from self.do(op['try'])
        except Return:
            raise
        except CATCH[op['catch']] as e:
            self.variables[op.get('as', 'error')] = caught(e)
            before, self.error = getattr(self, 'error', None), e
            yield from self.do(op['then'])
            self.error = before

    def do_again(self, op):
        raise self.error
        yield

    def do_return_(self, op):
        raise Return(self.value(op['return']))
        yield

    # Calls of an application; App has no coroutines.

    def do_start(self, op):
        yield from ()
        return self.app.start(op['start'], self.value(op.get('input')), key=op.get('key'), **op.get('options', {})).run_id

    def do_result(self, op):
        yield from ()
        return self.app.handle(self.value(op['result'])).result(timeout=op.get('timeout', 60))

    def do_signal(self, op):
        yield from ()
        return self.app.signal(self.value(op['signal']), op['name'], self.value(op.get('payload')), key=op.get('key'))

    def do_cancel(self, op):
        yield from ()
        return self.app.handle(self.value(op['cancel'])).cancel(op.get('reason'))

    def do_enqueue(self, op):
        yield from ()
        return self.app.enqueue(op['enqueue'], self.value(op.get('payload')), key=op.get('key'), **op.get('options', {}))


def drive(generator):
    """In a plain handler what is yielded has been done already."""
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
            request = step(answer)
        except StopIteration as end:
            return end.value
        try:
            step, answer = generator.send, await request
        except BaseException as e:
            step, answer = generator.throw, e


def register(app, is_async, job):
    def handler(definition, run):
        """A function for the client, with what becomes of a delivery."""
        def plain(*claim):
            return drive(run(definition, *claim))

        async def coroutine(*claim):
            return await drive_async(run(definition, *claim))
        return coroutine if is_async else plain

    def run_handler(definition, context, value):
        variables = {'input': value, 'attempt': context.attempt, 'headers': context.headers}
        return Handler(app, definition, context.id, context, variables, is_async).run()

    def message_handler(definition, message):
        variables = {'input': message.payload(), 'attempt': message.attempt, 'headers': message.headers}
        return Handler(app, definition, message.id, message, variables, is_async).run()

    def two(definition):
        call = handler(definition, run_handler)
        if is_async:
            async def named(context, value):
                return await call(context, value)
        else:
            def named(context, value):
                return call(context, value)
        return named
    for name, definition in job['workflows'].items():
        app.workflow(name=name, **definition['options'])(two(definition))
    for name, definition in job['queues'].items():
        app.queue(name, raw=True, **definition['options'])(handler(definition, message_handler))


def main():
    *flags, path = sys.argv[1:]
    logging.basicConfig(level='INFO', format='%(asctime)s %(message)s')
    with open(path, encoding='utf-8') as file:
        job = json.load(file)
    app = pgqrs.App(name=job['worker'])
    register(app, '--async' in flags, job)
    if job['install']:
        app.install()
    app.work(concurrency=job['concurrency'], grace=job['grace'], name=job['worker'],
             queues=[*job['workflows'], *job['queues'], *job.get('also', [])])


main()
