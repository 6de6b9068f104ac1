#!/usr/bin/python3
"""A worker of the Python client, as workers.py starts it: runs and messages whose steps fail at random.

  shop.py SOCKET_FOLDER NAME
"""
import logging
import os
import random
import sys
import time

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../clients/python'))
import pgqrs

# A backend of that name may be killed.
app = pgqrs.App(f'host={sys.argv[1]} user=postgres dbname=shop', name='chaos client', options='-c client_min_messages=error')
SUPERSEDED = 3      # an exit code
POLICY = {'visibility_timeout': '1 s', 'max_attempts': -1, 'initial_interval': '20 ms', 'max_interval': '200 ms', 'max_crashes': 1000}


def write(conn, id, name):
    conn.execute('INSERT INTO effects (id, name) VALUES (%s, %s)', (id, name))
    if random.random() < 0.1:
        raise ValueError('no')
    return 1


def work(n):
    if random.random() < 0.1:
        raise pgqrs.Retry('not yet', after=0.05)
    return n


@app.workflow(name='order', **POLICY)
def order(run, n):
    total = 0
    for i in range(n % 4 + 1):
        total += run.transaction(f't{i}', write, run.id, f't{i}')
        total += run.step(f's{i}', work, 10)
    if n % 2:
        run.sleep(0.05)
    if n % 3 == 0:
        try:
            run.receive('go', timeout=1)
        except pgqrs.SignalTimeout:
            pass
    if n % 5 == 0:
        total += sum(run.children(leaf, [1, 2, 3]))
    return total


@app.workflow(name='leaf', **POLICY)
async def leaf(run, n):
    async def write_too(conn):
        await conn.execute('INSERT INTO effects (id, name) VALUES (%s, %s)', (run.id, 't'))
    await run.transaction('t', write_too)
    await run.sleep(0.02)
    return n


@app.queue('mail', transaction=True, raw=True, visibility_timeout='1 s', max_attempts=1000)
def mail(conn, message):
    write(conn, message.id, 'mail')


def install():
    """However often the server is killed meanwhile."""
    while True:
        try:
            return app.install()
        except (psycopg.OperationalError, psycopg.InterfaceError) as e:
            logging.warning('installing again: %s', e)
            time.sleep(0.2)


if __name__ == '__main__':
    logging.basicConfig(level='WARNING', format='%(asctime)s %(message)s')
    install()
    try:
        app.work(name=sys.argv[2], concurrency=5, grace=2)
    except (pgqrs.WorkerStopped, pgqrs.WorkerNotFound):
        sys.exit(SUPERSEDED)
