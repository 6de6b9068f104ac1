#!/usr/bin/python3
"""worker_faults.py DSN SEED: examples/worker under errors of every kind.

Its calls, and the statements of its handlers, raise errors at random, lose
their connection, or lose their answer. Prints what is wrong; nothing: all ended
as it should, each effect is there once, and no worker ended but for a PQ005 or
PQ014 of its own.
"""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../../examples/worker'))
import psycopg2                                                   # noqa: E402
import psycopg2.extras                                            # noqa: E402
import worker                                                     # noqa: E402

DSN, SEED = sys.argv[1], int(sys.argv[2])
CODES = ['PQ%03d' % n for n in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16)] + [
    '0A000', '22004', '22023', '22P05', '23505', '25001', '40001', '40P01', '42501', '42883', '53300', '55P03', '57014', '57P01', 'XX000']
RUNS, FAULTY, PATIENCE = 24, 5, 180
dice = random.Random(SEED)
faults = True
raised = {}


class Cursor(psycopg2.extras.RealDictCursor):
    def execute(self, sql, args=None):
        if not faults:
            return super().execute(sql, args)
        chance = dice.random()
        if chance < 0.08:
            # what ends a worker is rarer
            code = dice.choice(CODES) if dice.random() < 0.95 else dice.choice(worker.STOPPED)
            raised.setdefault(threading.current_thread().name, set()).add(code)
            super().execute("DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '%s'; END $$" % code)
        elif chance < 0.10:
            self.lose()
        super().execute(sql, args)
        # answers whose loss matters most are lost more often
        if chance > (0.6 if sql == 'COMMIT' else 0.92 if 'dequeue' in sql else 0.97):
            self.lose()

    def lose(self):
        self.connection.close()
        raise psycopg2.OperationalError('injected: the connection is lost')


class Connection(psycopg2.extensions.connection):
    def cursor(self, *args, **kwargs):
        return super().cursor(cursor_factory=Cursor)


def effect(cursor, id, what):
    cursor.execute('INSERT INTO effects VALUES (%s, %s)', (id, what))


def good(run):
    receipt = run.transaction('charge', lambda cursor: effect(cursor, run.id, 'charge') or {'paid': run.id})
    run.step('pack', lambda: 'packed')
    run.sleep('rest', '50 ms')
    run.transaction('ship', lambda cursor: effect(cursor, run.id, 'ship') or 'shipped')
    return receipt


def bad(run):
    run.transaction('tell', lambda cursor: cursor.execute("SELECT pgqrs_signal(%s, 'shipped')", (run.input,)))


def mail(message, cursor):
    effect(cursor, message.id, 'mail')


def work(name):
    """Workers, one after the other, until one ends by itself after a request."""
    while not done.is_set():
        w = worker.Worker(lambda: psycopg2.connect(DSN, connection_factory=Connection), name, ['good', 'bad', 'mail'],
                          {'good': good, 'bad': bad, 'mail': mail}, lease=1)
        workers[name] = w
        raised.pop(name, None)
        w.run()
        if not done.is_set() and not raised.get(name, set()) & set(worker.STOPPED):
            wrong.append(f'worker {name} ended after {sorted(raised.get(name, []))}')


sys.stderr = open(os.devnull, 'w')
admin = worker.Session(lambda: psycopg2.connect(DSN))
admin.query("""CREATE TABLE effects (id bigint, what text);
    SELECT pgqrs_create_workflow('good', max_attempts => 100000, max_crashes => 100000, initial_interval => '10 ms', max_interval => '50 ms', visibility_timeout => '1 s'),
        pgqrs_create_workflow('bad', max_attempts => 2, max_crashes => 100000, initial_interval => '10 ms', visibility_timeout => '1 s'),
        pgqrs_create_workflow('ended'), pgqrs_create_queue('mail', visibility_timeout => '1 s', max_attempts => 100000);
    SET client_min_messages = error; SELECT pgqrs_trigger('ended');
    SELECT pgqrs_complete_run(run_id, lease) FROM pgqrs_dequeue('ended')""")
ended = admin.query("SELECT run_id FROM pgqrs_runs WHERE workflow = 'ended'")[0]['run_id']
admin.query("""SELECT pgqrs_trigger('good', to_jsonb(i)), pgqrs_enqueue('mail', to_jsonb(i)) FROM generate_series(1, %s) i""", RUNS)
admin.query("SELECT pgqrs_trigger('bad', to_jsonb(%s::bigint)) FROM generate_series(1, 4)", ended)

wrong, workers, done = [], {}, threading.Event()
threads = [threading.Thread(target=work, args=(f'w{n}',), name=f'w{n}', daemon=True) for n in range(3)]
for thread in threads:
    thread.start()
begun = time.monotonic()
while True:
    faults = time.monotonic() < begun + FAULTY
    left = admin.query('SELECT message_id, run_id, lease IS NULL AS free FROM pgqrs_messages')
    if not left or time.monotonic() > begun + FAULTY + PATIENCE:
        break
    # a message that failed waits for longer than we want to
    for m in left:
        if m['run_id'] is None and m['free']:
            try:
                admin.query('SELECT pgqrs_set_visibility(%s, pgqrs_now()) FROM pgqrs_messages WHERE message_id = %s AND lease IS NULL',
                            m['message_id'], m['message_id'])
            except psycopg2.Error:
                pass
    time.sleep(0.1)
faults = False
done.set()
for w in list(workers.values()):
    w.stop()
for thread in threads:
    thread.join(PATIENCE)
    if thread.is_alive():
        wrong.append(f'{thread.name} does not end')

for row in admin.query("""SELECT 'left: ' || workflow || ' ' || run_id || ' ' || status || ' attempt ' || attempt AS what FROM pgqrs_runs WHERE status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED')
        UNION ALL SELECT 'message left: ' || message_id FROM pgqrs_messages WHERE run_id IS NULL
        UNION ALL SELECT workflow || ' ' || run_id || ' is ' || status || coalesce(' ' || error::text, '') FROM pgqrs_runs WHERE status <> CASE workflow WHEN 'bad' THEN 'ERROR' ELSE 'SUCCESS' END
        UNION ALL SELECT 'effect ' || what || ' of ' || id || ': ' || count(*) FROM effects GROUP BY id, what HAVING count(*) <> 1
        UNION ALL SELECT 'effects: ' || count(*) FROM effects HAVING count(*) <> %s""", 3 * RUNS):
    wrong.append(row['what'])
print('\n'.join(wrong), end='')
