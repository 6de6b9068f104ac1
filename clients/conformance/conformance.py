#!/usr/bin/env python3
"""Runs the conformance suite of pgqrs' clients; README.md says what a case and a driver are.

    conformance.py [--only PATTERN] [--without FEATURE,...] [--lacks FILE] [--restart COMMAND] [--jobs N] DRIVER...

The environment says where the server is: a database of its own with the extension, preloaded, not
paused.  COMMAND, given immediate or fast, restarts the server; without it cases that need this are
skipped.  Prints TAP.
"""
import argparse
import concurrent.futures
import copy
import fnmatch
import glob
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import psycopg
from psycopg.types.json import Jsonb

from relay import Relay

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = float(os.environ.get('PG_TEST_TIMEOUT_DEFAULT', 180))      # seconds that anything may take
QUEUE_OPTIONS = {'visibility_timeout': '1 hour'}   # no lease runs out but by the case
OPTIONS = {**QUEUE_OPTIONS, 'initial_interval': '10 ms', 'jitter': 0}
BARE = {'step', 'transaction', 'body', 'sleep', 'receive', 'pause', 'child', 'children', 'start_child', 'result_of',
        'await_any', 'progress', 'check', 'hold', 'crash', 'raise', 'try', 'again', 'return', 'start', 'result', 'signal',
        'cancel', 'enqueue'}
TOUCHES = {'kill', 'start', 'backends', 'lose', 'cut', 'restart'}


class Failed(Exception):
    """The case failed, for this reason."""


dead = []       # the worker that several cases share, once it has died


#
# Connections
#

local = threading.local()


def connection():
    if getattr(local, 'connection', None) is None or local.connection.closed:
        local.connection = psycopg.connect(autocommit=True, application_name='conformance',
                                           options='-c client_min_messages=error')
    return local.connection


def rows(query, args=()):
    """The rows of a statement, also while the server restarts."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            cursor = connection().execute(query, args)
            return cursor.fetchall() if cursor.description else []
        except psycopg.OperationalError as e:
            if e.sqlstate is not None and not e.sqlstate.startswith('57') or time.monotonic() > deadline:
                raise
            if getattr(local, 'connection', None) is not None:
                local.connection.close()
            time.sleep(0.05)


def wait_until(condition, what, pause=0.01, seconds=LIMIT):
    """Waits for a condition: what it answers."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if dead:
            raise Failed('the shared worker has died')
        if time.monotonic() > deadline:
            raise Failed(f'this has not happened in {seconds} s: {what}')
        time.sleep(pause)
        pause = min(0.1, pause * 1.3)


#
# Workers
#

class Worker:
    """A driver process of a case, which is started again when it was killed."""

    def __init__(self, suite, name, job, folder, host=None, restart=True):
        self.suite, self.name, self.folder, self.restart = suite, name, folder, restart
        self.job = os.path.join(folder, f'{name}.json')
        self.stderr = os.path.join(folder, f'{name}.err')
        with open(self.job, 'w', encoding='utf-8') as file:
            json.dump({'worker': name, **job}, file)
        self.environment = {**os.environ, 'PGAPPNAME': name, **({'PGHOST': host, 'PGPORT': '5432'} if host else {})}
        self.ending = False
        self.status = None
        self.starts = 0
        self.lock = threading.Lock()
        self.start()
        threading.Thread(target=self.watch, daemon=True).start()

    def start(self):
        with open(self.stderr, 'ab') as stderr:
            self.process = subprocess.Popen([*self.suite.driver, self.job], stdin=subprocess.DEVNULL, stdout=stderr,
                                            stderr=stderr, env=self.environment)
        self.starts += 1

    def watch(self):
        while True:
            status = self.process.wait()
            with self.lock:
                killed = status in (-signal.SIGKILL, 128 + signal.SIGKILL)
                if self.ending or not self.restart or not killed or self.starts > 20:
                    self.status = status
                    if not self.ending and self.name == 'shared':
                        dead.append(self)
                    return
                self.start()

    def kill(self, name):
        with self.lock:
            if self.status is None:
                self.process.send_signal(getattr(signal, f'SIG{name}'))

    def end(self):
        """SIGTERM; what is wrong with its end."""
        with self.lock:
            self.ending = True
            ended = self.status is not None or self.process.poll() is not None
            if not ended:
                self.process.send_signal(signal.SIGCONT)
                self.process.terminate()
        try:
            wait_until(lambda: self.status is not None, 'the end of the worker after SIGTERM')
        except Failed as e:
            self.process.kill()
            return str(e)
        # One that was just started again may not have got so far that it takes the signal.
        loading = self.starts > 1 and self.status == -signal.SIGTERM
        return None if ended or loading or self.status == 0 else f'worker {self.name} exits with {self.status} after SIGTERM'

    def said(self):
        with open(self.stderr, encoding='utf-8', errors='replace') as file:
            return file.read()


#
# Cases
#

def each(value):
    """All objects in a value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from each(item)
    elif isinstance(value, list):
        for item in value:
            yield from each(item)


def fits(actual, expected):
    """Objects may have more keys than expected."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(key in actual and fits(actual[key], value) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(actual) == len(expected) and all(map(fits, actual, expected))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return actual is expected
    return actual == expected


def expanded(script):
    """{"repeat": N, "do": [...]}: the operations N times, with {n} for the number."""
    result = []
    for operation in script:
        if 'repeat' in operation:
            for n in range(1, operation['repeat'] + 1):
                result += json.loads(json.dumps(operation['do']).replace('{n}', str(n)))
        else:
            result.append(operation)
    return result


class Case:
    def __init__(self, suite, id, data, folder):
        self.suite, self.id, self.name, self.folder = suite, id, data['name'], folder
        data = copy.deepcopy(data)
        self.requires = data.get('requires')
        self.workflows = {**({'w': {key: data[key] for key in ('script', 'options') if key in data}} if 'script' in data else {}),
                          **data.get('workflows', {})}
        self.queues = data.get('queues', {})
        self.outside = data.get('outside', [{'trigger': 'w'}])
        self.expect = data.get('expect', {})
        self.worker = data.get('worker', {})
        self.deleted = data.get('deleted', [])
        handlers = [*self.workflows.values(), *self.queues.values()]
        for handler in handlers:
            if 'script' in handler:
                handler['script'] = expanded(handler['script'])
        scripts = [handler.get('script', []) for handler in handlers]
        self.operations = {key for script in scripts for item in each(script) for key in item} & BARE
        if 'needs' in data:
            self.operations.add(data['needs'])
        if any('permanent' in item for item in each(scripts)):
            self.operations.add('permanent')
        self.actions = {key for action in self.outside for key in action}
        self.own = self.worker != 'none' and bool(
            self.worker or 'crash' in self.operations or self.actions & TOUCHES)
        self.relayed = bool(self.actions & {'lose', 'cut'})
        self.restarts = next((action['restart'] for action in self.outside if 'restart' in action), None)
        self.rename([*scripts, self.outside])
        self.variables = {}
        self.runs = []
        self.workers = {}
        self.relay = None
        self.restarted = False

    def full(self, name):
        return f'{self.id}.{name}'

    def rename(self, value):
        """Writes the prefix wherever a workflow or queue of this case is named."""
        names = {*self.workflows, *self.queues}
        for definition in self.workflows.values():
            if definition.get('options', {}).get('outbox_queue') in names:
                definition['options']['outbox_queue'] = self.full(definition['options']['outbox_queue'])
        for item in each(value):
            for key in ('child', 'children', 'start_child', 'start', 'trigger', 'enqueue'):
                if isinstance(item.get(key), str) and item[key] in names:
                    item[key] = self.full(item[key])
                elif isinstance(item.get(key), dict) and item[key].get('start') in names:
                    item[key]['start'] = self.full(item[key]['start'])

    def job(self, name, **more):
        def handlers(of):
            return {self.full(n): {'options': {}, **d, 'dir': self.folder}
                    for n, d in of.items() if 'script' in d and name in d.get('workers', [name])}
        return {'concurrency': 20, 'grace': 5, 'install': False,
                **(self.worker if isinstance(self.worker, dict) else {}), **more,
                'also': [self.full(n) for n in (self.worker.get('also', []) if isinstance(self.worker, dict) else [])],
                'workflows': handlers(self.workflows), 'queues': handlers(self.queues)}

    #
    # Before
    #

    def install(self):
        os.makedirs(self.folder)
        open(os.path.join(self.folder, 'trace'), 'w').close()
        if isinstance(self.worker, dict) and self.worker.get('install'):
            return
        for kind, of, defaults in (('queue', self.queues, QUEUE_OPTIONS), ('workflow', self.workflows, OPTIONS)):
            for name, definition in of.items():
                options = {**defaults, **definition.get('options', {})}
                arguments = ''.join(f', {option} => %s' for option in options)
                rows(f'SELECT pgqrs_create_{kind}(%s{arguments})', (self.full(name), *options.values()))

    def start_worker(self, name):
        options = self.worker if isinstance(self.worker, dict) else {}
        full = self.full(name)
        self.workers[name] = Worker(self.suite, full, self.job(name), self.folder, self.relay and self.relay.folder,
                                    options.get('restart', True))

    #
    # Outside
    #

    def executed(self, name=None):
        """How often each body was executed."""
        counts = {}
        with open(os.path.join(self.folder, 'trace'), encoding='utf-8') as file:
            for line in file:
                if line.endswith('\n'):
                    body = line.rstrip('\n').partition(' ')[2]
                    counts[body] = counts.get(body, 0) + 1
        return counts if name is None else counts.get(name, 0)

    def sql(self, query, **more):
        """A statement with :NAME for variables, workflows and queues."""
        args = []
        names = {name: self.full(name) for name in (*self.workflows, *self.queues)}
        values = {**names, **{f'worker_{n}': self.full(n) for n in self.workers}, 'case': self.id, **self.variables, **more}

        def placeholder(match):
            args.append(values[match[1]])
            return '%s'
        return rows(re.sub(r'(?<!:):([a-z_][a-z_0-9]*)', placeholder, query.replace('%', '%%')), args)

    def call(self, function, first, options):
        arguments = ''.join(f', {name} => %s' for name in options)
        encoded = [Jsonb(v) if name in ('input', 'payload', 'headers', 'tags', 'retry_policy') else v
                   for name, v in options.items()]
        return rows(f'SELECT {function}(%s{arguments})', (first, *encoded))[0][0]

    def run_of(self, action):
        return self.variables[action.get('run', 'run')]

    def act(self, action):
        verb = next(iter(action))
        rest = {key: value for key, value in action.items() if key not in (verb, 'as', 'run', 'worker')}
        if verb == 'trigger':
            run = self.call('pgqrs_trigger', action['trigger'], rest)
            self.variables[action.get('as', 'run')] = run
            if run is not None and run not in self.runs and not any(self.full(n) == action['trigger'] for n in self.deleted):
                self.runs.append(run)
        elif verb == 'enqueue':
            rest.setdefault('payload', None)
            self.variables[action.get('as', 'message')] = self.call('pgqrs_enqueue', action['enqueue'], rest)
        elif verb == 'await':
            self.await_(action['await'])
        elif verb == 'signal':
            rows('SELECT pgqrs_signal(%s, %s, %s, %s)',
                 (self.run_of(action), action['signal'], Jsonb(action.get('payload')), action.get('key')))
        elif verb == 'cancel':
            rows('SELECT pgqrs_cancel_run(%s, %s)', (self.variables[action['cancel']], action.get('reason')))
        elif verb == 'sql':
            self.act_sql(action)
        elif verb == 'release':
            open(os.path.join(self.folder, action['release']), 'w').close()
        elif verb == 'kill':
            self.workers[action.get('worker', 'worker')].kill(action['kill'])
        elif verb == 'start':
            self.start_worker(action['start'])
        elif verb == 'backends':
            which = {'all': 'true', 'poll': "query ~* 'pgqrs_poll' AND state = 'active'",
                     'others': "NOT (query ~* 'pgqrs_poll' AND state = 'active')"}[action['backends']]
            names = [worker.name for worker in self.workers.values()]
            wait_until(lambda: rows('SELECT pg_terminate_backend(pid) FROM pg_stat_activity '
                                    f'WHERE application_name = ANY(%s) AND {which}', (names,)), f'a session to end: {which}')
        elif verb in ('lose', 'cut'):
            self.relay.rule(action[verb], action.get('after'), action.get('times', 1), verb == 'cut')
        elif verb == 'restart':
            self.restart()
        else:
            raise Failed(f'there is no action {verb}')

    def restart(self):
        """Comes back when the server was restarted, once for all cases that want it so."""
        self.restarted = True
        self.suite.barriers[self.restarts].wait(2 * LIMIT)

    def act_sql(self, action):
        try:
            answer = self.sql(action['sql'])
        except psycopg.Error as e:
            if 'sqlstate' not in action or e.sqlstate != action['sqlstate']:
                raise Failed(f'{action["sql"]}: {e.sqlstate} {e}') from e
            return
        if 'sqlstate' in action:
            raise Failed(f'{action["sql"]} does not raise {action["sqlstate"]}')
        if len(answer) == 1 and len(answer[0]) == 1:
            answer = answer[0][0]
        if 'answer' in action and not fits(answer, action['answer']):
            raise Failed(f'{action["sql"]} answers {answer!r} instead of {action["answer"]!r}')
        if 'as' in action:
            self.variables[action['as']] = answer

    def await_(self, what):
        if 'executed' in what:
            wait_until(lambda: self.executed(what['executed']) >= what.get('times', 1), what)
        elif 'sql' in what:
            wait_until(lambda: self.sql(what['sql'])[0][0], what)
        elif 'exit' in what:
            worker = self.workers[what.get('worker', 'worker')]
            worker.restart = False
            wait_until(lambda: worker.status is not None, what)
            if what['exit'] is not None and worker.status != what['exit']:
                raise Failed(f'the worker exits with {worker.status} instead of {what["exit"]}')
        elif 'told' in what:
            self.await_told()
        elif 'lost' in what:
            wait_until(lambda: self.relay.done >= what['lost'], what)
        else:
            run = self.variables[what.get('run', 'run')]
            expected = {key: value for key, value in what.items() if key != 'run'}
            wait_until(lambda: fits(self.run_row(run), expected), what)

    def await_told(self):
        """Waits until the worker was told what has become of what it holds: it has begun a poll since, and
        that sleeps, or another one."""
        names = [worker.name for worker in self.workers.values()] or ['shared']
        since = rows('SELECT clock_timestamp()')[0][0]
        begun = set()

        def told():
            polls = rows("SELECT query_start, wait_event_type = 'Extension' FROM pg_stat_activity "
                         "WHERE application_name = ANY(%s) AND query ~* 'pgqrs_poll' AND state = 'active' AND query_start > %s",
                         (names, since))
            begun.update(start for start, _ in polls)
            return len(begun) > 1 or any(sleeps for _, sleeps in polls)
        wait_until(told, 'the worker is told')

    #
    # The end
    #

    def run_row(self, run):
        return rows('SELECT to_jsonb(r) FROM pgqrs_get_run(%s) r', (run,))[0][0]

    def await_end(self):
        names = [self.full(name) for name in self.workflows if name not in self.deleted]
        wait_until(lambda: not rows("SELECT 1 FROM pgqrs_runs WHERE workflow = ANY(%s) AND status IN ('QUEUED', 'RUNNING', 'PAUSED')",
                                    (names,)), 'the end of all runs')
        served = [self.full(name) for name, queue in self.queues.items()
                  if 'script' in queue and name not in self.deleted]
        for queue in [*names, *served]:
            wait_until(lambda: not rows('SELECT 1 FROM pgqrs_peek(%s, 1)', (queue,)), f'an empty queue {queue}')

    def state(self):
        runs = rows("SELECT to_jsonb(r) #- '{error,traceback}' FROM pgqrs_list_runs(%s, page_size => 5) r", (f'{self.id}.*',))
        return '\n'.join(json.dumps({key: value for key, value in row.items() if value is not None}) for (row,) in runs)

    def compare(self):
        """What differs from the expected end."""
        def differs(what, actual, expected):
            if not fits(actual, expected):
                yield f'{what} is {json.dumps(actual, default=str)} instead of {json.dumps(expected)}'
        expect = {**({'status': 'SUCCESS'} if 'run' in self.variables else {}), **self.expect}
        special = {'runs', 'steps', 'executed', 'effects', 'dead', 'sql'}
        mine = {key: value for key, value in expect.items() if key not in special}
        for name, expected in {**({'run': mine} if mine else {}), **expect.get('runs', {})}.items():
            row = self.run_row(self.variables[name])
            for key, value in {'status': 'SUCCESS', **expected}.items():
                yield from differs(f'{key} of {name}', row[key], value)
        if 'steps' in expect:
            actual = rows('SELECT step_id, kind, status, failures FROM pgqrs_list_steps(%s)', (self.variables['run'],))
            defaults = [None, 'FUNCTION', 'SUCCESS', 0]
            yield from differs('steps', [list(row) for row in actual], [[*s, *defaults[len(s):]] for s in expect['steps']])
        if 'executed' in expect:
            actual = self.executed()
            for name in sorted({*actual, *expect['executed']}):
                wanted = expect['executed'].get(name, 0)
                low, high = wanted if isinstance(wanted, list) else (wanted, wanted)
                if not low <= actual.get(name, 0) <= high:
                    yield f'{name} was executed {actual.get(name, 0)} times instead of {wanted}'
        if 'effects' in expect:
            ids = [row[0] for row in rows('SELECT run_id FROM pgqrs_runs WHERE workflow = ANY(%s)',
                                          ([self.full(name) for name in self.workflows],))]
            actual = dict(rows('SELECT name, count(*) FROM effects WHERE id = ANY(%s) GROUP BY name', (ids,)))
            yield from differs('effects', actual, expect['effects'])
            yield from differs('names of effects', sorted(actual), sorted(n for n, c in expect['effects'].items() if c))
        for name, expected in expect.get('dead', {}).items():
            actual = rows('SELECT count(*) FROM pgqrs_dead_letters WHERE queue = %s', (self.full(name),))[0][0]
            yield from differs(f'dead letters of {name}', actual, expected)
        for query, expected in expect.get('sql', []):
            answer = self.sql(query)
            yield from differs(query, answer[0][0] if len(answer) == 1 and len(answer[0]) == 1 else [list(r) for r in answer],
                               expected)

    def run(self):
        """What is wrong, as lines."""
        problems = []
        try:
            if self.relayed:
                self.relay = Relay(self.folder)
                for action in [a for a in self.outside if 'lose' in a or 'cut' in a]:
                    self.act(action)
            if self.own:
                for name in (self.worker.get('names') or ['worker']):
                    self.start_worker(name)
            if isinstance(self.worker, dict) and self.worker.get('install'):
                wait_until(lambda: rows('SELECT 1 FROM pgqrs_worker_stats WHERE worker = %s', (self.full('worker'),)), 'a worker')
            for action in self.outside:
                if not action.keys() & {'lose', 'cut'}:
                    self.act(action)
            self.await_end()
            problems += self.compare()
        except Failed as e:
            problems.append(f'{e}\n{self.state()}')
        except (psycopg.Error, KeyError, OSError) as e:
            problems.append(f'{type(e).__name__}: {e}\n{self.state()}')
        finally:
            if self.restarts and not self.restarted:
                self.restart()      # the others wait for this case
        for worker in self.workers.values():
            wrong = worker.end()
            problems += [wrong] if wrong else []
            if problems:
                problems.append(f'worker {worker.name} said:\n' + worker.said()[-3000:])
        if self.relay:
            if self.relay.left() and not problems:
                problems.append(f'the client never sent {self.relay.left()}')
            self.relay.close()
        return problems


class Suite:
    def __init__(self, options, folder):
        self.driver = options.driver
        self.options = options
        self.folder = folder
        self.without = set(filter(None, (options.without or '').split(',')))
        self.lacks = {'operations': {}, 'cases': {}}
        if options.lacks:
            with open(options.lacks, encoding='utf-8') as file:
                self.lacks = json.load(file)
        self.barriers = {}
        self.number = 0
        self.failed = 0

    def cases(self):
        for path in sorted(glob.glob(os.path.join(HERE, 'cases', '*.json'))):
            theme = os.path.splitext(os.path.basename(path))[0]
            with open(path, encoding='utf-8') as file:
                for number, data in enumerate(json.load(file), 1):
                    id = f'{theme}-{number}'
                    if not self.options.only or any(fnmatch.fnmatch(id, p) for p in self.options.only.split(',')):
                        yield Case(self, id, data, os.path.join(self.folder, id))

    def check_lacks(self):
        """What the driver lacks are cases and operations that there are."""
        names = {case.name for case in self.cases()} if not self.options.only else self.lacks['cases'].keys()
        unknown = sorted(self.lacks['cases'].keys() - names)
        self.report('Each case that the driver lacks is one of the suite', [f'there is no case "{name}"' for name in unknown])

    def why_not(self, case):
        """Why a case is skipped."""
        has = {'restart', *case.operations, *case.actions} if case.restarts else case.operations | case.actions
        lacks = self.without & has
        if lacks:
            return f'the driver has no {", ".join(sorted(lacks))}'
        for operation in sorted(has & self.lacks['operations'].keys()):
            return f'{operation}: {self.lacks["operations"][operation]}'
        lack = self.lacks['cases'].get(case.name)
        if isinstance(lack, str):
            return lack
        if lack:
            case.expect = {**case.expect, **lack['expect']}
        if case.restarts and not self.options.restart:
            return 'no --restart'
        if case.requires == 'deliver':
            try:
                rows("SELECT pgqrs_create_workflow('conformance probe', on_cancel => 'deliver')")
            except psycopg.Error:
                return "the server has no on_cancel => 'deliver'"
        elif case.requires and not rows('SELECT 1 FROM pg_proc WHERE proname = %s', (case.requires,)):
            return f'the server has no {case.requires}'
        return None

    def report(self, description, problems, skipped=None):
        self.number += 1
        self.failed += bool(problems)
        text = f'{"not ok" if problems else "ok"} {self.number} - {description.replace("#", "")}'
        print(text + (f' # SKIP {skipped}' if skipped else ''), flush=True)
        for line in '\n'.join(problems).splitlines():
            print(f'# {line}', flush=True)

    def verify(self, when):
        def found():
            return rows('SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok')
        # What ends is worked off in the background.
        try:
            wait_until(lambda: not found(), 'pgqrs_verify() finds nothing')
            self.report(f'pgqrs_verify() finds nothing {when}', [])
        except Failed:
            self.report(f'pgqrs_verify() finds nothing {when}', [str(row) for row in found()])

    def run_stage(self, cases):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs if not cases or not cases[0].restarts else len(cases)) as pool:
            started = time.monotonic()

            def timed(case):
                begun = time.monotonic()
                problems = case.run()
                return problems, f'{begun - started:.2f} to {time.monotonic() - started:.2f} s'
            futures = {pool.submit(timed, case): case for case in cases}
            for future in concurrent.futures.as_completed(futures):
                case = futures[future]
                problems, times = future.result()
                self.report(f'{case.id}: {case.name}', problems)
                if self.options.times:
                    print(f'# {times}')

    def run(self):
        rows('CREATE TABLE IF NOT EXISTS effects (id bigint, name text)')
        rows("DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pgqrs; END $$")
        cases = []
        if self.lacks['cases']:
            self.check_lacks()
        for case in self.cases():
            skipped = self.why_not(case)
            if skipped:
                self.report(f'{case.id}: {case.name}', [], skipped)
            else:
                case.install()
                cases.append(case)
        shared = None
        merged = {'concurrency': 200, 'grace': 5, 'install': False, 'also': [], 'workflows': {}, 'queues': {}}
        for case in cases:
            if not case.own and case.worker != 'none':
                job = case.job('shared')
                merged['workflows'].update(job['workflows'])
                merged['queues'].update(job['queues'])
        if merged['workflows'] or merged['queues']:
            shared = Worker(self, 'shared', merged, self.folder)
        # Those first that take longest.
        plain = sorted((case for case in cases if not case.restarts), key=lambda case: not case.own)
        self.run_stage(plain)
        if shared:
            wrong = shared.end()
            self.report('The worker that several cases share ends with 0 after SIGTERM',
                        [wrong, shared.said()[-5000:]] if wrong else [])
            if self.failed:
                print('\n'.join(f'# {line}' for line in shared.said()[-5000:].splitlines()))
        self.verify('after all cases but those that restart the server')
        for mode in ('immediate', 'fast'):
            group = [case for case in cases if case.restarts == mode]
            if group:
                self.barriers[mode] = threading.Barrier(
                    len(group), lambda: subprocess.run([*shlex.split(self.options.restart), mode], check=True,
                                                       stdout=subprocess.DEVNULL))
                self.run_stage(group)
                self.verify(f'after a restart, {mode}')
        print(f'1..{self.number}', flush=True)
        return 1 if self.failed else 0


def main():
    parser = argparse.ArgumentParser(description='Runs the conformance suite.')
    parser.add_argument('--only', help='ids of cases, with wildcards, separated by commas')
    parser.add_argument('--without', help='what the driver has not: operations and actions, separated by commas')
    parser.add_argument('--lacks', help='a file that says for operations and cases why the driver has them not')
    parser.add_argument('--restart', help='a command that, given immediate or fast, restarts the server')
    parser.add_argument('--jobs', type=int, default=16, help='cases side by side (16)')
    parser.add_argument('--times', action='store_true', help='prints how long each case takes')
    parser.add_argument('driver', nargs=argparse.REMAINDER)
    with tempfile.TemporaryDirectory(prefix='pgqrs-conformance.') as folder:
        status = Suite(parser.parse_args(), folder).run()
    sys.exit(status)


if __name__ == '__main__':
    main()
