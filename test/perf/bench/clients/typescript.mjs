// A workflow of two steps through the client for TypeScript, and by the same calls made by hand: in both a worker polls
// on one connection, handlers and starts share two pools, and as many runs are in flight as there are clients.
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

async function client() {
	const quiet = () => undefined;
	const app = new App({ connection, log: { info: quiet, warn: quiet, error: console.error } });
	const workflow = app.workflow('bench_wf', async (run, input) => {
		await run.step('one', () => input);
		await run.step('two', () => input);
		ended();
		return input;
	});
	void app.work({ name: 'through the client', concurrency: clients, connections: clients, signals: false });
	await measure(() => cycle(() => workflow.start(payload)));
}

async function by_hand() {
	const pool = new pg.Pool({ ...connection, max: clients });
	const starts = new pg.Pool({ ...connection, max: 10 });
	const poller = new pg.Client(connection);
	await poller.connect();
	const { rows } = await poller.query("SELECT pgqrs_register_worker('by hand', '{bench_wf}', max_concurrent => $1) AS id", [clients]);
	const held = new Map();
	const handle = async ({ message_id: id, lease, input }) => {
		const output = JSON.stringify(input);
		for (const step of ['one', 'two'])
			await pool.query('SELECT pgqrs_step_complete($1, $2, $3, $4, $5)', [id, lease, step, output, new Date()]);
		ended();
		await pool.query('SELECT pgqrs_complete_run($1, $2, $3)', [id, lease, output]);
		held.delete(id);
	};
	const work = async () => {
		for (;;) {
			const answer = await poller.query('CALL pgqrs_poll($1, $2, $3, $4, $5)', [rows[0].id, '30 s', clients, [...held.keys()], [...held.values()]]);
			for (const claim of answer.rows[0].work) {
				held.set(claim.message_id, claim.lease);
				void handle(claim);
			}
		}
	};
	void work();
	await measure(() => cycle(() => starts.query("SELECT pgqrs_trigger('bench_wf', $1)", [text])));
}

await main({ client, by_hand });
process.exit(0);
