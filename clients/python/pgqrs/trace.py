"""Trace context of W3C in headers, and spans where opentelemetry-api is installed."""
from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Iterator, Optional

try:
    from opentelemetry import propagate, trace
except ImportError:
    propagate = trace = None

FIELDS = ('traceparent', 'tracestate')

# The headers of what is being worked on.
received: contextvars.ContextVar[Any] = contextvars.ContextVar('pgqrs_headers', default=None)


def outgoing(headers: Optional[dict[str, Any]]) -> Optional[dict[str, Any]]:
    """The headers of something that is sent: with the current trace, unless they name one."""
    if headers and 'traceparent' in headers:
        return headers
    carrier: dict[str, Any] = {}
    if propagate is not None:
        propagate.inject(carrier)
    if not carrier:
        came = received.get() or {}
        carrier = {field: came[field] for field in FIELDS if field in came}
    return {**carrier, **(headers or {})} or None


def span(name: str, headers: Optional[dict[str, Any]] = None, **attributes: Any) -> contextlib.AbstractContextManager[None]:
    """A span around a block; headers: its parent is in there."""
    return contextlib.nullcontext() if trace is None else _span(name, headers, attributes)


@contextlib.contextmanager
def _span(name: str, headers: Optional[dict[str, Any]], attributes: dict[str, Any]) -> Iterator[None]:
    parent = None if headers is None else propagate.extract(headers)
    tracer = trace.get_tracer('pgqrs')
    with tracer.start_as_current_span(name, context=parent, record_exception=False, set_status_on_exception=False,
                                      attributes={f'pgqrs.{key}': value for key, value in attributes.items()}) as current:
        try:
            yield
        except Exception as e:
            current.record_exception(e)
            current.set_status(trace.Status(trace.StatusCode.ERROR, type(e).__name__))
            raise
