"""What programs call: runs, messages and signals."""
from __future__ import annotations

import asyncio

import psycopg
import pytest

import pgqrs
from conftest import until, working
from pgqrs import testing


def test_a_run_starts_in_the_callers_transaction(app, name, db):
    @app.workflow(name=name)
    def flow(ctx, n):
        return n

    app.install()
    with psycopg.connect() as tx:
        gone = flow.start(1, conn=tx)
        tx.rollback()
        kept = flow.start(2, conn=tx, priority=3, tags={'a': 1})
    testing.drain(app)
    assert kept.result(0) == 2
    with pytest.raises(pgqrs.RunNotFound):
        gone.status()


def test_a_key_starts_one_run(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        return 1

    app.install()
    assert flow.start(key='a').run_id == flow.start(key='a').run_id != flow.start(key='b').run_id


def test_results_are_outputs_or_errors(app, name):
    @app.workflow(name=name, max_attempts=1)
    def flow(ctx, how):
        if how == 'fail':
            raise KeyError('x')
        return how

    app.install()
    fine, failed, cancelled = (app.start(flow, how) for how in ('fine', 'fail', 'cancel'))
    assert cancelled.cancel('no need') == 'CANCELLED'
    with pytest.raises(pgqrs.WaitTimeout):
        fine.result(0.01)
    testing.drain(app)
    assert app.handle(fine.run_id).result() == 'fine'
    with pytest.raises(pgqrs.RunFailed) as raised:
        failed.result()
    assert raised.value.type == 'KeyError'
    assert 'in flow' in raised.value.error['traceback']
    with pytest.raises(pgqrs.RunCancelled):
        cancelled.result()


def test_the_first_of_several_runs_is_waited_for(app, name):
    @app.workflow(name=name, max_attempts=1)
    def flow(ctx, n):
        if n < 0:
            raise KeyError(n)
        return ctx.receive('go')

    app.install()
    handles = [app.start(flow, n) for n in range(3)]
    with pytest.raises(pgqrs.WaitTimeout):
        app.wait_any(handles, 0.01)
    with working(app):
        handles[1].signal('go', 'one')
        assert app.wait_any(iter(handles), 60) is handles[1]
        handles[0].signal('go', 'zero')
        assert handles[0].result(600) == 'zero'
        assert app.wait_any(handles, 60) is handles[1]       # it ended first
        failed = app.start(flow, -1)
        assert app.wait_any([handles[2], failed], 60) is failed
    with pytest.raises(pgqrs.RunFailed):
        failed.result(0)
    assert app.wait_any([]) is None
    with pytest.raises(pgqrs.RunNotFound):
        app.wait_any([app.handle(2**52)], 0)


def test_errors_of_the_server_have_classes(app, name):
    for raised, call in ((pgqrs.WorkflowNotFound, lambda: app.start(name)), (pgqrs.QueueNotFound, lambda: app.produce(name, 1)),
                         (pgqrs.RunNotFound, lambda: app.handle(2**52).result())):
        with pytest.raises(raised) as error:
            call()
        assert error.value.sqlstate == raised.sqlstate
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        app.produce('', 1)


def test_messages_are_produced_and_consumed(app, name, db):
    @app.queue(name)
    def handler(payload):
        raise AssertionError

    app.install()
    ids = [app.produce(name, n, key=str(n)) for n in (1, 2, 3)]
    assert app.produce(name, 1, key='1') == ids[0]
    got = []

    def take(n: int):
        if n == 2:
            raise pgqrs.Permanent('bad')
        got.append(n)
    assert app.consume(name, take, batch_size=10) == 3
    assert app.consume(name, take) == 0
    assert got == [1, 3]
    assert db.execute('SELECT message_id FROM pgqrs_dead_letters WHERE queue = %s', (name,)).fetchall() == [(ids[1],)]


def test_queues_have_handlers(app, name, db):
    db.execute(f'CREATE TABLE {name} (n int)')
    got = []

    @app.queue(f'{name}.plain')
    def plain(payload):
        got.append(payload)

    @app.queue(f'{name}.raw', raw=True)
    async def raw(message: pgqrs.Message):
        got.append((message.id, message.payload(), message.failures))

    @app.queue(f'{name}.written', transaction=True, max_attempts=2)
    def written(conn, payload):
        conn.execute(f'INSERT INTO {name} VALUES (%s)', (payload,))
        if payload < 0:
            raise pgqrs.Retry(after=0)

    app.install()
    app.produce(f'{name}.plain', {'to': 'ada'})
    raw_id = app.produce(f'{name}.raw', 5)
    app.produce(f'{name}.written', 1)
    dead = app.produce(f'{name}.written', -1)
    with working(app):
        until(lambda: db.execute('SELECT count(*) FROM pgqrs_dead_letters WHERE message_id = %s', (dead,)).fetchone()[0])
        until(lambda: len(got) == 2)
    assert sorted(got, key=str) == sorted([{'to': 'ada'}, (raw_id, 5, 0)], key=str)
    assert db.execute(f'SELECT array_agg(n) FROM {name}').fetchone() == ([1],)


def test_what_install_makes_is_replaced(app, name, db):
    def declare(attempts, cron):
        again = pgqrs.App()

        @again.workflow(name=name, max_attempts=attempts, timeout=60)
        def flow(ctx, n):
            return n
        again.schedule(cron, flow, {'a': 1}, timezone='Europe/Berlin')
        again.queue(f'{name}.q', visibility_timeout=attempts)(print)
        again.install()
    declare(3, '0 4 * * *')
    declare(4, '0 5 * * *')
    found = db.execute('SELECT max_attempts, timeout::text FROM pgqrs_workflows WHERE name = %s', (name,)).fetchone()
    assert found == (4, '00:01:00')
    assert db.execute('SELECT cron FROM pgqrs_schedule_list WHERE name = %s', (name,)).fetchall() == [('0 5 * * *',)]
    assert db.execute('SELECT visibility_timeout::text FROM pgqrs_queues WHERE name = %s', (f'{name}.q',)).fetchone() == ('00:00:04',)


def test_an_app_for_asyncio_is_awaited(name):
    app = pgqrs.AsyncApp()
    got = []

    @app.workflow(name=name)
    async def flow(ctx, n: int) -> int:
        return n + await ctx.receive('more')

    @app.queue(f'{name}.q')
    async def handler(payload):
        got.append(payload)

    async def main():
        await app.install()
        async with await app.aconnect() as conn, conn.transaction():
            handle = await flow.start(1, conn=conn)
        await app.produce(f'{name}.q', 'x')
        assert await app.consume(f'{name}.q', handler) == 1
        await handle.signal('more', 2)
        waiting = asyncio.ensure_future(handle.result(600))
        await pgqrs.Worker(app, name=name).work(until_idle=True)
        assert await waiting == 3
        other = await flow.start(2)
        assert await app.wait_any([other, handle], 60) is handle
        with pytest.raises(pgqrs.WaitTimeout):
            await app.wait_any([other], 0)
        await other.cancel()
        assert await handle.status() == 'SUCCESS'
        with pytest.raises(pgqrs.WorkflowNotFound):
            await app.start(f'{name}.none')
    asyncio.run(main())
    assert got == ['x']


def test_calls_go_on_after_their_connection_was_lost(app, name, db):
    @app.workflow(name=name)
    def flow(ctx):
        return 1

    app.install()
    first = app.start(flow)
    db.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'pgqrs'")
    second = app.start(flow)
    assert second.run_id > first.run_id
