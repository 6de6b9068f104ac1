#!/usr/bin/python3
"""Clients that do everything at random, a server that is killed again and
again, and a check of what both have written down.

  chaos.py [--seconds N] [--runs N] [--kills N] [--clients N] [--seed TEXT] FOLDER

Makes a server in FOLDER, with PostgreSQL's programs from PATH; FOLDER/history
holds the logs and tables.  Where the seconds do not suffice for so many runs, the
clients go on without kills.  Ends with 0 if nothing was violated.  A seed makes
each client choose the same again; what then happens depends on time, too.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

import psycopg2

import checker
from history import History, Log
from killer import Killer
from server import Server
from workers import Workers

HERE = os.path.dirname(os.path.abspath(__file__))

TABLES = {
    'runs': '''SELECT r.*, w.name AS workflow
        FROM pgqrs_workflow_runs AS r JOIN pgqrs_workflows AS w USING (workflow_id)''',
    'steps': 'SELECT * FROM pgqrs_workflow_steps',
    'messages': 'SELECT * FROM chaos.messages',
    'archive': 'SELECT * FROM pgqrs_archive',
    'signals': 'SELECT * FROM pgqrs_run_signals',
    'workers': 'SELECT * FROM pgqrs_workers',
    'effects': 'SELECT * FROM chaos.effects',
    'events': 'SELECT * FROM pgqrs_run_events ORDER BY event_id',
    'told': '''SELECT m.* FROM pgqrs_messages AS m JOIN pgqrs_queues AS q USING (queue_id)
        WHERE q.name = 'outbox' ORDER BY message_id''',
    'firings': 'SELECT * FROM pgqrs_schedule_firings',
}

MORE_TIME = 10      # seconds of more clients, if there are too few runs
QUIET_TIME = 10     # seconds that the background worker may take to wake a waiting run
DRAIN_TIME = 1200   # seconds until all runs must have ended, and without that
STUCK_TIME = 60     # any message ends


class Clients:
    """The client processes; one that has died is replaced by another."""

    def __init__(self, server, history, seed, rng):
        self.server, self.history, self.seed, self.rng = server, history, seed, rng
        self.count = 0
        self.running = []
        self.failed = []

    def start(self, length, *arguments):
        self.count += 1
        name = f'client-{self.count}'
        errors = open(os.path.join(self.history, f'{name}.err'), 'w')
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, 'client.py'), self.server.folder, self.history,
             name, self.seed, str(length), *arguments],
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        process.name, process.until = name, time.monotonic() + length
        self.running.append(process)

    def kill(self, number):
        if not self.running:
            return False
        process = self.rng.choice(self.running)
        process.killed = True
        process.send_signal(number)
        return True

    def replace(self):
        """Starts others instead of those that were killed."""
        for process in [p for p in self.running if p.poll() is not None]:
            self.running.remove(process)
            if not hasattr(process, 'killed'):
                self.failed.append(process.name)
            if process.until - time.monotonic() > 1:
                self.start(process.until - time.monotonic())

    def are_running(self):
        return any(p.poll() is None for p in self.running)

    def finish(self, patience):
        """Waits for all; those that have not ended then are ended."""
        deadline = time.monotonic() + patience
        for process in self.running:
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.failed.append(f'{process.name} (does not end)')
            else:
                if process.returncode and not hasattr(process, 'killed'):
                    self.failed.append(process.name)
        self.running = []

    def end(self):
        for process in self.running:
            process.kill()


class Chaos:
    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        self.server = Server(options.folder)
        self.history = os.path.join(options.folder, 'history')
        os.makedirs(self.history)
        self.clients = Clients(self.server, self.history, options.seed, self.rng)
        self.workers = Workers(self.server, self.history, self.rng)
        self.killer = Killer(self.server, self.clients, self.workers, Log(self.history, 'kills'), self.rng)
        self.faults = []
        self.begun = time.monotonic()

    def say(self, text):
        print(f'{time.monotonic() - self.begun:6.1f} s  {text}', flush=True)

    def query(self, sql, *args):
        return self.server.query(sql, *args)

    def prepare(self):
        self.server.create()
        self.server.start()
        with open(os.path.join(HERE, 'setup.sql')) as file:
            self.query(file.read())
        self.workers.prepare()

    def play(self):
        """Clients, and kills at about equal distances."""
        seconds, kills = self.options.seconds, self.options.kills
        start = self.start_clients(seconds)
        for i in range(kills):
            instant = start + seconds * (i + 0.5 + self.rng.uniform(-0.3, 0.3)) / kills
            self.tend_until(instant)
            kind = None
            while kind is None:
                kind = self.killer.kill()
            self.say(f'kill {i + 1} of {kills}: {kind}')
        self.tend_until(start + seconds)
        self.clients.finish(30)
        while self.query('SELECT count(*) FROM pgqrs_workflow_runs')[0][0] < self.options.runs:
            self.tend_until(self.start_clients(MORE_TIME) + MORE_TIME)
            self.clients.finish(30)
        self.end_prepared(0)

    def start_clients(self, seconds):
        for _ in range(self.options.clients):
            self.clients.start(seconds)
        return time.monotonic()

    def tend_until(self, instant):
        while time.monotonic() < instant:
            self.clients.replace()
            self.workers.tend()
            self.end_prepared(2)
            time.sleep(0.1)

    def end_prepared(self, age):
        """Ends prepared transactions whose clients have not."""
        old = self.query('''SELECT gid FROM pg_prepared_xacts
            WHERE clock_timestamp() - prepared >= %s * interval '1 s' ''', age)
        for row in old:
            try:
                self.query(f"{self.rng.choice(('COMMIT', 'ROLLBACK'))} PREPARED '{row[0]}'")
            except psycopg2.errors.UndefinedObject:
                pass    # the client was quicker

    def tables(self):
        tables = {name: self.query(f"SELECT coalesce(json_agg(t), '[]') FROM ({sql}) AS t")[0][0]
                  for name, sql in TABLES.items()}
        return {**tables, 'at': time.time()}

    def come_to_rest(self):
        """The tables without client calls, after the background worker had its time."""
        deadline = time.monotonic() + QUIET_TIME
        while True:
            tables = self.tables()
            if not any(checker.missed_wakeups(tables)) or time.monotonic() > deadline:
                return tables
            time.sleep(0.2)

    def verify(self, when):
        rows = self.query("SELECT check_name || ' ' || detail FROM pgqrs_verify() WHERE NOT ok")
        self.faults += [checker.Violation('verify', f'{when}: {row[0]}') for row in rows]

    def drain(self):
        self.query("SELECT pgqrs_resume_queue('chaos.frail')")
        self.query('SELECT pgqrs_enable_schedule(name, false) FROM pgqrs_schedule_list')
        for _ in range(3):
            self.clients.start(DRAIN_TIME, 'drain')
        seen, since = None, time.monotonic()
        while self.clients.are_running() and time.monotonic() < since + STUCK_TIME:
            time.sleep(0.2)
            now = self.query('SELECT count(*), max(archived_at) FROM pgqrs_archive')
            if now != seen:
                seen, since = now, time.monotonic()
        self.clients.finish(0 if self.clients.are_running() else 10)

    def run(self):
        """Whether nothing was violated; whatever happens, nothing goes on after it."""
        try:
            return self.run_all()
        finally:
            self.clients.end()
            self.workers.end()
            self.server.end()

    def run_all(self):
        options = self.options
        self.say(f'seed {options.seed}: {options.clients} clients for {options.seconds} s, {options.kills} kills')
        self.prepare()
        self.play()
        self.say('the clients have ended')
        quiet = self.come_to_rest()
        self.say('at rest')
        self.verify('at rest')
        self.drain()
        self.workers.finish()
        self.say('drained')
        self.verify('drained')
        with open(os.path.join(self.history, 'tables.json'), 'w') as file:
            json.dump({'quiet': quiet, 'final': self.tables()}, file)
        self.server.stop('fast')
        return self.report()

    def report(self):
        history = History.read(self.history)
        violations = checker.check(history) + self.faults + self.workers.violations()
        violations += [checker.Violation('client', f'{name} failed; see {name}.err') for name in self.clients.failed]
        violations += [checker.Violation('server', line) for line in self.server.crashes()]
        print(checker.summary(history, violations))
        print(self.workers.summary())
        return not violations


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, default=30)
    parser.add_argument('--runs', type=int, default=0)
    parser.add_argument('--kills', type=int, default=3)
    parser.add_argument('--clients', type=int, default=6)
    parser.add_argument('--seed', default=str(random.SystemRandom().randrange(1000000)))
    parser.add_argument('folder')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(0 if Chaos(options).run() else 1)


if __name__ == '__main__':
    main()
