"""Sleeps, signals, pauses and children."""
from __future__ import annotations

import pytest

import pgqrs
from conftest import run, working
from pgqrs import testing


def test_a_run_sleeps_and_goes_on_where_it_was(app, name):
    seen = []

    @app.workflow(name=name)
    def flow(ctx):
        seen.append(ctx.step('first', lambda: len(seen)))
        ctx.sleep(0.01)
        return ctx.attempt

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    with working(app):
        assert handle.result(600) == 2
    assert seen == [0, 0]


def test_leaving_the_handler_passes_except_exception(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        try:
            return ctx.receive('go')
        except Exception:
            return 'caught'

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    handle.signal('go', 'went')
    testing.drain(app)
    assert handle.result(0) == 'went'


def test_a_handler_that_raises_while_it_is_parked_changes_nothing(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        try:
            return ctx.receive('go')
        except BaseException:
            if ctx.attempt == 1:
                raise ValueError('wrong')
            raise

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    assert handle.status() == 'PAUSED'
    handle.signal('go', 1)
    testing.drain(app)
    assert handle.result(0) == 1


def test_a_handler_that_returns_while_it_is_parked_changes_nothing(app, name):
    @app.workflow(name=name)
    async def flow(ctx):
        try:
            return await ctx.receive('go')
        except BaseException:
            return 'swallowed'

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    assert handle.status() == 'PAUSED'


def test_a_signal_that_does_not_come_raises(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        try:
            ctx.receive('go', timeout=0.001)
        except TimeoutError as e:
            return str(e)

    app.install()
    handle = app.start(flow)
    with working(app):
        assert handle.result(600) == "signal 'go' did not come in time"


def test_signals_come_in_order_with_their_headers(app, name, db):
    @app.workflow(name=name)
    def flow(ctx):
        first = ctx.receive('go')
        second = ctx.receive_signal('go')
        return [first, second.payload, second.headers['traceparent']]

    app.install()
    handle = app.start(flow)
    handle.signal('go', 1, key='a')
    handle.signal('go', 1, key='a')
    db.execute("SELECT pgqrs_signal(%s, 'go', '2', headers => '{\"traceparent\": \"t\"}')", (handle.run_id,))
    testing.drain(app)
    assert handle.result(0) == [1, 2, 't']


def test_a_pause_is_resumed_with_an_output(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        return ctx.pause('needs a look')

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    assert handle.resume(output={'ok': True})
    testing.drain(app)
    assert handle.result(0) == {'ok': True}


def test_children_answer_and_fail(app, name):
    @app.workflow(name=f'{name}.child', max_attempts=1)
    def child(ctx, n: int) -> int:
        if n < 0:
            raise ValueError('negative')
        return n * 2

    @app.workflow(name=name)
    def flow(ctx):
        one = ctx.child(child, 1)
        many = ctx.children(child, [1, 2, 3])
        none = ctx.children(child, [])
        started = ctx.start_child(child, 5)
        try:
            ctx.child(child, -1)
        except pgqrs.ChildFailed as e:
            return [one, many, none, ctx.result_of(started), e.status, e.type]

    assert run(app, flow) == [2, [2, 4, 6], [], 10, 'ERROR', 'ValueError']


def test_async_handlers_wait_and_have_children_too(app, name):
    @app.workflow(name=f'{name}.child')
    async def child(ctx, n):
        return n + 1

    @app.workflow(name=name)
    async def flow(ctx):
        await ctx.sleep(0)
        return [await ctx.child(child, 1), await ctx.children(child, [5, 6]), await ctx.receive('go')]

    app.install()
    handle = app.start(flow)
    handle.signal('go', 'x')
    with working(app):
        assert handle.result(600) == [2, [6, 7], 'x']


def test_progress_does_not_go_back(app, name, db):
    shown = []

    @app.workflow(name=name)
    def flow(ctx):
        ctx.step('first', lambda: 1)
        ctx.progress(10)
        shown.append(db.execute('SELECT progress FROM pgqrs_get_run(%s)', (ctx.run_id,)).fetchone()[0])
        ctx.step('second', lambda: 1)
        ctx.progress(60)
        ctx.receive('go')

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    handle.signal('go')
    testing.drain(app)
    assert handle.result(0) is None
    assert shown == [10, 60]


def test_the_first_of_several_wakes_the_run(app, name, db):
    @app.workflow(name=f'{name}.child')
    def child(ctx, n):
        return ctx.receive('go') + n

    @app.workflow(name=name)
    def flow(ctx):
        one = ctx.start_child(child, 1)
        events = [ctx.await_any(['paid', 'refused'], [one]), ctx.await_any(['paid'], [one]), ctx.await_any(['paid'], timeout=3600)]
        return [list(event) for event in events] + [ctx.result_of(one)]

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    handle.signal('refused', {'why': 'x'})
    testing.drain(app)
    started = db.execute('SELECT run_id FROM pgqrs_runs WHERE parent_run_id = %s', (handle.run_id,)).fetchone()[0]
    app.handle(started).signal('go', 6)
    testing.drain(app)
    testing.advance(app, handle, 3600)
    assert handle.result(0) == [['signal', 'refused', {'why': 'x'}], ['child', f'{name}.child', {'status': 'SUCCESS', 'output': 7, 'error': None}],
                                ['timeout', None, None], 7]


def test_time_passes_for_sleeps_and_time_outs_of_a_run(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        ctx.sleep(86400)
        try:
            ctx.receive('go', timeout=86400 * 7)
        except pgqrs.SignalTimeout:
            return 'late'

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    testing.advance(app, handle, 86400)
    assert handle.status() == 'PAUSED'
    testing.advance(app, handle, 86400 * 7)
    assert handle.result(0) == 'late'
