"""Workers of the Python client under the same kills, in a database of their own, and what they were promised."""

import copy
import os
import subprocess
import sys
import time

import psycopg2

import checker

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT = 2
START_TIME = 180    # seconds until the first order has ended, before any kill
END_TIME = 120      # seconds until all that was started must have ended
BATCH, MOST = 3, 60     # orders at a time, and how many may be alive
SUPERSEDED = 3      # the exit code of a worker whose registration another one has taken; see shop.py
LIVE = "status IN ('QUEUED', 'RUNNING', 'PAUSED')"

# What the workers have done.
COUNTS = """SELECT count(*) FILTER (WHERE workflow = 'order'), count(*) FILTER (WHERE workflow = 'leaf'),
    (SELECT count(*) FROM effects WHERE name = 'mail') FROM pgqrs_runs WHERE status = 'SUCCESS'"""

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
        self.done = (0, 0, 0)

    def prepare(self):
        self.main.query('CREATE DATABASE shop')
        self.server.query('''CREATE EXTENSION pgqrs;
            CREATE TABLE effects (id bigint NOT NULL, name text NOT NULL);
            CREATE TABLE sent (message_id bigint PRIMARY KEY);
            CREATE TABLE cancelled (run_id bigint PRIMARY KEY);''')
        for i in range(COUNT):
            self.start(f'worker {i}')
        self.await_install()

    def await_install(self):
        """Waits until a worker has made the workflows; each of them may be killed from then on."""
        deadline = time.monotonic() + START_TIME
        while self.server.query('SELECT count(*) < 2 OR NOT EXISTS (SELECT FROM pgqrs_queues WHERE name = %s) '
                                'FROM pgqrs_workflows', 'mail')[0][0]:
            self.replace()
            if self.faults or time.monotonic() > deadline:
                raise RuntimeError(f'no worker of the Python client has started: {self.faults}')
            time.sleep(0.2)

    def start(self, name):
        with open(os.path.join(self.history, f'{name.replace(" ", "-")}.err'), 'a') as errors:
            self.running[name] = subprocess.Popen([sys.executable, os.path.join(HERE, 'shop.py'), self.server.socket, name],
                                                  stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)

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
                expected = (-9, SUPERSEDED, 0, -15) if hasattr(process, 'killed') else (-9, SUPERSEDED)
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
        self.done = self.server.query(COUNTS)[0]
        self.faults += [f'no {what} was completed' for what, n in zip(('order', 'leaf', 'mail'), self.done) if n == 0]
        for rule, query in RULES.items():
            self.faults += [f'{rule}: {row}' for row in self.server.query(query)]
        self.end()

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()

    def violations(self):
        return [checker.Violation('python', text) for text in self.faults]

    def summary(self):
        orders, leaves, mails = self.done
        return (f'workers of the Python client completed {orders} of {self.orders} orders, {leaves} children and {mails} messages; '
                f'{self.killed} of the workers were killed')
