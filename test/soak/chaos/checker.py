#!/usr/bin/python3
"""Proves from a history that pgqrs kept what it promises, or says where not.

  checker.py HISTORY_FOLDER

Each rule is a function of its own; RULES names them.  What clients sent and
never heard of may have happened or not.  A call lies somewhere between its
start and its end: rules speak of two calls only where the one had ended before
the other began, or where the server's clock, which gives every claim an instant
of its own, orders them.
"""

import sys
from collections import Counter, defaultdict
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from history import DONE, MAYBE, NEVER, TERMINAL, UNDONE, History

# What a client may be refused with; anything else is a fault.
EXPECTED = {'PQ004', 'PQ006', 'PQ007', 'PQ010', 'PQ012', 'PQ014', 'PQ016', '40001', '40P01'}

# Calls under a lease, by the argument that names what is leased.
FENCED = {
    'run_id': ('step_begin', 'step_complete', 'step_fail', 'complete_run', 'fail_run', 'pause_run', 'sleep',
               'await_signal', 'start_child', 'start_children', 'await_child', 'await_children',
               'set_progress', 'acknowledge_cancel'),
    'message_id': ('archive_message', 'delete_message', 'release_message', 'nack_message', 'extend_lease'),
}
# Those that give the lease up, and those that do if they answer so.
GIVE_UP = ('step_fail', 'complete_run', 'fail_run', 'acknowledge_cancel', 'archive_message', 'delete_message',
           'release_message', 'nack_message')
WAITS = {
    'pause_run': lambda r: r['resumed'],
    'sleep': lambda r: r,
    'await_signal': lambda r: r['received'] or r['timed_out'],
    'await_child': lambda r: r['done'],
    'await_children': lambda r: r['done'],
}
# Committed asynchronously: a crash may take them back.
CLAIMS = ('dequeue', 'step_begin', 'extend_lease', 'extend_worker', 'heartbeat')
# Calls that end a lease or move a message, regardless of its holder.
OPERATIONS = ('set_visibility', 'replay_message', 'delete_run')

# The events of the audit that tell of an end, and what the outbox says then.
ENDS = {'finished': 'SUCCESS', 'dead': 'ERROR', 'cancelled': 'CANCELLED'}
TYPES = {'finished': 'pgqrs.run.succeeded', 'dead': 'pgqrs.run.failed', 'cancelled': 'pgqrs.run.cancelled'}
WITH_OUTBOX = ('chaos.retained', 'chaos.frail')

OUTCOMES = {'SUCCESS': 'DONE', 'ERROR': 'DEAD', 'CANCELLED': 'CANCELLED'}

ENDED = set(TERMINAL)
SLACK = 0.001       # seconds by which readings of one clock by two processes may differ
ANY = object()      # an output that is not known


class Violation(NamedTuple):
    rule: str
    text: str


def instant(text):
    return NEVER if text in (None, 'infinity') else datetime.fromisoformat(text).timestamp()


def seconds(interval):
    if interval is None or interval == '0':
        return 0.0
    number, unit = interval.split()
    return float(number) / {'s': 1, 'ms': 1000}[unit]


def nonce_of(value):
    return value.get('nonce') if isinstance(value, dict) else None


class Claim:
    def __init__(self, call, row):
        self.call = call
        self.id, self.lease, self.attempt = row['message_id'], row['lease'], row['attempt']
        self.worker = call.args.get('worker_id')
        self.until = row['visible_after']
        self.at = self.until - seconds(call.args['visibility_timeout'])

    def __str__(self):
        return f'{self.call.nonce} claimed {self.id} at {self.at:.6f} until {self.until:.6f}, lease {self.lease}'


class Facts:
    """The history by what rules ask for."""

    def __init__(self, history):
        self.history = history
        self.calls = history.calls
        self.by_function = defaultdict(list)
        for call in self.calls:
            self.by_function[call.function].append(call)
        self.runs = {r['run_id']: r for r in history.final['runs']}
        self.steps = {(s['run_id'], s['step_id']): s for s in history.final['steps']}
        self.messages = {m['message_id']: m for m in history.final['messages']}
        self.archive = {m['message_id']: m for m in history.final['archive']}
        self.workers = {w['worker_id']: w for w in history.final['workers']}

    def of(self, *functions, fates=(DONE, MAYBE)):
        for function in functions:
            for call in self.by_function[function]:
                if call.fate in fates:
                    yield call

    def done(self, *functions):
        return self.of(*functions, fates=(DONE,))

    @cached_property
    def events(self):
        """What the audit has of each run, in order."""
        events = defaultdict(list)
        for event in self.history.final['events']:
            events[event['run_id']].append(event)
        return events

    def ends(self, run):
        return [e['event'] for e in self.events[run] if e['event'] in ENDS]

    @cached_property
    def claims(self):
        """All claims that were acknowledged, by message, in the order of the server's clock."""
        claims = defaultdict(list)
        for call in self.done('dequeue'):
            for row in call.result:
                claims[row['message_id']].append(Claim(call, row))
        for of_one in claims.values():
            of_one.sort(key=lambda c: c.at)
        return claims

    @cached_property
    def fenced(self):
        """Calls that happened or may have, by id and lease, in order."""
        calls = defaultdict(list)
        for key, functions in FENCED.items():
            for call in self.of(*functions):
                calls[call.args[key], call.args['lease']].append(call)
        for of_one in calls.values():
            of_one.sort(key=lambda c: c.start)
        return calls

    @cached_property
    def operations(self):
        calls = defaultdict(list)
        for call in self.of(*OPERATIONS):
            calls[call.args.get('message_id', call.args.get('run_id'))].append(call)
        return calls

    @cached_property
    def extended_workers(self):
        calls = defaultdict(list)
        for call in self.of('extend_worker'):
            calls[call.args['worker_id']].append(call)
        return calls

    @cached_property
    def crashes(self):
        """(begun, ended, what was committed before that instant was safe)"""
        crashes = []
        # what certainly flushed the WAL, and all that was committed before
        durable = sorted((c.end, c.start) for c in self.done('effect'))
        for kill in self.history.kills:
            if kill['crash'] and kill['killed']:
                safe = max((start for end, start in durable if end < kill['begun']), default=0)
                crashes.append((kill['begun'], kill['at'], safe))
        return crashes

    def may_be_lost(self, call, before=NEVER):
        """A crash before an instant may have taken back a claim."""
        return call.function in CLAIMS and any(
            call.start < end and begun < before and call.end >= safe for begun, end, safe in self.crashes)

    @cached_property
    def replays(self):
        """Calls that may have replayed something, by id of the message or name of the queue."""
        calls = defaultdict(list)
        for call in self.of('replay_message', 'replay_queue'):
            if call.result != 0:
                calls[call.args.get('message_id', call.args.get('queue'))].append(call)
        return calls

    def replays_between(self, id, start, end):
        """Whether a run, or message, may have been replayed between two instants."""
        run = self.runs.get(id)
        return any(c.start < end and c.end > start
                   for c in self.replays[id] + (self.replays[run['workflow']] if run else []))


RULES = {}


def rule(check):
    RULES[check.__name__.removeprefix('rule_')] = check
    return check


@rule
def rule_error(facts):
    """No error but those that a client may meet."""
    for call in facts.calls:
        if call.error and call.error not in EXPECTED:
            yield f'{call}: {call.message}'


@rule
def rule_trigger(facts):
    """What was acknowledged is there once; what failed or was rolled back is not."""
    tagged = Counter(nonce_of({'nonce': r['tags'].get('call')}) for r in facts.runs.values()
                     if r['tags'] and r['rerun_of'] is None)
    reruns = Counter(r['rerun_of'] for r in facts.runs.values() if r['rerun_of'] is not None)
    yield from trigger_counts(facts, tagged)
    for call in facts.done('trigger', 'rerun', 'start_child'):
        if call.result not in facts.runs:
            yield f'there is no run {call.result}: {call}'
    for call in facts.done('trigger_batch', 'start_children'):
        for run in call.result:
            if run not in facts.runs:
                yield f'there is no run {run}: {call}'
    done = Counter(c.args['run_id'] for c in facts.done('rerun'))
    maybe = Counter(c.args['run_id'] for c in facts.of('rerun', fates=(MAYBE,)))
    for run in done | maybe | reruns:
        if not done[run] <= reruns[run] <= done[run] + maybe[run]:
            yield f'run {run} was rerun {done[run]} times, and {maybe[run]} times perhaps, but has {reruns[run]} reruns'
    yield from children_counts(facts)


def trigger_counts(facts, tagged):
    known = set()
    for call in facts.by_function['trigger'] + facts.by_function['trigger_batch']:
        most = len(call.args['inputs']) if 'inputs' in call.args else 1
        keyed = 'idempotency_key' in call.args or 'idempotency_keys' in call.args
        least = 0 if keyed or call.fate != DONE else most
        most = 0 if call.fate == UNDONE else most
        known.add(call.nonce)
        if not least <= tagged[call.nonce] <= most:
            yield f'{tagged[call.nonce]} runs, not {least} to {most}, of {call}'
    for nonce in set(tagged) - known:
        yield f'no client has triggered the run with the tag {nonce}'


def children_counts(facts):
    children = Counter((r['parent_run_id'], r['parent_step_id']) for r in facts.runs.values()
                       if r['parent_run_id'] is not None)
    for (run, step), count in children.items():
        if count > 1 and not facts.replays_between(run, 0, NEVER):
            yield f'step {step} of run {run} has started {count} children'


@rule
def rule_outcome(facts):
    """Every run has ended, with one archived message of the right outcome; no message is gone."""
    for run in facts.runs.values():
        id, status = run['run_id'], run['status']
        live, archived = id in facts.messages, facts.archive.get(id)
        if status not in TERMINAL:
            yield f'run {id} is still {status}, with {"a" if live else "no"} message'
        elif live or not archived or archived['outcome'] != (
                'DELETED' if status == 'ERROR' and run['deleted_at'] else OUTCOMES[status]):
            yield f'run {id} is {status}, its message {"live" if live else ""} {archived and archived["outcome"]}'
    found = Counter(nonce_of(m['payload']) for m in [*facts.messages.values(), *facts.archive.values()])
    for call in facts.by_function['enqueue']:
        least, most = int(call.fate == DONE), int(call.fate != UNDONE)
        if not least <= found[call.nonce] <= most:
            yield f'{found[call.nonce]} messages of {call}'
    for message in facts.messages.values():
        if message['run_id'] is None:
            yield f'message {message["message_id"]} is left'


@rule
def rule_lease(facts):
    """At most one live lease at a time; a lease that was superseded changes nothing."""
    for id, claims in facts.claims.items():
        for before, after in zip(claims, claims[1:]):
            until = end_of_lease(facts, before, after)
            if after.at < until - SLACK and not ended_early(facts, before, after):
                yield f'{after}, but it was leased until {until:.6f}: {before}'
        for i, claim in enumerate(claims):
            yield from late_successes(facts, claim, claims[i + 1:])


def succeeded(call):
    return call.fate == DONE and (call.function != 'extend_lease' or call.result['extended'])


def extensions(facts, claim, before):
    """(call, timeout) that moved, or may have, the end of a lease."""
    for call in facts.fenced[claim.id, claim.lease]:
        if call.function == 'extend_lease' and (call.fate == MAYBE or succeeded(call)):
            yield call, seconds(call.args['visibility_timeout'])
    for call in facts.extended_workers[claim.worker]:
        if claim.call.end < call.start < before.call.end and (
                call.fate == MAYBE or any(r['message_id'] == claim.id and r['extended'] for r in call.result)):
            yield call, seconds(call.args['visibility_timeout'])


def overlap(a, b):
    return a is not b and a.start < b.end and b.start < a.end


def is_sure(facts, call, claim, after):
    """Whether a call that extends has moved the end: not while another one is writing the message."""
    return call.fate == DONE and not facts.may_be_lost(call) and not any(
        overlap(call, other) for other in [after.call, *facts.fenced[claim.id, claim.lease]])


def end_of_lease(facts, claim, after):
    """The earliest instant at which a lease may have ended by itself."""
    until = claim.until
    for call, timeout in sorted(extensions(facts, claim, after), key=lambda e: e[0].start):
        end = call.wall + timeout
        until = end if is_sure(facts, call, claim, after) else min(until, end)
    return until


def gives_up(call):
    if call.function in WAITS:
        return call.fate == MAYBE or not WAITS[call.function](call.result)
    return call.function in GIVE_UP


def ended_early(facts, claim, after):
    """Whether a lease may have ended before its time and before the next claim."""
    if facts.may_be_lost(claim.call, after.call.end):
        return True
    if any(gives_up(c) for c in facts.fenced[claim.id, claim.lease]):
        return True
    if any(c.start < after.call.end and c.end > claim.call.start for c in facts.operations[claim.id]):
        return True
    worker = facts.workers.get(claim.worker)
    if worker and instant(worker['stopped_at']) <= after.at + SLACK:
        return True
    return facts.replays_between(claim.id, claim.call.start, after.call.end)


def late_successes(facts, claim, later):
    for call in facts.fenced[claim.id, claim.lease]:
        for other in later:
            if succeeded(call) and call.start > other.call.end and not facts.may_be_lost(other.call, call.end):
                yield f'{call}, though {other}'
                break


@rule
def rule_output(facts):
    """What a step answered once it answers ever after."""
    seen = {}
    for call in sorted(facts.done('step_begin', 'step_complete', 'pause_run', 'await_signal', 'await_child',
                                  'await_children', 'list_steps'), key=lambda c: c.end):
        for step, answer in answers(facts, call):
            key = call.args['run_id'], step
            if seen.setdefault(key, answer) != answer:
                yield f'step {step} of run {key[0]} had answered {seen[key]}: {call}'
    for (run, step), answer in seen.items():
        stored = facts.steps.get((run, step))
        if answer[0] == 'output' and (not stored or ('output', stored['output']) != answer):
            yield f'step {step} of run {run} had answered {answer}, but is {stored}'


def answers(facts, call):
    """(step, what it has answered for good)"""
    r, step = call.result, call.args.get('step_id')
    if call.function == 'step_complete':
        yield step, ('output', call.args['output'])
    elif call.function == 'list_steps':
        for s in r:
            if s['kind'] == 'FUNCTION' and s['status'] == 'SUCCESS':
                yield s['step_id'], ('output', s['output'])
    elif call.function == 'step_begin':
        if r['status'] == 'SUCCESS':
            yield step, ('output', r['output'])
    elif WAITS[call.function](r):
        if call.function in ('await_child', 'await_children'):
            # a replay starts failed children anew
            if not facts.replays_between(call.args['run_id'], 0, NEVER):
                yield step, ('answer', r)
        elif call.function == 'pause_run':
            yield step, ('output', r['output'])
        else:
            yield step, ('answer', r)


@rule
def rule_effect(facts):
    """What a transaction wrote beside a call of ours is there exactly if that call happened, and once."""
    rows = Counter((e['run_id'], e['step_id'], e['nonce']) for e in facts.history.final['effects'])
    yield from effect_counts(facts, rows)
    by_step = defaultdict(list)
    for (run, step, nonce), count in rows.items():
        by_step[run, step] += [nonce] * count
    for (run, step), nonces in by_step.items():
        if run and step != '(message)':
            output = facts.runs[run]['output'] if step == '(end)' else facts.steps.get((run, step), {}).get('output')
            if nonces != [nonce_of(output)]:
                yield f'step {step} of run {run} has the effects {nonces} and the output {output}'
    for (run, step), s in facts.steps.items():
        if s['kind'] == 'FUNCTION' and s['status'] == 'SUCCESS' and not by_step[run, step]:
            kept = facts.steps.get((facts.runs[run]['rerun_of'], step), {})
            if kept.get('output') != s['output']:
                yield f'step {step} of run {run} has succeeded without an effect'
    consumed = Counter(nonce for run, step, nonce in rows.elements() if step == '(message)')
    for m in facts.archive.values():
        nonce = nonce_of(m['payload'])
        if nonce and consumed[nonce] != (m['outcome'] == 'DONE'):
            yield f'message {m["message_id"]} is {m["outcome"]} and has {consumed[nonce]} effects'


def effect_counts(facts, rows):
    done, maybe = Counter(), Counter()
    for call in facts.of('effect'):
        (done if call.fate == DONE else maybe)[tuple(call.args[k] for k in ('run_id', 'step_id', 'nonce'))] += 1
    consumed = {c.nonce for c in facts.by_function['enqueue'] if c.args['queue'] == 'plain.consumed'}
    for key in set(rows) | set(done):
        if key[1] == '(message)' and key[2] in consumed:
            continue                        # written by the handler of pgqrs_consume()
        if not done[key] <= rows[key] <= done[key] + maybe[key]:
            yield f'effect {key} is there {rows[key]} times, acknowledged {done[key]} times, {maybe[key]} unknown'


@rule
def rule_attempt(facts):
    """Attempts only grow, but for claims that a crash took back."""
    for id, claims in facts.claims.items():
        for before, after in zip(claims, claims[1:]):
            if after.attempt <= before.attempt and not facts.may_be_lost(before.call, after.call.end) and \
                    not facts.replays_between(id, before.call.start, after.call.end):
                yield f'attempt {before.attempt} of {before}, then attempt {after.attempt} of {after}'
    begun = defaultdict(list)
    for call in facts.done('step_begin'):
        if call.result['should_execute']:
            begun[call.args['run_id'], call.args['step_id']].append(call)
    for calls in begun.values():
        for before, after in zip(calls, calls[1:]):
            least = before.result['attempt'] + (before.args['lease'] != after.args['lease'])
            if after.start > before.end and after.result['attempt'] < least and \
                    not facts.may_be_lost(before, after.end):
                yield f'{before}, then {after}'


def observations(call):
    """(run, statuses that it may have, output) that a call has told of."""
    r, run = call.result, call.args.get('run_id')
    if call.function in ('get_run', 'result', 'wait'):
        yield run, {r['status']}, r['output'] if r['status'] == 'SUCCESS' else ANY
    elif call.function == 'list_runs':
        for row in r:
            yield row['run_id'], {row['status']}, row['output'] if row['status'] == 'SUCCESS' else ANY
    elif call.function == 'complete_run':
        yield run, {'SUCCESS'}, call.args['output']
    elif call.function == 'cancel_run':
        yield run, {r}, ANY
    elif call.function == 'acknowledge_cancel':
        yield run, {'CANCELLED'}, ANY
    elif (call.function == 'fail_run' and r is None) or \
            (call.function == 'step_fail' and r['outcome'] == 'RUN_FAILED'):
        yield run, {'ERROR', 'CANCELLED'}, ANY
    elif call.function == 'dequeue':
        for row in r:
            if row['run_id']:
                yield row['run_id'], {'RUNNING'}, ANY
    elif call.function in FENCED['run_id'] and call.function not in ('step_complete', 'fail_run', 'step_fail'):
        yield run, {'RUNNING', 'PAUSED'}, ANY


@rule
def rule_terminal(facts):
    """A run that has ended stays as it is, unless it failed and is replayed."""
    told = defaultdict(list)
    for call in facts.done(*facts.by_function):
        for run, statuses, output in observations(call):
            told[run].append((call.start, call.end, statuses, output, call))
    for run, row in facts.runs.items():
        output = row['output'] if row['status'] == 'SUCCESS' else ANY
        told[run].append((NEVER, NEVER, {row['status']}, output, 'the table'))
    for run, of_one in told.items():
        of_one.sort(key=lambda o: o[:2])
        ends = [o for o in of_one if o[2] <= ENDED]
        for o in of_one:
            for end in ends:
                if end[0] > o[0]:
                    break
                if end[1] < o[0] and differs(end, o) and not (
                        'ERROR' in end[2] and facts.replays_between(run, end[0], o[1])):
                    yield f'run {run} had ended: {end[4]}, then {o[4]}: {o[2]}'
                    break


def differs(a, b):
    outputs = a[3] is not ANY and b[3] is not ANY and a[3] != b[3]
    return not a[2] & b[2] or outputs


@rule
def rule_signal(facts):
    """Every signal is there if it was acknowledged, and taken by at most one step."""
    rows = facts.history.final['signals']
    ids = {s['signal_id'] for s in rows}
    found = Counter(nonce_of(s['payload']) for s in rows)
    for call in facts.by_function['signal']:
        if call.fate == DONE and call.result not in ids:
            yield f'there is no signal {call.result}: {call}'
        keyed = 'idempotency_key' in call.args
        if not (call.fate == DONE and not keyed) <= found[call.nonce] <= (call.fate != UNDONE):
            yield f'{found[call.nonce]} signals of {call}'
    takers = defaultdict(set)
    for call in facts.done('await_signal'):
        if call.result['received']:
            takers[nonce_of(call.result['payload'])].add((call.args['run_id'], call.args['step_id']))
    for (run, step), s in facts.steps.items():
        if s['kind'] == 'SIGNAL' and s['status'] == 'SUCCESS' and nonce_of(s['output']) and \
                facts.runs[run]['rerun_of'] is None:
            takers[nonce_of(s['output'])].add((run, step))
    for s in rows:
        if s['consumed_by'] is not None:
            takers[nonce_of(s['payload'])].add((s['run_id'], s['consumed_by']))
    for nonce, steps in takers.items():
        original = {t for t in steps if facts.runs[t[0]]['rerun_of'] is None}
        if len(original) > 1:
            yield f'signal {nonce} was taken by {sorted(original)}'


@rule
def rule_early(facts):
    """Nothing is delivered, and no sleep is over, before its time."""
    kept = {(run, step) for run, step in facts.steps
            if facts.steps.get((facts.runs[run]['rerun_of'], step), {}).get('status') == 'SUCCESS'}
    moved = {c.args['message_id'] for c in facts.of('set_visibility', 'replay_message')}
    ends = defaultdict(lambda: NEVER)
    parked = {}
    for call in sorted(facts.of('sleep'), key=lambda c: c.start):
        key = call.args['run_id'], call.args['step_id']
        end = instant(call.args['until']) if 'until' in call.args else call.wall + seconds(call.args['duration'])
        ends[key] = min(ends[key], end)
        if call.fate == DONE and call.result and key not in kept and call.wall_end < ends[key] - SLACK:
            yield f'before {ends[key]:.6f}: {call}'
        elif call.fate == DONE and not call.result:
            parked[key] = call
    for (run, step), call in parked.items():
        for claim in facts.claims[run]:
            if claim.call.start > call.end and claim.at < ends[run, step] - SLACK and run not in moved:
                yield f'{claim} while it slept: {call}'
    for call in facts.done('trigger', 'enqueue'):
        for claim in facts.claims[call.result][:1]:
            due = call.wall + seconds(call.args.get('delay'))
            if call.args.get('idempotency_key') is None and claim.at < due - SLACK and call.result not in moved:
                yield f'{claim} before {due:.6f}: {call}'


@rule
def rule_key(facts):
    """One run has an idempotency key: for good, or while it lives."""
    by_key = defaultdict(list)
    for run in facts.runs.values():
        retained = run['key_scope'] != 'active' and run['workflow'] != 'chaos.active'
        if run['idempotency_key'] and run['deleted_at'] is None and (retained or run['status'] not in TERMINAL):
            by_key[run['workflow'], run['idempotency_key']].append(run['run_id'])
    for (workflow, key), runs in by_key.items():
        if len(runs) > 1:
            yield f'key "{key}" of {workflow} has the runs {runs}'
    answered = defaultdict(dict)
    for call in facts.done('trigger'):
        key = call.args.get('idempotency_key')
        run = facts.runs.get(call.result)
        if key and run and run['deleted_at'] is None and run['workflow'] != 'chaos.active':
            answered[call.args['workflow'], key].setdefault(call.result, call)
            if run['idempotency_key'] != key or run['workflow'] != call.args['workflow']:
                yield f'run {call.result} has another key than {call}'
    for calls in answered.values():
        if len(calls) > 1:
            yield ' and '.join(str(c) for c in calls.values())


@rule
def rule_audit(facts):
    """The events of a run agree with what became of it."""
    for run in facts.runs.values():
        events = facts.events[run['run_id']]
        for fault in audit_faults(facts, run, [e['event'] for e in events]):
            yield f'run {run["run_id"]} {fault}: {[e["event"] for e in events]}'
    for run in set(facts.events) - set(facts.runs):
        yield f'events of run {run}, which is not there'
    runs = facts.runs.values()
    signals = facts.history.final['signals']
    yield from events_for(facts, 'signalled', 'signal_id', ((s['run_id'], s['signal_id']) for s in signals))
    yield from events_for(facts, 'child_started', 'child_run_id',
                          ((r['parent_run_id'], r['run_id']) for r in runs if r['parent_run_id']))
    yield from events_for(facts, 'rerun', 'new_run_id', ((r['rerun_of'], r['run_id']) for r in runs if r['rerun_of']))
    yield from events_for(facts, 'step_done', 'step_id',
                          ((run, step) for (run, step), s in facts.steps.items()
                           if s['status'] == 'SUCCESS' and s['kind'] == 'FUNCTION' and not is_kept(facts, run, step)),
                          lambda run, step: facts.steps[run, step]['kind'] == 'FUNCTION')


def is_kept(facts, run, step):
    """Whether the original of a rerun may have done that step."""
    return facts.steps.get((facts.runs[run]['rerun_of'], step), {}).get('status') == 'SUCCESS' and \
        not any(e['event'] == 'step_done' and e['data']['step_id'] == step for e in facts.events[run])


def audit_faults(facts, run, names):
    counts = Counter(names)
    if names[:1] != ['created'] or counts['created'] != 1:
        yield 'was not created once'
    # a signal that is sent while a run ends may come after it
    moves = [n for n in names if n in ENDS or n == 'replayed']
    if moves[:-1] != ['dead', 'replayed'] * (len(moves) // 2) or moves[-1:] == ['replayed']:
        yield 'did not end once, and once more for each replay'
    elif [ENDS[m] for m in moves[-1:]] != [run['status']]:
        yield f'is {run["status"]}'
    for before, after in zip(names, names[1:]):
        if before in ENDS and after not in ('replayed', 'deleted', 'rerun', 'signalled'):
            yield f'went on after its end with {after}'
    archived = facts.archive.get(run['run_id'])
    last_life = names[len(names) - names[::-1].index('replayed'):] if counts['replayed'] else names
    if archived and last_life.count('claimed') != archived['attempt']:
        yield f'was claimed {archived["attempt"]} times'
    if counts['deleted'] != (run['deleted_at'] is not None):
        yield f'was deleted at {run["deleted_at"]}'


def events_for(facts, event, key, expected, counts=lambda run, item: True):
    """There is one event of a kind for each (run, item), and no other."""
    found = Counter((run, e['data'].get(key)) for run, events in facts.events.items() for e in events
                    if e['event'] == event and counts(run, e['data'].get(key)))
    expected = Counter(expected)
    for item in found | expected:
        if found[item] != expected[item]:
            yield f'{found[item]} events "{event}", not {expected[item]}, of {item}'


@rule
def rule_told(facts):
    """The outbox has one event for each end of a run, in order."""
    told = defaultdict(list)
    for message in facts.history.final['told']:
        told[int(message['payload']['subject'])].append(message['payload'])
    for run in facts.runs.values():
        ends = facts.ends(run['run_id']) if run['workflow'] in WITH_OUTBOX else []
        of_one = told.pop(run['run_id'], [])
        if [e['type'] for e in of_one] != [TYPES[e] for e in ends]:
            yield f'run {run["run_id"]} had the ends {ends}, told of were {[e["type"] for e in of_one]}'
        elif of_one and any(of_one[-1]['data'].get(k) != run[k] for k in ('status', 'output', 'error')):
            yield f'run {run["run_id"]} is {run["status"]}, told of was {of_one[-1]}'
    for run in told:
        yield f'told of was run {run}, which is not there'


@rule
def rule_slot(facts):
    """A schedule has one run for each minute."""
    slots = defaultdict(list)
    fired = {f['run_id']: f for f in facts.history.final['firings']}
    for firing in facts.history.final['firings']:
        slots[firing['schedule_id']].append(instant(firing['slot']))
        run = facts.runs.get(firing['run_id'])
        if not run or run['schedule_slot'] != firing['slot']:
            yield f'{firing} has the run {run}'
    for run in facts.runs.values():
        if run['schedule_slot'] and not run['rerun_of'] and run['run_id'] not in fired:
            yield f'run {run["run_id"]} has the slot {run["schedule_slot"]}, which did not fire'
    for schedule, of_one in slots.items():
        of_one.sort()
        if any(after - before != 60 for before, after in zip(of_one, of_one[1:])):
            yield f'schedule {schedule} fired at {of_one}'


def missed_wakeups(tables):
    """Runs that are parked though what they wait for has come."""
    signals = {(s['run_id'], s['name']) for s in tables['signals'] if s['consumed_by'] is None}
    ended = {r['run_id'] for r in tables['runs'] if r['status'] in TERMINAL}
    steps = {(s['run_id'], s['step_id']): s for s in tables['steps']}
    for m in tables['messages']:
        if instant(m['visible_after']) <= tables['at']:
            continue
        kind, _, what = (m['waiting_for'] or '').rpartition(' ')
        step = steps.get((m['run_id'], what), {})
        children = children_of(step)
        if kind == 'signal' and (m['run_id'], what) in signals or \
                kind in ('child', 'all children') and children and children <= ended or \
                kind == 'any child' and children & ended:
            yield f'run {m["run_id"]} is parked for {m["waiting_for"]}'


def children_of(step):
    noted = step.get('input')
    if isinstance(noted, dict):
        noted = noted.get('run_ids', noted.get('run_id'))
    return set(noted) if isinstance(noted, list) else {noted} - {None}


@rule
def rule_parked(facts):
    """No run waits for an event that has happened."""
    yield from missed_wakeups(facts.history.quiet)
    yield from missed_wakeups(facts.history.final)


def check(history):
    facts = Facts(history)
    return [Violation(name, text) for name, rule in RULES.items() for text in rule(facts)]


def table_of(title, counts):
    lines = [title]
    for name in sorted(counts):
        lines.append(f'  {name:20} ' + ', '.join(f'{k} {v}' for k, v in counts[name].most_common()))
    return lines


def summary(history, violations):
    calls = defaultdict(Counter)
    for c in history.calls:
        what = c.error or {DONE: 'acknowledged', MAYBE: 'unknown', UNDONE: 'rolled back'}[c.fate]
        calls[c.function][what] += 1
    runs = defaultdict(Counter)
    for r in history.final['runs']:
        runs[r['workflow']][r['status']] += 1
    kills = Counter(k['kind'] for k in history.kills if k['killed'])
    lines = table_of('calls:', calls) + table_of('runs:', runs)
    lines += ['kills: ' + (', '.join(f'{v} {k}' for k, v in kills.most_common()) or 'none')]
    broken = Counter(v.rule for v in violations)
    shown = Counter()
    for v in violations:
        shown[v.rule] += 1
        if shown[v.rule] <= 10:
            lines.append(f'VIOLATION of {v.rule}: {v.text}')
    lines.append(f'{len(history.calls)} calls, {sum(kills.values())} kills, {len(history.final["runs"])} runs, '
                 f'{len(violations)} violations' + (f' of {dict(broken)}' if violations else ''))
    return '\n'.join(lines)


def main():
    history = History.read(sys.argv[1])
    violations = check(history)
    print(summary(history, violations))
    sys.exit(1 if violations else 0)


if __name__ == '__main__':
    main()
