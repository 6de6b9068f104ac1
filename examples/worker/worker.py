#!/usr/bin/env python3
"""A worker of pgqrs, and a library for one.

    worker.py DSN NAME QUEUE...       works with the handlers below until SIGTERM

Handlers of runs get a Run, handlers of messages a Message. docs/workers.md says
why each answer is handled as it is here.
"""
import json
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager

import psycopg2
import psycopg2.extras

AGAIN = ('40001', '40P01')           # repeat the transaction
GONE = ('PQ003', 'PQ006', 'PQ007')   # of a call under a lease: the work is not ours any more
STOPPED = ('PQ005', 'PQ014')         # of a call of the worker: exit
UNSTORABLE = ('22021', '22P02', '22P05')


class Leave(Exception):
    """Leave the handler: the run is given back, has ended, or is another worker's."""


class Cancelled(Exception):
    """The run was asked to stop."""


class Stopped(Exception):
    """The worker was stopped."""


class Permanent(Exception):
    """Raised by a handler: another try is useless."""


class StepFailed(Permanent):
    """A step that failed for good."""


def is_lost(e):
    """Whether the connection is lost, and the answer with it."""
    return isinstance(e, (psycopg2.OperationalError, psycopg2.InterfaceError)) and \
        (e.pgcode is None or e.pgcode[:2] in ('08', '57') and e.pgcode != '57014')


def describe(e):
    if isinstance(e, StepFailed):
        return e.args[0]
    kind = e.pgcode if isinstance(e, psycopg2.Error) and e.pgcode else type(e).__name__
    return {'type': kind, 'message': str(e)}


class Session:
    """A connection that is made anew when it was lost."""

    def __init__(self, connect):
        self.connect = connect
        self.connection = None

    def cursor(self):
        if self.connection is None or self.connection.closed:
            self.connection = self.connect()
            self.connection.autocommit = True
        return self.connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor)

    def query(self, sql, *args):
        with self.cursor() as cursor:
            cursor.execute(sql, args)
            return cursor.fetchall() if cursor.description else []

    def close(self):
        if self.connection is not None:
            try:
                self.connection.close()
            except psycopg2.Error:
                pass
            self.connection = None


class Work:
    """A message or run under its lease."""

    def __init__(self, worker, claim):
        self.worker = worker
        self.session = worker.session
        self.claim = claim
        self.id = claim['message_id']
        self.lease = claim['lease']
        self.input = claim['input']
        self.payload = claim['payload']
        self.lost = False       # set by the thread that extends

    def call(self, function, *args, cursor=None, tries=10):
        """A call of pgqrs under the lease. Alone it is repeated where its answer may be lost."""
        sql = 'SELECT * FROM %s(%s)' % (function, ', '.join(['%s'] * (len(args) + 2)))
        if self.lost:
            raise Leave()
        for left in reversed(range(tries)):
            try:
                if cursor is None:
                    return self.session.query(sql, self.id, self.lease, *args)[0]
                cursor.execute(sql, (self.id, self.lease, *args))
                return cursor.fetchone()
            except psycopg2.Error as e:
                if e.pgcode in GONE:
                    raise Leave() from e
                if e.pgcode == 'PQ010':
                    raise Cancelled() from e
                if e.pgcode == 'PQ014':
                    raise Stopped() from e
                if cursor is not None or left == 0 or not (is_lost(e) or e.pgcode in AGAIN):
                    raise
            time.sleep(random.uniform(0.01, 0.1))

    def in_transaction(self, work, last, tries=10):
        """work(cursor), then last(cursor, its result) in one transaction: exactly once. False: it was before."""
        for left in reversed(range(tries)):
            try:
                cursor = self.session.cursor()
                connection = self.session.connection
                cursor.execute('BEGIN')
                result = work(cursor)
                done = last(cursor, result)
                cursor.execute('COMMIT' if done else 'ROLLBACK')
                return done, result
            except BaseException as e:
                self.roll_back()
                if left == 0 or not isinstance(e, psycopg2.Error) or not (is_lost(e) or e.pgcode in AGAIN):
                    raise
            time.sleep(random.uniform(0.01, 0.1))

    def roll_back(self):
        try:
            self.session.query('ROLLBACK')
        except psycopg2.Error:
            self.session.close()


class Message(Work):
    """A message of a plain queue: handler(message, cursor), whose writes commit with its end."""

    def handle(self, handler):
        self.in_transaction(lambda cursor: handler(self, cursor),
                            lambda cursor, _: self.call('pgqrs_archive_message', cursor=cursor)['pgqrs_archive_message'])

    def fail(self, error, retryable):
        self.call('pgqrs_nack_message', json.dumps(error))

    def acknowledge_cancel(self):
        pass


class Run(Work):
    """A run of a workflow: handler(run) returns its output."""

    def handle(self, handler):
        output = handler(self)
        self.call('pgqrs_complete_run', json.dumps(output))

    def fail(self, error, retryable):
        self.call('pgqrs_fail_run', json.dumps(error), retryable)

    def acknowledge_cancel(self):
        self.call('pgqrs_acknowledge_cancel')

    def begin(self, step_id):
        begun = self.call('pgqrs_step_begin', step_id)
        if not begun['should_execute'] and begun['status'] == 'ERROR':
            raise StepFailed(begun['error'])
        return begun

    def step(self, step_id, work):
        """A step that works outside of the database: work first, then store."""
        begun = self.begin(step_id)
        if not begun['should_execute']:
            return begun['output']
        with self.failing(step_id):
            output = work()
            self.call('pgqrs_step_complete', step_id, json.dumps(output))
        return output

    def transaction(self, step_id, work):
        """A step whose writes, made by work(cursor), commit with it."""
        begun = self.begin(step_id)
        if not begun['should_execute']:
            return begun['output']
        with self.failing(step_id):
            stored, output = self.in_transaction(
                work, lambda cursor, output: self.call('pgqrs_step_complete', step_id, json.dumps(output),
                                                       cursor=cursor)['pgqrs_step_complete'])
        return output if stored else self.begin(step_id)['output']

    @contextmanager
    def failing(self, step_id):
        try:
            yield
        except (Leave, Cancelled, Stopped):
            raise
        except Exception as e:
            self.roll_back()
            self.worker.report(lambda error: self.call('pgqrs_step_fail', step_id, json.dumps(error),
                                                       not isinstance(e, Permanent)), describe(e))
            raise Leave() from e

    def sleep(self, step_id, duration):
        if not self.call('pgqrs_sleep', step_id, duration)['pgqrs_sleep']:
            raise Leave()

    def await_signal(self, step_id, name):
        answer = self.call('pgqrs_await_signal', step_id, name)
        if not answer['received']:
            raise Leave()
        return answer['payload']


class Worker:
    def __init__(self, connect, name, queues, handlers, lease=30):
        """handlers: by the name of the workflow or queue; lease: the shortest one, in seconds."""
        self.session = Session(connect)
        self.beside = Session(connect)      # extends and suspends
        self.name = name
        self.queues = queues
        self.handlers = handlers
        self.period = min(lease, 60) / 3    # 60: pgqrs.worker_timeout
        self.id = None
        self.failed = 0                     # calls in a row
        self.hands = {}                     # what is worked on, and nothing else
        self.stopping = threading.Event()

    def back_off(self):
        """Before another call that has no work."""
        self.failed += 1
        self.stopping.wait(random.uniform(0.5, 1) * min(30, 0.05 * 2 ** min(self.failed, 10)))

    def idle(self, sql, *args):
        """A call that has no work; None: it failed, go on."""
        try:
            answer = self.session.query(sql, *args)
            self.failed = 0
            return answer
        except psycopg2.Error as e:
            if self.id is not None and e.pgcode in STOPPED:
                raise Stopped() from e
            if is_lost(e):
                self.session.close()
            print(f'{self.name}: {e}', file=sys.stderr)
            self.back_off()

    def run(self):
        extender = threading.Thread(target=self.extend, daemon=True)
        try:
            while self.id is None and not self.stopping.is_set():
                answer = self.idle('SELECT pgqrs_register_worker(%s, %s, max_concurrent => 1) AS id', self.name, self.queues)
                self.id = answer and answer[0]['id']
            extender.start()
            while not self.stopping.is_set():
                claims = self.idle('SELECT * FROM pgqrs_dequeue(worker_id => %s)', self.id)
                if claims == []:
                    self.idle("CALL pgqrs_wait_for_work(worker_id => %s, timeout => '5 s')", self.id)
                for claim in claims or []:
                    self.work(claim)
            self.idle('SELECT pgqrs_stop_worker(%s)', self.id)
        except Stopped:
            print(f'{self.name}: stopped', file=sys.stderr)
        finally:
            self.stopping.set()
            self.session.close()

    def work(self, claim):
        work = (Message if claim['run_id'] is None else Run)(self, claim)
        handler = self.handlers.get(claim['workflow'] or claim['queue'])
        self.hands[work.id] = work
        try:
            if handler is None:
                work.fail({'type': 'no_handler_registered'}, False)
            else:
                work.handle(handler)
        except Leave:
            work.roll_back()
        except Cancelled:
            work.roll_back()
            self.report(lambda _: work.acknowledge_cancel(), None)
        except Stopped:
            raise
        except Exception as e:
            work.roll_back()
            self.report(lambda error: work.fail(error, not isinstance(e, Permanent)), describe(e))
        finally:
            del self.hands[work.id]         # from here on it is not extended any more

    def report(self, call, error):
        """Gives work up with an error; if that is impossible, the lease runs out."""
        for _ in range(3):
            try:
                call(error)
                return
            except (Leave, Cancelled):      # it was not ours any more
                return
            except psycopg2.Error as e:
                print(f'{self.name}: {e}', file=sys.stderr)
                if e.pgcode in UNSTORABLE:
                    error = {'type': 'unserializable_error'}
                self.session.close()

    def extend(self):
        """Keeps the leases of exactly what is in hand."""
        while not self.stopping.wait(self.period):
            hands = dict(self.hands)
            try:
                for lease in hands and self.beside.query('SELECT * FROM pgqrs_extend_leases(%s, %s)', list(hands),
                                                         [work.lease for work in hands.values()]):
                    if not lease['extended']:
                        hands[lease['message_id']].lost = True
            except psycopg2.Error:
                self.beside.close()
        self.beside.close()

    def stop(self):
        """Ends the worker after what it works on; suspending ends its wait."""
        self.stopping.set()
        try:
            Session(self.beside.connect).query('SELECT pgqrs_suspend_worker(%s)', self.id)
        except psycopg2.Error:
            pass


def greet(run):
    run.step('look up', lambda: {'name': run.input['name']})
    return {'greeting': 'Hello, %s' % run.input['name']}


def main():
    dsn, name, *queues = sys.argv[1:]
    worker = Worker(lambda: psycopg2.connect(dsn), name, queues, {'greet': greet})
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

    def wait():
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
        worker.stop()
    threading.Thread(target=wait, daemon=True).start()
    worker.run()


if __name__ == '__main__':
    main()
