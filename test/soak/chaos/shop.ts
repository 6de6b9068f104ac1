// A worker of the client for TypeScript, as workers.py compiles and starts it: what shop.py does.
//
//   node shop.js SOCKET_FOLDER NAME
import type pg from 'pg';

import { App, Retry, SignalTimeout, WorkerNotFound, WorkerStopped } from '../src/index.js';

const [socket, name] = process.argv.slice(2);
const SUPERSEDED = 3; // an exit code
const connection = { host: socket, user: 'postgres', database: 'shop', options: '-c client_min_messages=error' };
// A backend of that name may be killed.
const app = new App({ connection, name: 'chaos client' });

async function write(client: pg.ClientBase, id: number, what: string): Promise<number> {
	await client.query('INSERT INTO effects (id, name) VALUES ($1, $2)', [id, what]);
	if (Math.random() < 0.1) throw new Error('no');
	return 1;
}

function work(n: number): number {
	if (Math.random() < 0.1) throw new Retry('not yet', { after: 50 });
	return n;
}

const leaf = app.workflow<number, number>('leaf', async (run, n) => {
	await run.transaction('t', (client) => write(client, run.id, 't'));
	await run.sleep(20);
	return n;
});

app.workflow<number, number>('order', async (run, n) => {
	let total = 0;
	for (let i = 0; i <= n % 4; i++) {
		total += await run.transaction(`t${i}`, (client) => write(client, run.id, `t${i}`));
		total += await run.step(`s${i}`, () => work(10));
	}
	if (n % 2) await run.sleep(50);
	if (n % 3 === 0)
		await run.receive('go', { timeout: 1000 }).catch((error) => {
			if (!(error instanceof SignalTimeout)) throw error;
		});
	if (n % 5 === 0) for (const output of await run.children(leaf, [1, 2, 3])) total += output;
	return total;
});

app.queue<number>('mail', (_, message) => message.transaction((client) => write(client, message.id, 'mail')));

try {
	await app.work({ name, concurrency: 5, grace: 2000 });
} catch (error) {
	if (!(error instanceof WorkerStopped || error instanceof WorkerNotFound)) throw error;
	process.exit(SUPERSEDED);
}
