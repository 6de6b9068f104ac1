// What the Node clients share: N loops run one operation each until the time
// is over, then one line of JSON says how fast that was.
import pg from 'pg';

export const clients = Number(process.argv[3]);
export const seconds = Number(process.argv[4]);
export const payload = { n: 1, to: 'somebody@example.com', subject: 'hello' };

// The connection is that of the environment: a socket in PGHOST.
export const connection = {
	host: process.env.PGHOST,
	port: Number(process.env.PGPORT),
	user: process.env.PGUSER,
	database: process.env.PGDATABASE,
};

// operation(i) is called by loop i and returns how many rows it was about.
// What happens in the first fifth of the time, before the code is compiled, is
// not measured.
export async function measure(operation) {
	await run(operation, seconds / 5);
	report(await withWal(() => run(operation, seconds)));
}

async function run(operation, time) {
	const latencies = [];
	let rows = 0;
	const start = performance.now();
	const end = start + time * 1000;

	await Promise.all(Array.from({ length: clients }, async (_, i) => {
		for (;;) {
			const before = performance.now();
			if (before >= end)
				return;
			const count = await operation(i);
			rows += count; // not with the await: rows would be read before it
			latencies.push(performance.now() - before);
		}
	}));
	return { rows, elapsed: (performance.now() - start) / 1000, latencies };
}

// Adds to a result how many bytes of WAL were written meanwhile.
export async function withWal(work) {
	const client = new pg.Client(connection);
	const position = async () =>
		Number((await client.query("SELECT pg_current_wal_insert_lsn() - '0/0' AS bytes")).rows[0].bytes);

	await client.connect();
	const before = await position();
	const result = await work();
	const wal = await position() - before;
	await client.end();
	return { ...result, wal };
}

// elapsed is in seconds, latencies are in milliseconds, wal is in bytes.
export function report({ rows, elapsed, latencies = [], wal }) {
	const at = (share) => latencies[Math.min(latencies.length - 1, Math.floor(share * latencies.length))] ?? null;

	latencies.sort((a, b) => a - b);
	console.log(JSON.stringify({ rows, elapsed, p50: at(0.5), p99: at(0.99), wal }));
}

// Runs the function that the first argument names.
export async function main(workloads) {
	const workload = workloads[process.argv[2]];

	if (!workload)
		throw new Error(`no workload ${process.argv[2]}`);
	await workload();
}
