"""A relay between a client and the server, which loses what it is told to lose.

Each rule is for the next statements that contain a text.  Such a statement is executed, and instead
of its answer the client is told that the connection ends; or (cut) it never arrives.
"""
import os
import re
import socket
import struct
import threading


class Rule:
    def __init__(self, text, after, times, cut):
        self.text, self.after, self.times, self.cut = text.lower(), after and after.lower(), times, cut


class Relay:
    def __init__(self, folder):
        self.folder = folder
        self.rules = []
        self.done = 0               # what was lost or cut
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(folder, '.s.PGSQL.5432'))
        self.listener.listen(20)
        threading.Thread(target=self.accept, daemon=True).start()

    def rule(self, text, after, times, cut):
        self.rules.append(Rule(text, after, times, cut))

    def left(self):
        return ', '.join(rule.text for rule in self.rules if rule.times > 0)

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.socket(socket.AF_UNIX)
                server.connect(f'{os.environ["PGHOST"]}/.s.PGSQL.{os.environ.get("PGPORT", 5432)}')
            except OSError:
                client.close()
                continue
            Pair(self, client, server)

    def judge(self, text):
        """None, lose or cut."""
        with self.lock:
            for rule in self.rules:
                if rule.after is not None:
                    if rule.after in text:
                        rule.after = None
                elif rule.times > 0 and rule.text in text:
                    rule.times -= 1
                    self.done += 1
                    return 'cut' if rule.cut else 'lose'
        return None


class Pair:
    """A connection."""

    def __init__(self, relay, client, server):
        self.relay, self.client, self.server = relay, client, server
        self.losing = False
        self.prepared = {}          # texts by name
        threading.Thread(target=self.to_server, daemon=True).start()
        threading.Thread(target=self.to_client, daemon=True).start()

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def read(end, size):
        data = b''
        while len(data) < size:
            more = end.recv(size - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def message(self, end):
        head = self.read(end, 5)
        return head[:1], head + self.read(end, struct.unpack('!I', head[1:])[0] - 4)

    def statement(self, kind, message):
        """The text of the statement that a message executes."""
        if kind == b'P':
            name, text = message[5:].split(b'\0', 2)[:2]
            self.prepared[name] = text
        elif kind == b'B':
            return self.prepared.get(message[5:].split(b'\0', 2)[1], b'')
        elif kind == b'Q':
            return message[5:]
        return None

    def to_server(self):
        try:
            while True:             # requests without a type: encryption, cancel, startup
                length = self.read(self.client, 4)
                rest = self.read(self.client, struct.unpack('!I', length)[0] - 4)
                self.server.sendall(length + rest)
                if struct.unpack('!I', rest[:4])[0] >> 16 == 3:
                    break
            while True:
                kind, message = self.message(self.client)
                text = self.statement(kind, message)
                verdict = text and self.relay.judge(re.sub(r'\s+', ' ', text.decode('utf-8', 'replace').lower()))
                if verdict == 'cut':
                    break
                self.losing = self.losing or verdict == 'lose'
                self.server.sendall(message)
        except OSError:
            pass
        self.close()

    def to_client(self):
        try:
            while True:
                kind, message = self.message(self.server)
                if not self.losing:
                    self.client.sendall(message)
                elif kind == b'Z':
                    break
        except OSError:
            pass
        self.close()
