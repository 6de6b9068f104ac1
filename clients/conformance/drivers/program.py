"""The driver of the conformance suite for the program pgqrs; README.md says what it does.

    program.py JOB                      becomes "pgqrs work", whose command is
    program.py --handler JOB WORKER     a handler: a script of sub-commands, whose steps are
    program.py --body JOB WORKER OP     bodies

It has the operations that sub-commands can express. The others are left out by
--without transaction,pause,child,children,start_child,result_of,await_any,progress,try,again,raise,permanent,cancel,install
and cases that expect an error of a type of their own fail: those of the program are exit_1 and so on.
"""
import json
import os
import signal
import subprocess
import sys
import time

from script import Script


class Handler(Script):
    def __init__(self, path, worker):
        with open(path, encoding='utf-8') as file:
            job = json.load(file)
        definition = {**job['workflows'], **job['queues']}[os.environ['PGQRS_QUEUE']]
        super().__init__(os.environ['PGQRS_MESSAGE_ID'], definition['dir'],
                         {'attempt': int(os.environ['PGQRS_ATTEMPT']),
                          'headers': json.loads(os.environ.get('PGQRS_HEADERS', 'null'))})
        self.path, self.worker, self.script = path, worker, definition['script']

    def body(self, op, name):
        n = self.count(name)
        if 'hold' in op:
            self.do_hold(op)
        if n <= op.get('crash', 0):
            os.kill(int(self.worker), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        if n <= op.get('fail', 0):
            print(op.get('error', {}).get('message', 'failed'), file=sys.stderr)
            sys.exit(1)
        return op.get('return')

    def run(self):
        for op in self.script:
            answer = getattr(self, 'do_' + next(iter(op)))(op)
            if 'as' in op:
                self.variables[op['as']] = answer

    @staticmethod
    def pgqrs(*arguments):
        """What a sub-command prints; a handler ends as it does."""
        ended = subprocess.run(['pgqrs', *map(str, arguments)], stdout=subprocess.PIPE, close_fds=False, check=False)
        if ended.returncode != 0:
            sys.exit(ended.returncode)
        return json.loads(ended.stdout or 'null')

    @staticmethod
    def options(op, *names):
        """Options of a sub-command."""
        given = {**op.get('options', {}), **{name: op[name] for name in names if name in op}}
        return [f'--{name.replace("_", "-")}={v if isinstance(v, (str, int)) else json.dumps(v)}' for name, v in given.items()]

    def do_step(self, op):
        body = json.dumps({**op, 'return': self.value(op.get('return'))})
        return self.pgqrs('step', *self.options({name: v for name, v in op.items() if name == 'max_attempts'}, 'max_attempts'),
                          op['step'], '--', sys.executable, __file__, '--body', self.path, self.worker, body)

    def do_body(self, op):
        return self.body(op, op['body'])

    def do_sleep(self, op):
        return self.pgqrs('sleep', op['id'], f"{op['sleep']} s")

    def do_receive(self, op):
        timeout = [f"--timeout={op['timeout']} s"] if op.get('timeout') is not None else []
        return self.pgqrs('wait-signal', *timeout, op['id'], op['receive'])

    @staticmethod
    def do_check(op):
        time.sleep(op['check'])     # a cancel ends the process group

    def do_hold(self, op):
        while not os.path.exists(os.path.join(self.dir, op['hold'])):
            time.sleep(0.01)

    def do_crash(self, op):
        self.body({'crash': 1}, op['crash'])

    def do_return(self, op):
        print(json.dumps(self.value(op['return'])))
        sys.exit(0)

    def do_start(self, op):
        return self.pgqrs('trigger', *self.options(op, 'key'), op['start'], json.dumps(self.value(op.get('input'))))

    def do_result(self, op):
        return self.pgqrs('result', f"--timeout={op.get('timeout', 60)} s", self.value(op['result']))

    def do_signal(self, op):
        return self.pgqrs('signal', *self.options(op, 'key'), self.value(op['signal']), op['name'], json.dumps(self.value(op.get('payload'))))

    def do_enqueue(self, op):
        return self.pgqrs('enqueue', *self.options(op, 'key'), op['enqueue'], json.dumps(self.value(op.get('payload'))))


def main():
    if sys.argv[1] == '--handler':
        handler = Handler(*sys.argv[2:])
        handler.variables['input'] = json.load(sys.stdin)
        handler.run()
    elif sys.argv[1] == '--body':
        op = json.loads(sys.argv[4])
        output = Handler(*sys.argv[2:4]).body(op, op['step'])
        if output is not None:
            print(json.dumps(output))
    else:
        with open(sys.argv[1], encoding='utf-8') as file:
            job = json.load(file)
        queues = [argument for name in [*job['workflows'], *job['queues'], *job['also']] for argument in ('--queue', name)]
        os.execvp('pgqrs', ['pgqrs', 'work', *queues, '--name', job['worker'], '--concurrency', str(job['concurrency']), '--grace',
                            str(max(1, round(job['grace']))), '--exec', f'exec {sys.executable} {__file__} --handler {sys.argv[1]} {os.getpid()}'])


if __name__ == '__main__':
    main()
