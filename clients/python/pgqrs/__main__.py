"""python -m pgqrs work MODULE:APP: runs a worker."""
from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from .app import App
from .errors import PgqrsError


def find(name: str) -> App:
    module, _, attribute = name.partition(':')
    sys.path.insert(0, os.getcwd())
    app = getattr(importlib.import_module(module), attribute or 'app')
    if not isinstance(app, App):
        raise SystemExit(f'{name} is no pgqrs.App')
    return app


def main() -> int:
    parser = argparse.ArgumentParser(prog='pgqrs', description='Workers of pgqrs.')
    commands = parser.add_subparsers(dest='command', required=True)
    for command, text in (('work', 'work until SIGTERM'), ('install', 'make the workflows, queues and schedules')):
        sub = commands.add_parser(command, help=text)
        sub.add_argument('app', help='MODULE:NAME of a pgqrs.App')
    work = commands.choices['work']
    work.add_argument('--concurrency', type=int, default=10, help='runs and messages at once (10)')
    work.add_argument('--grace', type=float, default=30, help='seconds to end in after SIGTERM (30)')
    work.add_argument('--name', help='name of the worker')
    work.add_argument('--install', action='store_true', help='first make the workflows, queues and schedules')
    args = parser.parse_args()
    logging.basicConfig(level=os.environ.get('PGQRS_LOG', 'INFO'), format='%(asctime)s %(levelname)s %(name)s: %(message)s')
    app = find(args.app)
    try:
        if args.command == 'install' or args.install:
            app.install()
        if args.command == 'work':
            app.work(concurrency=args.concurrency, grace=args.grace, name=args.name)
    except PgqrsError as e:
        print(f'pgqrs: {e}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
