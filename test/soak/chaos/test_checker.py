#!/usr/bin/python3
"""Shows, in TAP, that the checker finds what it is meant to find: takes a good
history, which was recorded, alters it so that it breaks one rule, and looks
whether that rule, and no other but those of the WITNESSES, is reported.

  test_checker.py
  test_checker.py record HISTORY_FOLDER     takes another history for that, of
                                            a few seconds of chaos.py
"""

import copy
import json
import os
import pickle
import random
import sys
import tarfile
import tempfile

import checker
from history import TERMINAL, History, read_files

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'recorded.tar.xz')


class Recorded:
    """A history that can be altered; logs: the lines of each file."""

    def __init__(self, logs, tables):
        self.logs, self.tables = logs, tables
        self.final, self.quiet = tables['final'], tables['quiet']

    def write(self, folder):
        for name, lines in self.logs.items():
            with open(os.path.join(folder, f'{name}.jsonl'), 'w') as file:
                file.writelines(json.dumps(line) + '\n' for line in lines)
        with open(os.path.join(folder, 'tables.json'), 'w') as file:
            json.dump(self.tables, file)

    def transactions(self):
        """(line that was sent, line that came, or None)"""
        for name, lines in self.logs.items():
            if name.startswith('client'):
                came = {line['n']: line for line in lines if 'calls' not in line}
                for line in lines:
                    if 'calls' in line:
                        yield line, came.get(line['n'])

    def answered(self, function, wanted=lambda args, result: True):
        """Committed transactions of one call of that function: (sent, came, args, result)."""
        for sent, came in self.transactions():
            call = sent['calls'][0]
            if len(sent['calls']) == 1 and call['f'] == function and came and 'results' in came and \
                    wanted(call['a'], came['results'][0]):
                yield sent, came, call['a'], came['results'][0]

    def first(self, function, wanted=lambda args, result: True):
        return next(self.answered(function, wanted))

    def claims(self):
        """Rows of claims by id, in order."""
        rows = {}
        for _, _, _, result in self.answered('dequeue'):
            for row in result:
                rows.setdefault(row['message_id'], []).append(row)
        return {id: sorted(of_one, key=lambda r: r['visible_after']) for id, of_one in rows.items()}

    def run(self, id):
        return next(r for r in self.final['runs'] if r['run_id'] == id)

    def forget(self, function, share, rng):
        """Answers that are not known any more; without a function: of anything."""
        for name, lines in self.logs.items():
            if name.startswith('client'):
                sent = {line['n']: line['calls'] for line in lines if 'calls' in line}
                self.logs[name] = [line for line in lines if 'calls' in line or rng.random() >= share or
                                   function not in (None, sent[line['n']][-1]['f'])]


# Alterations: each breaks the rule that its name begins with.

def error(h):
    """an internal error"""
    came = next(c for _, c in h.transactions() if c and c.get('error') == 'PQ007')
    came['error'] = 'XX000'


def trigger_twice(h):
    """two runs of one trigger"""
    run = copy.deepcopy(h.run(h.first('trigger', lambda a, r: 'idempotency_key' not in a)[3]))
    message = copy.deepcopy(next(m for m in h.final['archive'] if m['message_id'] == run['run_id']))
    run['run_id'] = message['message_id'] = message['run_id'] = 1000000
    run['output'] = None
    h.final['runs'].append(run)
    h.final['archive'].append(message)


def trigger_rolled_back(h):
    """a run whose trigger was rolled back"""
    h.first('trigger', lambda a, r: 'idempotency_key' not in a)[0]['commit'] = False


def trigger_lost(h):
    """an acknowledged trigger without a run"""
    came = h.first('trigger', lambda a, r: 'idempotency_key' in a)[1]
    came['results'] = [1000000]


def trigger_unasked(h):
    """a run that no client has triggered"""
    next(r for r in h.final['runs'] if r['tags'] and not r['rerun_of'])['tags'] = {'call': 'client-1.100000'}


def outcome_none(h):
    """a run that has ended without an archived message"""
    h.final['archive'].remove(next(m for m in h.final['archive'] if m['run_id'] and m['outcome'] == 'DONE'))


def outcome_wrong(h):
    """a run and a message that ended differently"""
    next(m for m in h.final['archive'] if m['run_id'] and m['outcome'] == 'DONE')['outcome'] = 'DEAD'


def outcome_two(h):
    """a run that has ended and goes on"""
    h.final['messages'].append(next(m for m in h.final['archive'] if m['run_id']))


def outcome_stuck(h):
    """a run that does not end"""
    ended = {e['run_id'] for e in h.final['effects'] if e['step_id'] == '(end)'}
    run = next(r for r in h.final['runs'] if r['status'] == 'SUCCESS' and r['run_id'] not in ended)
    run['status'] = 'RUNNING'
    for name, lines in h.logs.items():
        told = {s['n'] for s, _ in h.transactions() if s in lines and tells_of(run['run_id'], s)}
        h.logs[name] = [line for line in lines if 'calls' in line or line.get('n') not in told]


def tells_of(run, sent):
    """Whether an answer says that a run has ended."""
    call = sent['calls'][-1]
    return call['f'] in ('complete_run', 'get_run', 'result', 'wait', 'cancel_run') and call['a']['run_id'] == run or \
        call['f'] == 'list_runs'


def outcome_message(h):
    """a message that is gone"""
    h.final['archive'].remove(next(m for m in h.final['archive'] if not m['run_id']))


def lease_two(h):
    """a claim before the lease before it has ended"""
    for rows in h.claims().values():
        if len(rows) == 2 and rows[1]['failures'] == rows[0]['failures'] + 1:
            late = rows[1]['visible_after'] - rows[0]['visible_after'] - 1      # with leases of a second
            if 0 <= late < 0.5:
                rows[1]['visible_after'] -= late + 0.2
                return
    raise AssertionError('no lease has run out')


def lease_stale(h):
    """a lease that can be extended though it was superseded"""
    claimed = {row['lease']: came['at'] for _, came, _, result in h.answered('dequeue') for row in result}
    superseded = {row['lease']: claimed[after['lease']]
                  for rows in h.claims().values() for row, after in zip(rows, rows[1:])}
    for sent, came in h.transactions():
        call = sent['calls'][0]
        if came and came.get('error') == 'PQ006' and len(sent['calls']) == 1 and \
                call['a'].get('run_id') and superseded.get(call['a']['lease'], sent['at']) < sent['at']:
            call.update(f='extend_lease', a={'message_id': call['a']['run_id'], 'lease': call['a']['lease'],
                                             'visibility_timeout': '1 s'})
            del came['error']
            came['results'] = [{'extended': True, 'cancel_requested': False}]
            return
    raise AssertionError('no lease was superseded')


def output_changed(h):
    """a step that answers something else than before"""
    result = h.first('step_begin', lambda a, r: r['status'] == 'SUCCESS')[3]
    result['output'] = {'nonce': 'another'}


def output_listed(h):
    """a step that is listed with another output than it has"""
    result = h.first('list_steps', lambda a, r: any(finished(s) for s in r))[3]
    next(s for s in result if finished(s))['output'] = {'nonce': 'another'}


def finished(step):
    return step['kind'] == 'FUNCTION' and step['status'] == 'SUCCESS'


def effect_twice(h):
    """what a step wrote is there twice"""
    h.final['effects'].append(next(e for e in h.final['effects'] if not e['step_id'].startswith('(')))


def effect_lost(h):
    """what a step wrote is not there"""
    h.final['effects'].remove(next(e for e in h.final['effects'] if not e['step_id'].startswith('(')))


def effect_message(h):
    """what was written with the end of a message is there twice"""
    h.final['effects'].append(next(e for e in h.final['effects'] if e['step_id'] == '(message)'))


def effect_rolled_back(h):
    """what was rolled back is there"""
    done = {tuple(e.values()) for e in h.final['effects']}
    sent = next(s for s, _ in h.transactions() if not s['commit'] and
                s['calls'][0]['a']['step_id'] == '(trigger)' and tuple(s['calls'][0]['a'].values()) not in done)
    h.final['effects'].append(sent['calls'][0]['a'])


def attempt(h):
    """a claim that counts no attempt"""
    rows = next(rows for rows in h.claims().values() if len(rows) == 2 and rows[1]['attempt'] == 2)
    rows[1]['attempt'] = 1


def attempt_step(h):
    """a step that counts an attempt less"""
    begun = {}
    for sent, _, args, result in h.answered('step_begin', lambda a, r: r['should_execute']):
        key = args['run_id'], args['step_id']
        if result['attempt'] > 1 and key in begun and begun[key] < sent['at']:
            result['attempt'] -= 1
            return
        begun[key] = sent['at']
    raise AssertionError('no step was begun twice')


def terminal_changed(h):
    """a run that had succeeded and then was cancelled"""
    ended = {args['run_id']: came['at'] for _, came, args, _ in h.answered('complete_run')}
    for sent, _, args, result in h.answered('result'):
        if ended.get(args['run_id'], sent['at']) < sent['at']:
            result['status'] = 'CANCELLED'
            return
    raise AssertionError('no client looked')


def terminal_claimed(h):
    """a run that is delivered though it has ended"""
    ended = {args['run_id']: came['at'] for _, came, args, _ in h.answered('complete_run')}
    run, instant = min(ended.items(), key=lambda e: e[1])
    row = copy.deepcopy(h.claims()[run][-1])
    sent, came, args, result = h.first('dequeue', lambda a, r: r and r[0]['run_id'])
    sent, came = copy.deepcopy(sent), copy.deepcopy(came)
    sent.update(n=1000000, at=instant + 1)
    came.update(n=1000000, at=instant + 1.1, results=[[row]])
    sent['calls'][0]['a']['visibility_timeout'] = '1 s'
    row['visible_after'] += 60
    row['attempt'] += 10
    h.logs['client-1'] += [sent, came]


def signal_twice(h):
    """a signal that two steps have taken"""
    taken = list(h.answered('await_signal', lambda a, r: r['received']))
    times = [(a['run_id'], a['step_id']) for _, _, a, _ in taken]
    once = [t for t in taken if times.count((t[2]['run_id'], t[2]['step_id'])) == 1]
    once[0][3]['payload'] = once[-1][3]['payload']


def signal_lost(h):
    """an acknowledged signal that is not there"""
    h.final['signals'].remove(next(s for s in h.final['signals']
                                   if s['consumed_by'] is None and not s['idempotency_key']))


def early_sleep(h):
    """a sleep that was too short"""
    slept = {}
    sleeps = sorted(h.answered('sleep', lambda a, r: 'duration' in a), key=lambda t: t[0]['at'])
    for sent, came, args, result in sleeps:
        key = args['run_id'], args['step_id']
        if result and key in slept:
            came['wall'] = slept[key]
            return
        slept[key] = sent['wall']
    raise AssertionError('no client slept')


def early_claim(h):
    """a run that is delivered before its delay has ended"""
    moved = {c['a'].get('message_id') for s, _ in h.transactions() for c in s['calls']
             if c['f'] in ('set_visibility', 'replay_message')}
    h.first('trigger', lambda a, r: 'idempotency_key' not in a and r in h.claims() and r not in moved)[0]['wall'] += 100


def key_twice(h):
    """two runs with one key"""
    runs = [r for r in h.final['runs'] if r['workflow'] == 'chaos.retained' and not r['deleted_at']]
    key = next(r['idempotency_key'] for r in runs if r['idempotency_key'])
    next(r for r in runs if not r['idempotency_key'])['idempotency_key'] = key


def audit_twice(h):
    """an end that is written down twice"""
    h.final['events'].append(next(e for e in h.final['events'] if e['event'] == 'cancelled'))


def audit_created(h):
    """a run of whose creation nothing is written down"""
    h.final['events'].remove(next(e for e in h.final['events'] if e['event'] == 'created'))


def audit_other(h):
    """another end than it was"""
    event = next(e for e in h.final['events'] if e['event'] == 'cancelled' and
                 h.run(e['run_id'])['workflow'] == 'chaos.active')
    event['event'] = 'finished'


def audit_claim(h):
    """a claim that is not written down"""
    dead = {e['run_id'] for e in h.final['events'] if e['event'] == 'replayed'}
    h.final['events'].remove(next(e for e in h.final['events'] if e['event'] == 'claimed' and e['run_id'] not in dead))


def audit_signal(h):
    """a signal that is written down for another run"""
    next(e for e in h.final['events'] if e['event'] == 'signalled')['data']['signal_id'] = 1000000


def audit_child(h):
    """a child that is not written down"""
    h.final['events'].remove(next(e for e in h.final['events'] if e['event'] == 'child_started'))


def audit_rerun(h):
    """a rerun that is not written down"""
    h.final['events'].remove(next(e for e in h.final['events'] if e['event'] == 'rerun'))


def audit_step(h):
    """a step that is written down as done twice"""
    done = next(i for i, e in enumerate(h.final['events']) if e['event'] == 'step_done' and
                e['data']['step_id'].startswith('s'))
    h.final['events'].insert(done, h.final['events'][done])


def told_twice(h):
    """an end that is told twice"""
    h.final['told'].append(h.final['told'][-1])


def told_lost(h):
    """an end that is not told"""
    h.final['told'].pop()


def told_wrong(h):
    """another end is told than it was"""
    event = next(m['payload'] for m in h.final['told'] if m['payload']['type'] == 'pgqrs.run.succeeded')
    event['type'] = 'pgqrs.run.failed'


def told_output(h):
    """another output is told than there is"""
    event = next(m['payload'] for m in h.final['told'] if 'output' in m['payload']['data'])
    event['data']['output'] = {'nonce': 'another'}


def slot_twice(h):
    """two runs of one slot"""
    slot = h.final['firings'][0]['slot']
    next(r for r in h.final['runs'] if not r['schedule_slot'] and not r['rerun_of'])['schedule_slot'] = slot


def slot_lost(h):
    """a slot without a run"""
    h.final['firings'][0]['run_id'] = 1000000


def slot_missed(h):
    """a minute in which nothing was fired"""
    firing = copy.deepcopy(h.final['firings'][0])
    minute = int(firing['slot'][14:16])
    firing['slot'] = firing['slot'][:14] + f'{(minute + 30) % 60:02}' + firing['slot'][16:]
    h.final['firings'].append(firing)
    h.run(firing['run_id'])['schedule_slot'] = firing['slot']


def parked(h):
    """a run that waits for a signal which has come"""
    h.quiet['messages'].append({'message_id': 1, 'run_id': 1, 'visible_after': 'infinity', 'waiting_for': 'signal a'})
    h.quiet['signals'].append({'signal_id': 1, 'run_id': 1, 'name': 'a', 'consumed_by': None})


def parked_child(h):
    """a run that waits for a child which has ended"""
    child = next(r['run_id'] for r in h.quiet['runs'] if r['status'] in TERMINAL)
    h.quiet['messages'].append({'message_id': 1, 'run_id': 1, 'visible_after': 'infinity',
                                'waiting_for': 'any child m1'})
    h.quiet['steps'].append({'run_id': 1, 'step_id': 'm1', 'input': {'run_ids': [0, child]}})


ALTERATIONS = (error, trigger_twice, trigger_rolled_back, trigger_lost, trigger_unasked, outcome_none, outcome_wrong,
               outcome_two, outcome_stuck, outcome_message, lease_two, lease_stale, output_changed, output_listed,
               effect_twice, effect_lost, effect_message, effect_rolled_back, attempt, attempt_step, terminal_changed,
               terminal_claimed, signal_twice, signal_lost, early_sleep, early_claim, key_twice, audit_twice,
               audit_created, audit_other, audit_claim, audit_signal, audit_child, audit_rerun, audit_step,
               told_twice, told_lost, told_wrong, told_output, slot_twice, slot_lost, slot_missed, parked,
               parked_child)


# What is told of every run contradicts most faults, too.
WITNESSES = {'audit', 'told'}


class Tap:
    count = failed = 0

    def result(self, is_ok, text, violations):
        self.count += 1
        self.failed += not is_ok
        print(f'{"" if is_ok else "not "}ok {self.count} - {text}')
        if not is_ok:
            for v in violations[:10]:
                print(f'# {v.rule}: {v.text[:500]}')


def check_altered(recorded, alter):
    altered = pickle.loads(recorded)
    alter(altered)
    return checker.check(History.of(altered.logs, altered.tables))


def test(folder):
    recorded = pickle.dumps(Recorded(*read_files(folder)))
    tap = Tap()
    violations = check_altered(recorded, lambda h: None)
    tap.result(not violations, 'as it was recorded: nothing is reported', violations)
    rng = random.Random(1)
    for share in (0.02, 0.1, 0.5):
        violations = check_altered(recorded, lambda h: h.forget(None, share, rng))
        tap.result(not violations, f'{share:.0%} of the answers are not known: nothing is reported', violations)
    for alter in ALTERATIONS:
        rule = alter.__name__.split('_')[0]
        violations = check_altered(recorded, alter)
        found = {v.rule for v in violations}
        tap.result(rule in found and found <= {rule} | WITNESSES, f'{rule}: {alter.__doc__}', violations)
    missed = set(checker.RULES) - {a.__name__.split('_')[0] for a in ALTERATIONS}
    tap.result(not missed, 'every rule was broken', [checker.Violation(m, 'not broken') for m in missed])
    print(f'1..{tap.count}')
    return tap.failed


def says_nothing(sent, came):
    """A claim or the like that found nothing."""
    return sent['calls'][0]['f'] in ('dequeue', 'consume', 'list_runs') and \
        came and came.get('results', [1])[0] in ([], 0)


def record(folder):
    recorded = Recorded(*read_files(folder))
    for name, lines in recorded.logs.items():
        idle = {s['n'] for s, c in recorded.transactions() if says_nothing(s, c) and s in lines}
        recorded.logs[name] = [line for line in lines if line.get('n') not in idle]
    with tempfile.TemporaryDirectory() as smaller, tarfile.open(RECORDED, 'w:xz') as tar:
        recorded.write(smaller)
        for name in sorted(os.listdir(smaller)):
            tar.add(os.path.join(smaller, name), name, filter=anonymous)


def anonymous(file):
    file.uid = file.gid = file.mtime = 0
    file.uname = file.gname = ''
    return file


def main():
    if sys.argv[1:2] == ['record']:
        record(sys.argv[2])
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(RECORDED) as tar:
            tar.extractall(folder)
        sys.exit(1 if test(folder) else 0)


if __name__ == '__main__':
    main()
