"""The whole application: the API, a bank, and two workers that are killed."""
import collections
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import psycopg
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = float(os.environ.get('PG_TEST_TIMEOUT_DEFAULT', 180))


class Bank(http.server.BaseHTTPRequestHandler):
    """Fails at the first try of each payment, and knows a repeated one by its key."""
    tries = collections.Counter()
    booked = {}

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        key = request['key']
        self.tries[key] += 1
        self.send_response(503 if self.tries[key] == 1 else 200)
        self.end_headers()
        if self.tries[key] > 1:
            declined = request['customer'] == 'poor'
            if not declined:
                self.booked[key] = request['amount']
            self.wfile.write(json.dumps({'declined': declined, 'receipt': f'R {key}'}).encode())

    def log_message(self, *args):
        pass


class Relay(http.server.BaseHTTPRequestHandler):
    """Of mails: fails at the first try of each, and knows a repeated one by its key."""
    tries = collections.Counter()
    sent = {}

    def do_POST(self):
        mail, key = self.rfile.read(int(self.headers['Content-Length'])), self.headers['Idempotency-Key']
        self.tries[key] += 1
        if self.tries[key] > 1:
            self.sent[key] = json.loads(mail)
        self.send_response(503 if self.tries[key] == 1 else 200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *args):
        pass


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f'this did not happen: {what}')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@pytest.fixture(scope='module')
def db():
    with psycopg.connect(autocommit=True) as connection:
        with open(f'{HERE}/schema.sql', encoding='utf-8') as file:
            connection.execute(file.read())
        connection.execute("INSERT INTO stock VALUES ('book', 10), ('lamp', 0)")
        yield connection


@pytest.fixture(scope='module')
def shop(db):
    """Calls the API; with two workers behind it."""
    bank = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Bank)
    threading.Thread(target=bank.serve_forever, daemon=True).start()
    port = free_port()
    environment = {**os.environ, 'BANK': f'http://127.0.0.1:{bank.server_port}', 'PYTHONUNBUFFERED': '1'}

    def run(*args, **more):
        return subprocess.Popen([sys.executable, *args], cwd=HERE, env={**environment, **more})
    subprocess.run([sys.executable, '-m', 'pgqrs', 'install', 'shop:app'], cwd=HERE, env=environment, check=True)
    api = run('api.py', str(port))

    def call(method, path, body=None, key=None):
        request = urllib.request.Request(f'http://127.0.0.1:{port}{path}', method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={'Idempotency-Key': key} if key else {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)
    call.workers = [run('-m', 'pgqrs', 'work', 'shop:app', '--name', name) for name in ('one', 'two')]
    call.run = run

    def answers():
        try:
            return call('GET', '/orders/0')
        except OSError:
            return None
    until(answers, 'the API answers')
    yield call
    until(lambda: db.execute("SELECT count(*) = 2 FROM pgqrs_worker_stats WHERE status = 'READY'").fetchone()[0], 'both workers are there')
    codes = []
    for worker in call.workers:
        worker.terminate()
    for worker in call.workers:
        codes.append(worker.wait(PATIENCE))
    api.kill()
    api.wait()
    bank.shutdown()
    assert codes == [0, 0], 'the workers end with 0'


def ended(shop, order):
    return until(lambda: (found := shop('GET', f'/orders/{order}')[1])['status'] in ('SUCCESS', 'ERROR', 'CANCELLED') and found,
                 f'order {order} ends')


def waits(shop, order):
    until(lambda: shop('GET', f'/orders/{order}')[1]['status'] == 'PAUSED', f'order {order} waits for its parcel')


def stock(db, item='book'):
    return db.execute('SELECT amount FROM stock WHERE item = %s', (item,)).fetchone()[0]


def test_order_is_paid_shipped_and_invoiced(shop, db):
    before = stock(db)
    status, order = shop('POST', '/orders', {'item': 'book', 'customer': 'ada'}, key='a')
    assert status == 202
    assert shop('POST', '/orders', {'item': 'book', 'customer': 'ada'}, key='a')[1]['order_id'] == order['order_id']
    waits(shop, order['order_id'])
    assert shop('GET', f'/orders/{order["order_id"]}')[1]['progress'] == {'stage': 'waiting for the parcel'}
    assert shop('POST', f'/orders/{order["order_id"]}/shipped', {'parcel': 'P-1'})[0] == 202
    found = ended(shop, order['order_id'])
    assert found['output'] == {'receipt': f'R order {order["order_id"]}', 'parcel': 'P-1', 'invoice': f'I-{order["order_id"]}'}
    assert (found['state'], stock(db)) == ('shipped', before - 1)
    assert db.execute('SELECT amount FROM invoices WHERE order_id = %s', (order['order_id'],)).fetchone() == (100,)


@pytest.mark.skipif('MAILER' not in os.environ, reason='MAILER does not name what mail.ts was compiled to')
def test_mailer_in_typescript_sends_each_invoice_once(shop, db):
    relay = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Relay)
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    mailer = subprocess.Popen(['node', os.environ['MAILER']], env={**os.environ, 'RELAY': f'http://127.0.0.1:{relay.server_port}'})
    order = shop('POST', '/orders', {'item': 'book', 'customer': 'ann'}, key='mail')[1]['order_id']
    waits(shop, order)
    shop('POST', f'/orders/{order}/shipped', {'parcel': 'P-2'})
    assert ended(shop, order)['status'] == 'SUCCESS'
    until(lambda: {'invoice of order': order} in Relay.sent.values(), 'the mail is sent')
    until(lambda: db.execute("SELECT count(*) = 0 FROM pgqrs_peek('shop.mail')").fetchone()[0], 'its message has ended')
    mailer.terminate()
    assert mailer.wait(PATIENCE) == 0
    relay.shutdown()
    mails = [mail['invoice of order'] for mail in Relay.sent.values()]
    assert sorted(mails) == sorted(set(mails))


def test_worker_dies(shop, db):
    before = stock(db)
    order = shop('POST', '/orders', {'item': 'book', 'customer': 'bob'}, key='b')[1]['order_id']
    shop.workers[0].send_signal(signal.SIGKILL)
    shop.workers[0].wait()
    last = "SELECT coalesce(max(worker_id), 0) FROM pgqrs_worker_stats WHERE worker = 'one'"
    dead = db.execute(last).fetchone()[0]
    shop.workers[0] = shop.run('-m', 'pgqrs', 'work', 'shop:app', '--name', 'one')
    until(lambda: db.execute(last).fetchone()[0] > dead, 'the worker is registered again')
    waits(shop, order)
    shop('POST', f'/orders/{order}/shipped', {'parcel': 'P'})
    assert ended(shop, order)['status'] == 'SUCCESS'
    assert (Bank.booked[f'order {order}'], stock(db)) == (100, before - 1)


def test_cancel_is_undone(shop, db):
    before = stock(db)
    order = shop('POST', '/orders', {'item': 'book', 'customer': 'cyd'}, key='c')[1]['order_id']
    waits(shop, order)
    assert stock(db) == before - 1
    assert shop('DELETE', f'/orders/{order}')[0] == 202
    found = ended(shop, order)
    assert (found['status'], found['state'], stock(db)) == ('CANCELLED', 'given up', before)
    assert Bank.booked[f'refund of order {order}'] == -100


def test_declined_order_gives_its_item_back(shop, db):
    before = stock(db)
    order = shop('POST', '/orders', {'item': 'book', 'customer': 'poor'}, key='d')[1]['order_id']
    found = ended(shop, order)
    assert (found['status'], found['error']['type'], found['state'], stock(db)) == ('ERROR', 'declined', 'given up', before)
    assert shop('POST', f'/orders/{order}/shipped', {'parcel': 'P'})[0] == 409


def test_sold_out(shop, db):
    order = shop('POST', '/orders', {'item': 'lamp', 'customer': 'eve'}, key='e')[1]['order_id']
    found = ended(shop, order)
    assert (found['error']['type'], stock(db, 'lamp')) == ('sold_out', 0)
    assert f'order {order}' not in Bank.tries


def test_parcel_does_not_come_in_time(shop, db):
    before = stock(db)
    order = shop('POST', '/orders', {'item': 'book', 'customer': 'fay'}, key='f')[1]
    waits(shop, order['order_id'])
    db.execute("SELECT pgqrs_advance(%s, '14 days')", (order['run_id'],))
    found = ended(shop, order['order_id'])
    assert (found['error']['type'], found['state'], stock(db)) == ('SignalTimeout', 'given up', before)
    assert Bank.booked[f'refund of order {order["order_id"]}'] == -100


def test_schedule(shop, db):
    run = db.execute("SELECT pgqrs_trigger_schedule('shop.daily report')").fetchone()[0]
    until(lambda: db.execute('SELECT status FROM pgqrs_get_run(%s)', (run,)).fetchone()[0] == 'SUCCESS', 'the report is made')
    assert db.execute('SELECT count(*) FROM reports').fetchone()[0] == 1
