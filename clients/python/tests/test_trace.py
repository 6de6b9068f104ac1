"""Trace context in headers, and spans."""
from __future__ import annotations

import contextlib
import types

import pgqrs
from pgqrs import testing, trace

PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'


def test_a_trace_goes_with_runs_messages_children_and_signals(app, name, db):
    @app.workflow(name=f'{name}.child')
    def child(ctx):
        return ctx.headers['traceparent']

    @app.workflow(name=name)
    def flow(ctx):
        app.produce(f'{name}.q', 1)
        return [ctx.child(child), app.start(child).run_id]

    app.queue(f'{name}.q', raw=True)(lambda message: got.append(message.headers))
    got = []
    app.install()
    handle = app.start(flow, headers={'traceparent': PARENT, 'tracestate': 'a=b', 'mine': 1})
    testing.drain(app)
    traceparent, other = handle.result(0)
    assert traceparent == PARENT
    assert app.handle(other).result(0) == PARENT
    assert got and all(headers == {'traceparent': PARENT, 'tracestate': 'a=b'} for headers in got)


def test_spans_are_made_where_opentelemetry_is_installed(app, name, monkeypatch):
    spans = []

    class Tracer:
        @contextlib.contextmanager
        def start_as_current_span(self, name, context, attributes, **_):
            spans.append((name, context))
            yield types.SimpleNamespace(record_exception=lambda e: spans.append(e), set_status=lambda s: None)

    monkeypatch.setattr(trace, 'trace', types.SimpleNamespace(
        get_tracer=lambda _: Tracer(), Status=lambda *_: None, StatusCode=types.SimpleNamespace(ERROR=2)))
    monkeypatch.setattr(trace, 'propagate', types.SimpleNamespace(
        extract=lambda headers: headers.get('traceparent'), inject=lambda carrier: carrier.update(traceparent='current')))

    @app.workflow(name=name, max_attempts=1)
    def flow(ctx):
        ctx.step('first', lambda: 1)
        raise ValueError('x')

    app.install()
    app.start(flow)
    testing.drain(app)
    assert spans[:2] == [(name, 'current'), ('first', None)]
    assert isinstance(spans[2], ValueError)
    assert trace.outgoing({'traceparent': 'given'}) == {'traceparent': 'given'}
