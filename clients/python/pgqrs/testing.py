"""For tests of an application: a worker that ends when there is nothing to do, and time that passes at once."""
from __future__ import annotations

import asyncio
from typing import Any, Union

from .app import Calls
from .connection import Duration, call, interval
from .worker import Worker
from .workflow import Handle


def drain(app: Calls, **options: Any) -> None:
    """Works until there is nothing that can be claimed; options are those of Worker.

    In an event loop: await Worker(app, name=…).work(until_idle=True)."""
    options.setdefault('name', f'pgqrs.testing {id(app)}')
    asyncio.run(Worker(app, **options).work(until_idle=True))


def advance(app: Calls, run: Union[Handle, int], by: Duration) -> None:
    """Lets time pass for a run that sleeps, waits or is to be tried again, and works until there is nothing to do."""
    with app.connect() as connection:
        connection.execute(*call(app.qualified('pgqrs_advance'), [getattr(run, 'run_id', run), interval(by)]))
    drain(app)
