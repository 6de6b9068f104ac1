"""Steps, transactions and their ids."""
from __future__ import annotations

import asyncio

import psycopg
import pytest

import pgqrs
from conftest import run
from pgqrs import testing
from pgqrs.connection import ask


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


def test_the_writes_of_a_transaction_commit_with_the_step(app, name, db):
    db.execute(f'CREATE TABLE {name} (n int)')

    @app.workflow(name=name, max_attempts=3, initial_interval='0')
    def flow(ctx):
        @pgqrs.transaction
        def reserve(conn, n):
            conn.execute(f'INSERT INTO {name} VALUES (%s)', (n,))
            if tries.append(n) or len(tries) < 2:
                raise ValueError('not yet')
            return n
        return reserve(7) + ctx.transaction('again', lambda conn: conn.execute(f'SELECT count(*) FROM {name}').fetchone()[0])

    tries = []
    assert run(app, flow) == 8
    assert db.execute(f'SELECT array_agg(n) FROM {name}').fetchone() == ([7],)
    assert tries == [7, 7]


def test_a_transaction_is_repeated_after_a_serialization_failure(app, name, db):
    tries = []

    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        def write(conn):
            tries.append(1)
            if len(tries) < 4:
                conn.execute("DO $$ BEGIN RAISE serialization_failure; END $$")
            return len(tries)
        return ctx.transaction('write', write)

    assert run(app, flow) == 4


def test_a_transaction_is_repeated_after_a_lost_connection_and_writes_once(app, name, db):
    db.execute(f'CREATE TABLE {name} (n int)')
    tries = []

    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        def write(conn):
            tries.append(1)
            conn.execute(f'INSERT INTO {name} VALUES (1)')
            if len(tries) < 3:
                db.execute('SELECT pg_terminate_backend(%s, 10000)', (conn.info.backend_pid,))
            return len(tries)
        return ctx.transaction('write', write)

    assert run(app, flow) == 3
    assert db.execute(f'SELECT count(*) FROM {name}').fetchone() == (1,)


def test_a_transaction_whose_answer_was_lost_is_not_written_twice(app, name, db):
    db.execute(f'CREATE TABLE {name} (n int)')

    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        def write(conn, n):
            conn.execute(f'INSERT INTO {name} VALUES (%s)', (n,))
            return n
        ctx.transaction('write', write, 1)
        ctx.steps.clear()       # as if the answer to the first had not come
        return ctx.transaction('write', write, 2)

    assert run(app, flow) == 1
    assert db.execute(f'SELECT array_agg(n) FROM {name}').fetchone() == ([1],)


def test_an_error_of_the_applications_own_sql_is_an_error_of_the_step(app, name):
    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        def archive(conn):
            conn.execute('SELECT pgqrs_archive_message(%s, 1)', (ctx.run_id,))
        with pytest.raises(pgqrs.StepFailed) as failed:
            ctx.transaction('archive', archive)
        return failed.value.type

    assert run(app, flow) in ('PQ006', 'PQ016')


def test_retry_after_waits_that_long_and_permanent_does_not_try_again(app, name, db):
    calls = []

    @app.workflow(name=name, max_attempts=5)
    def flow(ctx):
        def flaky():
            calls.append('flaky')
            if len(calls) == 1:
                raise pgqrs.Retry('later', after=3600)
            raise pgqrs.Permanent('declined', type='card.declined')
        ctx.step('flaky', flaky)

    app.install()
    handle = app.start(flow)
    testing.drain(app)
    left = db.execute('SELECT visible_after - now() > %s FROM pgqrs_get_run(%s)', ('59 min', handle.run_id)).fetchone()
    assert left == (True,)
    db.execute('SELECT pgqrs_set_visibility(message_id, now()) FROM pgqrs_peek(%s)', (name,))
    testing.drain(app)
    with pytest.raises(pgqrs.RunFailed) as failed:
        handle.result(0)
    assert (failed.value.type, str(failed.value)) == ('card.declined', 'declined')
    assert len(calls) == 2


def test_a_step_that_failed_for_good_can_be_caught(app, name):
    @app.workflow(name=name, initial_interval='0')
    def flow(ctx):
        def fail():
            calls.append(1)
            raise ValueError('no')
        try:
            ctx.step('fail', fail, max_attempts=2)
        except pgqrs.StepFailed as e:
            return [e.type, str(e), ctx.step('instead', lambda: 'b')]

    calls = []
    assert run(app, flow) == ['ValueError', 'no', 'b']
    assert len(calls) == 2


def test_steps_within_a_step_are_plain_calls_or_refused(app, name, db):
    @pgqrs.step
    def inner():
        return 1

    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        def outer():
            return inner() + 1

        def wrong():
            return ctx.step('inner', inner)
        assert ctx.step('outer', outer) == 2
        ctx.step('wrong', wrong)

    with pytest.raises(pgqrs.RunFailed) as failed:
        run(app, flow)
    assert failed.value.type == 'InvalidStep'
    assert inner() == 1


@pytest.mark.parametrize('id', ['', 'x' * 256, 7])
def test_a_step_id_that_cannot_be_one_is_a_clear_error(app, name, id):
    @app.workflow(name=name)
    def flow(ctx):
        ctx.step(id, lambda: 1)

    with pytest.raises(pgqrs.RunFailed) as failed:
        run(app, flow)
    assert failed.value.type == 'InvalidStep'
    assert '1 to 255 bytes' in str(failed.value)


def test_a_step_id_with_a_nul_is_not_cut(app, name):
    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        ctx.step('a\0b', lambda: 1)

    with pytest.raises(pgqrs.RunFailed) as failed:
        run(app, flow)
    assert 'DataError' in failed.value.type


@pytest.mark.parametrize('threshold, seen', [(5, [1, 0, 0, 1]), (None, [0, 0, 0, 0])], ids=['prepares', 'does not'])
def test_prepared_statements_may_be_thrown_away_and_switched_off(name, threshold, seen):
    app = pgqrs.App(prepare_threshold=threshold)

    @app.workflow(name=name)
    def flow(ctx):
        def look(conn):
            found = conn.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'pgqrs_%'").fetchone()[0]
            conn.execute('DEALLOCATE ALL')
            return found

        def both(id):
            assert ctx.step(id, lambda: id) == id
            return ctx.transaction(f'after {id}', look)
        return [both(id) for id in ('one', 'zwei ä', 'three', 'four')]

    assert run(app, flow) == seen
    app.close()


def test_a_prepared_call_that_is_refused_is_made_once(name, db):
    db.execute(f'CREATE SEQUENCE {name}')
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero) as refused:
            ask(db, "SELECT nextval(%s) / 0 > 0", [name])
        assert refused.value.diag.message_primary == 'division by zero'
    assert db.execute(f'SELECT last_value FROM {name}').fetchone() == (2,)


def test_what_could_not_be_prepared_is_prepared_later(name, db):
    sql = f'SELECT count(*) = %s FROM {name}'
    assert ask(db, sql, [0]) is None
    db.execute(f'CREATE TABLE {name} ()')
    assert ask(db, sql, [0]) is True
    db.pgqrs_prepared.clear()           # the server still has it
    assert ask(db, sql, [1]) is False


def test_a_run_whose_finished_steps_are_gone_goes_on_to_its_next_call(app, name, monkeypatch):
    begin = pgqrs.run.Run.__init__
    monkeypatch.setattr(pgqrs.run.Run, '__init__', lambda run, worker, claim: begin(run, worker, {**claim, 'steps_truncated': True}))
    assert run(app, app.workflow(lambda ctx: ctx.step('a', lambda: 1), name=name, max_attempts=1)) == 1


@pytest.mark.parametrize('output', [object(), float('nan'), 'a\0b', '\ud800', {1: {2: lambda: 0}}],
                         ids=['object', 'nan', 'nul', 'surrogate', 'function'])
def test_an_output_that_is_no_json_is_a_clear_error(app, name, output):
    @app.workflow(name=name)
    def flow(ctx, where):
        return ctx.step('x', lambda: output) if where == 'step' else output

    app.install()
    handles = [app.start(flow, where) for where in ('step', 'run')]
    testing.drain(app)
    for handle in handles:
        with pytest.raises(pgqrs.RunFailed) as failed:
            handle.result(0)
        assert failed.value.type == 'NotSerializable'


def test_async_steps_run_side_by_side(app, name):
    @app.workflow(name=name)
    async def flow(ctx):
        started = asyncio.Event()

        async def one():
            await asyncio.wait_for(started.wait(), 60)
            return 1

        async def two(conn):
            started.set()
            return (await (await conn.execute('SELECT 2')).fetchone())[0]
        return await asyncio.gather(ctx.step('one', one), ctx.transaction('two', two), ctx.step('three', lambda: 3))

    assert run(app, flow) == [1, 2, 3]
