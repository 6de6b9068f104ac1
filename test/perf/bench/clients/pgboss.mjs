// pg-boss.  Its queue has a table of its own, jobs are fetched and completed
// directly, in arrays where the workload is one of batches, and nothing else
// of it runs: no supervision, no schedules, no polling worker.
import { PgBoss } from 'pg-boss';
import { clients, connection, main, measure, payload, seconds } from './loop.mjs';

const batch = Array(100).fill({ data: payload });
const boss = new PgBoss({ ...connection, max: Math.max(clients, 1), supervise: false, schedule: false });

boss.on('error', (error) => {
	throw error;
});
await boss.start();

await main({
	install: () => boss.createQueue('bench', { partition: true }),
	// the backlog is the second number
	load: async () => {
		await boss.deleteAllJobs('bench');
		for (let n = 0; n < seconds; n += 1000)
			await boss.insert('bench', Array(1000).fill({ data: payload }));
	},
	enqueue: () => measure(async () => {
		await boss.send('bench', payload);
		return 1;
	}),
	enqueue_100: () => measure(async () => {
		await boss.insert('bench', batch);
		return 100;
	}),
	claim: () => measure(async () => (await boss.fetch('bench')).length),
	life: () => measure(async () => {
		await boss.send('bench', payload);
		const [job] = await boss.fetch('bench');
		await boss.complete('bench', job.id);
		return 1;
	}),
	drain_50: () => measure(async () => {
		const jobs = await boss.fetch('bench', { batchSize: 50 });
		if (jobs.length > 0)
			await boss.complete('bench', jobs.map((job) => job.id));
		return jobs.length;
	}),
});

await boss.stop({ graceful: false });
