"""Calls every function of the extension with random arguments, from several
sessions at once, of roles that may work on what is theirs.

Half of the arguments are plausible (names, ids, leases and steps that there are or
were), the others are whatever their types can hold.  Each role marks what it sends;
calls are alone or several to a transaction, which may roll back.  A fault is:

  crash          a connection is lost, or the server has ended
  internal       an SQLSTATE of class XX
  undocumented   an SQLSTATE that the comment of the function does not name
  foreign        an answer or an error that holds another tenant's mark
  damaged        pgqrs_verify() finds something when all is over

The seed is printed; the same seed makes the same calls in each session, but they
meet as they come.
"""

import argparse
import collections
import json
import random
import re
import secrets
import sys
import threading
import time
import traceback

import psycopg2
import psycopg2.extensions

TENANTS = ("a", "b")
# role, the tenant whose rows it may see
ROLES = (
    ("fuzz_admin_a", "a"),
    ("fuzz_admin_b", "b"),
    ("postgres", "*"),
    ("fuzz_work_a", "a"),
    ("fuzz_admin_a", "a"),
    ("fuzz_admin_b", "b"),
    ("fuzz_trigger_b", "b"),
    ("fuzz_nothing", None),
    ("fuzz_read_a", "a"),
    ("fuzz_monitor_b", "b"),
)
SETUP = """
CREATE EXTENSION pgqrs;
CREATE ROLE fuzz_admin_a LOGIN;
CREATE ROLE fuzz_admin_b LOGIN;
CREATE ROLE fuzz_work_a LOGIN;
CREATE ROLE fuzz_trigger_b LOGIN;
CREATE ROLE fuzz_nothing LOGIN;
CREATE ROLE fuzz_read_a LOGIN;
CREATE ROLE fuzz_monitor_b LOGIN;
CREATE ROLE fuzz_grantee;
GRANT CREATE ON SCHEMA public TO PUBLIC;
SELECT pgqrs_grant('a.*', 'fuzz_admin_a', 'admin'), pgqrs_grant('b.*', 'fuzz_admin_b', 'admin'),
    pgqrs_grant('a.*', 'fuzz_work_a', 'work'), pgqrs_grant('a.*', 'fuzz_work_a', 'trigger'),
    pgqrs_grant('b.*', 'fuzz_trigger_b', 'trigger'),
    pgqrs_grant('a.*', 'fuzz_read_a', 'read'), pgqrs_grant('b.*', 'fuzz_monitor_b', 'monitor');
CREATE FUNCTION fuzz_done(payload jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION fuzz_fails(payload jsonb) RETURNS void LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'fails'; END$$;
CREATE FUNCTION fuzz_at_random(payload jsonb) RETURNS void LANGUAGE plpgsql AS
    $$BEGIN PERFORM 1 / floor(random() * 2)::int; END$$;
"""

# Instants, intervals and JSON stay text: Python's have narrower bounds.
for oid in (114, 1082, 1114, 1184, 1186, 3802):
    psycopg2.extensions.register_type(psycopg2.extensions.new_type((oid,), "TEXT%d" % oid, lambda value, cursor: value))

# Of any statement, and of any argument and role.
ALWAYS = {"40001", "40P01", "55P03", "57014", "25P02", "25006", "22004", "22023", "42501", "54000"}
# What the owner must not do here: it would use up the ids, or is a part of the report.
NOT_BY_OWNER = re.compile("pgqrs_(?:advance_sequences?|install_cron|html.*)$")
RARE = {"pgqrs_delete_queue": 0.1, "pgqrs_delete_workflow": 0.1, "pgqrs_purge_queue": 0.2,
        "pgqrs_report": 0.05, "pgqrs_verify": 0.02, "pgqrs_maintain": 0.3, "pgqrs_apply_retention": 0.3,
        "pgqrs_create_queue": 2, "pgqrs_create_workflow": 2, "pgqrs_enqueue": 3, "pgqrs_trigger": 3,
        "pgqrs_dequeue": 5, "pgqrs_step_begin": 3, "pgqrs_register_worker": 2}
VIEWS = ("pgqrs_runs", "pgqrs_steps", "pgqrs_run_parents", "pgqrs_events", "pgqrs_dead_letters", "pgqrs_in_flight",
         "pgqrs_queue_stats", "pgqrs_workflow_stats", "pgqrs_worker_stats", "pgqrs_schedule_list", "pgqrs_health",
         "pgqrs_live_runs", "pgqrs_signals", "pgqrs_sent_signals", "pgqrs_queues_list", "pgqrs_workflows_list",
         "pgqrs_histograms")
CODE = re.compile(r"\b(?:PQ0\d\d|[0-9][0-9A-Z]{4})\b")
OTHER = re.compile(r"\b(pgqrs_\w+)\(\)")
INTEGERS = {
    "int2": (0, 1, -1, 2**15 - 1, -2**15),
    "int4": (0, 1, -1, 2, 10, 100, 101, -100, -101, 10000, 10001, 2**31 - 1, -2**31),
    "int8": (0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, -2**63),
}
INTERVALS = ("0", "1 us", "1 ms", "1 s", "30 s", "1 h", "1 day", "366 days", "367 days", "1 mon", "-1 s", "-1 us",
             "178000000 years", "-178000000 years", "2147483647 days", "2562047788:00:54", "10000 years")
INSTANTS = ("infinity", "-infinity", "294276-12-31 23:59:59.999999+00", "4713-11-24 00:00 BC", "epoch", "now",
            "tomorrow", "yesterday", "2000-01-01", "1999-12-31 23:59:59.999999+00", "200000-01-01")
FLOATS = ("0", "-0", "1", "0.5", "2", "NaN", "Infinity", "-Infinity", "1e308", "-1e308", "5e-324")
NUMBERS = FLOATS[:8] + ("1e100", "-1e-100")
CRONS = ("@daily", "* * * * *", "0 0 31 2 *", "*/5 * * * *", "0 9 * * MON-FRI", "61 * * * *", "@every", "", "* * * *",
         "0 0 1-31/2 */3 7", "@hourly")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Nowhere/None", "", "EST5EDT", "+25", "posix/UTC")
WORDS = {
    "step_id": ("s0", "s1", "s2", "s3", "children"),
    "name": ("n0", "n1", "go"),
    "signal": ("go", "n0"),
    "cron": CRONS, "expression": CRONS, "timezone": ZONES,
    "status": ("QUEUED", "RUNNING", "PAUSED", "SUCCESS", "ERROR", "CANCELLED"),
    "privilege": ("monitor", "read", "trigger", "work", "admin"),
    "role": ("fuzz_grantee",),
    "handler": ("fuzz_done", "fuzz_fails", "fuzz_at_random", "public.fuzz_done", "nosuch", "now", "pgqrs_now"),
    "on_duplicate": ("return", "raise", "null", "replace", "replace_input"),
    "on_parent_end": ("cancel", "abandon", "request"),
    "on_cancel": ("end", "deliver"),
    "key_scope": ("all", "active", "live", "ended"),
    "overlap": ("allow", "skip", "cancel"),
    "page": ("", "queues", "queue", "runs", "run", "workers", "schedules", "dead", "do"),
    "action": ("cancel", "replay", "dismiss", "resume", "signal", "rerun", "pause_queue", "resume_queue", "replay_queue",
               "trigger_schedule", "enable_schedule", "cancel_runs", "replay_runs", "rerun_runs"),
}
# Parameters of pages, by what is plausible for them.
PARAMETERS = ("action", "queue", "workflow", "name", "status", "signal", "run", "message", "child", "from", "number",
              "matching", "after", "before", "tags", "payload", "output", "input", "step", "from_step", "reason", "error",
              "enabled", "refresh")
RESETS = ("visibility_timeout", "max_attempts", "max_in_flight", "retention", "dead_retention", "retry_policy",
          "timeout", "max_crashes", "outbox_queue", "nosuch")


def literal(text, typ):
    if text is None:
        return "NULL::" + typ
    return "'" + text.replace("'", "''") + "'::" + typ


class Function:
    def __init__(self, name, kind, args, variadic, documented):
        self.name, self.kind, self.args, self.variadic, self.documented = name, kind, args, variadic, documented


def load_functions(cursor, only):
    """The extension's functions, with their arguments and the SQLSTATEs of their comments."""
    cursor.execute("""
        SELECT p.proname, p.prokind::text, p.provariadic <> 0, coalesce(obj_description(p.oid, 'pg_proc'), ''),
            array(SELECT coalesce(p.proargnames[u.n], '') || ' ' || u.t::regtype
                || CASE WHEN u.n > p.pronargs - p.pronargdefaults THEN ' default' ELSE '' END
                FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS u (t, n) ORDER BY u.n)
        FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
        WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgqrs')
            AND p.prorettype <> 'trigger'::regtype
        ORDER BY p.proname""")
    comments, found = {}, []
    for name, kind, variadic, comment, args in cursor.fetchall():
        comments[name] = comment
        parsed = []
        for arg in args:
            arg_name, typ = arg.split(" ", 1)
            has_default = typ.endswith(" default")
            parsed.append((arg_name, typ[:-8] if has_default else typ, has_default))
        found.append(Function(name, kind, parsed, variadic, set()))

    def documented(name, seen):
        if name in seen or name not in comments:
            return set()
        seen.add(name)
        errors = comments[name].split("rror", 1)[-1]
        codes = set(CODE.findall(comments[name]))
        for other in OTHER.findall(errors):
            codes |= documented(other, seen)
        return codes

    for function in found:
        function.documented = documented(function.name, set()) | ALWAYS
    return [f for f in found if not only or f.name in only]


class Pool:
    """What was seen of a tenant: names, ids, and the leases of ids."""

    def __init__(self, tenant):
        self.lock = threading.Lock()
        self.ids = {kind: collections.deque(maxlen=100) for kind in ("message_id", "run_id", "worker_id", "lease")}
        self.leases = {}
        self.queues = ["%s.q%d" % (tenant, i) for i in range(4)]
        self.workflows = ["%s.w%d" % (tenant, i) for i in range(4)]
        self.schedules = ["%s.s%d" % (tenant, i) for i in range(3)]

    def add(self, kind, value):
        with self.lock:
            if value is not None and value not in self.ids[kind]:
                self.ids[kind].append(value)

    def add_lease(self, an_id, lease):
        with self.lock:
            self.ids["lease"].append(lease)
            self.leases[an_id] = lease
            if len(self.leases) > 2000:
                self.leases.pop(next(iter(self.leases)))

    def pick(self, rng, kind):
        with self.lock:
            ids = self.ids[kind]
            return rng.choice(ids) if ids else None


class Values:
    """Makes arguments for one session."""

    def __init__(self, rng, pools):
        self.rng, self.pools = rng, pools

    def begin(self, tenant, mark):
        # now and then the names and ids of the other tenant, never its mark
        self.pool = self.pools[tenant]
        if self.rng.random() < 0.15:
            self.pool = self.pools["b" if tenant == "a" else "a"]
        self.tenant, self.mark, self.chosen, self.listed = tenant, mark, None, None
        self.plausible = 0.97 if self.rng.random() < 0.6 else 0.5

    def letters(self, count):
        planes = ((0x20, 0x7E), (0x1, 0x1F), (0xA0, 0x24F), (0x300, 0x36F), (0x590, 0x6FF), (0x2000, 0x206F),
                  (0x4E00, 0x9FFF), (0xE000, 0xFFFD), (0x1F300, 0x1FAFF), (0x20000, 0x2FFFD), (0x10FF00, 0x10FFFF))
        low, high = self.rng.choice(planes)
        return "".join(chr(self.rng.randint(low, high)) for _ in range(count))

    def wild_text(self):
        rng = self.rng
        kind = rng.randrange(12)
        if kind == 0:
            return None
        if kind == 1:
            return rng.choice(("", " ", "*", ".", ".*", "a.*", "b.*", "**", "pgqrs.", "pgqrs.x", "a.", "%s%n%d", "NULL",
                               "'", '"', "\\", "--", "$$", "a.x\n", " a.x", "true", "{}", "[]"))
        if kind == 2:
            return "x" * rng.choice((254, 255, 256, 1000))
        if kind == 3 and rng.random() < 0.05:
            return self.mark + "y" * 1200000
        if kind == 4:
            return self.tenant + "." + self.mark + str(rng.randrange(4))
        if kind == 5:
            return self.letters(rng.choice((85, 127, 300)))
        if kind == 6:
            return self.mark
        return self.letters(rng.randint(1, 20))

    def json(self, depth=0):
        rng = self.rng
        kind = rng.randrange(14)
        if kind == 0:
            return "null"
        if kind == 1:
            return rng.choice(("0", "-1", "1e1000", "-0.000000000000000000001", "99999999999999999999", "true", "false"))
        if kind in (2, 3):
            return quoted(self.wild_text() or self.mark)
        if kind == 4 and depth == 0 and rng.random() < 0.2:
            levels = rng.choice((10, 500, 2000))
            return "[" * levels + quoted(self.mark) + "]" * levels
        if kind == 5 and depth == 0 and rng.random() < 0.05:
            return "[" + ",".join([quoted(self.mark)] * 150000) + "]"
        if kind == 6:
            return "{}"
        if kind == 7:
            return "[]"
        if kind in (8, 9):
            return '{"mark": %s, "n": %d}' % (quoted(self.mark), rng.randrange(10))
        if kind == 10 and depth < 3:
            return "[%s]" % ",".join(self.json(depth + 1) for _ in range(rng.randrange(4)))
        if kind == 11 and depth < 3:
            return "{%s}" % ",".join("%s: %s" % (quoted(self.letters(3)), self.json(depth + 1))
                                     for _ in range(rng.randrange(4)))
        return rng.choice(('{"type": "x", "message": %s}' % quoted(self.mark),
                           '{"max_attempts": %d, "initial_interval": "1 s"}' % rng.randint(-1, 5),
                           '{"max_attempts": 2, "backoff_coefficient": 1e400}', '{"jitter": 2}',
                           '{"run_id": %s}' % (self.pool.pick(rng, "run_id") or 0)))

    def parameters(self):
        """Those of a request for a page, which are texts."""
        rng, found = self.rng, []
        for name in rng.sample(PARAMETERS, rng.randrange(6)):
            if rng.random() < 0.2:
                value = self.wild_text()
            elif name in ("run", "message", "child", "from", "number", "matching"):
                value = str(self.an_id("message_id" if name == "message" else "run_id") if rng.random() < 0.7
                            else rng.choice(INTEGERS["int8"] + (2**63, 10**30, "1e5", "1.5")))
            elif name in ("after", "before"):
                value = rng.choice(INSTANTS + ("2026-02-31", "2000-01-01 25:00", "300000-01-01", "2000-01-01+99"))
            elif name in ("tags", "payload", "output", "input"):
                value = rng.choice(("a=b", '{"a": "\\u0000"}', self.json()))
            elif name == "refresh":
                value = "5"
            else:
                value = self.plausible_text("schedule" if name == "name" else "", name)
            if value is not None:
                found.append("%s: %s" % (quoted(name), quoted(value)))
        return "{%s}" % ", ".join(found)

    def an_id(self, name):
        rng = self.rng
        if name in ("message_id", "run_id"):
            # both are ids of messages
            kind = name if rng.random() < 0.8 else ("run_id" if name == "message_id" else "message_id")
            self.chosen = self.pool.pick(rng, kind)
            return self.chosen
        if name == "lease":
            if self.chosen in self.pool.leases and rng.random() < 0.9:
                return self.pool.leases[self.chosen]
            return self.pool.pick(rng, "lease")
        if name == "worker_id":
            return self.pool.pick(rng, "worker_id") if rng.random() < 0.7 else None
        return self.pool.pick(rng, rng.choice(("run_id", "message_id")))

    def plausible_text(self, function, name):
        rng = self.rng
        if "schedule" in function and name in ("name", "schedule"):
            return rng.choice(self.pool.schedules)
        if name in ("queue", "outbox_queue", "pattern", "queues"):
            return rng.choice(self.pool.queues + self.pool.workflows + [self.tenant + ".*"])
        if name in ("workflow", "workflows"):
            return rng.choice(self.pool.workflows)
        if name == "idempotency_key":
            return rng.choice((None, "k0", "k1", "k2"))
        if name in WORDS:
            return rng.choice(WORDS[name])
        return rng.choice((self.mark, "s0", "x", None))

    def scalar(self, function, name, typ):
        rng = self.rng
        plausible = rng.random() < self.plausible
        if typ in ("text", "name"):
            if name == "role":
                return rng.choice(("fuzz_grantee", "fuzz_grantee", "nosuch", "", None))
            if name == "reset":
                return rng.choice(RESETS)
            if function == "pgqrs_register_worker" and name in ("name", "version"):
                # readers of what it holds see these: a superuser may claim another tenant's work for it
                return rng.choice(("w0", "w1", self.letters(9), None))
            text = self.plausible_text(function, name) if plausible else self.wild_text()
            return text if typ == "text" or text is None else text[:60]
        if typ in ("jsonb", "json"):
            if name == "parameters" and plausible:
                return self.parameters()
            return None if rng.random() < 0.1 else self.json()
        if typ == "bigint":
            if plausible:
                value = self.an_id(name.rstrip("s") if name != "lease" else name)
                return None if value is None else str(value)
            return None if rng.random() < 0.2 else str(rng.choice(INTEGERS["int8"]))
        if typ in ("integer", "smallint"):
            if plausible:
                return str(rng.randint(0, 20))
            return None if rng.random() < 0.2 else str(rng.choice(INTEGERS["int4" if typ == "integer" else "int2"]))
        if typ == "interval":
            if name == "timeout" and plausible:
                return rng.choice(("0", "1 ms", "20 ms", "1 s"))
            return None if rng.random() < 0.1 else rng.choice(INTERVALS[:6] if plausible else INTERVALS)
        if typ == "timestamp with time zone":
            return None if rng.random() < 0.2 else rng.choice(INSTANTS)
        if typ == "boolean":
            return rng.choice(("true", "false", None))
        if typ in ("double precision", "real"):
            return rng.choice(FLOATS if typ == "double precision" else FLOATS[:8])
        if typ == "numeric":
            return rng.choice(NUMBERS)
        if typ == "regclass":
            return rng.choice(("pg_class", "pgqrs_messages", "pgqrs_queue_id_seq", "0"))
        return None

    def array(self, function, name, typ):
        rng = self.rng
        shape = rng.randrange(20)
        if shape == 0:
            return "NULL::%s[]" % typ
        if shape == 1:
            return "'{}'::%s[]" % typ
        if shape == 2 and typ in ("bigint", "text", "jsonb", "integer"):
            return "'{{1,2},{3,4}}'::%s[]" % typ
        if shape == 3 and typ in ("bigint", "text", "jsonb", "integer"):
            return "'[5:6]={1,2}'::%s[]" % typ
        if shape == 4 and rng.random() < 0.1:
            return "array_fill(%s, ARRAY[%d])" % (literal("1", typ), rng.choice((9999, 10000, 10001)))
        single = name[:-1] if name.endswith("s") else name
        if name in ("held_ids", "done_ids", "message_ids", "held_leases", "done_leases", "leases") and rng.random() < 0.8:
            return self.claims(name.endswith("ids"))
        items = [literal(self.scalar(function, single, typ), typ) for _ in range(rng.choice((1, 1, 2, 3, 5)))]
        return "ARRAY[%s]" % ", ".join(items)

    def claims(self, ids):
        """Ids that have leases; then, for the next argument, those leases."""
        rng = self.rng
        if ids or self.listed is None:
            with self.pool.lock:
                known = list(self.pool.leases.items())[-200:]
            self.listed = rng.sample(known, min(len(known), rng.choice((0, 1, 1, 2, 5))))
        return "ARRAY[%s]::bigint[]" % ", ".join(str(pair[0 if ids else 1]) for pair in self.listed)

    def argument(self, function, name, typ):
        if typ.endswith("[]"):
            return self.array(function, name, typ[:-2])
        return literal(self.scalar(function, name, typ), typ)

    def call(self, function):
        args = []
        for name, typ, has_default in function.args:
            if has_default and self.rng.random() < 0.6:
                continue
            value = self.argument(function.name, name, typ)
            if function.variadic:
                args.append("VARIADIC " + value if typ.endswith("[]") else value)
            else:
                args.append('"%s" => %s' % (name, value) if name else value)
        text = "%s(%s)" % (function.name, ", ".join(args))
        return ("CALL " if function.kind == "p" else "SELECT * FROM ") + text


def quoted(text):
    out = []
    for char in text:
        if char in '"\\' or ord(char) < 0x20:
            out.append("\\u%04x" % ord(char))
        else:
            out.append(char)
    return '"' + "".join(out).replace("\0", "") + '"'


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.seen = collections.Counter()
        self.first = {}
        self.states = collections.Counter()
        self.succeeded = collections.Counter()
        self.called = collections.Counter()
        self.took = collections.Counter()
        self.fatal = False

    def add(self, kind, what, query):
        with self.lock:
            # one fault, whatever it was called with
            name, colon, message = what.partition(": ")
            message = re.sub(r"-?\d{2,}", "9", re.sub(r'".*"', '"..."', message, flags=re.DOTALL))
            key = (kind, name + colon + message)
            self.seen[key] += 1
            if key not in self.first or len(query) < len(self.first[key]):
                self.first[key] = query

    def count(self, name, state, took):
        with self.lock:
            self.called[name] += 1
            self.took[name] += took
            self.states[state] += 1
            if state == "00000":
                self.succeeded[name] += 1


class Session(threading.Thread):
    def __init__(self, number, seed, functions, pools, faults, calls):
        super().__init__(daemon=True)
        self.number, self.functions, self.faults, self.calls = number, functions, faults, calls
        self.role, self.sees = ROLES[number % len(ROLES)]
        self.rng = random.Random("%s %d" % (seed, number))
        self.pools = pools
        self.values = Values(self.rng, pools)
        # pages are slow
        self.weights = [RARE.get(f.name, 0.2 if f.name.startswith("pgqrs_html") else 1) for f in functions]
        self.connection = None
        self.latest = ""

    def connect(self):
        self.connection = psycopg2.connect(user=self.role, dbname="fuzz", application_name="fuzz%d" % self.number)
        self.connection.autocommit = True
        self.connection.cursor().execute("SET statement_timeout = '3 s'; SET lock_timeout = '1 s'; "
                                         "SET client_min_messages = notice")

    def run(self):
        try:
            self.connect()
            while self.calls > 0 and not self.faults.fatal:
                if self.sees is None and self.rng.random() < 0.9:
                    self.calls -= 1
                elif self.rng.random() < 0.6:
                    self.one_call()
                else:
                    self.transaction()
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            self.faults.fatal = True
            self.faults.add("crash", str(error).strip().split("\n")[0], self.latest)
        except Exception:  # of this program
            self.faults.fatal = True
            self.faults.add("broken", traceback.format_exc(), self.latest)

    def transaction(self):
        rng = self.rng
        self.execute("BEGIN ISOLATION LEVEL %s" % rng.choice(
            ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED READ ONLY")))
        for _ in range(rng.randint(1, 6)):
            self.execute("SAVEPOINT s")
            failed = not self.one_call()
            if failed and rng.random() < 0.1:
                break
            if failed or rng.random() < 0.2:
                self.execute("ROLLBACK TO s")
            elif rng.random() < 0.5:
                self.execute("RELEASE s")
        end = rng.random()
        if end < 0.02:
            gid = "fuzz %d %d" % (self.number, self.calls)
            if self.execute("PREPARE TRANSACTION '%s'" % gid):
                self.execute("%s PREPARED '%s'" % (rng.choice(("COMMIT", "ROLLBACK")), gid))
            else:
                self.execute("ROLLBACK")
        else:
            self.execute("COMMIT" if end < 0.8 else "ROLLBACK")

    def execute(self, query):
        """A statement of the session's own; what it may raise is no matter."""
        try:
            self.connection.cursor().execute(query)
            return True
        except psycopg2.Error as error:
            if self.connection.closed:
                raise
            if (error.pgcode or "").startswith("XX"):
                self.faults.add("internal", "%s %s" % (query.split()[0], error.diag.message_primary), query)
            return False

    def one_call(self):
        rng = self.rng
        tenant = self.sees if self.sees in TENANTS else rng.choice(TENANTS)
        mark = "SECRET_" + (self.sees if self.sees in TENANTS else "of_no_tenant")
        self.values.begin(tenant, mark)
        self.calls -= 1
        if rng.random() < 0.05:
            view = rng.choice(VIEWS)
            return self.answer(Function(view, "v", [], False, ALWAYS), tenant,
                               "SELECT * FROM %s LIMIT %d" % (view, rng.choice((10, 1000))))
        function = rng.choices(self.functions, self.weights)[0]
        if self.role == "postgres":
            # a row of one tenant must not be made to serve another
            self.values.pool = self.pools[tenant]
            if NOT_BY_OWNER.match(function.name):
                return True
        return self.answer(function, tenant, self.values.call(function))

    def answer(self, function, tenant, query):
        cursor = self.connection.cursor()
        self.latest = query
        state, rows, texts, started = "00000", [], [], time.monotonic()
        try:
            cursor.execute(query)
            if cursor.description:
                rows = cursor.fetchall()
                texts = [str(rows)]
                self.learn(function, self.pools[tenant], [c.name for c in cursor.description], rows)
        except psycopg2.Error as error:
            if self.connection.closed:
                raise
            state = error.pgcode or "?????"
            diag = error.diag
            texts = [t for t in (diag.message_primary, diag.message_detail, diag.message_hint, diag.context) if t]
            if state.startswith("XX") or state == "?????":
                self.faults.add("internal", "%s %s: %s" % (function.name, state, diag.message_primary), query)
            elif state not in function.documented:
                self.faults.add("undocumented", "%s %s: %s" % (function.name, state, diag.message_primary), query)
        self.faults.count(function.name, state, time.monotonic() - started)
        texts += self.connection.notices
        del self.connection.notices[:]
        for other in TENANTS:
            if self.sees not in ("*", other) and any("SECRET_" + other in text for text in texts):
                self.faults.add("foreign", "%s shows %s what is %s's" % (function.name, self.role, other), query)
        return state == "00000"

    def learn(self, function, pool, columns, rows):
        own = self.sees in TENANTS or self.sees == "*"
        if not own:
            return
        if "work" in columns:       # of a poll
            claims = json.loads(rows[0][columns.index("work")] or "[]")
            columns, rows = ["message_id", "lease"], [(c["message_id"], c["lease"]) for c in claims]
        for row in rows[:50]:
            found = dict(zip(columns, row))
            for kind in ("message_id", "run_id", "worker_id"):
                if isinstance(found.get(kind), int):
                    pool.add(kind, found[kind])
            if isinstance(found.get("lease"), int):
                pool.add_lease(found.get("message_id") or found.get("run_id"), found["lease"])
            if len(columns) == 1 and isinstance(row[0], int):
                kind = {"pgqrs_enqueue": "message_id", "pgqrs_trigger": "run_id", "pgqrs_start_child": "run_id",
                        "pgqrs_rerun": "run_id", "pgqrs_register_worker": "worker_id",
                        "pgqrs_trigger_schedule": "run_id"}.get(function.name)
                if kind:
                    pool.add(kind, row[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1000000)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print("fuzz: seed %s" % options.seed, flush=True)

    owner = psycopg2.connect(user="postgres", dbname="postgres")
    owner.autocommit = True
    owner.cursor().execute("CREATE DATABASE fuzz")
    owner.close()
    owner = psycopg2.connect(user="postgres", dbname="fuzz")
    owner.autocommit = True
    cursor = owner.cursor()
    cursor.execute(SETUP)
    pools = {tenant: Pool(tenant) for tenant in TENANTS}
    for pool in pools.values():
        for queue in pool.queues:
            cursor.execute("SELECT pgqrs_create_queue(%s)", (queue,))
        for workflow in pool.workflows:
            cursor.execute("SELECT pgqrs_create_workflow(%s)", (workflow,))
    functions = load_functions(cursor, options.only.split())
    global INTERVALS
    if owner.server_version >= 170000:
        INTERVALS += ("infinity", "-infinity")

    faults = Faults()
    sessions = [Session(i, options.seed, functions, pools, faults, -(-options.calls // options.sessions))
                for i in range(options.sessions)]
    began = time.monotonic()
    for session in sessions:
        session.start()
    for session in sessions:
        session.join()

    if not faults.fatal:
        cursor.execute("SELECT * FROM pgqrs_verify() WHERE NOT ok")
        for row in cursor.fetchall():
            faults.add("damaged", str(row), "SELECT * FROM pgqrs_verify()")
    report(faults, functions, began)
    sys.exit(1 if faults.seen else 0)


def report(faults, functions, began):
    print("fuzz: %d calls of %d functions in %d s, of which %d s here; %s" % (
        sum(faults.called.values()), len(faults.called), time.monotonic() - began, time.process_time(),
        ", ".join("%s %d" % item for item in sorted(faults.states.items()))))
    print("fuzz: seconds of all sessions: %s" % ", ".join("%s %.1f" % item for item in faults.took.most_common(15)))
    never = [f.name for f in functions if not faults.succeeded[f.name]]
    if never:
        print("fuzz: never succeeded: %s" % " ".join(never))
    for (kind, what), count in sorted(faults.seen.items()):
        query = faults.first[kind, what]
        print("%s (%d): %s\n    %s" % (kind, count, what, query if len(query) < 2000 else query[:1000] + " ..."))
    print("%d passed, %d failed" % (sum(faults.called.values()), len(faults.seen)))


if __name__ == "__main__":
    main()
