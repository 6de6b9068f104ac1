#!/usr/bin/python3
"""Mixed work on a server that stays up for long, with many queues, while
transaction ids come around.

  soak.py [--seconds N] [--queues N] [--seed TEXT] FOLDER

Makes a server in FOLDER, with PostgreSQL's programs from PATH and its settings as
they are by default.  Clients send, claim, work, fail, wait, look and administer, at
rates of their own.  pg_resetwal moves the next transaction id between the parts of
the time: to a billion, to just before 2^31 and to just before 2^32, both of which
are then passed under load.  Ends with 0 if

  - the memory of the launcher, of the background worker and of a session that does
    everything stays within 5 % in the longest part, once caches are full,
  - pgqrs' processes log no more than MAX_LOGGED lines an hour, and no warning,
  - no call fails but as it may,
  - pgqrs_verify() and amcheck find nothing at the end of each part,
  - what was sent has ended exactly once, and is counted exactly.
"""

import argparse
import collections
import os
import random
import re
import secrets
import statistics
import subprocess
import sys
import threading
import time
import traceback

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from server import Server

SETTINGS = """
listen_addresses = ''
shared_preload_libraries = 'pgqrs'
max_wal_size = 4GB
lc_messages = 'C'
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %b|'
"""

# name of a part, its share of the time, where its transaction ids begin
PARTS = (
    ('young', 0.05, None),
    ('at a billion', 0.05, 1 << 30),
    ('over 2^31', 0.6, (1 << 31) - (1 << 15)),
    ('at three billion', 0.05, 3 << 30),
    ('over 2^32', 0.25, (1 << 32) - (1 << 15)),
)
MEASURED = 'over 2^31'
TOLERANCE = 0.05
MAX_LOGGED = 60
REST_TIME = 300     # seconds in which all that was sent has to end

# a client that comes late, or whose queue is dropped, is told so
EXPECTED = {'PQ001', 'PQ004', 'PQ006', 'PQ007', 'PQ010', 'PQ016'}

SETUP = """
CREATE EXTENSION pgqrs;
CREATE EXTENSION amcheck;
CREATE TABLE sent (id bigint PRIMARY KEY, queue text NOT NULL);
CREATE TABLE replayed (queue text NOT NULL);
CREATE TABLE effects (id bigint PRIMARY KEY);
SELECT pgqrs_create_workflow(w, initial_interval => '100 ms', max_interval => '1 s') FROM unnest(
    '{steps,sleep,signal,children,child,fail,every.minute}'::text[]) w;
SELECT pgqrs_alter_queue(queue, retention => '1 min') FROM pgqrs_workflow_stats, LATERAL (SELECT workflow AS queue) q;
SELECT pgqrs_schedule('every minute', '* * * * *', 'every.minute');
"""


class Client(threading.Thread):
    """Makes calls of a connection until it is told to end; so many turns a second."""

    def __init__(self, soak, name, rate):
        super().__init__(name=name)
        self.soak, self.rate = soak, rate
        self.rng = random.Random(f'{soak.options.seed} {name} {soak.part}')
        self.connection = soak.server.connect(name)
        self.pid = self.connection.info.backend_pid
        self.turns = 0

    def query(self, sql, *args):
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return cursor.fetchall() if cursor.description else []

    def run(self):
        try:
            self.begin()
            due = time.monotonic()
            while not self.soak.ending.wait(max(0, due - time.monotonic())):
                self.attempt()
                self.turns += 1
                due = max(due + 1 / self.rate, time.monotonic() - 1)
            self.end()
        except Exception:
            self.soak.fault(f'{self.name}: {traceback.format_exc()}')
        finally:
            self.connection.close()

    def attempt(self):
        try:
            self.turn()
        except psycopg2.Error as error:
            self.soak.errors[error.pgcode] += 1
            if error.pgcode not in EXPECTED:
                raise
            self.roll_back()

    def roll_back(self):
        if self.connection.info.transaction_status != TRANSACTION_STATUS_IDLE:
            self.query('ROLLBACK')

    def begin(self):
        pass

    def end(self):
        pass

    def queue(self):
        return f'q{self.rng.randrange(self.soak.options.queues)}'


class Sender(Client):
    def turn(self):
        if self.rng.random() < 0.3:
            workflow = self.rng.choice(('steps', 'sleep', 'signal', 'children', 'fail'))
            self.query("INSERT INTO sent SELECT pgqrs_trigger(%s, '{}', priority => %s), %s",
                       workflow, self.rng.randrange(3), workflow)
        else:
            payloads = [self.rng.choice(('{"kind": "good"}',) * 18 + ('{"kind": "shaky"}', '{"kind": "bad"}'))
                        for _ in range(self.rng.randrange(1, 6))]
            queue = self.queue()
            self.query('INSERT INTO sent SELECT unnest(pgqrs_enqueue_batch(%s, %s::jsonb[], %s)), %s',
                       queue, payloads, self.rng.choice(('0', '0', '1 s')), queue)


class Worker(Client):
    """Each message ends in the transaction that writes its effect."""

    def begin(self):
        self.id = self.query("SELECT pgqrs_register_worker(%s, '{*}')", self.name)[0][0]

    def end(self):
        self.query('SELECT pgqrs_stop_worker(%s)', self.id)

    def turn(self):
        deliveries = self.query('SELECT message_id, run_id, queue, lease, payload FROM pgqrs_dequeue(NULL, %s, 10)', self.id)
        if not deliveries:
            self.query("CALL pgqrs_wait_for_work(worker_id => %s, timeout => '1 s')", self.id)
        for message, run, queue, lease, payload in deliveries:
            self.one(message, run, queue, lease, payload)

    def one(self, message, run, queue, lease, payload):
        try:
            if run is None:
                self.message(message, lease, payload)
            else:
                getattr(self, queue.replace('.', '_'))(run, lease)
        except psycopg2.Error as error:
            self.soak.errors[error.pgcode] += 1
            if error.pgcode not in EXPECTED:
                raise
            self.roll_back()

    def message(self, message, lease, payload):
        kind = payload.get('kind')
        if kind == 'bad' or kind == 'shaky' and self.rng.random() < 0.5:
            self.query('BEGIN')
            retry = self.query("SELECT pgqrs_nack_message(%s, %s, '{\"type\": \"soak\"}', '100 ms', %s)",
                               message, lease, kind != 'bad')[0][0]
            if retry is None:
                self.query('INSERT INTO effects VALUES (%s)', message)
            self.query('COMMIT')
        else:
            self.query('INSERT INTO effects SELECT %s WHERE pgqrs_archive_message(%s, %s)', message, message, lease)

    def step(self, run, lease, step):
        if self.query('SELECT should_execute FROM pgqrs_step_begin(%s, %s, %s)', run, lease, step)[0][0]:
            self.query("SELECT pgqrs_step_complete(%s, %s, %s, '{\"text\": \"done\"}')", run, lease, step)

    def complete(self, run, lease):
        self.query("INSERT INTO effects SELECT %s WHERE pgqrs_complete_run(%s, %s, '{}')", run, run, lease)

    def steps(self, run, lease):
        for step in ('one', 'two', 'three'):
            self.step(run, lease, step)
        self.complete(run, lease)

    every_minute = child = steps

    def sleep(self, run, lease):
        self.step(run, lease, 'one')
        if self.query("SELECT pgqrs_sleep(%s, %s, 'nap', '500 ms')", run, lease)[0][0]:
            self.complete(run, lease)

    def signal(self, run, lease):
        received, timed_out = self.query("SELECT received, timed_out FROM pgqrs_await_signal(%s, %s, 'wait', 'go', '1 s')",
                                         run, lease)[0]
        if received or timed_out:
            self.complete(run, lease)

    def children(self, run, lease):
        self.query("SELECT pgqrs_start_children(%s, %s, 'spread', 'child', '{1,2}')", run, lease)
        if self.query("SELECT done FROM pgqrs_await_children(%s, %s, 'spread')", run, lease)[0][0]:
            self.complete(run, lease)

    def fail(self, run, lease):
        self.query('BEGIN')
        if self.query("SELECT pgqrs_fail_run(%s, %s, '{\"type\": \"soak\"}', true)", run, lease)[0][0] is None:
            self.query('INSERT INTO effects VALUES (%s)', run)
        self.query('COMMIT')


class Operator(Client):
    """Looks, mends and changes things."""

    def turn(self):
        self.rng.choice((self.look, self.mend, self.signal, self.churn))()

    def look(self):
        self.query(self.rng.choice((
            'SELECT * FROM pgqrs_health', 'SELECT * FROM pgqrs_workflow_stats', 'SELECT * FROM pgqrs_worker_stats',
            'SELECT sum(ready) FROM pgqrs_queue_stats', 'SELECT * FROM pgqrs_dead_letters LIMIT 50',
            "SELECT * FROM pgqrs_why('steps')", 'SELECT * FROM pgqrs_list_runs()', 'SELECT * FROM pgqrs_live_runs LIMIT 50',
            "SELECT pgqrs_report_page('overview')", 'SELECT pgqrs_report_run(max(run_id)) FROM pgqrs_runs')))

    def mend(self):
        """A dead letter is replayed, and is then good."""
        self.query('''WITH dead AS (SELECT message_id, queue FROM pgqrs_dead_letters WHERE run_id IS NULL LIMIT 1),
                noted AS (INSERT INTO replayed SELECT queue FROM dead),
                undone AS (DELETE FROM effects USING dead WHERE id = message_id)
            SELECT pgqrs_replay_message(message_id, '{"kind": "good"}') FROM dead''')

    def signal(self):
        self.query("SELECT pgqrs_signal(run_id, 'go', '1') FROM pgqrs_live_runs WHERE workflow = 'signal' LIMIT 1")

    def churn(self):
        name = f'churn.{self.rng.randrange(1000)}'
        self.query("SELECT pgqrs_create_queue(%s, retention => '1 min'), pgqrs_enqueue(%s, '{}')", name, name)
        self.query('SELECT pgqrs_delete_queue(%s, force => true)', name)


class Everything(Client):
    """The session whose memory is looked at: it does what the others do, and comes
    by every queue."""

    def turn(self):
        queue = f'q{self.turns % self.soak.options.queues}'
        self.query('INSERT INTO sent SELECT pgqrs_enqueue(%s, \'{"kind": "good"}\'), %s', queue, queue)
        for message, lease in self.query('SELECT message_id, lease FROM pgqrs_dequeue(%s)', queue):
            self.query('INSERT INTO effects SELECT %s WHERE pgqrs_archive_message(%s, %s)', message, message, lease)
        if self.turns % 20 == 0:
            self.run_of_its_own()
            self.query('SELECT * FROM pgqrs_why(%s)', queue)
        if self.turns % 200 == 0:
            self.query('SELECT * FROM pgqrs_health')
            self.query("SELECT pgqrs_report_page('overview')")

    def run_of_its_own(self):
        self.query('BEGIN')
        run, lease = self.query("SELECT run_id, lease FROM pgqrs_start('steps')")[0]
        self.query("INSERT INTO sent VALUES (%s, 'steps')", run)
        self.query("SELECT pgqrs_step_complete(%s, %s, 'one', '{}')", run, lease)
        self.query("INSERT INTO effects SELECT %s WHERE pgqrs_complete_run(%s, %s, '{}')", run, run, lease)
        self.query('COMMIT')


class Soak:
    def __init__(self, options):
        self.options = options
        self.server = Server(options.folder)
        self.begun = time.monotonic()
        self.ending = threading.Event()
        self.errors = collections.Counter()
        self.faults = []
        self.samples = collections.defaultdict(list)
        self.part = None

    def say(self, text):
        print(f'{time.monotonic() - self.begun:7.1f} s  {text}', flush=True)

    def fault(self, text):
        self.faults.append(text)
        self.say(f'FAULT: {text}')

    def value(self, sql, *args):
        return self.server.query(sql, *args)[0][0]

    def prepare(self):
        self.server.create(SETTINGS)
        self.server.start()
        self.server.query(SETUP)
        for first in range(0, self.options.queues, 1000):
            self.server.query("SELECT pgqrs_create_queue('q' || i, retention => '1 min') FROM generate_series(%s, %s) i",
                              first, min(first + 1000, self.options.queues) - 1)
        self.say(f'{self.options.queues} queues, seed {self.options.seed}')

    def start_clients(self):
        self.ending.clear()
        self.everything = Everything(self, 'everything', 50)
        self.workers = [Worker(self, f'worker {i}', 50) for i in range(3)]
        self.others = [Sender(self, f'sender {i}', 20) for i in range(2)] + [Operator(self, 'operator', 5), self.everything]
        for client in self.workers + self.others:
            client.start()

    def stop_clients(self):
        self.ending.set()
        for client in self.workers + self.others:
            client.join()

    def processes(self):
        return dict(self.server.query("""SELECT backend_type, pid FROM pg_stat_activity
            WHERE backend_type IN ('pgqrs launcher', 'pgqrs worker')""") + [('session', self.everything.pid)])

    def sample(self):
        """Private memory of the processes, in kB."""
        for name, pid in self.processes().items():
            with open(f'/proc/{pid}/status') as status:
                used = int(re.search(r'RssAnon:\s+(\d+) kB', status.read())[1])
            self.samples[self.part, name, pid].append(used)

    def play(self, part, seconds):
        """Some minutes of work, with a vacuum that freezes in its middle."""
        self.part = part
        start = time.monotonic()
        self.start_clients()
        vacuumed = False
        try:
            while time.monotonic() < start + seconds and not self.faults:
                time.sleep(min(10, seconds / 20))
                self.sample()
                if not vacuumed and time.monotonic() > start + seconds / 2:
                    self.spend_xids(1 << 16)
                    self.server.query('VACUUM (FREEZE)')
                    vacuumed = True
        finally:
            self.stop_clients()
        self.say(f'{part}: next transaction id {self.value("SELECT pg_current_xact_id()::text")}, '
                 f'{self.value("SELECT count(*) FROM sent")} sent, {self.value("SELECT count(*) FROM effects")} ended, '
                 f'{self.value("SELECT count(*) FROM pgqrs_archive")} archived, refused {dict(self.errors)}')
        self.check()

    def spend_xids(self, count):
        connection = self.server.connect('spender')
        cursor = connection.cursor()
        cursor.execute('SET synchronous_commit = off')
        cursor.execute(f'DO $$ BEGIN FOR i IN 1 .. {count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$')
        connection.close()

    def check(self):
        for row in self.server.query("SELECT check_name || ' ' || detail FROM pgqrs_verify() WHERE NOT ok"):
            self.fault(f'{self.part}: pgqrs_verify(): {row[0]}')
        members = """FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'r'
            WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs') AND d.deptype = 'e'"""
        for row in self.server.query(f'SELECT c.relname, v.blkno, v.msg {members.replace("WHERE", ", verify_heapam(c.oid) v WHERE", 1)}'):
            self.fault(f'{self.part}: verify_heapam(): {row}')
        self.server.query(f"""SELECT bt_index_parent_check(i.indexrelid, true, true) {members.replace(
            'WHERE', 'JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid AND x.relam = 403 WHERE', 1)}""")

    def move_xids(self, target):
        """All is frozen, so that no transaction of before is looked up."""
        self.server.query('UPDATE pg_database SET datallowconn = true')
        subprocess.run(['vacuumdb', '--all', '--freeze', '--quiet', '-h', self.server.socket, '-U', 'postgres'], check=True)
        oldest = self.value('SELECT min(datfrozenxid::text::bigint) FROM pg_database')
        self.server.query("UPDATE pg_database SET datallowconn = false WHERE datname = 'template0'")
        self.server.stop('fast')
        subprocess.run(['pg_resetwal', '-x', str(target % (1 << 32)), '-u', str(oldest), '-D', self.server.data],
                       check=True, stdout=subprocess.DEVNULL)
        self.server.start()

    def come_to_rest(self):
        """Workers alone, until all that was sent has ended."""
        self.part = 'rest'
        self.server.query("SELECT pgqrs_enable_schedule('every minute', false)")
        self.start_clients_for_rest()
        deadline = time.monotonic() + REST_TIME
        while self.value('SELECT count(*) FROM pgqrs_messages') and time.monotonic() < deadline:
            time.sleep(0.5)
        self.stop_clients()
        left = self.value('SELECT count(*) FROM pgqrs_messages')
        if left:
            self.fault(f'{left} messages have not ended after {REST_TIME} s')
        lost = self.value('SELECT count(*) FROM sent WHERE NOT EXISTS (SELECT FROM effects e WHERE e.id = sent.id)')
        if lost:
            self.fault(f'{lost} of {self.value("SELECT count(*) FROM sent")} that were sent have no effect')
        # a dead letter that is replayed is counted as sent again
        for row in self.server.query("""WITH t AS (SELECT queue, count(*) AS n FROM (SELECT queue FROM sent UNION ALL TABLE replayed) r GROUP BY queue)
                SELECT s.queue, s.sent, t.n FROM t JOIN pgqrs_queue_stats s USING (queue) WHERE s.sent IS DISTINCT FROM t.n LIMIT 10"""):
            self.fault(f'counted and sent: {row}')
        self.check()

    def start_clients_for_rest(self):
        self.ending.clear()
        self.others = []
        self.workers = [Worker(self, f'worker {i}', 50) for i in range(3)]
        for client in self.workers:
            client.start()

    def judge_memory(self):
        """Medians of stretches of the part; the first half, in which caches fill up,
        does not count."""
        for (part, name, pid), samples in self.samples.items():
            if part != MEASURED:
                continue
            stretch = max(1, len(samples) // 20)
            medians = [statistics.median(samples[i:i + stretch]) for i in range(0, len(samples), stretch)]
            later = medians[len(medians) // 2:]
            middle = statistics.median(later)
            spread = max(max(later) - middle, middle - min(later)) / middle
            self.say(f'{name} {pid}: {samples[0]} kB at first, then {min(later):.0f} to {max(later):.0f} kB, '
                     f'{100 * spread:.1f} % from {middle:.0f} kB, {max(samples)} kB at most')
            if spread > TOLERANCE:
                self.fault(f'the memory of {name} is not flat: ' + ' '.join(f'{m:.0f}' for m in medians))

    def judge_log(self):
        """Lines by the kind of the process and by what they say, without numbers."""
        kinds, own = collections.Counter(), 0
        with open(self.server.log) as log:
            for line in log:
                if '|' not in line or line.startswith('\t'):
                    continue
                process, text = line.rstrip().split('] ', 1)[1].split('|', 1)
                if text.startswith(('STATEMENT', 'CONTEXT', 'DETAIL', 'HINT')):
                    continue
                kinds[process, re.sub(r'\d+(\.\d+)?', 'N', text)[:100]] += 1
                if process.startswith('pgqrs'):
                    own += 1
                    if text.startswith(('WARNING', 'ERROR', 'FATAL', 'PANIC')) and 'administrator command' not in text:
                        self.fault(f'logged: {process}: {text}')
        for (process, text), count in sorted(kinds.items()):
            self.say(f'logged {count} times: {process}: {text}')
        hours = (time.monotonic() - self.begun) / 3600
        self.say(f"{own} lines of pgqrs' processes, {own / hours:.0f} an hour, with {len(PARTS)} starts of the server")
        if own > max(hours, 1) * MAX_LOGGED:
            self.fault("pgqrs' processes log too much")
        for crash in self.server.crashes():
            self.fault(crash)

    def run(self):
        self.prepare()
        try:
            for part, share, xid in PARTS:
                if xid is not None:
                    self.move_xids(xid)
                self.play(part, share * self.options.seconds)
            self.come_to_rest()
        finally:
            self.server.end()
        self.judge_memory()
        self.judge_log()
        self.say(f'{len(self.faults)} faults')
        return 1 if self.faults else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seconds', type=int, default=3600)
    parser.add_argument('--queues', type=int, default=20000)
    parser.add_argument('--seed', default=secrets.token_hex(4))
    parser.add_argument('folder')
    options = parser.parse_args()
    os.makedirs(options.folder)
    sys.exit(Soak(options).run())


main()
