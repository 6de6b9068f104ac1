// A run that was triggered, as its caller sees it.
import type { App } from './app.js';
import { Duration, interval, Queryable } from './database.js';
import { RunCancelled, RunFailed } from './errors.js';
import type { Stored } from './json.js';

export type RunStatus = 'QUEUED' | 'RUNNING' | 'PAUSED' | 'SUCCESS' | 'ERROR' | 'CANCELLED';

export interface SignalOptions {
	/** Idempotency key: a second signal with it is the first. */
	key?: string;
	client?: Queryable;
	headers?: Record<string, unknown>;
}

export class Handle<O> {
	readonly #app: App;

	constructor(app: App, readonly runId: number) {
		this.#app = app;
	}

	/** Waits for the end of the run and answers its output; throws RunFailed, RunCancelled, or WaitTimeout. */
	async result(options: { timeout?: Duration } = {}): Promise<Stored<O>> {
		const { status, output, error } = await this.#app.wait(this.runId, interval(options.timeout ?? '300 s'));
		if (status === 'CANCELLED') throw new RunCancelled(error ?? { type: 'cancelled', message: `run ${this.runId} was cancelled` });
		if (status !== 'SUCCESS') throw new RunFailed(error);
		return this.#app.decode(output) as Stored<O>;
	}

	async status(): Promise<RunStatus> {
		return (await this.#app.call('pgqrs_get_run', [this.runId]))['status'];
	}

	signal(name: string, payload?: unknown, options?: SignalOptions): Promise<number> {
		return this.#app.signal(this.runId, name, payload, options);
	}

	/** Asks the run to stop; the status after the call. */
	async cancel(reason?: string): Promise<RunStatus> {
		return (await this.#app.call('pgqrs_cancel_run', [this.runId], { reason }))['pgqrs_cancel_run'];
	}

	/** Lets a run go on that pauses (or will) at that step; without, at the one where it is. */
	async resume(stepId?: string, output?: unknown): Promise<boolean> {
		const answer = await this.#app.call('pgqrs_resume_run', [this.runId, stepId ?? null, this.#app.encode(output)]);
		return answer['pgqrs_resume_run'];
	}
}
