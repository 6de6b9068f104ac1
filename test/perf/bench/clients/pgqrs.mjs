// pgqrs from the plain pg driver, with prepared statements.
import pg from 'pg';
import { clients, connection, main, measure, payload } from './loop.mjs';

const text = JSON.stringify(payload);
const batch = Array(100).fill(text);

const statements = {
	enqueue: "SELECT pgqrs_enqueue('bench', $1)",
	enqueue_100: "SELECT pgqrs_enqueue_batch('bench', $1)",
	claim: "SELECT * FROM pgqrs_dequeue('bench', visibility_timeout => '1 hour')",
	dequeue: "SELECT * FROM pgqrs_dequeue('bench')",
	archive: 'SELECT pgqrs_archive_message($1, $2)',
	dequeue_50: "SELECT message_id, lease, payload FROM pgqrs_dequeue('bench', batch_size => 50)",
	archive_50: 'SELECT pgqrs_archive_messages($1, $2)',
	trigger: "SELECT pgqrs_trigger('bench_wf', $1)",
	dequeue_begin: `SELECT d.run_id, d.lease, d.input, (pgqrs_step_begin(d.run_id, d.lease, 'one')).should_execute
		FROM pgqrs_dequeue('bench_wf') AS d`,
	complete_begin: `SELECT pgqrs_step_complete($1, $2, 'one', $3),
		(pgqrs_step_begin($1, $2, 'two')).should_execute`,
	complete_end: "SELECT pgqrs_step_complete($1, $2, 'two', $3), pgqrs_complete_run($1, $2, $3)",
};

const connections = [];
for (let i = 0; i < clients; i++) {
	connections[i] = new pg.Client(connection);
	await connections[i].connect();
}

async function call(i, name, ...values) {
	return (await connections[i].query({ name, text: statements[name], values })).rows;
}

await main({
	enqueue: () => measure(async (i) => {
		await call(i, 'enqueue', text);
		return 1;
	}),
	enqueue_100: () => measure(async (i) => {
		await call(i, 'enqueue_100', batch);
		return 100;
	}),
	claim: () => measure(async (i) => (await call(i, 'claim')).length),
	life: () => measure(async (i) => {
		await call(i, 'enqueue', text);
		const [m] = await call(i, 'dequeue');
		await call(i, 'archive', m.message_id, m.lease);
		return 1;
	}),
	drain_50: () => measure(async (i) => {
		const rows = await call(i, 'dequeue_50');
		if (rows.length > 0)
			await call(i, 'archive_50', rows.map((m) => m.message_id), rows.map((m) => m.lease));
		return rows.length;
	}),
	cycle_4: () => measure(async (i) => {
		await call(i, 'trigger', text);
		const [m] = await call(i, 'dequeue_begin');
		await call(i, 'complete_begin', m.run_id, m.lease, text);
		await call(i, 'complete_end', m.run_id, m.lease, text);
		return 1;
	}),
});

for (const c of connections)
	await c.end();
