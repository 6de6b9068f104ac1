"""What clients sent and what they were answered, as files of JSON lines.

A folder is a history:

  client-NAME.jsonl  one per client: a line when a transaction is sent, another
                     when its end is known, so that nothing is lost with a client
  kills.jsonl        what was killed, and when the server was back
  tables.json        the tables, "quiet" when the clients had ended, and "final"
                     when all runs had been worked off

Every instant is taken twice: "at" by the machine's monotonic clock, which all
processes share, and "wall" by the clock that the server reads too.
"""

import glob
import json
import os
import time
from dataclasses import dataclass, field

# What became of a transaction: committed for sure, for sure not, or one of them.
DONE, UNDONE, MAYBE = 'done', 'undone', 'maybe'
NEVER = float('inf')

# The answer to a call that changes nothing any more.
TERMINAL = ('SUCCESS', 'ERROR', 'CANCELLED')


class Log:
    """One client's file; a line is written with one write, or not at all."""

    def __init__(self, folder, name):
        self.name = name
        self.sent_count = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.fd = os.open(os.path.join(folder, f'{name}.jsonl'), flags, 0o644)

    def write(self, **line):
        line.update(at=time.monotonic(), wall=time.time())
        os.write(self.fd, (json.dumps(line) + '\n').encode())

    def next_nonce(self):
        """Names the transaction that is sent next, in all of the history."""
        return f'{self.name}.{self.sent_count + 1}'

    def sent(self, calls, commit):
        self.sent_count += 1
        self.write(n=self.sent_count, calls=calls, commit=commit)
        return self.sent_count

    def got(self, n, **answer):
        self.write(n=n, **answer)


@dataclass
class Call:
    """One call of a function, and what became of it."""
    nonce: str
    function: str
    args: dict
    fate: str
    start: float
    wall: float
    end: float = NEVER
    wall_end: float = NEVER
    result: object = None
    error: str = None
    message: str = None
    together: tuple = field(default=(), repr=False)  # functions of its transaction

    def __str__(self):
        answer = self.error or json.dumps(self.result)
        return f'{self.nonce} {self.function}({json.dumps(self.args)}) {self.fate}: {answer}'


def fate_of(sent, got):
    if not sent['commit'] or (got and ('error' in got or got.get('early'))):
        return UNDONE
    return DONE if got and 'results' in got else MAYBE


def calls_of(name, sent, got):
    """The calls of one transaction; got is None if its end is not known."""
    together = tuple(c['f'] for c in sent['calls'])
    for i, c in enumerate(sent['calls']):
        call = Call(nonce=f"{name}.{sent['n']}", function=c['f'], args=c['a'],
                    fate=fate_of(sent, got), start=sent['at'], wall=sent['wall'],
                    together=together)
        if got:
            call.end, call.wall_end = got['at'], got['wall']
            if 'results' in got:
                call.result = got['results'][i]
            elif 'error' in got and got['call'] == i:
                call.error, call.message = got['error'], got['message']
        yield call


def read_lines(path):
    with open(path) as file:
        for line in file:
            if line.endswith('\n'):
                yield json.loads(line)


def calls_in(name, lines):
    """The calls of one client."""
    sent = {}
    for line in lines:
        if 'calls' in line:
            sent[line['n']] = line
        else:
            yield from calls_of(name, sent.pop(line['n']), line)
    for line in sent.values():
        yield from calls_of(name, line, None)


@dataclass
class History:
    calls: list
    kills: list
    quiet: dict
    final: dict

    @classmethod
    def of(cls, logs, tables):
        """logs: the lines of each file, by its name"""
        calls = [call for name, lines in logs.items() if name.startswith('client')
                 for call in calls_in(name, lines)]
        calls.sort(key=lambda c: c.start)
        return cls(calls, logs.get('kills', []), tables['quiet'], tables['final'])

    @classmethod
    def read(cls, folder):
        return cls.of(*read_files(folder))


def read_files(folder):
    logs = {}
    for path in glob.glob(os.path.join(folder, '*.jsonl')):
        logs[os.path.basename(path)[:-len('.jsonl')]] = list(read_lines(path))
    with open(os.path.join(folder, 'tables.json')) as file:
        return logs, json.load(file)
