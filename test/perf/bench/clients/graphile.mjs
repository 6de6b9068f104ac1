// graphile-worker, with the settings of its page on performance: batches of
// 500 jobs are fetched ahead, finished jobs are written in batches without
// delay, 24 jobs run at a time in each process.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { makeWorkerUtils, Logger, runOnce, runMigrations } from 'graphile-worker';
import pg from 'pg';
import { clients, connection, main, measure, payload, report, seconds, withWal } from './loop.mjs';

const logger = new Logger(() => () => {});
const preset = {
	worker: {
		concurrentJobs: 24,
		maxPoolSize: 25,
		localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
		completeJobBatchDelay: 0,
		failJobBatchDelay: 0,
	},
};

function fail(error) {
	throw error;
}

async function withPool(max, f) {
	const pool = new pg.Pool({ ...connection, max });

	pool.on('error', fail);
	pool.on('connect', (client) => client.on('error', fail));
	await f(pool);
	await pool.end();
}

await main({
	install: () => withPool(2, (pgPool) => runMigrations({ pgPool, logger })),

	// the backlog is the second number
	load: () => withPool(1, async (pool) => {
		const specs = JSON.stringify(Array(10000).fill({ identifier: 'noop', payload }));

		await pool.query('TRUNCATE graphile_worker._private_jobs');
		for (let n = 0; n < seconds; n += 10000)
			await pool.query('SELECT 1 FROM graphile_worker.add_jobs(ARRAY(SELECT json_populate_recordset(NULL::graphile_worker.job_spec, $1)))',
				[specs]);
	}),

	enqueue: () => withPool(clients, async (pgPool) => {
		const utils = await makeWorkerUtils({ pgPool, logger });

		await measure(async () => {
			await utils.addJob('noop', payload);
			return 1;
		});
		await utils.release();
	}),

	// Works off a backlog, whose size is the second number, in as many
	// processes as there are clients.  The clock runs from when all of them
	// are connected until the last of them finds nothing more.
	drain: async () => {
		const workers = Array.from({ length: clients }, () =>
			fork(fileURLToPath(import.meta.url), ['drain_worker']));

		// one that fails ends all
		for (const w of workers)
			w.on('exit', (code) => code === 0 || process.exit(1));
		await Promise.all(workers.map((w) => once(w, 'message')));
		report(await withWal(async () => {
			const start = performance.now();
			const ends = workers.map((w) => once(w, 'message'));
			for (const w of workers)
				w.send('go');
			const counts = await Promise.all(ends);
			return {
				rows: counts.reduce((sum, [n]) => sum + n, 0),
				elapsed: (performance.now() - start) / 1000,
			};
		}));
	},

	drain_worker: () => withPool(25, async (pgPool) => {
		let done = 0;
		const taskList = { noop: () => { done++; } };

		await Promise.all(Array.from({ length: 25 }, () => pgPool.query('SELECT 1')));
		const go = once(process, 'message');
		const orphaned = () => process.exit(1);

		process.on('disconnect', orphaned);
		process.send('ready');
		await go;
		await runOnce({ preset, pgPool, taskList, logger });
		process.off('disconnect', orphaned);
		process.send(done, () => process.disconnect());
	}),
});
