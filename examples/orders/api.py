"""The shop's HTTP API: python3 api.py PORT

    POST   /orders                  {"item", "customer"}, with a header Idempotency-Key
    GET    /orders/ID
    POST   /orders/ID/shipped       {"parcel"}
    DELETE /orders/ID
"""
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pgqrs
from shop import Order, app, process


def create(request, key):
    """The order and its run, in one transaction: both or none."""
    with app.connect() as conn, conn.transaction():
        row = conn.execute('INSERT INTO orders (item, customer, request) VALUES (%s, %s, %s) ON CONFLICT (request) DO NOTHING '
                           'RETURNING order_id', (request['item'], request['customer'], key)).fetchone()
        if row is None:
            return find('request', key)     # the same request, once more
        run = process.start(Order(row[0], request['item'], request['customer']), key=f'order {row[0]}', conn=conn)
        conn.execute('UPDATE orders SET run_id = %s WHERE order_id = %s', (run.run_id, row[0]))
    return find('order_id', row[0])


def find(column, value):
    with app.connect() as conn:
        row = conn.execute('SELECT order_id, o.run_id, state, r.status, r.progress, r.output, r.error FROM orders o, '
                           f'LATERAL pgqrs_get_run(o.run_id) r WHERE {column} = %s', (value,)).fetchone()
    return row and dict(zip(('order_id', 'run_id', 'state', 'status', 'progress', 'output', 'error'), row))


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body):
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get('Content-Length') or 0)) or '{}')

    def order(self, suffix=''):
        """The order that the path names, or an answer that there is none."""
        match = re.fullmatch(f'/orders/(\\d+){suffix}', self.path)
        found = match and find('order_id', match[1])
        if not found:
            self.answer(404, {'error': 'there is no such order'})
        return found

    def do_POST(self):
        if self.path == '/orders':
            self.answer(202, create(self.body(), self.headers['Idempotency-Key']))
        elif order := self.order('/shipped'):
            try:
                app.signal(order['run_id'], 'shipped', self.body()['parcel'], key='shipped')
                self.answer(202, find('order_id', order['order_id']))
            except pgqrs.InvalidState as e:
                self.answer(409, {'error': str(e)})

    def do_GET(self):
        if order := self.order():
            self.answer(200, order)

    def do_DELETE(self):
        if order := self.order():
            app.handle(order['run_id']).cancel('by the customer')
            self.answer(202, find('order_id', order['order_id']))

    def log_message(self, *args):
        pass


if __name__ == '__main__':
    ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
