"""For tests of an application: a worker that ends when there is nothing to do, and time that passes at once."""
from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any, Union

from .app import App
from .connection import Duration, interval
from .worker import Worker
from .workflow import Handle

counter = itertools.count(1)


def drain(app: App, **options: Any) -> None:
    """Works until there is nothing that can be claimed; options are those of Worker."""
    asyncio.run(adrain(app, **options))


async def adrain(app: App, **options: Any) -> None:
    await Worker(app, **{'name': f'pgqrs.testing {os.getpid()} {next(counter)}', **options}).work(until_idle=True)


def advance(app: App, run: Union[Handle, int], by: Duration) -> None:
    """Lets time pass for a run that sleeps, waits or is to be tried again, and works until there is nothing to do."""
    app.call('pgqrs_advance', [getattr(run, 'run_id', run), interval(by)])
    drain(app)


async def aadvance(app: App, run: Union[Handle, int], by: Duration) -> None:
    await app.acall('pgqrs_advance', [getattr(run, 'run_id', run), interval(by)])
    await adrain(app)
