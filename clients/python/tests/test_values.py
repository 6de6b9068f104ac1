"""Values in and out."""
from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Dict, List, Optional

import pytest

import pgqrs
from conftest import run
from pgqrs import testing
from pgqrs.codec import build, encode


class Size(enum.Enum):
    SMALL = 's'


@dataclasses.dataclass
class Item:
    name: str
    price: decimal.Decimal
    size: Size = Size.SMALL


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    items: List[Item]
    by_name: Dict[str, Item]
    due: Optional[datetime.date] = None


def order() -> Order:
    item = Item('pen', decimal.Decimal('1.20'))
    return Order(uuid.UUID(int=7), [item], {'pen': item}, datetime.date(2026, 1, 2))


def test_dataclasses_go_in_and_out(app, name):
    seen = []

    @app.workflow(name=name)
    def flow(ctx, o: Order) -> Order:
        def price(o: Order) -> Item:
            return o.items[0]
        seen.append((o, ctx.step('price', price, o)))
        ctx.receive('go')
        return o

    app.install()
    handle = app.start(flow, order())
    handle.signal('go')
    testing.drain(app)
    assert handle.result(0) == order()
    testing.drain(app)
    assert seen[0] == (order(), order().items[0])


def test_what_is_stored_is_built_again():
    assert build(json.loads(encode(order())), Order) == order()
    assert build(json.loads(encode({'a': (1, 2)})), dict) == {'a': [1, 2]}
    assert build([1, '2026-01-02T03:04:05'], tuple[int, datetime.datetime]) == (1, datetime.datetime(2026, 1, 2, 3, 4, 5))


def test_pydantic_models_go_in_and_out(app, name):
    pydantic = pytest.importorskip('pydantic')

    class Mail(pydantic.BaseModel):
        to: str
        at: datetime.datetime

    def flow(ctx, mail) -> Mail:
        return mail
    flow.__annotations__.update({'mail': Mail, 'return': Mail})
    mail = Mail(to='ada', at=datetime.datetime(2026, 1, 2))
    assert run(app, app.workflow(flow, name=name), mail) == mail


def test_an_input_that_does_not_fit_fails_at_once(app, name):
    @app.workflow(name=name)
    def flow(ctx, o: Order):
        return 1

    with pytest.raises(pgqrs.RunFailed) as failed:
        run(app, flow, {'id': 'x'})
    assert failed.value.type == 'InvalidInput'
    assert 'Order' in str(failed.value)


def test_an_annotation_that_names_nothing_is_refused_before_work(app, name):
    @app.workflow(name=name)
    def flow(ctx, o: Nothing):      # noqa: F821
        return 1

    with pytest.raises(pgqrs.PgqrsError, match='Nothing'):
        pgqrs.Worker(app)


def test_a_codec_hides_what_is_stored(name, db):
    class Secret(pgqrs.Codec):
        def encode(self, value):
            import json
            return {'secret': json.dumps(value)[::-1]}

        def decode(self, value):
            import json
            return None if value is None else json.loads(value['secret'][::-1])

    app = pgqrs.App(codec=Secret())

    @app.workflow(name=name)
    def flow(ctx, text):
        signal = ctx.receive('go')
        return ctx.step('join', lambda: text + signal)

    app.install()
    handle = app.start(flow, 'plain input')
    handle.signal('go', 'plain signal')
    testing.drain(app)
    assert handle.result(0) == 'plain inputplain signal'
    app.queue(f'{name}.q')(print)
    app.install()
    app.produce(f'{name}.q', 'plain payload')
    rows = db.execute("SELECT string_agg(r::text, '') FROM (SELECT r.*, s.output FROM pgqrs_runs r JOIN pgqrs_steps s USING (run_id) "
                      'WHERE run_id = %s) AS r', (handle.run_id,)).fetchone()[0]
    rows += db.execute('SELECT payload::text FROM pgqrs_peek(%s)', (f'{name}.q',)).fetchone()[0]
    assert 'secret' in rows and 'plain' not in rows
    got = []
    assert app.consume(f'{name}.q', got.append) == 1
    assert got == ['plain payload']
