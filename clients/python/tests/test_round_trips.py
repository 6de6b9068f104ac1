"""How often a client asks the server."""
from __future__ import annotations

import pytest

import pgqrs
from conftest import until, working


@pytest.fixture
def round_trips(tmp_path, monkeypatch):
    """Counts those of all connections that are made, without what registers and stops a worker: the statements."""
    files = []

    def trace(connection):
        files.append(open(tmp_path / str(len(files)), 'w'))
        connection.pgconn.trace(files[-1].fileno())
        return connection
    connect, aconnect = pgqrs.App.connect, pgqrs.App.aconnect

    async def atraced(app):
        return trace(await aconnect(app))
    for kind in (pgqrs.App, pgqrs.AsyncApp):
        monkeypatch.setattr(kind, 'connect', lambda app: trace(connect(app)))
        monkeypatch.setattr(kind, 'aconnect', atraced)

    def count():
        statements, text = [], ''
        for file in files:
            for line in open(file.name):
                _, sender, _, message, *rest = line.rstrip('\n').split('\t')
                if sender == 'F' and message in ('Parse', 'Query'):
                    text = rest[0]
                if sender == 'F' and message in ('Execute', 'Query'):       # the one that prepares what is often used is none
                    statements.append(text)
        return [s for s in statements if not any(w in s for w in ('register_worker', 'stop_worker', 'suspend_worker', 'extversion'))]
    return count


def test_an_order_of_five_steps_a_signal_and_a_child_takes_at_most_20_round_trips(app, name, db, round_trips):
    @app.workflow(name=f'{name}.child')
    def child(ctx, n):
        return n

    @app.workflow(name=name)
    def order(ctx, n):
        for i in (1, 2):
            ctx.step(f'step {i}', lambda: i)
        paid = ctx.receive('paid', timeout=60)
        for i in (3, 4):
            ctx.step(f'step {i}', lambda: i)
        made = ctx.child(child, n + 1)
        ctx.step('step 5', lambda: 5)
        return [paid, made]

    def statements():
        before = len(round_trips())
        with working(app):
            handle = app.start(order, 1)
            until(lambda: db.execute('SELECT status FROM pgqrs_result(%s)', (handle.run_id,)).fetchone()[0] == 'PAUSED')
            handle.signal('paid', 'yes')
            assert handle.result(600) == ['yes', 2]
        return round_trips()[before:]
    app.install()
    # A poll that meets the commit of a step may answer twice instead of once.
    fewest = min((statements() for _ in range(3)), key=len)
    assert len(fewest) <= 20 + 1, '\n'.join(fewest)       # with the poll after the end
