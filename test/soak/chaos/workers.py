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
END_TIME = 120      # seconds until all that was started must have ended
LIVE = "status IN ('QUEUED', 'RUNNING', 'PAUSED')"

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

    def prepare(self):
        self.main.query('CREATE DATABASE shop')
        self.server.query('''CREATE EXTENSION pgqrs;
            CREATE TABLE effects (id bigint NOT NULL, name text NOT NULL);
            CREATE TABLE sent (message_id bigint PRIMARY KEY);
            CREATE TABLE cancelled (run_id bigint PRIMARY KEY);''')
        for i in range(COUNT):
            self.start(f'worker {i}')

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

    def tend(self):
        """Others instead of those that were killed or superseded, and something to do."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                if process.returncode not in (0, 1, -9) or process.returncode == 0 and not hasattr(process, 'killed'):
                    self.faults.append(f'{name} ended with {process.returncode}')
                self.start(name)
        if self.server.query("SELECT to_regclass('pgqrs_workflows') IS NULL OR count(*) < 2 FROM pgqrs_workflows")[0][0]:
            return      # no worker has installed them yet
        n = self.orders = self.orders + 1
        run = self.server.query('SELECT pgqrs_trigger(%s, %s::jsonb, idempotency_key => %s)', 'order', str(n), f'order {n}')[0][0]
        if n % 4 == 0:
            try:
                self.server.query('SELECT pgqrs_signal(%s, %s, idempotency_key => %s)', run, 'go', 'once')
            except psycopg2.InternalError:
                pass    # it has ended
        if n % 7 == 0:
            self.server.query('INSERT INTO cancelled VALUES (%s) ON CONFLICT DO NOTHING; SELECT pgqrs_cancel_run(%s)', run, run)
        self.server.query('INSERT INTO sent SELECT pgqrs_enqueue(%s, %s::jsonb, idempotency_key => %s) ON CONFLICT DO NOTHING',
                          'mail', str(n), f'mail {n}')

    def finish(self):
        """Waits for the end of all, then asks whether a promise was broken."""
        deadline = time.monotonic() + END_TIME
        while self.server.query(f"SELECT count(*) > 0 OR EXISTS (SELECT FROM pgqrs_peek('mail', 1)) FROM pgqrs_runs WHERE {LIVE}")[0][0]:
            if time.monotonic() > deadline:
                self.faults.append(f'runs do not end: {self.server.query(f"SELECT run_id, status, waiting_for FROM pgqrs_runs WHERE {LIVE}")}')
                break
            for name, process in list(self.running.items()):
                if process.poll() is not None:
                    self.start(name)
            time.sleep(0.2)
        for rule, query in RULES.items():
            self.faults += [f'{rule}: {row}' for row in self.server.query(query)]
        self.end()

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()

    def violations(self):
        return [checker.Violation('python', text) for text in self.faults]
