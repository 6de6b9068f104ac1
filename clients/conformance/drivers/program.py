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
KINDS = {('wait-signal', 5): 'timeout', ('result', 3): 'run_failed', ('result', 4): 'run_cancelled', ('result', 5): 'wait_timeout'}


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
                     KINDS.get((name, ended.returncode)) or (state and state[1].decode()), ended.stdout)

    @staticmethod
    def options(op, *names):
        """Options of a sub-command."""
        given = {**op.get('options', {}), **{name: op[name] for name in names if name in op}}
        return [f'--{name.replace("_", "-")}' if v is True else
                f'--{name.replace("_", "-")}={v if isinstance(v, (str, int)) else json.dumps(v)}' for name, v in given.items()]

    def meet_undo(self, step):
        """A handler that undoes its run is told so at the first step that was not finished before."""
        if hasattr(self, 'finished') and step not in self.finished:
            del self.finished
            raise Failed(CANCELLED, 'cancelled')

    def do_step(self, op):
        self.meet_undo(op['step'])
        after = op.get('error', {}).get('after')
        options = [*(['--optional'] if self.is_caught else []), *([f'--retry-after={after} s'] if after else []),
                   *([f"--max-attempts={op['max_attempts']}"] if 'max_attempts' in op else [])]
        with tempfile.NamedTemporaryFile('w', dir=self.dir, encoding='utf-8') as file:    # longer than an argument may be
            json.dump({**op, 'return': self.value(op.get('return'))}, file)
            file.flush()
            return self.pgqrs('step', *options, '--', op['step'], *PYTHON, '--body', self.path, self.worker, file.name)

    def do_body(self, op):
        return self.body(op, op['body'])

    def do_sleep(self, op):
        self.meet_undo(op['id'])
        return self.pgqrs('sleep', '--', op['id'], f"{op['sleep']} s")

    def do_receive(self, op):
        self.meet_undo(op['id'])
        timeout = [f"--timeout={op['timeout']} s"] if op.get('timeout') is not None else []
        return self.pgqrs('wait-signal', *timeout, '--', op['id'], op['receive'])

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


def main():
    if sys.argv[1] == '--handler':
        handler = Handler(*sys.argv[2:])
        handler.variables['input'] = json.load(sys.stdin)
        handler.run()
    elif sys.argv[1] == '--body':
        with open(sys.argv[4], encoding='utf-8') as file:
            op = json.load(file)
        try:
            output = Handler(*sys.argv[2:4]).body(op, op['step'])
        except Failed as e:
            sys.exit(e.code)
        if output is not None:
            print(json.dumps(output))
    else:
        with open(sys.argv[1], encoding='utf-8') as file:
            job = json.load(file)
        queues = [argument for name in [*job['workflows'], *job['queues'], *job['also']] for argument in ('--queue', name)]
        os.execvp('pgqrs', ['pgqrs', 'work', *queues, '--name', job['worker'], '--concurrency', str(job['concurrency']), '--grace',
                            str(max(1, round(job['grace']))), '--exec', f'exec {" ".join(PYTHON)} --handler {sys.argv[1]} {os.getpid()}'])


if __name__ == '__main__':
    main()
