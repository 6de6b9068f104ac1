"""A PostgreSQL server of its own, which survives what is done to it."""

import os
import re
import subprocess
import time

import psycopg2

SETTINGS = """
listen_addresses = ''
shared_preload_libraries = 'pgqrs'
max_connections = 60
max_prepared_transactions = 20
fsync = off
wal_writer_delay = 2s
deadlock_timeout = 100ms
autovacuum_naptime = 1s
lc_messages = 'C'
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%a '
pgqrs.worker_timeout = 6s
pgqrs.heartbeat_flush = 500ms
pgqrs.audit = on
"""

CRASH = re.compile(r'PANIC:|TRAP:|terminated by signal (4|6|7|8|11):')
PATIENCE = 120      # seconds that a server may take to come back


class Server:
    """fsync is off: processes die here, the machine does not, and what was
    written stays written.  What is committed asynchronously is written late, so
    that crashes do lose it."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.data = os.path.join(self.folder, 'data')
        self.socket = self.folder
        self.log = os.path.join(self.folder, 'server.log')
        self.database = 'postgres'

    def create(self, settings=SETTINGS):
        self._run('initdb', '-D', self.data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8',
                  '--locale=C.UTF-8', '--no-sync', '--no-instructions')
        with open(os.path.join(self.data, 'postgresql.conf'), 'a') as conf:
            conf.write(settings + f"unix_socket_directories = '{self.socket}'\n")

    def _run(self, *command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}")

    def start(self):
        # not through a pipe, which the server would keep open
        subprocess.run(['pg_ctl', 'start', '-s', '-w', '-t', str(PATIENCE), '-D', self.data, '-l', self.log],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)

    def stop(self, mode):
        self._run('pg_ctl', 'stop', '-s', '-w', '-t', str(PATIENCE), '-m', mode, '-D', self.data)

    def end(self):
        """Stops it if it runs."""
        if os.path.exists(os.path.join(self.data, 'postmaster.pid')):
            self.stop('immediate')

    def crashes(self):
        """Crashes in its log that the test did not cause."""
        with open(self.log) as log:
            return [line.strip() for line in log if CRASH.search(line)]

    def connect(self, name='chaos', patience=PATIENCE):
        """A connection in autocommit mode, as soon as there is one to be had."""
        deadline = time.monotonic() + patience
        while True:
            try:
                connection = psycopg2.connect(host=self.socket, user='postgres', dbname=self.database,
                                              application_name=name, options='-c client_min_messages=error')
                connection.autocommit = True
                return connection
            except psycopg2.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def query(self, sql, *args):
        """The rows of a query, which is repeated until it is answered."""
        while True:
            connection = self.connect()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(sql, args or None)
                    return cursor.fetchall() if cursor.description else []
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                time.sleep(0.02)
            finally:
                connection.close()
