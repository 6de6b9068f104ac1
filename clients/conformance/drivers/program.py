"""The driver of the conformance suite for the program pgqrs; README.md says what it does.

    program.py JOB                      becomes "pgqrs work", whose command is
    program.py --handler JOB WORKER     a handler: a script of sub-commands, whose steps are
    program.py --body JOB WORKER OP     bodies

It has the operations that sub-commands can express; program.json says what it has not, and why.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from script import Script

LEAVE, CANCELLED = 79, 80
PYTHON = [sys.executable, '-S', '-E', __file__]    # which starts sooner
KINDS = {('wait-signal', 5): 'timeout', **{(name, code): 'child_failed' for name in ('child', 'children') for code in (3, 4)},
         ('result', 3): 'run_failed', ('result', 4): 'run_cancelled', ('result', 5): 'wait_timeout'}


class Failed(Exception):
    """A sub-command has failed, with this exit code."""

    def __init__(self, code, kind, error=None):
        super().__init__(kind)
        self.code, self.kind, self.error = code, kind, error


class Handler(Script):
    def __init__(self, path, worker):
        with open(path, encoding='utf-8') as file:
            job = json.load(file)
        definition = {**job['workflows'], **job['queues']}[os.environ['PGQRS_QUEUE']]
        super().__init__(os.environ['PGQRS_MESSAGE_ID'], definition['dir'],
                         {'attempt': int(os.environ['PGQRS_ATTEMPT']),
                          'headers': json.loads(os.environ.get('PGQRS_HEADERS', 'null'))})
        self.path, self.worker, self.script = path, worker, definition['script']
        self.is_caught = False

    def body(self, op, name):
        n = self.count(name)
        if 'hold' in op:
            self.do_hold(op)
        if n <= op.get('crash', 0):
            os.kill(int(self.worker), signal.SIGKILL)
            os.killpg(0, signal.SIGKILL)
        if n <= op.get('fail', 0):
            self.do_raise({'raise': op.get('error', {'message': 'failed'})})
        return self.value(op.get('return'))

    def run(self):
        if os.environ.get('PGQRS_UNDO'):
            self.finished = {step['step_id'] for step in self.pgqrs('run', self.id, '--format=json')['steps']
                             if step['status'] in ('SUCCESS', 'ERROR') and not step.get('undo')}
        try:
            self.do(self.script)
        except Failed as e:
            if e.kind and re.fullmatch('[0-9A-Z]{5}', e.kind):
                print(json.dumps({'type': e.kind}), file=sys.stderr, flush=True)
            sys.exit(e.code)

    def do(self, script):
        for op in script:
            answer = getattr(self, 'do_' + next(iter(op)))(op)
            if 'as' in op and 'try' not in op:
                self.variables[op['as']] = answer

    @staticmethod
    def pgqrs(name, *arguments, given=b''):
        """What a sub-command prints."""
        ended = subprocess.run(['pgqrs', name, *map(str, arguments)], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               close_fds=False, check=False)
        sys.stderr.buffer.write(ended.stderr)
        sys.stderr.flush()
        if ended.returncode == 0:
            return json.loads(ended.stdout or 'null')
        if ended.returncode == LEAVE:
            sys.exit(LEAVE)
        state = re.search(rb'error: ([0-9A-Z]{5}): ', ended.stderr)
        raise Failed(ended.returncode, 'cancelled' if ended.returncode == CANCELLED else 'step_failed' if name == 'step' else
                     KINDS.get((name, ended.returncode)) or (state and state[1].decode()),
                     ended.stdout if name == 'result' else ended.stderr.splitlines()[-1] if ended.stderr else None)

    @staticmethod
    def options(op, *names):
        """Options of a sub-command."""
        given = {{'idempotency_key': 'key'}.get(name, name): value for name, value in op.get('options', {}).items()}
        given = {**given, **{name: op[name] for name in names if name in op}}
        return [f'--{name.replace("_", "-")}' if v is True else
                f'--{name.replace("_", "-")}={v if isinstance(v, (str, int)) else json.dumps(v)}' for name, v in given.items()]

    def meet_undo(self, step):
        """A handler that undoes its run is told so at the first step that was not finished before."""
        if hasattr(self, 'finished') and step not in self.finished:
            del self.finished
            raise Failed(CANCELLED, 'cancelled')

    def do_step(self, op):
        return self.step(op, op['step'])

    def do_transaction(self, op):
        return self.step(op, op['transaction'], '--sql')

    def step(self, op, step, *options):
        self.meet_undo(step)
        after = op.get('error', {}).get('after')
        options = [*options, *(['--optional'] if self.is_caught else []), *([f'--retry-after={after} s'] if after else []),
                   *([f"--max-attempts={op['max_attempts']}"] if 'max_attempts' in op else [])]
        with tempfile.NamedTemporaryFile('w', dir=self.dir, encoding='utf-8') as file:    # longer than an argument may be
            json.dump({**op, 'return': self.value(op.get('return'))}, file)
            file.flush()
            return self.pgqrs('step', *options, '--', step, *PYTHON, '--body', self.path, self.worker, file.name)

    def do_body(self, op):
        return self.body(op, op['body'])

    def do_sleep(self, op):
        self.meet_undo(op['id'])
        return self.pgqrs('sleep', '--', op['id'], f"{op['sleep']} s")

    def do_receive(self, op):
        self.meet_undo(op['id'])
        timeout = [f"--timeout={op['timeout']} s"] if op.get('timeout') is not None else []
        return self.pgqrs('wait-signal', *timeout, '--', op['id'], op['receive'])

    def do_pause(self, op):
        self.meet_undo(op['pause'])
        after = [f"--check-after={op['check_after']} s"] if 'check_after' in op else []
        return self.pgqrs('pause', *after, '--', op['pause'], *([json.dumps(self.value(op['reason']))] if 'reason' in op else []))

    def do_child(self, op, *options):
        self.meet_undo(op['id'])
        return self.pgqrs('child', *options, *self.options(op), '--', op['id'], op['child'], json.dumps(self.value(op.get('input'))))

    def do_start_child(self, op):
        return self.do_child({**op, 'child': op['start_child']}, '--start')

    def do_result_of(self, op):
        return self.pgqrs('child', '--', op['result_of'])

    def do_children(self, op):
        self.meet_undo(op['id'])
        return self.pgqrs('children', *self.options(op), '--', op['id'], op['children'], json.dumps(self.value(op['inputs'])))

    def do_await_any(self, op):
        self.meet_undo(op['await_any'])
        names = [f'--{kind}={name}' for kind in ('signal', 'child') for name in op.get({'signal': 'signals', 'child': 'children'}[kind], [])]
        timeout = [f"--timeout={op['timeout']} s"] if 'timeout' in op else []
        return self.pgqrs('wait-any', *names, *timeout, '--', op['await_any'])

    def do_progress(self, op):
        self.pgqrs('progress', json.dumps(self.value(op['progress'])))

    @staticmethod
    def do_check(op):
        time.sleep(op['check'])     # a cancel ends the process group

    def do_hold(self, op):
        while not os.path.exists(os.path.join(self.dir, op['hold'])):
            time.sleep(0.01)

    def do_crash(self, op):
        self.body({'crash': 1}, op['crash'])

    def do_raise(self, op):
        if 'times' in op and self.count(op['id']) > op['times']:
            return
        error = {'type': 'failed', **op['raise']}
        after = {'retry_after': f"{error['after']} s"} if 'after' in error else {}
        print(json.dumps({'type': error['type'], 'message': error.get('message', ''), **after}), file=sys.stderr, flush=True)
        raise Failed(65 if error.get('permanent') else 1, 'raised')

    def do_try(self, op):
        """Which failures are told apart follows from sub-commands and exit codes."""
        before, self.is_caught = self.is_caught, op['catch'] in ('step_failed', 'any')
        if op['catch'] == 'cancelled':
            signal.signal(signal.SIGTERM, self.take_signal)
        try:
            self.do(op['try'])
        except Failed as e:
            if op['catch'] not in (e.kind, 'any' if e.code != CANCELLED else None):
                raise
            self.is_caught = before
            if e.kind == 'run_failed':
                self.variables[op.get('as')] = json.loads(e.error)['error']
            elif e.kind == 'child_failed':
                error = json.loads(e.error)
                self.variables[op.get('as')] = {**error, 'status': 'ERROR' if e.code == 3 else 'CANCELLED', 'error': error}
            elif e.kind == 'step_failed':
                steps = self.pgqrs('run', self.id, '--format=json')['steps']
                self.variables[op.get('as')] = [step['error'] for step in steps if step['status'] == 'ERROR'][-1]
            self.failed = e
            self.do(op['then'])
        finally:
            self.is_caught = before

    @staticmethod
    def take_signal(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Failed(CANCELLED, 'cancelled')

    def do_again(self, _):
        raise self.failed

    def do_return(self, op):
        print(json.dumps(self.value(op['return'])))
        sys.exit(0)

    def do_start(self, op):
        return self.pgqrs('trigger', *self.options(op, 'key'), '--', op['start'], '-', given=json.dumps(self.value(op.get('input'))).encode())

    def do_result(self, op):
        return self.pgqrs('result', f"--timeout={op.get('timeout', 60)} s", '--format=json', self.value(op['result']))['output']

    def do_signal(self, op):
        return self.pgqrs('signal', *self.options(op, 'key'), '--', self.value(op['signal']), op['name'], json.dumps(self.value(op.get('payload'))))

    def do_cancel(self, op):
        ended = subprocess.run(['pgqrs', 'cancel', str(self.value(op['cancel'])), op.get('reason', '')], stdout=subprocess.PIPE, check=True)
        return ended.stdout.decode().strip()

    def do_enqueue(self, op):
        return self.pgqrs('enqueue', *self.options(op, 'key'), '--', op['enqueue'], json.dumps(self.value(op.get('payload'))))


def literal(value):
    return "'" + value.replace("'", "''") + "'"


def statements(handler, op, output):
    """What a transaction does, as SQL."""
    sql = [f"INSERT INTO effects (id, name) VALUES ({handler.id}, {literal(op['transaction'])})", op.get('sql', '')]
    if 'start' in op:
        sql.append(f"SELECT pgqrs_trigger({literal(op['start']['start'])}, {literal(json.dumps(op['start'].get('input')))})")
    return ';\n'.join([*sql, f'SELECT {literal(json.dumps(output))}'])


def main():
    if sys.argv[1] == '--handler':
        handler = Handler(*sys.argv[2:])
        handler.variables['input'] = json.load(sys.stdin)
        handler.run()
    elif sys.argv[1] == '--body':
        with open(sys.argv[4], encoding='utf-8') as file:
            op = json.load(file)
        handler = Handler(*sys.argv[2:4])
        try:
            output = handler.body(op, op.get('step') or op['transaction'])
        except Failed as e:
            sys.exit(e.code)
        if 'transaction' in op:
            print(statements(handler, op, output))
        elif output is not None:
            print(json.dumps(output))
    else:
        with open(sys.argv[1], encoding='utf-8') as file:
            job = json.load(file)
        queues = [argument for name in [*job['workflows'], *job['queues'], *job['also']] for argument in ('--queue', name)]
        os.execvp('pgqrs', ['pgqrs', 'work', *queues, '--name', job['worker'], '--concurrency', str(job['concurrency']), '--grace',
                            str(max(1, round(job['grace']))), '--exec', f'exec {" ".join(PYTHON)} --handler {sys.argv[1]} {os.getpid()}'])


if __name__ == '__main__':
    main()
