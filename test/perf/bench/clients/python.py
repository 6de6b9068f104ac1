"""The Python client, and the same calls by hand: one line of JSON says how fast that was, as loop.mjs has it.

  python.py hand|worker|poll|listen|lock|connections CLIENTS SECONDS
"""
import asyncio
import json
import os
import sys
import threading
import time

import psycopg

sys.path.insert(0, os.environ['BENCH_PYTHON'])
import pgqrs

CLIENTS, SECONDS = int(sys.argv[2]), float(sys.argv[3])
OUTPUT = {'done': True}
POLL = "CALL pgqrs_poll(%s, '0', 1, '{}', '{}')"


class Counter:
    """Rows of several threads; a fifth of the time is for warming up."""

    def __init__(self):
        self.counts = [0] * (CLIENTS + 1)
        self.over = False

    def measure(self):
        with psycopg.connect(autocommit=True) as db:
            def state():
                return sum(self.counts), db.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0], time.monotonic()
            time.sleep(SECONDS / 5)
            before = state()
            time.sleep(SECONDS)
            rows, wal, elapsed = (b - a for a, b in zip(before, state()))
        self.over = True
        report(rows=rows, wal=wal, elapsed=elapsed)


def report(p50=None, p99=None, wal=0, **others):
    print(json.dumps({'rows': others.pop('rows'), 'p50': p50, 'p99': p99, 'wal': wal, **others}))


def hand():
    """Workers of a connection each, which poll for one run at a time."""
    counter = Counter()
    ready = threading.Barrier(CLIENTS + 1)

    def work(i):
        output = json.dumps(OUTPUT)
        with psycopg.connect(autocommit=True) as db:
            worker = db.execute('SELECT pgqrs_register_worker(%s, %s)', (f'hand {i}', ['bench_wf'])).fetchone()[0]
            ready.wait()
            while not counter.over:
                for run in db.execute(POLL, (worker,)).fetchone()[0]:
                    lease = run['run_id'], run['lease']
                    for step in ('one', 'two'):
                        db.execute('SELECT pgqrs_step_complete(%s, %s, %s, %s)', (*lease, step, output)).fetchone()
                    db.execute('SELECT pgqrs_complete_run(%s, %s, %s)', (*lease, output)).fetchone()
                    counter.counts[i] += 1
            db.execute('SELECT pgqrs_stop_worker(%s)', (worker,))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    ready.wait()
    counter.measure()
    for thread in threads:
        thread.join()


def run_worker(app, **options):
    """A worker in a thread of its own, and a call that ends it."""
    worker = pgqrs.Worker(app, name='bench', grace=30, **options)
    thread = threading.Thread(target=lambda: asyncio.run(worker.work()))
    thread.start()
    while worker.worker_id is None:
        time.sleep(0.01)

    def end():
        worker.loop.call_soon_threadsafe(worker.drain)
        thread.join()
    return end


def worker():
    app, counter = pgqrs.App(), Counter()

    @app.workflow(name='bench_wf')
    def bench(run, payload):
        run.step('one', lambda: OUTPUT)
        run.step('two', lambda: OUTPUT)
        counter.counts[-1] += 1
        return OUTPUT
    end = run_worker(app, concurrency=CLIENTS, connections=CLIENTS)
    counter.measure()
    end()


def wake(connect):
    """From before a statement of one connection to the answer of another, which sleeps by then.

    connect(sleeper, waker) returns what is called in turn: prepare, wake, sleep, and clear with the answer of sleep."""
    late, over, ready, arrived = [], threading.Event(), threading.Event(), threading.Event()
    with psycopg.connect(autocommit=True) as sleeper, psycopg.connect(autocommit=True) as waker:
        waker.execute('SET synchronous_commit = off')
        prepare, wake_up, sleep, clear = connect(sleeper, waker)
        sent = 0.0

        def send():
            nonlocal sent
            while not over.is_set():
                prepare()
                ready.set()
                time.sleep(0.005)       # the sleeper is asleep by then
                sent = time.monotonic()
                wake_up()
                arrived.wait()
                arrived.clear()
        thread = threading.Thread(target=send)
        thread.start()
        end = time.monotonic() + SECONDS
        while not over.is_set():
            ready.wait()
            ready.clear()
            answer = sleep()
            now = time.monotonic()
            late.append((now - sent) * 1000)
            clear(answer)
            if now >= end:
                over.set()
            arrived.set()
        thread.join()
    late.sort()
    report(rows=len(late), elapsed=SECONDS, p50=late[len(late) // 2], p95=late[int(len(late) * 0.95)], p99=late[int(len(late) * 0.99)])


def poll(sleeper, waker):
    """A message wakes a poll, which claims it."""
    worker_id = sleeper.execute('SELECT pgqrs_register_worker(%s, %s)', ('bench wakeups', ['bench'])).fetchone()[0]
    return (lambda: None,
            lambda: waker.execute('SELECT pgqrs_enqueue(%s, %s)', ('bench', '1')),
            lambda: sleeper.execute("CALL pgqrs_poll(%s, '30 s', 1)", (worker_id,)).fetchone()[0][0],
            lambda work: sleeper.execute('SELECT pgqrs_archive_message(%s, %s)', (work['message_id'], work['lease'])))


def listen(sleeper, waker):
    """A notification reaches a session that listens; there is nothing to claim."""
    sleeper.execute('LISTEN bench')
    notifies = sleeper.notifies()
    return (lambda: None, lambda: waker.execute("SELECT pg_notify('bench', '1')"), lambda: next(notifies), lambda answer: None)


def lock(sleeper, waker):
    """The release of a lock wakes a session: a statement, a latch, an answer, and nothing else."""
    take, release = 'SELECT pg_advisory_lock(1)', 'SELECT pg_advisory_unlock(1)'
    return (lambda: waker.execute(take), lambda: waker.execute(release), lambda: sleeper.execute(take), lambda answer: sleeper.execute(release))


def connections():
    """The most connections of a worker that has 20 runs in hand at once."""
    app = pgqrs.App(name='bench connections')
    together, most, done = threading.Barrier(20), 0, [0]

    @app.workflow(name='bench_wf')
    def bench(run, payload):
        run.step('meet', lambda: together.wait(60) and 0)
        run.transaction('write', lambda db: 1)
        done[0] += 1
    started = time.monotonic()
    end = run_worker(app, concurrency=20)
    with psycopg.connect(autocommit=True) as db:
        while done[0] < 20:
            most = max(most, db.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bench connections'").fetchone()[0])
    elapsed = time.monotonic() - started
    together.abort()
    end()
    report(rows=20, elapsed=elapsed, connections=most)


WORKLOADS = {'hand': hand, 'worker': worker, 'connections': connections, **{f.__name__: lambda f=f: wake(f) for f in (poll, listen, lock)}}
WORKLOADS[sys.argv[1]]()
