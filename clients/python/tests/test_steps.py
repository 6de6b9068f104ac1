"""Steps, transactions and their ids."""
from __future__ import annotations

import pytest

import pgqrs
from conftest import run
from pgqrs import testing


def test_a_step_is_executed_once_over_two_deliveries(app, name):
    calls = []

    @app.workflow(name=name)
    def flow(ctx):
        first = ctx.step('first', lambda: calls.append('first') or {'n': 1})
        ctx.receive('go')
        return first

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    handle.signal('go')
    testing.drain(app)
    assert handle.result(0) == {'n': 1}
    assert calls == ['first']


def test_automatic_ids_are_numbered(app, name, db):
    @app.workflow(name=name)
    def flow(ctx):
        @pgqrs.step
        def look(n):
            return n * 2
        return [look(1), look(2), ctx.step(None, look, 3)]

    assert run(app, flow) == [2, 4, 6]
    steps = db.execute('SELECT array_agg(step_id) FROM pgqrs_steps s JOIN pgqrs_runs r USING (run_id) WHERE r.workflow = %s',
                       (name,)).fetchone()[0]
    assert sorted(steps) == ['look', 'look #2', 'look #3']


def test_a_step_id_of_another_kind_is_refused(app, name):
    @app.workflow(name=name)
    def flow(ctx):
        ctx.step('x', lambda: 1)
        ctx.receive('x')

    with pytest.raises(pgqrs.RunFailed) as failed:
        run(app, flow)
    assert failed.value.type == 'InvalidStep'
