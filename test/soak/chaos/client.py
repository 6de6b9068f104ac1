#!/usr/bin/python3
"""One client: works on runs and messages as a worker does, and as anybody
else, at random, and writes down what it sent and was answered.

  client.py SERVER_FOLDER HISTORY_FOLDER NAME SEED SECONDS [drain]

With drain: makes no work, fails nothing, and ends what it finds, until every
run has ended.  SIGUSR1: dies in the middle of its next transaction.
"""

import os
import random
import signal
import sys
import time
from collections import deque

import psycopg2
from psycopg2.extras import Json, RealDictCursor

from history import Log
from server import Server
from program import make_program

NONCE = '$nonce'        # an argument, or part of one, that names its transaction

# What is no text in itself.
CASTS = {'inputs': 'jsonb[]', 'payloads': 'jsonb[]', 'idempotency_keys': 'text[]', 'queues': 'text[]'}

# To be repeated: serialization failures and deadlocks.
REPEAT = ('40001', '40P01')

EFFECT = 'effect'
LEASES = ('300 ms', '1 s', '1 s', '1 s', '3 s')


class Refused(Exception):
    def __init__(self, sqlstate):
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


class Lost(Exception):
    """The connection was lost, and the answer with it."""


def to_json(value):
    return value.timestamp() if hasattr(value, 'timestamp') else value


def replace_nonce(value, nonce):
    if isinstance(value, dict):
        return {k: replace_nonce(v, nonce) for k, v in value.items()}
    if isinstance(value, list):
        return [replace_nonce(v, nonce) for v in value]
    return nonce if value == NONCE else value


def to_sql(name, value):
    """A parameter and what stands for it."""
    if name == 'inputs' or name == 'payloads':
        value = [Json(v) for v in value]
    elif isinstance(value, dict):
        value = Json(value)
    cast = CASTS.get(name)
    return value, f'{name} => %s' + (f'::{cast}' if cast else '')


class Session:
    """A connection that comes back, and the log of what goes over it."""

    def __init__(self, server, log, rng):
        self.server, self.log, self.rng = server, log, rng
        self.connection = None
        self.dies_in_transaction = False

    def cursor(self):
        if self.connection is None or self.connection.closed:
            self.connection = self.server.connect('chaos client')
        return self.connection.cursor(cursor_factory=RealDictCursor)

    def execute(self, cursor, function, args):
        if function == EFFECT:
            cursor.execute('INSERT INTO chaos.effects VALUES (%(run_id)s, %(step_id)s, %(nonce)s)', args)
            return None
        values, places = zip(*(to_sql(k, v) for k, v in args.items())) if args else ((), ())
        verb = 'CALL' if function.startswith('wait') else 'SELECT * FROM'
        cursor.execute(f"{verb} pgqrs_{function}({', '.join(places)})", values)
        rows = [{k: to_json(v) for k, v in row.items()} for row in cursor.fetchall()]
        if function in ('dequeue', 'list_runs', 'list_steps', 'peek', 'extend_worker', 'extend_leases'):
            return rows
        row = rows[0]
        return next(iter(row.values())) if list(row) == [f'pgqrs_{function}'] else row

    def die_if_asked(self):
        if self.dies_in_transaction:
            os._exit(1)

    def run(self, calls, isolation, commit):
        """The results of one attempt; an isolation level: a transaction block."""
        cursor = self.cursor()
        nonce = self.log.next_nonce()
        calls = [(f, replace_nonce(a, nonce)) for f, a in calls]
        n = self.log.sent([{'f': f, 'a': a} for f, a in calls], commit)
        results = []
        committing = isolation is None
        try:
            if isolation:
                cursor.execute(f'BEGIN ISOLATION LEVEL {isolation}')
            for function, args in calls:
                results.append(self.execute(cursor, function, args))
                if isolation:
                    self.die_if_asked()
                    if self.rng.random() < 0.1:
                        time.sleep(self.rng.random() * 0.05)
            if isolation:
                committing = True
                if commit and self.rng.random() < 0.2:
                    self.commit_in_two(cursor, n, nonce)
                else:
                    cursor.execute('COMMIT' if commit else 'ROLLBACK')
        except psycopg2.Error as e:
            self.fail(n, e, min(len(results), len(calls) - 1), committing)
        self.log.got(n, results=results)
        return results

    def commit_in_two(self, cursor, n, name):
        cursor.execute('PREPARE TRANSACTION %s', (name,))
        self.die_if_asked()
        time.sleep(self.rng.choice((0, 0, 0.1, 0.5)))
        try:
            cursor.execute('COMMIT PREPARED %s', (name,))
        except (psycopg2.errors.UndefinedObject, psycopg2.errors.ObjectNotInPrerequisiteState) as e:
            # another client has ended it, or is about to
            self.log.got(n, lost=str(e).strip(), early=False)
            raise Lost() from e

    def fail(self, n, error, i, committing):
        if self.connection.closed or error.pgcode is None or error.pgcode.startswith(('57P', '08')):
            self.log.got(n, lost=str(error).strip(), early=not committing)
            self.connection.close()
            raise Lost() from error
        if self.connection.info.transaction_status != psycopg2.extensions.TRANSACTION_STATUS_IDLE:
            with self.connection.cursor() as cursor:
                try:
                    cursor.execute('ROLLBACK')
                except psycopg2.Error:
                    self.connection.close()
        self.log.got(n, error=error.pgcode, call=i, message=str(error).strip())
        raise Refused(error.pgcode) from error

    def attempt(self, calls, isolation, commit):
        """Repeated after serialization failures and deadlocks, which undo everything."""
        while True:
            try:
                return self.run(calls, isolation, commit)
            except Refused as e:
                if e.sqlstate not in REPEAT:
                    raise

    def call(self, function, **args):
        """One call in autocommit mode, repeated until it is answered."""
        while True:
            try:
                return self.attempt([(function, args)], None, True)[0]
            except Lost:
                pass

    def transaction(self, *calls, commit=True):
        """Not repeated when the connection was lost: it may have been committed."""
        isolation = self.rng.choice(('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'))
        return self.attempt(calls, isolation, commit)


class Client:
    def __init__(self, server, log, seed, length, drain):
        self.rng = random.Random(f'{seed} {log.name}')
        self.session = Session(server, log, self.rng)
        self.call = self.session.call
        self.transaction = self.session.transaction
        self.name = log.name
        self.drain = drain
        self.until = time.monotonic() + length
        self.worker = None
        self.held = []                      # handlers of what is held, to be advanced
        self.stalled = []                   # (instant, handler)
        self.known = deque(maxlen=100)      # runs
        self.ended = deque(maxlen=100)      # runs that have
        self.served = set()                 # waits of which drain has taken care
        self.seen_step = None               # (run, step)
        self.is_idle = False                # the last claim found nothing
        self.wanted = deque(maxlen=100)     # what runs wait for: (function, args)
        signal.signal(signal.SIGUSR1, self.on_signal)

    def on_signal(self, *_):
        self.session.dies_in_transaction = True

    def chance(self, share):
        return not self.drain and self.rng.random() < share

    # Working

    def register(self):
        self.worker = self.call('register_worker', name=self.name.split('-')[1], queues=['chaos.*'],
                                max_concurrent=self.rng.choice((2, 20)) if not self.drain else 20)

    def dequeue(self):
        lease = self.rng.choice(LEASES)
        if self.rng.random() < 0.2:
            self.hold_messages(self.call('dequeue', queue='plain.held', batch_size=2, visibility_timeout=lease))
            return
        queue = self.rng.choice((None, 'chaos.*', 'chaos.retained', 'chaos.active', 'chaos.frail'))
        rows = self.call('dequeue', queue=queue, worker_id=self.worker,
                         batch_size=self.rng.choice((1, 1, 3)), visibility_timeout=lease)
        self.is_idle = not rows
        for row in rows:
            self.known.append(row['run_id'])
            self.held.append(self.handle(row))

    def hold_messages(self, rows):
        self.held += [self.handle_message(row) for row in rows]

    def advance(self):
        """Takes one of the handlers a step further, or lets it stall."""
        handler = self.held.pop(self.rng.randrange(len(self.held)))
        if self.chance(0.02):
            # mostly longer than a lease
            self.stalled.append((time.monotonic() + self.rng.choice((0.5, 1.2, 1.2, 3.5)), handler))
            return
        if self.chance(0.01):
            return                          # forgotten, as after a crash
        try:
            next(handler)
            self.held.append(handler)
        except StopIteration:
            pass
        except Refused as e:
            if e.sqlstate == 'PQ014':
                self.register()

    def handle_message(self, m):
        key = {'message_id': m['message_id'], 'lease': m['lease']}
        yield
        if self.chance(0.1):
            self.call('extend_lease', **key, visibility_timeout='1 s')
            yield
        dice = self.rng.random()
        if dice < 0.1 and not self.drain:
            self.call('nack_message', **key, error={'type': 'no'}, delay=self.rng.choice(('0', '200 ms')))
        elif dice < 0.2 and not self.drain:
            self.call('release_message', **key, delay='100 ms')
        elif dice < 0.25:
            self.call('delete_message', **key)
        else:
            effect = {'run_id': m['message_id'], 'step_id': '(message)', 'nonce': m['payload']['nonce']}
            self.commit_effect(effect, ('archive_message', key))

    def commit_effect(self, effect, *calls):
        """Own writes and the word that it is done; False: it is not known."""
        try:
            self.transaction((EFFECT, effect), *calls, commit=not self.chance(0.05))
            return True
        except Lost:
            return False

    def handle(self, d):
        """The handler of a run: the program that is its input, from its start."""
        key = {'run_id': d['run_id'], 'lease': d['lease']}
        yield
        try:
            for op in d['input']['program']:
                if self.chance(0.15):
                    self.disturb(key)
                    yield
                if op[0] == 'step':
                    goes_on = yield from self.do_step(key, op[1])
                else:
                    goes_on = getattr(self, 'do_' + op[0])(key, *op[1:])
                if not goes_on:
                    return
                yield
            self.end(key)
        except Refused as e:
            if e.sqlstate == 'PQ010' and not self.chance(0.2):
                yield
                self.call('acknowledge_cancel', **key, output={'cancelled': True})
            raise

    def disturb(self, key):
        """What a worker may do between its steps."""
        dice = self.rng.random()
        if dice < 0.4:
            self.call('extend_lease', message_id=key['run_id'], lease=key['lease'],
                      visibility_timeout=self.rng.choice(LEASES))
        elif dice < 0.7:
            self.call('set_progress', **key, progress={'at': self.rng.random()})
        elif dice < 0.8:
            self.call('release_message', message_id=key['run_id'], lease=key['lease'],
                      delay=self.rng.choice(('0', '300 ms')))
        else:
            self.call('extend_worker', worker_id=self.worker, visibility_timeout='1 s')

    def do_step(self, key, step):
        while True:
            begun = self.call('step_begin', **key, step_id=step)
            if not begun['should_execute']:
                return begun['status'] == 'SUCCESS' or self.rng.random() < 0.9
            yield
            if self.chance(0.12):
                return self.fail_step(key, step)
            effect = {'run_id': key['run_id'], 'step_id': step, 'nonce': NONCE}
            done = ('step_complete', {**key, 'step_id': step, 'output': {'nonce': NONCE}})
            known = self.commit_effect(effect, done)
            yield
            if known:
                # also after a rollback: then the step is begun again
                if self.rng.random() < 0.8:
                    return True

    def fail_step(self, key, step):
        answer = self.call('step_fail', **key, step_id=step, error={'type': 'no'},
                           retryable=self.rng.random() < 0.8,
                           retry_after=self.rng.choice((None, '0', '200 ms')),
                           fail_run=self.rng.random() < 0.5)
        return answer['outcome'] == 'STEP_FAILED'

    def do_sleep(self, key, step, duration):
        if self.rng.random() < 0.3:
            until = time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(time.time() + duration + 1)) + 'Z'
            return self.call('sleep', **key, step_id=step, until=until)
        return self.call('sleep', **key, step_id=step, duration=f'{duration} s')

    def do_pause(self, key, step, check_after):
        answer = self.call('pause_run', **key, step_id=step, check_after=f'{check_after} s')
        if not answer['resumed']:
            self.want('resume_run', run_id=key['run_id'],
                      step_id=self.rng.choice((step, None)), output={'nonce': NONCE})
        return answer['resumed']

    def do_signal(self, key, step, name, timeout):
        answer = self.call('await_signal', **key, step_id=step, signal=name,
                           timeout=timeout and f'{timeout} s')
        if answer['received'] or answer['timed_out']:
            return True
        self.want('signal', run_id=key['run_id'], signal=name, payload={'nonce': NONCE})
        return False

    def want(self, function, **args):
        self.wanted.append((function, args))

    def do_child(self, key, step, workflow, program, on_parent_end):
        self.known.append(self.call('start_child', **key, step_id=step, workflow=workflow,
                                    input={'program': program}, on_parent_end=on_parent_end))
        return True

    def do_await_child(self, key, step):
        return self.call('await_child', **key, step_id=step)['done']

    def do_children(self, key, step, workflow, programs):
        self.known += self.call('start_children', **key, step_id=step, workflow=workflow,
                                inputs=[{'program': p} for p in programs])
        return True

    def do_await_children(self, key, step, mode):
        return self.call('await_children', **key, step_id=step, mode=mode)['done']

    def end(self, key):
        if self.chance(0.05):
            self.call('fail_run', **key, error={'type': 'end'}, retryable=self.rng.random() < 0.7,
                      retry_after=self.rng.choice((None, '100 ms')))
        elif self.chance(0.5):
            effect = {'run_id': key['run_id'], 'step_id': '(end)', 'nonce': NONCE}
            self.commit_effect(effect, ('complete_run', {**key, 'output': {'nonce': NONCE}}))
        else:
            nonce = self.session.log.next_nonce()
            self.call('complete_run', **key, output={'nonce': nonce})
            if self.chance(0.1):
                self.call('complete_run', **key, output={'nonce': nonce})

    # What others do

    def try_call(self, function, **args):
        try:
            return self.call(function, **args)
        except Refused as e:
            if e.sqlstate == 'PQ014':
                self.register()
            return None

    def some_run(self):
        return self.rng.choice(self.known)

    def some_ended(self):
        return self.rng.choice(self.ended or self.known)

    def some_workflow(self):
        return self.rng.choice(('chaos.retained', 'chaos.retained', 'chaos.active', 'chaos.frail'))

    def some_key(self):
        return f'key {self.rng.randrange(30)} of {int(time.monotonic()) // 5}'

    def trigger(self):
        args = {'workflow': self.some_workflow(), 'input': {'program': make_program(self.rng)},
                'tags': {'call': NONCE}, 'priority': self.rng.choice((0, 0, 0, 10)),
                'delay': self.rng.choice(('0', '0', '0', '300 ms', '1 s'))}
        if self.rng.random() < 0.3:
            args['idempotency_key'] = self.some_key()
        if self.rng.random() < 0.1:
            args['timeout'] = self.rng.choice(('1 s', '5 s'))
        if self.rng.random() < 0.1:
            args['retry_policy'] = {'max_attempts': 2, 'initial_interval': '100 ms'}
        try:
            if self.rng.random() < 0.7:
                self.known.append(self.call('trigger', **args))
            else:
                effect = {'run_id': 0, 'step_id': '(trigger)', 'nonce': NONCE}
                self.transaction((EFFECT, effect), ('trigger', args), commit=self.rng.random() < 0.8)
        except (Refused, Lost):
            pass

    def trigger_batch(self):
        count = self.rng.choice((1, 2, 3, 6))
        args = {'workflow': self.some_workflow(), 'tags': {'call': NONCE},
                'inputs': [{'program': make_program(self.rng)} for _ in range(count)]}
        if self.rng.random() < 0.5:
            base = self.some_key()
            args['idempotency_keys'] = [f'{base} {i}' for i in range(count)]
        self.known += self.try_call('trigger_batch', **args) or []

    def enqueue(self):
        args = {'queue': self.rng.choice(('plain.held', 'plain.consumed')), 'payload': {'nonce': NONCE},
                'delay': self.rng.choice(('0', '0', '500 ms'))}
        self.try_call('enqueue', **args)

    def consume(self):
        self.try_call('consume', queue='plain.consumed', handler='chaos.consume', batch_size=3)

    def fulfil(self):
        """The event that a run waits for comes; at times twice, or before it is awaited."""
        if self.wanted and self.rng.random() < 0.8:
            function, args = self.wanted.popleft()
        elif self.rng.random() < 0.5:
            function, args = 'signal', {'run_id': self.some_run(), 'signal': self.rng.choice('ab'),
                                        'payload': {'nonce': NONCE}}
        else:
            function, args = 'resume_run', {'run_id': self.some_run(), 'step_id': self.rng.choice((None, 'p1')),
                                            'output': {'nonce': NONCE}}
        if function == 'signal' and self.rng.random() < 0.3:
            args = {**args, 'idempotency_key': f'signal {self.rng.randrange(3)}'}
        if self.rng.random() < 0.8:
            self.try_call(function, **args)
        else:
            try:
                effect = {'run_id': 0, 'step_id': '(signal)', 'nonce': NONCE}
                self.transaction((EFFECT, effect), (function, args), commit=self.rng.random() < 0.7)
            except (Refused, Lost):
                pass

    def look(self):
        """Observes a run: what has ended must stay as it was."""
        function = self.rng.choice(('get_run', 'result', 'list_steps'))
        run = self.rng.choice((self.some_run(), self.some_ended()))
        answer = self.try_call(function, run_id=run)
        if function == 'list_steps' and answer:
            self.seen_step = run, self.rng.choice(answer)['step_id']

    def list(self):
        status = self.rng.choice((None, 'ERROR', 'ERROR', 'SUCCESS', 'CANCELLED'))
        rows = self.try_call('list_runs', workflow='chaos.*', status=status, page_size=10) or []
        (self.ended if status else self.known).extend(r['run_id'] for r in rows)

    def wait(self):
        self.try_call('wait', run_id=self.some_run(), timeout='300 ms')

    def wait_for_work(self):
        self.try_call('wait_for_work', worker_id=self.worker, timeout='200 ms')

    def rerun(self):
        if self.seen_step and self.rng.random() < 0.3:
            run, step = self.seen_step
            new = self.try_call('rerun', run_id=run, from_step=step, keep_finished=self.rng.random() < 0.3)
        else:
            new = self.try_call('rerun', run_id=self.some_ended(), keep_finished=self.rng.random() < 0.5)
        if new:
            self.known.append(new)

    def operate(self):
        """An operator of runs."""
        run = self.some_run()
        choices = (
            ('cancel_run', {'run_id': run, 'reason': 'chaos'}, 6),
            ('cancel_runs', {'workflow': self.some_workflow(), 'status': self.rng.choice(('QUEUED', 'PAUSED')),
                             'max_rows': 2}, 1),
            ('replay_message', {'message_id': self.some_ended()}, 8),
            ('replay_queue', {'queue': self.some_workflow(), 'max_rows': 2}, 0.3),
            ('delete_run', {'run_id': run, 'reason': 'chaos'}, 2),
            ('set_visibility', {'message_id': run, 'visible_after': '2000-01-01T00:00:00Z'}, 3),
            ('find_run', {'workflow': self.some_workflow(), 'idempotency_key': self.some_key()}, 2),
            ('heartbeat', {'worker_id': self.worker}, 2),
            ('purge_queue', {'queue': 'chaos.frail'}, 0.2),
            ('trigger_schedule', {'name': f'schedule {self.rng.randrange(1, 4)}'}, 0.2),
            ('maintain', {}, 1),
            ('peek', {'queue': 'chaos.retained', 'n': 5}, 1),
            ('pause_queue', {'queue': 'chaos.frail'}, 1),
            ('resume_queue', {'queue': 'chaos.frail'}, 3),
            ('suspend_worker', {'worker_id': self.worker}, 1),
            ('resume_worker', {'worker_id': self.worker}, 4),
            ('stop_worker', {'worker_id': self.worker}, 0.5),
            ('register', {}, 0.5),          # supersedes the worker, which loses what it holds
        )
        function, args, _ = self.rng.choices(choices, [c[2] for c in choices])[0]
        if function != 'register':
            self.try_call(function, **args)
        if function in ('stop_worker', 'register'):
            self.register()

    def act(self):
        if self.known:
            kinds = ((self.trigger, 8 if self.is_idle else 0.5), (self.trigger_batch, 0.3),
                     (self.enqueue, 4), (self.consume, 1),
                     (self.fulfil, 20), (self.look, 10), (self.list, 2), (self.wait, 0.5),
                     (self.wait_for_work, 0.5), (self.operate, 8), (self.rerun, 1))
            self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]()
        else:
            self.trigger()

    # Loops

    def wake_stalled(self):
        now = time.monotonic()
        self.held += [h for t, h in self.stalled if t <= now]
        self.stalled = [(t, h) for t, h in self.stalled if t > now]

    def turn(self):
        self.wake_stalled()
        dice = self.rng.random()
        if self.held and dice < 0.55:
            self.advance()
        elif dice < 0.8 and len(self.held) < 12:
            self.dequeue()
        elif self.drain:
            self.consume()
        else:
            self.act()
        if not self.drain or self.is_idle:
            time.sleep(self.rng.random() * 0.01)

    def wake_parked(self):
        """What runs wait for comes."""
        for run in self.call('list_runs', workflow='chaos.*', status='PAUSED', page_size=1000):
            wait = run['run_id'], run['waiting_for'], run['paused_at']
            if wait in self.served:
                continue
            self.served.add(wait)
            kind, _, what = run['waiting_for'].partition(' ')
            if kind == 'signal':
                self.try_call('signal', run_id=run['run_id'], signal=what, payload={'nonce': NONCE})
            elif kind == 'pause':
                self.try_call('resume_run', run_id=run['run_id'], output={'nonce': NONCE})

    def turn_as_worker(self):
        try:
            self.turn()
        except Refused as e:
            if e.sqlstate == 'PQ014':
                self.register()

    def run(self):
        self.register()
        while time.monotonic() < self.until:
            self.turn_as_worker()

    def run_drain(self):
        self.register()
        looks_at = 0
        while time.monotonic() < self.until:
            self.turn_as_worker()
            if time.monotonic() > looks_at:
                looks_at = time.monotonic() + 0.5
                if self.session.server.query('SELECT count(*) FROM chaos.messages')[0][0] == 0:
                    return
                self.wake_parked()


def main():
    server, folder, name, seed, length = sys.argv[1:6]
    drain = sys.argv[6:] == ['drain']
    client = Client(Server(server), Log(folder, name), seed, float(length), drain)
    client.run_drain() if drain else client.run()


if __name__ == '__main__':
    main()
