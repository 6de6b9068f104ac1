"""Workers: how they share, end, and live through faults."""
from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

import pgqrs
from conftest import until, working
from pgqrs import testing

CLIENT = pathlib.Path(pgqrs.__file__).parent.parent


@pytest.mark.parametrize('kind', ['threads', 'asyncio'])
def test_twenty_runs_at_once_on_six_connections(name, db, kind):
    app = pgqrs.App(name=name)
    together, met, all_met, seen = threading.Barrier(20), [], asyncio.Event(), threading.Event()

    def blocking(ctx):
        ctx.step('meet', lambda: together.wait(600) and 0)
        return ctx.transaction('write', lambda conn: int(seen.wait(60)))

    async def meet():
        met.append(1)
        if len(met) == 20:
            all_met.set()
        await all_met.wait()

    async def awaiting(ctx):
        await ctx.step('meet', meet)
        return await ctx.transaction('write', one)

    async def one(conn):
        return int(await asyncio.to_thread(seen.wait, 60))

    flow = app.workflow(blocking if kind == 'threads' else awaiting, name=name)
    app.install()
    app.close()
    handles = [pgqrs.App().handle(app.start(flow).run_id) for _ in range(20)]
    app.close()
    most = 0
    with working(app, concurrency=20):
        while any(handle.status() in ('QUEUED', 'RUNNING') for handle in handles):
            most = max(most, db.execute('SELECT count(*) FROM pg_stat_activity WHERE application_name = %s', (name,)).fetchone()[0])
            if most >= 2:
                seen.set()
    assert [handle.result(0) for handle in handles] == [1] * 20
    assert 2 <= most <= 6


def test_a_slot_that_becomes_free_is_used_at_once(app, name, monkeypatch):
    monkeypatch.setattr('pgqrs.worker.POLL', 3600)
    @app.workflow(name=name)
    def flow(ctx):
        return ctx.step('x', lambda: 1)

    app.install()
    handles = [app.start(flow) for _ in range(20)]
    with working(app, concurrency=1):
        assert [handle.result(600) for handle in handles] == [1] * 20


def test_a_cancel_interrupts_a_coroutine_and_can_be_caught(app, name):
    started, undone = threading.Event(), []

    @app.workflow(name=name)
    async def flow(ctx):
        async def long():
            started.set()
            await asyncio.sleep(600)
        try:
            await ctx.step('long', long)
        except pgqrs.Cancelled:
            undone.append(await ctx.step('undo', lambda: 'undone'))
            raise

    app.install()
    handle = app.start(flow)
    with working(app):
        assert started.wait(600)
        handle.cancel('enough')
        with pytest.raises(pgqrs.RunCancelled):
            handle.result(600)
    assert undone == ['undone']


def test_a_cancel_ends_a_thread_at_its_next_step(app, name):
    started, go = threading.Event(), threading.Event()

    @app.workflow(name=name)
    def flow(ctx):
        def long():
            started.set()
            go.wait(600)
            until(lambda: ctx.cancel_requested)
            ctx.check()
        ctx.step('long', long)

    app.install()
    handle = app.start(flow)
    with working(app):
        assert started.wait(600)
        handle.cancel()
        go.set()
        with pytest.raises(pgqrs.RunCancelled):
            handle.result(600)


@pytest.mark.parametrize('noticed_by', ['the poll', 'the second claim'])
def test_a_lost_lease_stops_the_task_and_changes_nothing(app, name, db, monkeypatch, noticed_by):
    started, stopped = threading.Event(), threading.Event()
    execute = pgqrs.Worker._execute

    async def says_extended(self, sql, args):
        """A poll may answer so that has extended the lease before it was lost."""
        answer = await execute(self, sql, args)
        if 'pgqrs_poll' not in sql or not answer[1]:
            return answer
        return answer[0], [{**held, 'state': 'extended'} for held in answer[1]], answer[2]
    if noticed_by == 'the second claim':
        monkeypatch.setattr(pgqrs.Worker, '_execute', says_extended)

    @app.workflow(name=name)
    async def flow(ctx):
        if ctx.attempt > 1:
            return 'second'

        async def long():
            started.set()
            try:
                await asyncio.sleep(600)
            finally:
                stopped.set()
        await ctx.step('long', long)

    app.install()
    handle = app.start(flow)
    with working(app):
        assert started.wait(600)
        db.execute('SELECT pgqrs_set_visibility(message_id, now()) FROM pgqrs_peek(%s)', (name,))
        assert handle.result(600) == 'second'
        assert stopped.wait(600)


def test_a_thread_that_lost_its_lease_stores_nothing(app, name, db):
    started, go, ended = threading.Event(), threading.Event(), threading.Event()

    @app.workflow(name=name)
    def flow(ctx):
        if ctx.attempt > 1:
            return ctx.step('long', lambda: 'second')
        try:
            ctx.step('long', lambda: started.set() or go.wait(600) and 'first')
        finally:
            ended.set()

    app.install()
    handle = app.start(flow)
    with working(app):
        assert started.wait(600)
        db.execute('SELECT pgqrs_set_visibility(message_id, now()) FROM pgqrs_peek(%s)', (name,))
        assert handle.result(600) == 'second'
        go.set()
        assert ended.wait(600)


def test_a_superseded_worker_ends(app, name, db):
    app.queue(name)(print)
    app.install()
    with working(app, name=name) as worker:
        db.execute('SELECT pgqrs_register_worker(%s, %s)', (name, [name]))
        worker.thread.join(60)
    assert isinstance(worker.errors[0], pgqrs.WorkerStopped)


def test_a_worker_goes_on_after_its_connections_were_lost(app, name, db):
    go = threading.Event()

    @app.workflow(name=name)
    def flow(ctx):
        return [ctx.step('one', lambda: 1), ctx.step('two', lambda: go.wait(600)), ctx.attempt]

    app.install()
    handle = app.start(flow)
    with working(app):
        until(lambda: handle.status() == 'RUNNING')
        db.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'pgqrs'")
        go.set()
        assert handle.result(600) == [1, True, 1]


@pytest.mark.skipif('PGQRS_RESTART' not in os.environ, reason='no server that can be restarted')
def test_a_worker_goes_on_after_a_restart(app, name):
    go = threading.Event()

    @app.workflow(name=name)
    def flow(ctx):
        return [ctx.step('one', lambda: 1), ctx.step('two', lambda: go.wait(600))]

    app.install()
    handle = app.start(flow)
    with working(app):
        until(lambda: handle.status() == 'RUNNING')
        subprocess.run(os.environ['PGQRS_RESTART'].split(), check=True, stdout=subprocess.DEVNULL)
        go.set()
        assert handle.result(600) == [1, True]
        assert app.start(flow).result(600) == [1, True]


def test_a_read_only_database_loses_nothing(app, name, db, caplog):
    go = threading.Event()

    @app.workflow(name=name)
    def flow(ctx):
        return ctx.step('one', lambda: go.wait(600))

    app.install()
    handle = app.start(flow)
    with working(app):
        until(lambda: handle.status() == 'RUNNING')
        try:
            db.execute('ALTER SYSTEM SET default_transaction_read_only = on')
            db.execute('SELECT pg_reload_conf()')
            until(lambda: db.execute('SHOW default_transaction_read_only').fetchone()[0] == 'on')
            go.set()
            until(lambda: 'read-only' in caplog.text)
        finally:
            db.execute('SET default_transaction_read_only = off')
            db.execute('ALTER SYSTEM RESET default_transaction_read_only')
            db.execute('SELECT pg_reload_conf()')
        assert handle.result(600) is True
        assert db.execute('SELECT attempt, failures FROM pgqrs_get_run(%s)', (handle.run_id,)).fetchone() == (1, 0)


def test_an_extension_that_does_not_fit_is_named(app, name, db):
    app.queue(name)(print)
    app.install()
    try:
        db.execute("UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'pgqrs'")
        with pytest.raises(pgqrs.Incompatible, match=r'has version 0\.0\.9, this client has \d'):
            testing.drain(app)
    finally:
        db.execute('UPDATE pg_extension SET extversion = pgqrs_version() WHERE extname = %s', ('pgqrs',))


def test_a_database_without_the_extension_is_named(name, db):
    app = pgqrs.App(dbname='template1')
    app.queue(name)(print)
    with pytest.raises(pgqrs.Incompatible, match='template1.*CREATE EXTENSION pgqrs'):
        testing.drain(app)


def test_an_extension_outside_of_the_search_path_is_named_or_used(name, db):
    schema = f'{name}.S'
    schemas = db.execute('SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = %s', ('pgqrs',)).fetchone()
    db.execute(f'CREATE SCHEMA "{schema}"')
    app = pgqrs.App(options=f'-csearch_path="{schema}"')
    app.queue(name)(print)
    with pytest.raises(pgqrs.Incompatible, match='App.schema=.public'):
        testing.drain(app)
    app = pgqrs.App(schema=schemas[0], options=f'-csearch_path="{schema}"')
    got = []
    app.queue(name)(got.append)
    app.install()
    app.produce(name, 1)
    testing.drain(app)
    assert got == [1]


def test_work_without_a_handler_fails_with_a_clear_error(app, name, db):
    db.execute('SELECT pgqrs_create_workflow(%s), pgqrs_create_queue(%s)', (f'{name}.flow', f'{name}.q'))
    app.queue(f'{name}.other')(print)
    app.install()
    handle = app.start(f'{name}.flow')
    message = app.produce(f'{name}.q', 1)
    testing.drain(app, queues=[f'{name}.*'])
    with pytest.raises(pgqrs.RunFailed) as failed:
        handle.result(0)
    assert failed.value.type == 'no_handler_registered'
    error = db.execute('SELECT failures FROM pgqrs_peek(%s) WHERE message_id = %s', (f'{name}.q', message)).fetchone()
    assert error == (1,)


@pytest.mark.parametrize('raised', [SystemExit(1), pgqrs.Parked(), pgqrs.Cancelled(), asyncio.CancelledError()],
                         ids=['exit', 'parked', 'cancelled', 'task'])
def test_what_a_handler_raises_by_itself_is_a_failure(app, name, raised):
    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        raise raised

    @app.workflow(name=f'{name}.async', max_attempts=1)
    async def aflow(ctx):
        raise raised

    app.install()
    handles = [app.start(flow), app.start(aflow)]
    testing.drain(app)
    for handle in handles:
        with pytest.raises(pgqrs.RunFailed) as failed:
            handle.result(0)
        assert failed.value.type.endswith(type(raised).__name__)


def test_an_error_that_cannot_be_stored_is_still_a_failure(app, name):
    class Odd(Exception):
        def __str__(self):
            raise ValueError('no text')

    @app.workflow(name=name, max_attempts=1)
    def flow(ctx, how):
        raise Odd() if how else ValueError('a\0b\ud800')

    app.install()
    handles = [app.start(flow, True), app.start(flow, False)]
    testing.drain(app)
    for handle, kind in zip(handles, ('Odd', 'ValueError')):
        with pytest.raises(pgqrs.RunFailed) as failed:
            handle.result(0)
        assert failed.value.type.endswith(kind)


MODULE = '''
import time, pgqrs
app = pgqrs.App()

@app.workflow(name='{name}')
def flow(ctx, seconds):
    return ctx.step('long', lambda: time.sleep(seconds) or 'done')
'''


def process(tmp_path, name, *options):
    (tmp_path / 'program.py').write_text(MODULE.format(name=name))
    return subprocess.Popen([sys.executable, '-m', 'pgqrs', 'work', 'program:app', '--install', *options], cwd=tmp_path,
                            env={**os.environ, 'PYTHONPATH': str(CLIENT)}, stderr=subprocess.PIPE, text=True)


def test_sigterm_lets_what_is_held_end(app, name, tmp_path, db):
    worker = process(tmp_path, name, '--grace', '3600')
    until(lambda: db.execute('SELECT count(*) FROM pgqrs_worker_stats WHERE %s = ANY (queues)', (name,)).fetchone()[0])
    handle = app.start(name, 2)
    until(lambda: handle.status() == 'RUNNING')
    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=60)
    assert worker.returncode == 0, log
    assert handle.result(0) == 'done'


def test_a_drain_waits_for_the_answer_to_what_ended_its_poll(app, name, caplog):
    app.queue(name)(lambda message: None)
    app.install()
    connect, answered = app.aconnect, []
    with working(app) as worker:
        async def late():
            connection = await connect()
            execute = connection.execute

            async def answer_late(*args):
                await execute(*args)
                await execute('SELECT pg_sleep(0.5)')
                answered.append(True)
            connection.execute = answer_late
            return connection
        app.aconnect = late
    assert answered and not caplog.records


def test_after_the_grace_what_is_held_is_given_back_without_a_failure(app, name, tmp_path, db):
    worker = process(tmp_path, name, '--grace', '0.5')
    until(lambda: db.execute('SELECT count(*) FROM pgqrs_worker_stats WHERE %s = ANY (queues)', (name,)).fetchone()[0])
    handle = app.start(name, 600)
    until(lambda: handle.status() == 'RUNNING')
    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=60)
    assert worker.returncode == 0, log
    assert 'giving back 1' in log
    assert db.execute('SELECT failures, visible_after <= clock_timestamp() FROM pgqrs_messages WHERE message_id = %s',
                      (handle.run_id,)).fetchone() == (0, True)


def test_a_program_that_is_none_is_a_clear_error(tmp_path):
    (tmp_path / 'program.py').write_text('app = 7')
    done = subprocess.run([sys.executable, '-m', 'pgqrs', 'work', 'program:app'], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': str(CLIENT)})
    assert done.returncode == 1
    assert done.stderr == 'program:app is no pgqrs.App\n'
