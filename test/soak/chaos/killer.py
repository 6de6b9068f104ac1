"""Kills processes of the server and its clients, and writes down what and when."""

import os
import signal
import time

# What is done, and how often against the others.
KINDS = {
    'backend -9': 3,            # the server ends all of its processes and recovers
    'background worker -9': 2,
    'launcher -9': 1,
    'immediate stop': 2,
    'fast restart': 3,          # after a clean start claims are asynchronous again
    'backend -TERM': 3,
    'background worker -TERM': 2,
    'launcher -TERM': 1,
    'client -9': 3,
    'client in a transaction': 3,
    'worker -9': 3,
    'worker -TERM': 2,
}

# After these, what was not flushed is gone.
CRASHES = ('backend -9', 'background worker -9', 'launcher -9', 'immediate stop')

PROCESSES = {
    'backend': "application_name = 'chaos client'",
    'background worker': "backend_type = 'pgqrs worker'",
    'launcher': "backend_type = 'pgqrs launcher'",
}


class Killer:
    def __init__(self, server, clients, workers, log, rng):
        self.server, self.clients, self.workers, self.log, self.rng = server, clients, workers, log, rng
        self.counts = {}

    def choose(self):
        """Each kind once, then as often as it is worth."""
        left = [k for k in KINDS if k not in self.counts]
        if left and sum(self.counts.values()) >= 3:
            return self.rng.choice(left)
        return self.rng.choices(list(KINDS), list(KINDS.values()))[0]

    def kill(self, kind=None):
        kind = kind or self.choose()
        begun, wall = time.monotonic(), time.time()
        killed = self.do(kind)
        if killed:
            self.server.query('SELECT 1')
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self.log.write(kind=kind, killed=killed, begun=begun, begun_wall=wall, crash=kind in CRASHES)
        return kind if killed else None

    def do(self, kind):
        if kind == 'immediate stop':
            self.server.stop('immediate')
            self.server.start()
            return True
        if kind == 'fast restart':
            self.server.stop('fast')
            self.server.start()
            return True
        if kind.startswith('client'):
            return self.clients.kill(signal.SIGUSR1 if kind.endswith('transaction') else signal.SIGKILL)
        what, how = kind.rsplit(' -', 1)
        if what == 'worker':
            return self.workers.kill(signal.SIGKILL if how == '9' else signal.SIGTERM)
        return self.kill_process(PROCESSES[what], signal.SIGKILL if how == '9' else signal.SIGTERM)

    def kill_process(self, condition, number):
        """False if there is none, though one may be waited for a little."""
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            rows = self.server.query(f'SELECT pid FROM pg_stat_activity WHERE {condition} ORDER BY pid')
            if rows:
                try:
                    os.kill(self.rng.choice(rows)[0], number)
                    return True
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        return False
