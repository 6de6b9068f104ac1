"""Workers of each language on the same workflows, under the same kills, in a database of their own; and what they were promised."""

import copy
import os
import shutil
import subprocess
import sys
import time

import psycopg2

import checker

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, '../../../clients/typescript')
# Kinds of workers, and how many there are of each.
KINDS = {'Python': 2, 'TypeScript': 1, 'program': 1}
MODULES = ('typescript/bin/tsc', 'pg/package.json', '@types/pg', '@types/node')
START_TIME = 180    # seconds until the first order has ended, before any kill
END_TIME = 120      # seconds until all that was started must have ended
BATCH, MOST = 3, 60     # orders at a time, and how many may be alive
SUPERSEDED = 3      # the exit code of a worker whose registration another one has taken; see shop.py
LIVE = "status IN ('QUEUED', 'RUNNING', 'PAUSED')"

# What the workers of a kind have done: runs that they had last, and messages.
COUNTS = """SELECT (SELECT count(*) FROM pgqrs_runs WHERE workflow = 'order' AND status = 'SUCCESS' AND worker LIKE %s),
    (SELECT count(*) FROM pgqrs_runs WHERE workflow = 'leaf' AND status = 'SUCCESS' AND worker LIKE %s),
    (SELECT count(*) FROM pgqrs_archive JOIN pgqrs_workers w USING (worker_id) JOIN sent USING (message_id) WHERE w.name LIKE %s)"""

# A transaction of a run, or of a message, for shop.sh.
FUNCTIONS = """
CREATE FUNCTION write(id bigint, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO effects VALUES (id, name);
    IF random() < 0.1 THEN RAISE 'no'; END IF;
END $$;
CREATE FUNCTION write_and_complete(run bigint, lease bigint, step text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF (pgqrs_step_begin(run, lease, step)).should_execute THEN
        PERFORM write(run, step), pgqrs_step_complete(run, lease, step, '1');
    END IF;
    RETURN 1;
END $$;
CREATE FUNCTION write_and_archive(message bigint, lease bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pgqrs_archive_message(message, lease) THEN PERFORM write(message, 'mail'); END IF;
END $$;
"""

# Queries that find nothing.
RULES = {
    'each run has ended well, or was cancelled':
        "SELECT run_id, status, error FROM pgqrs_runs WHERE NOT (status = 'SUCCESS' OR status = 'CANCELLED' AND "
        "(run_id IN (SELECT run_id FROM cancelled) OR parent_run_id IN (SELECT run_id FROM cancelled)))",
    'a run answers what its handler returns':
        "SELECT run_id, input, output FROM pgqrs_runs WHERE workflow = 'order' AND status = 'SUCCESS' AND "
        "output::int <> 11 * (input::int % 4 + 1) + CASE WHEN input::int % 5 = 0 THEN 6 ELSE 0 END",
    'what a transaction of a run has written is there once':
        "SELECT coalesce(id, run_id), coalesce(name, step_id), n FROM (SELECT id, name, count(*) AS n FROM effects WHERE name <> 'mail' GROUP BY 1, 2) e "
        "FULL JOIN (SELECT run_id, step_id FROM pgqrs_steps WHERE step_id LIKE 't%' AND status = 'SUCCESS') s "
        "ON id = run_id AND name = step_id WHERE n IS DISTINCT FROM 1 OR run_id IS NULL",
    'what a message has written is there once':
        "SELECT message_id, n FROM sent FULL JOIN (SELECT id, count(*) AS n FROM effects WHERE name = 'mail' GROUP BY 1) e "
        "ON message_id = id WHERE n IS DISTINCT FROM 1 OR message_id IS NULL",
    'pgqrs_verify() finds nothing': 'SELECT check_name, detail FROM pgqrs_verify() WHERE NOT ok',
}


class Workers:
    def __init__(self, server, history, rng):
        self.server = copy.copy(server)
        self.server.database = 'shop'
        self.main, self.history, self.rng = server, history, rng
        self.running, self.faults = {}, []
        self.orders = self.killed = 0
        self.done, self.left_out = {}, {}
        self.environment = {'PGHOST': server.socket, 'PGUSER': 'postgres', 'PGDATABASE': 'shop', 'PGAPPNAME': 'chaos client'}

    def prepare(self):
        self.main.query('CREATE DATABASE shop')
        self.server.query('''CREATE EXTENSION pgqrs;
            CREATE TABLE effects (id bigint NOT NULL, name text NOT NULL);
            CREATE TABLE sent (message_id bigint PRIMARY KEY);
            CREATE TABLE cancelled (run_id bigint PRIMARY KEY);''' + FUNCTIONS)
        self.commands = {'Python': [sys.executable, os.path.join(HERE, 'shop.py'), self.server.socket],
                         'TypeScript': self.compile(), 'program': self.program()}
        for kind, count in KINDS.items():
            for i in range(count if self.commands[kind] else 0):
                self.start(f'{kind} {i}')
        self.await_install()

    def compile(self):
        """The command of a worker in TypeScript, if there is what that needs; see test/lib/TypeScript.pm."""
        folder = os.path.join(self.server.folder, 'typescript')
        found = [path for path in (f'{CLIENT}/node_modules', '/usr/local/lib/node_modules', '/usr/lib/node_modules',
                                   '/usr/local/share/nodejs/node_modules', '/usr/share/nodejs')
                 if all(os.path.exists(os.path.join(path, module)) for module in MODULES)]
        if not found or not shutil.which('node'):
            self.left_out['TypeScript'] = 'no Node with its modules is there, see tools/packages'
            return None
        shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns('node_modules', 'build', 'dist'))
        shutil.copy(os.path.join(HERE, 'shop.ts'), os.path.join(folder, 'test'))
        os.symlink(found[0], os.path.join(folder, 'node_modules'))
        subprocess.run(['node', 'node_modules/typescript/bin/tsc', '-p', 'test', '--preserveSymlinks'], cwd=folder, check=True)
        return ['node', os.path.join(folder, 'build/test/shop.js'), self.server.socket]

    def program(self):
        if not shutil.which('pgqrs'):
            self.left_out['program'] = 'it is not installed'
            return None
        return ['pgqrs', 'work', '-q', 'order', '-q', 'leaf', '-q', 'mail', '-x', os.path.join(HERE, 'shop.sh'), '-j', '3', '-g', '2', '-n']

    def await_install(self):
        """Waits until a worker has made the workflows; each of them may be killed from then on."""
        deadline = time.monotonic() + START_TIME
        while self.server.query('SELECT count(*) < 2 OR NOT EXISTS (SELECT FROM pgqrs_queues WHERE name = %s) '
                                'FROM pgqrs_workflows', 'mail')[0][0]:
            self.replace()
            if self.faults or time.monotonic() > deadline:
                raise RuntimeError(f'no worker in Python has started: {self.faults}')
            time.sleep(0.2)

    def start(self, name):
        with open(os.path.join(self.history, f'{name.replace(" ", "-")}.err'), 'a') as errors:
            process = subprocess.Popen([*self.commands[name.split()[0]], name], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                       env={**os.environ, **self.environment})
            self.running[name] = process

    def kill(self, number):
        process = self.rng.choice(list(self.running.values()))
        process.killed = True
        process.send_signal(number)
        self.killed += 1
        return True

    def replace(self):
        """Others instead of those that were killed or superseded."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                superseded = 1 if name.startswith('program') else SUPERSEDED
                expected = (-9, superseded, 0, -15) if hasattr(process, 'killed') else (-9, superseded)
                if process.returncode not in expected:
                    self.faults.append(f'{name} ended with {process.returncode}, see {name.replace(" ", "-")}.err')
                self.start(name)

    def tend(self):
        """Workers, and something to do for them."""
        self.replace()
        if self.server.query(f"SELECT count(*) > %s FROM pgqrs_runs WHERE workflow = 'order' AND {LIVE}", MOST)[0][0]:
            return
        numbers = range(self.orders + 1, self.orders + BATCH + 1)
        self.orders = numbers[-1]
        rows = self.server.query("""SELECT n, pgqrs_trigger('order', to_jsonb(n), idempotency_key => 'order ' || n)
            FROM unnest(%s) AS n""", list(numbers))
        self.server.query("""INSERT INTO sent SELECT pgqrs_enqueue('mail', to_jsonb(n), idempotency_key => 'mail ' || n)
            FROM unnest(%s) AS n ON CONFLICT DO NOTHING""", list(numbers))
        for n, run in rows:
            if n % 4 == 0:
                try:
                    self.server.query('SELECT pgqrs_signal(%s, %s, idempotency_key => %s)', run, 'go', 'once')
                except psycopg2.InternalError:
                    pass    # it has ended
            if n % 7 == 0:
                self.server.query('INSERT INTO cancelled VALUES (%s) ON CONFLICT DO NOTHING; SELECT pgqrs_cancel_run(%s)', run, run)

    def finish(self):
        """Waits for the end of all, then asks whether a promise was broken."""
        deadline = time.monotonic() + END_TIME
        while self.server.query(f"SELECT count(*) > 0 OR EXISTS (SELECT FROM pgqrs_peek('mail', 1)) FROM pgqrs_runs WHERE {LIVE}")[0][0]:
            if time.monotonic() > deadline:
                self.faults.append(f'runs do not end: {self.server.query(f"SELECT run_id, status, waiting_for FROM pgqrs_runs WHERE {LIVE}")}')
                break
            self.replace()
            time.sleep(0.2)
        for kind in KINDS:
            if kind not in self.left_out:
                self.done[kind] = self.server.query(COUNTS, *[f'{kind} %'] * 3)[0]
                if not any(self.done[kind]):
                    self.faults.append(f'workers of the kind {kind} completed nothing')
        for rule, query in RULES.items():
            self.faults += [f'{rule}: {row}' for row in self.server.query(query)]
        self.end()

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()

    def violations(self):
        return [checker.Violation('workers', text) for text in self.faults]

    def summary(self):
        lines = [f'workers of the kind {kind} completed {orders} of {self.orders} orders, {leaves} children and {mails} messages'
                 for kind, (orders, leaves, mails) in self.done.items()]
        lines += [f'workers of the kind {kind} are left out: {why}' for kind, why in self.left_out.items()]
        return '\n'.join([*lines, f'{self.killed} of the workers were killed'])
