// For tests of an application: a worker that ends when there is nothing to do, and time that passes at once.
import type { App } from './app.js';
import { Duration, interval } from './database.js';
import type { Handle } from './handle.js';
import { Worker, WorkerOptions } from './worker.js';

/** Works until there is nothing that can be claimed. */
export function drain(app: App, options: WorkerOptions = {}): Promise<void> {
	return new Worker(app, { name: 'pgqrs testing', ...options }).run(true);
}

/** Lets time pass for one run that sleeps, waits or is to be tried again, and works on it. */
export async function advance(app: App, run: Handle<any> | number, by: Duration): Promise<void> {
	await app.call('pgqrs_advance', [typeof run === 'number' ? run : run.runId, interval(by)]);
	await drain(app);
}
