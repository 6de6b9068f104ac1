"""The workflows of a shop: python3 -m pgqrs work shop:app"""
import dataclasses
import json
import os
import urllib.request

import pgqrs

app = pgqrs.App()           # PGHOST, PGDATABASE and so on say where
BANK = os.environ.get('BANK', 'http://127.0.0.1:8090')
SHIPPING_TIME = float(os.environ.get('SHIPPING_TIME', 14 * 86400))


@dataclasses.dataclass
class Order:
    order_id: int
    item: str
    customer: str


# A transaction: its writes commit together with the record that it was done.

@pgqrs.transaction
def reserve(conn, order: Order) -> None:
    taken = conn.execute('UPDATE stock SET amount = amount - 1 WHERE item = %s AND amount > 0', (order.item,))
    if taken.rowcount == 0:
        raise pgqrs.Permanent(f'{order.item} is sold out', type='sold_out')


@pgqrs.transaction
def put_back(conn, order: Order) -> None:
    conn.execute('UPDATE stock SET amount = amount + 1 WHERE item = %s', (order.item,))


@pgqrs.transaction
def set_state(conn, order: Order, state: str) -> None:
    conn.execute('UPDATE orders SET state = %s WHERE order_id = %s', (state, order.order_id))


# A step: no transaction is open while it works. It may be executed again after a crash, so
# the bank is given a key by which it knows that.

@pgqrs.step(max_attempts=8)
def charge(order: Order) -> str:
    answer = bank({'key': f'order {order.order_id}', 'customer': order.customer, 'amount': 100})
    if answer.get('declined'):
        raise pgqrs.Permanent('the bank declined', type='declined')
    return answer['receipt']


@pgqrs.step(max_attempts=-1)        # -1: until it succeeds
def refund(order: Order) -> str:
    return bank({'key': f'refund of order {order.order_id}', 'customer': order.customer, 'amount': -100})['receipt']


def bank(request: dict) -> dict:
    with urllib.request.urlopen(BANK, json.dumps(request).encode(), timeout=10) as answer:
        return json.load(answer)


@app.workflow(name='shop.order', on_cancel='deliver', initial_interval='100 ms')
def process(run: pgqrs.Context, order: Order) -> dict:
    reserved = receipt = None
    try:
        reserve(order)
        reserved = True
        receipt = charge(order)
        set_state(order, 'paid')
        run.progress({'stage': 'waiting for the parcel'})
        parcel = run.receive('shipped', timeout=SHIPPING_TIME)      # no worker is kept busy meanwhile
        set_state(order, 'shipped')
        invoice = run.child(make_invoice, {'order_id': order.order_id, 'amount': 100})
        return {'receipt': receipt, 'parcel': parcel, 'invoice': invoice}
    except (pgqrs.Cancelled, pgqrs.Failure, pgqrs.SignalTimeout):
        # The handler has run up to here again, so the variables tell what is to be undone. These are steps too.
        if receipt:
            refund(order)
        if reserved:
            put_back(order)
        set_state(order, 'given up')
        raise


@app.workflow(name='shop.invoice')
def make_invoice(run: pgqrs.Context, request: dict) -> str:
    @pgqrs.transaction
    def write(conn):
        conn.execute('INSERT INTO invoices (order_id, amount) VALUES (%(order_id)s, %(amount)s)', request)
    write()
    # A worker in TypeScript sends it: mail.ts.
    app.produce('shop.mail', {'invoice of order': request['order_id']}, key=f'invoice {request["order_id"]}')
    return f'I-{request["order_id"]}'


@app.workflow(name='shop.report')
def report(run: pgqrs.Context) -> int:
    @pgqrs.transaction
    def count(conn) -> int:
        return conn.execute('INSERT INTO reports (orders) SELECT count(*) FROM orders RETURNING orders').fetchone()[0]
    return count()


app.schedule('0 6 * * *', report, timezone='Europe/Berlin', name='shop.daily report')
