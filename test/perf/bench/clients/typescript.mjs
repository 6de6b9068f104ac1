// A workflow of two steps through the client for TypeScript, and by the same calls made by hand, with as many runs in
// flight as there are clients.  Started and worked off: a worker polls on one connection, handlers and starts share two
// pools.  Executed: a run is started in the name of the worker of this process, which works on it at once.
import pg from 'pg';
import { App } from './client/dist/index.js';
import { clients, connection, main, measure, payload } from './loop.mjs';

const text = JSON.stringify(payload);
const starting = []; // what tells the loops that a run has come to its end, the oldest first

function ended() {
	starting.shift()?.();
}

// The runs that were there before are worked off first, so each end lets the loop go on that waits longest.
async function cycle(start) {
	const end = new Promise((resolve) => starting.push(resolve));
	await start();
	await end;
	return 1;
}

function worker() {
	const quiet = () => undefined;
	const app = new App({ connection, log: { info: quiet, warn: quiet, error: console.error } });
	const workflow = app.workflow('bench_wf', async (run, input) => {
		await run.step('one', () => input);
		await run.step('two', () => input);
		ended();
		return input;
	});
	void app.work({ name: 'through the client', concurrency: clients, connections: clients, signals: false });
	return [app, workflow];
}

async function client() {
	const [, workflow] = worker();
	await measure(() => cycle(() => workflow.start(payload)));
}

async function execute() {
	const [app, workflow] = worker();
	while (app.workers.size === 0) await new Promise((resolve) => setTimeout(resolve, 10));
	await measure(async () => {
		await workflow.execute(payload);
		return 1;
	});
}

// A prepared statement, as the client has them.
const call = (on, text, ...values) => on.query({ name: text.slice(0, 63), text, values });

const COMPLETE = 'SELECT * FROM pgqrs_step_complete($1, $2, $3, $4, $5)';
const END = 'SELECT * FROM pgqrs_complete_run($1, $2, $3)';

async function register(on) {
	const { rows } = await call(on, "SELECT pgqrs_register_worker('by hand', '{bench_wf}', max_concurrent => $1) AS id", clients);
	return rows[0].id;
}

async function steps(pool, id, lease, output) {
	for (const step of ['one', 'two'])
		await call(pool, COMPLETE, id, lease, step, output, new Date());
}

async function execute_by_hand() {
	const pool = new pg.Pool({ ...connection, max: clients });
	const id = await register(pool);
	await measure(async () => {
		const { rows: [run] } = await call(pool, 'SELECT * FROM pgqrs_start($1, $2, $3)', 'bench_wf', text, id);
		const output = JSON.stringify(run.input);
		await steps(pool, run.run_id, run.lease, output);
		await call(pool, END, run.run_id, run.lease, output);
		return 1;
	});
}

async function by_hand() {
	const pool = new pg.Pool({ ...connection, max: clients });
	const starts = new pg.Pool({ ...connection, max: 10 });
	const poller = new pg.Client(connection);
	await poller.connect();
	const id = await register(poller);
	const held = new Map();
	const handle = async ({ message_id, lease, input }) => {
		const output = JSON.stringify(input);
		await steps(pool, message_id, lease, output);
		ended();
		await call(pool, END, message_id, lease, output);
		held.delete(message_id);
	};
	const work = async () => {
		for (;;) {
			const answer = await call(poller, 'CALL pgqrs_poll($1, $2, $3, $4, $5)', id, '30 s', clients, [...held.keys()], [...held.values()]);
			for (const claim of answer.rows[0].work) {
				held.set(claim.message_id, claim.lease);
				void handle(claim);
			}
		}
	};
	void work();
	await measure(() => cycle(() => call(starts, 'SELECT * FROM pgqrs_trigger($1, $2)', 'bench_wf', text)));
}

await main({ client, by_hand, execute, execute_by_hand });
process.exit(0);
