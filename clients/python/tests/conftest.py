"""What the tests share: an app for each, with names of its own."""
from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from typing import Any, Callable, Iterator

import psycopg
import pytest

import pgqrs
from pgqrs import testing

numbers = itertools.count(int(time.time() * 1000) % 10**9 * 1000)


@pytest.fixture
def app() -> Iterator[pgqrs.App]:
    made = pgqrs.App()
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A prefix for the names of one test."""
    return f't{next(numbers)}'


@pytest.fixture
def db() -> Iterator[psycopg.Connection]:
    with psycopg.connect(autocommit=True) as connection:
        yield connection


def until(condition: Callable[[], Any], what: str = 'it') -> Any:
    """Waits until something is true."""
    deadline = time.monotonic() + float(os.environ.get('PG_TEST_TIMEOUT_DEFAULT', 180))
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f'{what} has not become true')


def run(app: pgqrs.App, workflow: Any, input: Any = None) -> Any:
    """Installs, starts a run, works until there is nothing to do, and answers the output."""
    app.install()
    handle = app.start(workflow, input)
    testing.drain(app)
    return handle.result(0)


@contextlib.contextmanager
def working(app: Any, **options: Any) -> Iterator[pgqrs.Worker]:
    """A worker in a thread, which is drained at the end."""
    worker = pgqrs.Worker(app, **{'name': f'worker {next(numbers)}', 'grace': 600, **options})
    errors = []

    def work() -> None:
        try:
            asyncio.run(worker.work())
        except BaseException as e:
            errors.append(e)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    until(lambda: worker.worker_id or errors, 'the worker is registered')
    worker.errors, worker.thread = errors, thread
    try:
        yield worker
    finally:
        if thread.is_alive():
            worker.loop.call_soon_threadsafe(worker.drain)
            thread.join(700)
        assert not thread.is_alive(), 'the worker does not end'
