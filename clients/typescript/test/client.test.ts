// The client against a server of its own; the environment says where that is.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';

import {
	App, AppOptions, Cancelled, ChildFailed, Incompatible, LeaseLost, Parked, Permanent, Retry, Run, RunCancelled, RunFailed, SignalTimeout,
	StepFailed, WaitTimeout, WorkerStopped, WorkflowNotFound,
} from '../src/index.js';
import { rows } from '../src/database.js';
import { drain } from '../src/testing.js';
import { outgoing, telemetry } from '../src/trace.js';

const db = new pg.Pool({ max: 3 });
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
let number = 0;
const PATIENCE = 170_000; // milliseconds that anything may take

before(() => db.query('CREATE TABLE IF NOT EXISTS written (what text)'));
after(() => db.end());

function newApp(options: AppOptions = {}): App {
	return new App({ name: `test ${++number}`, log: quiet, ...options });
}

async function query(text: string, ...values: unknown[]): Promise<any[]> {
	return (await db.query(text, values)).rows;
}

async function until(condition: () => unknown, what: string): Promise<void> {
	const deadline = Date.now() + PATIENCE;
	while (!(await condition())) {
		if (Date.now() > deadline) throw new Error(`this has not happened: ${what}`);
		await setTimeout(10);
	}
}

async function withWorker<T>(app: App, work: () => Promise<T>): Promise<T> {
	await app.install();
	const worker = app.worker({ signals: false });
	const running = worker.run();
	try {
		return await work();
	} finally {
		worker.drain();
		await running;
		await app.close();
	}
}

/** What becomes of a run of this handler. */
function outcome<O>(handler: (run: Run, input: any) => O | Promise<O>, input?: unknown, options = {}): Promise<any> {
	const app = newApp();
	const workflow = app.workflow<any, O>(`w${number}`, { initialInterval: 10, maxAttempts: 2, ...options }, handler);
	return withWorker(app, async () => {
		const run = await workflow.start(input);
		return run.result({ timeout: PATIENCE });
	});
}

async function errorOf(promise: Promise<unknown>): Promise<any> {
	try {
		await promise;
	} catch (error) {
		return error;
	}
	throw new Error('it did not fail');
}

test('a step is executed once, its error is tried again, and its result is there after a wait', async () => {
	const executed: string[] = [];
	const output = await outcome(async (run, input) => {
		const key = await run.step('key', (step) => {
			executed.push('key');
			return step.key;
		});
		const twice = await run.step('twice', () => {
			executed.push('twice');
			if (executed.length < 3) throw new Error('not yet');
			return input * 2;
		});
		await run.sleep(10);
		return { twice, key: key === `${run.id}/key` };
	}, 21);
	assert.deepEqual(output, { twice: 42, key: true });
	assert.deepEqual(executed, ['key', 'twice', 'twice']);
});

test('what a transaction writes is there once, and gone if it fails', async () => {
	const output = await outcome(async (run) => {
		const first = await run.transaction('write', async (client) => {
			await client.query("INSERT INTO written VALUES ('once')");
			return (await client.query('SELECT 2::bigint AS two')).rows[0].two;
		});
		const failed = await errorOf(
			run.transaction('fail', { maxAttempts: 1 }, async (client) => {
				await client.query("INSERT INTO written VALUES ('never')");
				throw new Permanent('no', { type: 'refused' });
			})
		);
		return [first, failed instanceof StepFailed, failed.type];
	});
	assert.deepEqual(output, ['2', true, 'refused']);
	assert.deepEqual(await query("SELECT what FROM written WHERE what IN ('once', 'never')"), [{ what: 'once' }]);
});

test('the application may throw prepared statements away', async () => {
	const seen = await outcome(async (run) => {
		const found: number[] = [];
		for (const id of ['one', 'two']) {
			assert.equal(await run.step(id, () => id), id);
			found.push(
				await run.transaction(`after ${id}`, async (client) => {
					const { rows } = await client.query("SELECT count(*)::int AS n FROM pg_prepared_statements WHERE name LIKE 'pgqrs_%'");
					await client.query('DEALLOCATE ALL');
					return rows[0].n;
				})
			);
		}
		return found;
	});
	assert.deepEqual(seen, [1, 0]);
});

test('a transaction that conflicts is repeated, and no failure is counted', async () => {
	let tries = 0;
	const output = await outcome(
		(run) =>
			run.transaction('conflict', async (client) => {
				if (++tries < 3) await client.query("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$");
				return tries;
			}),
		undefined,
		{ maxAttempts: 1 }
	);
	assert.equal(output, 3);
});

test('values come back as they were stored, whatever they are', async () => {
	const values = [null, 'a "quoted" \\u0000 text', 'schön 日本 😀', [1, [2]], { a: [] }, 0.1, 9007199254740991, true, '', [], '[1]'];
	assert.deepEqual(await outcome(async (run, input) => [input, await run.step('same', () => input), await run.step('date', () => new Date(0))], values), [
		values, values, '1970-01-01T00:00:00.000Z',
	]);
});

test('integers of any size are stored as such, and come back without losing a digit', async () => {
	const large = 9007199254740993n;
	const numbers = [1e20, 1e23, -1.5e300, 2 ** 60, 5e-324, Number.MAX_SAFE_INTEGER];
	const output = await outcome(async (run, input) => {
		const stored = await run.step('bigint', () => ({ large, small: 5n, negative: -(10n ** 400n), text: `"${large}"` }));
		return [input, stored, await run.step('numbers', () => numbers), typeof stored.small];
	}, { large, list: [-large] });
	assert.deepEqual(output, [
		{ large, list: [-large] }, { large, small: 5, negative: -(10n ** 400n), text: `"${large}"` }, numbers, 'number',
	]);
	const app = newApp();
	await query("SELECT pgqrs_create_workflow('foreign', replace => true)");
	app.workflow<{ id: bigint; text: string }, unknown>('foreign', (run, { id, text }) => [typeof id, `${id}`, text.length, typeof run.id]);
	const [{ id }] = await query(`SELECT pgqrs_trigger('foreign', '{"id": 12345678901234567890, "text": "${'x\\\\'.repeat(500_000)}"}') AS id`);
	await drain(app);
	assert.deepEqual(await app.handle(Number(id)).result(), ['bigint', '12345678901234567890', 1_000_000, 'number']);
	await app.close();
});

test('jsonb is whatever it is: a scalar, null, nested, ten thousand keys, in any order', async () => {
	const keys = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`key ${9999 - n}`, n]));
	for (const value of ['text', 0, false, null, { null: null, nested: [[[{}]]] }, keys, { __proto__: 1, '': 2 }])
		assert.deepEqual(await outcome((run, input) => run.step('same', () => input), value), value);
	assert.equal(await outcome(() => undefined), null);
	assert.deepEqual(await outcome(() => ({ kept: 1, dropped: undefined, date: new Date(0) })), { kept: 1, date: '1970-01-01T00:00:00.000Z' });
});

test('a trace goes with runs, messages, children and signals', async () => {
	const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
	const app = newApp();
	const name = `trace${number}`;
	const got: unknown[] = [];
	const child = app.workflow<undefined, unknown>(`${name}.child`, async (run) => {
		const { headers } = await run.receiveSignal('go');
		return [run.headers['traceparent'], headers?.['traceparent']];
	});
	const queue = app.queue<number>(`${name}.q`, (_, message) => void got.push(message.headers));
	const flow = app.workflow<undefined, unknown>(name, async (run) => {
		const other = await run.step('start', async () => {
			await queue.produce(1);
			const { runId } = await child.start();
			await app.signal(runId, 'go');
			return runId;
		});
		const kid = await run.startChild(child);
		await run.step('signal', async () => app.signal((await query("SELECT (input->>'run_id')::int AS id FROM pgqrs_list_steps($1) WHERE step_id = $2", run.id, kid.id))[0].id, 'go'));
		return [await run.resultOf(kid), other];
	});
	await app.install();
	const handle = await flow.start(undefined, { headers: { traceparent: parent, tracestate: 'a=b', mine: 1 } });
	// a signal that meets the beginning of a wait comes a moment later, which no drain waits for
	await withWorker(app, async () => {
		const [ofChild, other] = (await handle.result({ timeout: PATIENCE })) as [unknown, number];
		assert.deepEqual(ofChild, [parent, parent]);
		assert.deepEqual(await app.handle(other).result({ timeout: PATIENCE }), [parent, parent]);
		await until(() => got.length > 0, 'the message is handled');
	});
	assert.deepEqual(got, [{ traceparent: parent, tracestate: 'a=b' }]);
	await app.close();
});

test('spans are made where OpenTelemetry is installed', async () => {
	const spans: unknown[] = [];
	const before = telemetry.api;
	telemetry.api = {
		SpanStatusCode: { ERROR: 2 },
		context: { active: () => 'active' },
		propagation: { inject: (_: unknown, carrier: any) => (carrier.traceparent = 'current'), extract: (_: unknown, headers: any) => headers.traceparent },
		trace: {
			getTracer: () => ({
				startActiveSpan: (name: string, _: unknown, context: unknown, work: (span: object) => unknown) => {
					spans.push([name, context]);
					return work({ recordException: (error: Error) => spans.push(error.message), setStatus: () => undefined, end: () => spans.push(`end of ${name}`) });
				},
			}),
		},
	};
	try {
		const app = newApp();
		const flow = app.workflow(`spans${number}`, { maxAttempts: 1 }, async (run) => {
			await run.step('first', () => 1);
			throw new Error('x');
		});
		await app.install();
		await flow.start();
		await drain(app);
		await app.close();
		assert.deepEqual(spans, [[flow.name, 'current'], ['first', 'active'], 'end of first', 'x', `end of ${flow.name}`]);
		assert.deepEqual(outgoing({ traceparent: 'given' }), { traceparent: 'given' });
	} finally {
		telemetry.api = before;
	}
});

test('a consumer without a worker ends what its handler took, and fails what it refused', async () => {
	const app = newApp();
	const queue = app.queue<{ n: number }>(`consumed${number}`, { maxAttempts: 1 }, () => undefined);
	await app.install();
	for (const n of [1, 2, 3]) await queue.produce({ n });
	const got: number[] = [];
	const take = ({ n }: { n: number }): void => {
		if (n === 2) throw new Permanent('even', { type: 'even' });
		got.push(n);
	};
	assert.deepEqual([await app.consume(queue, take, { batchSize: 2 }), await app.consume(queue, take), await app.consume(queue, take)], [2, 1, 0]);
	assert.deepEqual(got, [1, 3]);
	assert.deepEqual(await query("SELECT last_error->>'type' AS type FROM pgqrs_dead_letters WHERE queue = $1", queue.name), [{ type: 'even' }]);
	await app.close();
});

test('a call with a key is repeated when its connection is lost, one without is not', async () => {
	const app = newApp();
	const workflow = app.workflow(`again${number}`, () => 1);
	await app.install();
	const lose = async (): Promise<void> => void (await app.call('pg_terminate_backend', [(await app.call('pg_backend_pid', []))['pg_backend_pid']]).catch(() => undefined));
	await lose();
	const first = await workflow.start(undefined, { key: 'k' });
	await lose();
	assert.equal((await workflow.start(undefined, { key: 'k' })).runId, first.runId);
	await app.close();
});

test('many may wait for results, and calls go on beside them', async () => {
	const app = newApp();
	const workflow = app.workflow(`waited${number}`, () => 1);
	await app.install();
	const runs = await Promise.all(Array.from({ length: 15 }, () => workflow.start()));
	const results = runs.map((run) => run.result({ timeout: PATIENCE }));
	await until(async () => (await query("SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'CALL pgqrs_wait%'", app.name))[0].n === 15, 'all wait');
	assert.equal(await runs[0]!.status(), 'QUEUED');
	const late = app.waitAny(runs.slice(0, 2), { timeout: 1 });
	assert.ok((await errorOf(late)) instanceof WaitTimeout);
	await drain(app);
	assert.deepEqual(await Promise.all(results), runs.map(() => 1));
	assert.equal(await (await app.waitAny(runs))?.status(), 'SUCCESS');
	assert.equal(await app.waitAny([]), undefined);
	await app.close();
});

test('signals, children and time-outs', async () => {
	const app = newApp();
	const double = app.workflow<number, number>(`double${number}`, { initialInterval: 10, maxAttempts: 1 }, (_, n) => {
		if (n < 0) throw new Permanent('negative', { type: 'negative' });
		return n * 2;
	});
	const parent = app.workflow<null, unknown>(`parent${number}`, async (run) => {
		const go = await run.receiveSignal<{ n: number }>('go');
		const started = await run.startChild(double, 10);
		return {
			n: go.payload.n,
			one: await run.child(double, 1),
			many: await run.children(double, [1, 2, 3]),
			started: await run.resultOf(started),
			failed: (await errorOf(run.child(double, -1)).then(rethrowWaits)) instanceof ChildFailed,
			late: (await errorOf(run.receive('never', { timeout: 10 })).then(rethrowWaits)) instanceof SignalTimeout,
		};
	});
	await withWorker(app, async () => {
		const run = await parent.start(null);
		await run.signal('go', { n: 7 });
		assert.deepEqual(await run.result({ timeout: PATIENCE }), { n: 7, one: 2, many: [2, 4, 6], started: 20, failed: true, late: true });
	});
});

function rethrowWaits(error: unknown): unknown {
	if (error instanceof Parked) throw error;
	return error;
}

test('a handler that swallows what leaves it does not end its run', async () => {
	let deliveries = 0;
	const seen: unknown[] = [];
	const output = await outcome(async (run) => {
		deliveries++;
		try {
			await run.sleep(50);
		} catch (error) {
			seen.push(error instanceof Parked);
			seen.push((await errorOf(run.step('after', () => 1))) === error);
			return 'swallowed';
		}
		return 'slept';
	});
	assert.equal(output, 'slept');
	assert.deepEqual([deliveries, seen], [2, [true, true]]);
});

test('a handler that fails while its run waits loses nothing', async () => {
	const app = newApp();
	const workflow = app.workflow<null, unknown>(`waits${number}`, { maxAttempts: 1 }, async (run) => {
		try {
			return await run.receive('go');
		} catch (error) {
			if (error instanceof Parked) throw new Error('in a finally block');
			throw error;
		}
	});
	await withWorker(app, async () => {
		const run = await workflow.start(null);
		await until(async () => (await run.status()) === 'PAUSED', 'the run waits');
		await run.signal('go', 'went');
		assert.equal(await run.result({ timeout: PATIENCE }), 'went');
	});
});

test('a step that is not awaited ends no process', async () => {
	assert.equal(
		await outcome(async (run) => {
			void run.step('fails', { maxAttempts: 1 }, () => {
				throw new Permanent('no');
			});
			await run.sleep(100);
			return 'done';
		}),
		'done'
	);
});

test('bad input is a clear error of the run, and the worker goes on', async () => {
	const app = newApp();
	const circular: any = {};
	circular.self = circular;
	const handlers: Record<string, [(run: Run) => unknown, string, RegExp]> = {
		symbol: [() => ({ n: Symbol('s') }), 'NotSerializable', /symbol \(at "n"\) is no JSON/],
		circular: [() => circular, 'NotSerializable', /circular/],
		function: [() => () => 1, 'NotSerializable', /function is no JSON/],
		map: [() => new Map(), 'NotSerializable', /Map is no JSON/],
		nan: [() => NaN, 'NotSerializable', /NaN is no JSON/],
		nul: [() => 'a\0b', 'NotSerializable', /NUL/],
		half: [() => '\ud800', 'NotSerializable', /surrogate/],
		long: [(run) => run.step('é'.repeat(128), () => 1), 'InvalidStep', /1 to 255 bytes/],
		empty: [(run) => run.step('', () => 1), 'InvalidStep', /1 to 255 bytes/],
		reused: [(run) => run.step('id', () => 1).then(() => run.sleep(1, { id: 'id' })), 'InvalidStep', /of kind FUNCTION already/],
		nested: [(run) => run.transaction('outer', () => run.step('inner', () => 1)), 'InvalidStep', /cannot begin another/],
		large: [() => 'x'.repeat(3_000_000), 'PQ008', /too large/],
		notanerror: [() => Promise.reject('just text \0'), 'Error', /just text/],
		retried: [() => Promise.reject(new Retry('again', { after: 1, type: 'again' })), 'again', /again/],
		system: [() => Promise.reject(new TypeError('undefined is not a function')), 'TypeError', /undefined/],
	};
	const prefix = `bad${number}`;
	for (const [name, [handler]] of Object.entries(handlers)) app.workflow(`${prefix}.${name}`, { maxAttempts: 1 }, handler);
	await withWorker(app, async () => {
		for (const [name, [, type, message]] of Object.entries(handlers)) {
			const run = await app.start(`${prefix}.${name}`);
			const error = await errorOf(run.result({ timeout: PATIENCE }));
			assert.ok(error instanceof RunFailed, `${name}: ${error}`);
			assert.equal(error.type, type, name);
			assert.match(error.message, message, name);
		}
	});
});

test('a workflow without a handler fails its run', async () => {
	const app = newApp();
	app.workflow('has.handler', () => 1);
	await query("SELECT pgqrs_create_workflow('has.none')");
	await app.install();
	const run = await app.start('has.none');
	await drain(app, { queues: ['has.*'] });
	assert.equal((await errorOf(run.result())).type, 'no_handler_registered');
	await app.close();
});

test('errors of the server have classes, and a run that was cancelled too', async () => {
	const app = newApp();
	const workflow = app.workflow(`never${number}`, () => 1);
	await app.install();
	const error = await errorOf(app.start('no such workflow'));
	assert.ok(error instanceof WorkflowNotFound);
	assert.equal(error.code, 'PQ002');
	assert.ok(error.hint);
	const run = await workflow.start(undefined, { key: 'k' });
	assert.equal((await app.find(workflow, 'k'))?.runId, run.runId);
	assert.equal(typeof run.runId, 'number');
	assert.ok((await errorOf(run.result({ timeout: 10 }))) instanceof WaitTimeout);
	await run.cancel('not needed');
	assert.ok((await errorOf(run.result())) instanceof RunCancelled);
	await app.close();
});

test('a start takes part in the transaction of a client', async () => {
	const app = newApp();
	const workflow = app.workflow(`tx${number}`, () => 1);
	await app.install();
	const client = await db.connect();
	await client.query('BEGIN');
	const run = await workflow.start(undefined, { client });
	await client.query('ROLLBACK');
	client.release();
	assert.equal((await errorOf(run.status())).code, 'PQ003');
	await app.close();
});

test('a run that is executed is worked on here, and its output comes without a wait', async () => {
	const app = newApp();
	const input = { n: 1, at: '2026-01-01' };
	const workflow = app.workflow<any, any>(`w${number}`, async (run, n) => [run.id, run.attempt, await run.step('twice', () => n * 2)]);
	const nap = app.workflow<any, any>(`w${number} nap`, async (run, value) => {
		await run.sleep(1);
		return value;
	});
	await withWorker(app, async () => {
		await until(() => app.workers.size === 1, 'the worker is there');
		for (const n of [1, 2, 3]) {
			const [id, attempt, twice] = await workflow.execute(n);
			assert.deepEqual([attempt, twice], [1, 2 * n]);
			assert.deepEqual(await query('SELECT status, output FROM pgqrs_workflow_runs WHERE run_id = $1', id), [{ status: 'SUCCESS', output: [id, 1, 2 * n] }]);
		}
		const outputs = await Promise.all(Array.from({ length: 30 }, (_, n) => workflow.execute(n)));
		assert.deepEqual(outputs.map((output) => output[2]), Array.from({ length: 30 }, (_, n) => 2 * n));
		const [first] = await workflow.execute(7, { key: 'once' });
		assert.equal((await workflow.execute(8, { key: 'once' }))[0], first);
		assert.deepEqual(await nap.execute(input), input);
	});
});

test('quick steps and children are listed in the order of their start', async () => {
	const app = newApp();
	const ids = Array.from({ length: 60 }, (_, n) => `step ${99 - n}`);
	const child = app.workflow(`c${number}`, () => 1);
	const workflow = app.workflow(`w${number}`, async (run) => {
		for (const [n, id] of ids.entries()) await (n % 3 === 1 ? run.startChild(child, 0, { id }) : run.step(id, () => 1));
	});
	await withWorker(app, async () => {
		const { runId } = await workflow.start();
		await app.handle(runId).result({ timeout: PATIENCE });
		assert.deepEqual((await query('SELECT step_id FROM pgqrs_list_steps($1)', runId)).map((row) => row['step_id']), ids);
	});
});

test('a run that is executed keeps its lease as long as it takes', async () => {
	const app = newApp();
	const workflow = app.workflow<any, any>(`w${number}`, { visibilityTimeout: '1 s' }, async (run) => {
		const end = 'SELECT visible_after > enqueued_at + $2::interval AS extended FROM pgqrs_messages WHERE run_id = $1';
		await until(async () => (await query(end, run.id, '3 s'))[0]?.extended, 'the lease is extended');
		return run.attempt;
	});
	await withWorker(app, async () => {
		await until(() => app.workers.size === 1, 'the worker is there');
		assert.equal(await workflow.execute(), 1);
	});
});

test('a run that is executed is named by polls only when it takes long', async () => {
	const app = newApp();
	let [id, begun] = [0, 0];
	const named: number[] = [];
	const workflow = app.workflow<any, any>(`w${number}`, (run) => {
		id = run.id;
		return until(() => named.length > 0, 'a poll names the run');
	});
	const procedure = app.database.procedure.bind(app.database);
	app.database.procedure = (name, args) => {
		if (name === 'pgqrs_poll' && (args[3] as number[]).includes(id)) named.push(Date.now() - begun);
		return procedure(name, args);
	};
	const other = app.workflow<any, any>(`w${number} other`, () => 1);
	await withWorker(app, async () => {
		await until(() => app.workers.size === 1, 'the worker is there');
		begun = Date.now();
		const end = workflow.execute();
		await (await other.start()).result({ timeout: PATIENCE });
		await end;
	});
	assert.ok(named[0]! >= 1000, `after ${named[0]} ms`);
});

test('a run that is executed where no worker is, is ended by another process; its error comes, too', async () => {
	const [working, calling] = [newApp(), newApp()];
	const workflow = working.workflow<any, any>('executed elsewhere', { maxAttempts: 1 }, (_, n) => {
		if (n < 0) throw new Permanent('no', { type: 'refused' });
		return n + 1;
	});
	await withWorker(working, async () => {
		assert.equal(await calling.execute('executed elsewhere', 1), 2);
		await until(() => working.workers.size === 1, 'the worker is there');
		for (const app of [working, calling]) {
			const error = await errorOf(app.execute(workflow, -1));
			assert.deepEqual([error instanceof RunFailed, error.type], [true, 'refused']);
		}
	});
	await calling.close();
});

test('a run is executed elsewhere if the worker here does not subscribe to its workflow', async () => {
	const [here, there] = [newApp(), newApp()];
	here.workflow(`w${number} here`, () => 'here');
	for (const app of [here, there]) app.workflow(`w${number} both`, () => app.name);
	await here.install();
	const worker = here.worker({ signals: false, queues: [`w${number} here`] });
	const running = worker.run();
	await until(() => here.workers.size === 1, 'the worker is there');
	await withWorker(there, async () => assert.equal(await here.execute(`w${number} both`), there.name));
	worker.drain();
	await running;
	await here.close();
});

test('runs that are executed while their worker drains are ended, here or elsewhere', async () => {
	const [here, there] = [newApp(), newApp()];
	const name = `w${number}`;
	for (const app of [here, there]) app.workflow<any, any>(name, (run, n) => run.step('n', () => n));
	await here.install();
	await withWorker(there, async () => {
		const worker = here.worker({ signals: false, concurrency: 3 });
		const running = worker.run();
		await until(() => here.workers.size === 1, 'the worker is there');
		let over = false;
		const loops = Array.from({ length: 6 }, async () => {
			let n = 0;
			while (!over) assert.equal(await here.execute(name, ++n), n);
			return n;
		});
		await until(async () => (await query('SELECT count(*) > 20 AS some FROM pgqrs_workflow_runs AS r JOIN pgqrs_workflows AS w USING (workflow_id) WHERE w.name = $1', name))[0].some, 'runs are executed');
		worker.drain();
		await running;
		over = true;
		assert.ok((await Promise.all(loops)).every((n) => n > 0));
	});
	await here.close();
});

test('a run whose lease is lost while it is executed answers what another delivery made of it', async () => {
	const app = newApp();
	let first: Run | undefined;
	const workflow = app.workflow<any, any>(`w${number}`, { visibilityTimeout: '2 s' }, (run) => {
		if (run.attempt > 1) return `attempt ${run.attempt}`;
		first = run;
		return new Promise(() => undefined);	// and heeds no signal
	});
	await app.install();
	const worker = app.worker({ signals: false, grace: 0 });
	const running = worker.run();
	await until(() => app.workers.size === 1, 'the worker is there');
	const executed = workflow.execute();
	await until(() => first, 'the handler is there');
	await query('SELECT pgqrs_set_visibility($1, now())', first!.id);
	assert.equal(await executed, 'attempt 2');
	worker.drain();
	await running;
	await app.close();
});

test('statements are prepared, unless that is switched off, and a function may get other columns', async () => {
	await query('CREATE SCHEMA prepared');
	await query('CREATE FUNCTION prepared.n() RETURNS TABLE (n int) LANGUAGE sql AS $$ SELECT count(*)::int FROM pg_prepared_statements $$');
	const [app, other] = [newApp({ schema: 'prepared' }), newApp({ schema: 'prepared', prepare: false })];
	assert.deepEqual([await app.call('n', []), await other.call('n', [])], [{ n: 1 }, { n: 0 }]);
	await query('DROP FUNCTION prepared.n');
	await query("CREATE FUNCTION prepared.n() RETURNS TABLE (what text, n int) LANGUAGE sql AS $$ VALUES ('new', 1) $$");
	assert.deepEqual(await app.call('n', []), { what: 'new', n: 1 });
	await Promise.all([app.close(), other.close()]);
});

test('a connection whose prepared statements are thrown away forgets all of them at the first call', async () => {
	const { database } = newApp();
	const client = database.client();
	await client.connect();
	const send = client.query.bind(client) as (config: unknown) => Promise<pg.QueryResult>;
	let failures = 0;
	client.query = ((config: unknown) =>
		send(config).catch((error) => {
			failures++;
			throw error;
		})) as typeof client.query;
	for (const expected of [0, 1, 1]) {
		for (const name of ['pgqrs_version', 'pgqrs_now', 'pg_backend_pid']) await rows(client, database.select(name, []));
		assert.equal(failures, expected);
		if (expected === 0) await client.query('DISCARD ALL');
	}
	await client.end();
});

test('an extension that is older or missing is an error at the start', async () => {
	await query("CREATE SCHEMA old; CREATE FUNCTION old.pgqrs_version() RETURNS text RETURN '0.0.9'");
	for (const [schema, message] of [['old', /version 0\.0\.9/], ['missing "schema"', /missing/]] as const) {
		const app = newApp({ schema });
		app.workflow('w', () => 1);
		const error = await errorOf(app.work({ signals: false }));
		assert.ok(error instanceof Incompatible || error.code === '3F000', String(error));
		assert.match(error.message, message);
	}
});

test('a worker lives on while the database is read-only', async () => {
	const { rows } = await db.query('SELECT current_database() AS name');
	const alter = (to: string): Promise<unknown> => query(`ALTER DATABASE "${rows[0].name}" ${to}`);
	const warnings: string[] = [];
	const app = newApp({ log: { ...quiet, warn: (text: string) => warnings.push(text) } });
	const workflow = app.workflow(`readonly${number}`, (run) => run.step('a', () => 'done'));
	await app.install();
	const run = await workflow.start();
	await alter('SET default_transaction_read_only = on');
	const worker = app.worker({ signals: false });
	const running = worker.run();
	try {
		await until(() => warnings.some((text) => text.includes('read-only')), 'the worker says so');
	} finally {
		await alter('RESET default_transaction_read_only');
	}
	assert.equal(await run.result({ timeout: PATIENCE }), 'done');
	worker.drain();
	await running;
	await app.close();
});

test('a worker that lost its connections goes on', async () => {
	const app = newApp();
	let begun = 0;
	let go = (): void => undefined;
	const held = new Promise<void>((resolve) => (go = resolve));
	const workflow = app.workflow(`lost${number}`, async (run) => {
		await run.transaction('write', async (client) => {
			begun++;
			await client.query("INSERT INTO written VALUES ('kept')");
			await held;
		});
		return run.step('b', () => 'done');
	});
	await withWorker(app, async () => {
		const run = await workflow.start();
		await until(() => begun === 1, 'the transaction has begun');
		await query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', app.name);
		go();
		assert.equal(await run.result({ timeout: PATIENCE }), 'done');
		assert.equal(begun, 2);
		assert.equal((await query("SELECT FROM written WHERE what = 'kept'")).length, 1);
	});
});

test('a cancel aborts the signal, and the handler may clean up', async () => {
	const app = newApp();
	let cleaned = false;
	const begun: number[] = [];
	const workflow = app.workflow(`cancel${number}`, async (run) => {
		try {
			return await run.step('long', ({ signal }) => {
				begun.push(run.id);
				return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
			});
		} catch (error) {
			cleaned = error instanceof Cancelled && run.cancelRequested;
			throw error;
		}
	});
	await withWorker(app, async () => {
		const run = await workflow.start();
		await until(() => begun.length === 1, 'the step has begun');
		await run.cancel('stop');
		assert.ok((await errorOf(run.result({ timeout: PATIENCE }))) instanceof RunCancelled);
	});
	assert.ok(cleaned);
	assert.equal(begun.length, 1);
});

test('calls that take an AbortSignal end with the run, or with the lease of a message', async () => {
	const app = newApp();
	const begun: string[] = [];
	const ended: unknown[] = [];
	const wait = async (what: string, signal: AbortSignal): Promise<void> => {
		begun.push(what);
		await setTimeout(300_000, undefined, { signal }).catch((error) => {
			ended.push([what, error.name, signal.reason.name]);
			throw error;
		});
	};
	const workflow = app.workflow(`aborted${number}`, (run) => run.step('long', ({ signal }) => wait('step', signal)));
	const queue = app.queue<number>(`abortedq${number}`, (_, message) => (message.attempt === 1 ? wait('message', message.signal) : undefined));
	await withWorker(app, async () => {
		const run = await workflow.start();
		const id = await queue.produce(1);
		await until(() => begun.length === 2, 'both have begun');
		await run.cancel();
		assert.ok((await errorOf(run.result({ timeout: PATIENCE }))) instanceof RunCancelled);
		await query('SELECT pgqrs_set_visibility($1, pgqrs_now())', id);
		await until(async () => (await query('SELECT FROM pgqrs_peek($1)', queue.name)).length === 0, 'the message is taken again and ended');
		await until(() => ended.length === 2, 'both have ended');
		assert.deepEqual(ended, [['step', 'AbortError', 'Cancelled'], ['message', 'AbortError', 'LeaseLost']]);
	});
});

test('work whose lease is lost is dropped, and its next call says so', async () => {
	const app = newApp();
	const reasons: unknown[] = [];
	const workflow = app.workflow(`revoked${number}`, async (run) => {
		if (run.attempt > 1) return 'second';
		await new Promise((resolve) => run.signal.addEventListener('abort', resolve));
		reasons.push(run.signal.reason instanceof LeaseLost, (await errorOf(run.step('a', () => 1))) instanceof LeaseLost);
		return 'first';
	});
	await withWorker(app, async () => {
		const run = await workflow.start();
		await until(async () => (await run.status()) === 'RUNNING', 'the run is claimed');
		await query('SELECT pgqrs_set_visibility($1, pgqrs_now())', run.runId);
		assert.equal(await run.result({ timeout: PATIENCE }), 'second');
		await until(() => reasons.length === 2, 'the first handler has heard of it');
		assert.deepEqual(reasons, [true, true]);
	});
});

test('a worker that is superseded ends, and does not register again', async () => {
	const app = newApp();
	app.workflow(`superseded${number}`, () => 1);
	await app.install();
	const running = errorOf(app.work({ signals: false }));
	await until(async () => (await query('SELECT FROM pgqrs_worker_stats WHERE worker = $1', app.name)).length === 1, 'it is registered');
	await query("SELECT pgqrs_register_worker($1, '{*}')", app.name);
	assert.ok((await running) instanceof WorkerStopped);
	await app.close();
});

test('a drained worker ends what it holds, and gives back what takes too long', async () => {
	const app = newApp();
	let begun = 0;
	let go = (): void => undefined;
	const held = new Promise<void>((resolve) => (go = resolve));
	const workflow = app.workflow<boolean, string>(`drained${number}`, async (run, hang) => {
		begun++;
		await (hang ? new Promise((resolve) => run.signal.addEventListener('abort', resolve)) : held);
		return 'done';
	});
	await app.install();
	const worker = app.worker({ signals: false, grace: 3_600_000 });
	const running = worker.run();
	const [quick, hung] = [await workflow.start(false), await workflow.start(true)];
	await until(() => begun === 2, 'both are claimed');
	worker.drain();
	await until(async () => (await query('SELECT status FROM pgqrs_worker_stats WHERE worker = $1', app.name))[0].status === 'SUSPENDED', 'it takes nothing new');
	const late = await workflow.start(false);
	go();
	await until(async () => (await quick.status()) === 'SUCCESS', 'what ends is told');
	worker.drain();
	await running;
	assert.deepEqual([await quick.status(), (await late.status()), await hung.status()], ['SUCCESS', 'QUEUED', 'RUNNING']);
	assert.deepEqual(await query('SELECT failures, leased FROM pgqrs_peek($1) WHERE run_id = $2', workflow.name, hung.runId), [{ failures: 0, leased: false }]);
	await app.close();
});

test('a worker that is drained a second time gives back what it holds at once', async () => {
	const app = newApp();
	let begun = 0;
	const workflow = app.workflow(`twice${number}`, (run) => {
		begun++;
		return new Promise((resolve) => run.signal.addEventListener('abort', resolve));
	});
	await app.install();
	const worker = app.worker({ grace: 3_600_000 });
	const running = worker.run();
	const run = await workflow.start();
	await until(() => begun === 1, 'it is claimed');
	process.emit('SIGTERM');
	process.emit('SIGTERM');
	await running;
	assert.deepEqual(await query('SELECT failures, leased FROM pgqrs_peek($1) WHERE run_id = $2', workflow.name, run.runId), [{ failures: 0, leased: false }]);
	await app.close();
});

test('messages: archived with own writes, nacked after an error, dead if that is permanent', async () => {
	const app = newApp();
	const got: unknown[] = [];
	const mail = app.queue<{ to: string }>(`mail${number}`, async (payload, message) => {
		got.push([payload.to, message.attempt]);
		if (payload.to === 'bad') throw new Permanent('no such address', { type: 'bounced' });
		await message.transaction((client) => client.query("INSERT INTO written VALUES ('mail')"));
	});
	await app.install();
	await mail.produce({ to: 'good' }, { key: 'k' });
	await mail.produce({ to: 'again' }, { key: 'k' });
	await mail.produce({ to: 'bad' });
	await drain(app);
	assert.deepEqual(got, [['good', 1], ['bad', 1]]);
	assert.equal((await query("SELECT FROM written WHERE what = 'mail'")).length, 1);
	assert.deepEqual(await query("SELECT last_error->>'type' AS type FROM pgqrs_dead_letters WHERE queue = $1", mail.name), [{ type: 'bounced' }]);
	await app.close();
});

test('schedules and settings are made as they are declared, also when they are there', async () => {
	const app = newApp();
	const workflow = app.workflow(`daily${number}`, { maxAttempts: 7, initialInterval: 1500, visibilityTimeout: '3 min' }, () => 1);
	app.schedule(`daily${number}`, '0 7 * * *', workflow, { timezone: 'Europe/Berlin', input: { a: 1 } });
	await app.install();
	await app.install();
	assert.deepEqual(await query('SELECT input, timezone FROM pgqrs_schedule_list WHERE name = $1', workflow.name), [{ input: { a: 1 }, timezone: 'Europe/Berlin' }]);
	await app.close();
});

test('a codec turns all values', async () => {
	const codec = {
		encode: (value: unknown) => ({ hidden: Buffer.from(JSON.stringify(value)).toString('base64') }),
		decode: (value: any) => (value === null ? null : JSON.parse(Buffer.from(value.hidden, 'base64').toString())),
	};
	const app = newApp({ codec });
	const workflow = app.workflow<string, string>(`secret${number}`, async (run, name) => `${await run.step('a', () => name)}!`);
	await withWorker(app, async () => {
		const run = await workflow.start('ada');
		assert.equal(await run.result({ timeout: PATIENCE }), 'ada!');
		assert.ok((await query('SELECT output FROM pgqrs_get_run($1)', run.runId))[0].output.hidden);
	});
});
