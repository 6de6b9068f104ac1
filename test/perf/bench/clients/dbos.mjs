// The DBOS SDK: a workflow of two steps that do nothing, called directly, which
// spares it the queue.  As many as there are clients are in flight in one
// process; the pool has a connection for each and some for DBOS itself.
import { DBOS } from '@dbos-inc/dbos-sdk';
import pg from 'pg';
import { clients, connection, main, measure, payload } from './loop.mjs';

const pool = new pg.Pool({ ...connection, max: Math.max(clients, 1) + 4 });

DBOS.setConfig({ name: 'bench', applicationVersion: '1', logLevel: 'error', enableOTLP: false, systemDatabasePool: pool });

const workflow = DBOS.registerWorkflow(async (input) => {
	await DBOS.runStep(async () => input, { name: 'one' });
	await DBOS.runStep(async () => input, { name: 'two' });
	return input;
}, { name: 'bench' });

await DBOS.launch();

await main({
	install: async () => { await workflow(payload); },
	cycle: () => measure(async () => {
		await workflow(payload);
		return 1;
	}),
});

await DBOS.shutdown();
process.exit(0);
