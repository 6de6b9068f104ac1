// The driver of the conformance suite (clients/conformance/README.md) for this client: node build/test/driver.js JOB
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientBase } from 'pg';

import {
	App, Cancelled, ChildFailed, InvalidStep, Leave, Message, NotSerializable, Permanent, Retry, Run, RunCancelled, RunFailed, SignalTimeout, StepFailed,
	WaitTimeout,
} from '../src/index.js';

type Value = any;
type Operation = Record<string, Value>;

interface Definition {
	dir: string;
	options: object;
	script: Operation[];
}

interface Job {
	worker: string;
	concurrency: number;
	grace: number;
	install: boolean;
	workflows: Record<string, Definition>;
	queues: Record<string, Definition>;
	also?: string[];
}

const KINDS: Record<string, new (...args: any[]) => Error> = {
	step_failed: StepFailed,
	child_failed: ChildFailed,
	timeout: SignalTimeout,
	cancelled: Cancelled,
	not_serializable: NotSerializable,
	invalid_step: InvalidStep,
	run_failed: RunFailed,
	run_cancelled: RunCancelled,
	wait_timeout: WaitTimeout,
};

class Return {
	constructor(readonly value: Value) {}
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));
const milliseconds = (seconds?: number): number | undefined => (seconds === undefined ? undefined : seconds * 1000);

/** An error that is stored with this type. */
function errorOf(given?: { type: string; message?: string; permanent?: boolean; after?: number }): Error {
	const { type, message = '', permanent, after } = given ?? { type: 'failed', message: 'failed' };
	if (permanent) return new Permanent(message, { type });
	if (after !== undefined) return new Retry(message, { type, after: after * 1000 });
	const error = new Error(message);
	error.name = type;
	return error;
}

function isOfKind(kind: string, error: Value): boolean {
	if (kind === 'any') return error instanceof Error && !(error instanceof Leave);
	const type = KINDS[kind];
	return type ? error instanceof type : error.code === kind;
}

/** One delivery: a script, interpreted. */
class Handler {
	#error: unknown;

	constructor(readonly app: App, readonly definition: Definition, readonly context: Run | Message, readonly variables: Record<string, Value>) {}

	get run(): Run {
		return this.context as Run;
	}

	value(value: Value): Value {
		if (Array.isArray(value)) return value.map((item) => this.value(item));
		if (typeof value !== 'object' || value === null) return value;
		if ('$' in value) return value.$.split('.').reduce((object: Value, key: string) => object[key], this.variables);
		return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.value(item)]));
	}

	/** Writes that a body is executed: the n-th time. */
	count(name: string): number {
		const line = `${this.context.id} ${name}`;
		const path = join(this.definition.dir, 'trace');
		appendFileSync(path, `${line}\n`);
		return readFileSync(path, 'utf8').split('\n').filter((other) => other === line).length;
	}

	/** Asks for so many seconds whether the run was cancelled or lost. */
	async check(seconds: number): Promise<void> {
		for (const end = Date.now() + seconds * 1000; Date.now() < end; await pause()) this.run.check();
	}

	async hold(name: string): Promise<void> {
		while (!existsSync(join(this.definition.dir, name))) await pause();
	}

	async body(op: Operation, name: string, client?: ClientBase): Promise<Value> {
		const n = this.count(name);
		if (client) {
			await client.query('INSERT INTO effects (id, name) VALUES ($1, $2)', [this.context.id, name]);
			if (op['sql']) await client.query(op['sql']);
			if (op['start']) await this.app.start(op['start'].start, this.value(op['start'].input), { client });
		}
		if (op['hold']) await this.hold(op['hold']);
		if (n <= (op['crash'] ?? 0)) for (;;) process.kill(process.pid, 'SIGKILL');
		if (n <= (op['fail'] ?? 0)) throw errorOf(op['error']);
		return this.value(op['return']);
	}

	async do(script: Operation[]): Promise<void> {
		for (const op of script) {
			const answer = await this.operation(op);
			if (op['as'] !== undefined && !op['try']) this.variables[op['as']] = answer;
		}
	}

	async operation(op: Operation): Promise<Value> {
		const { app, run } = this;
		const verb = Object.keys(op)[0]!;
		const subject = op[verb];
		const timeout = milliseconds(op['timeout']);
		const id = op['id'];
		switch (verb) {
			case 'step':
				return run.step(subject, { maxAttempts: op['max_attempts'] }, () => this.body(op, subject));
			case 'transaction':
				if (this.context instanceof Message) return this.context.transaction((client) => this.body(op, subject, client));
				return run.transaction(subject, { maxAttempts: op['max_attempts'] }, (client) => this.body(op, subject, client));
			case 'body':
				return this.body(op, subject);
			case 'sleep':
				return run.sleep(subject * 1000, { id });
			case 'receive':
				return run.receive(subject, { timeout, id });
			case 'pause':
				return run.pause({ id: subject, checkAfter: milliseconds(op['check_after']), reason: this.value(op['reason']) });
			case 'child':
				return run.child(subject, this.value(op['input']), { id, ...op['options'] });
			case 'children':
				return run.children(subject, this.value(op['inputs']), { id, ...op['options'] });
			case 'start_child':
				return run.startChild(subject, this.value(op['input']), { id, ...op['options'] });
			case 'result_of':
				return run.resultOf(subject);
			case 'await_any':
				return run.awaitAny({ id: subject, signals: op['signals'], children: op['children'], timeout });
			case 'progress':
				return run.progress(this.value(subject));
			case 'check':
				return this.check(subject);
			case 'hold':
				return this.hold(subject);
			case 'crash':
				return this.body({ crash: 1 }, subject);
			case 'raise':
				if (op['times'] === undefined || this.count(id) <= op['times']) throw errorOf(subject);
				return undefined;
			case 'try':
				return this.try(op);
			case 'again':
				throw this.#error;
			case 'return':
				throw new Return(this.value(subject));
			case 'start':
				return (await app.start(subject, this.value(op['input']), { key: op['key'], ...op['options'] })).runId;
			case 'result':
				return app.handle(this.value(subject)).result({ timeout: timeout ?? 60_000 });
			case 'signal':
				return app.signal(this.value(subject), op['name'], this.value(op['payload']), { key: op['key'] });
			case 'cancel':
				return app.handle(this.value(subject)).cancel(op['reason']);
			case 'enqueue':
				return app.produce(subject, this.value(op['payload']), { key: op['key'], ...op['options'] });
			default:
				throw new Error(`there is no operation ${verb}`);
		}
	}

	async try(op: Operation): Promise<void> {
		try {
			await this.do(op['try']);
		} catch (error: Value) {
			if (error instanceof Return || !isOfKind(op['catch'], error)) throw error;
			const { message, status, error: stored } = error;
			this.variables[op['as'] ?? 'error'] = { type: error.type ?? error.code ?? error.name, message, status, error: stored };
			const before = this.#error;
			this.#error = error;
			await this.do(op['then']);
			this.#error = before;
		}
	}

	async handle(): Promise<Value> {
		try {
			await this.do(this.definition.script);
		} catch (error) {
			if (error instanceof Return) return error.value;
			throw error;
		}
	}
}

const job: Job = JSON.parse(readFileSync(process.argv[2]!, 'utf8'));
const app = new App({ name: job.worker });
for (const [name, definition] of Object.entries(job.workflows))
	app.workflow<any, any>(name, definition.options, (run, input) => {
		const variables = { input, attempt: run.attempt, headers: run.headers };
		return new Handler(app, definition, run, variables).handle();
	});
for (const [name, definition] of Object.entries(job.queues))
	app.queue<any>(name, definition.options, (payload, message) => {
		const variables = { input: payload, attempt: message.attempt, headers: message.headers };
		return new Handler(app, definition, message, variables).handle();
	});
if (job.install) await app.install();
await app.work({
	concurrency: job.concurrency,
	grace: job.grace * 1000,
	queues: [...Object.keys(job.workflows), ...Object.keys(job.queues), ...(job.also ?? [])],
});
process.exit(0);
