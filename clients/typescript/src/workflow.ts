// A workflow: its handler, and what the server is told of it.
import type { App } from './app.js';
import type { Duration, Queryable } from './database.js';
import type { Handle } from './handle.js';
import type { Stored } from './json.js';
import type { Run } from './run.js';

export interface RetryPolicy {
	maxAttempts?: number;
	initialInterval?: Duration;
	backoffCoefficient?: number;
	maxInterval?: Duration;
	jitter?: number;
	/** Beginnings of the types of errors that no other try helps against. */
	nonRetryable?: string[];
}

/** What queues and workflows have in common. */
export interface FlowOptions {
	visibilityTimeout?: Duration;
	maxPerKey?: number;
	ordered?: boolean;
	fair?: boolean;
	rateLimit?: number;
	ratePeriod?: Duration;
	ratePerKey?: boolean;
}

/** The arguments of pgqrs_create_workflow(). */
export interface WorkflowOptions extends RetryPolicy, FlowOptions {
	timeout?: Duration;
	maxCrashes?: number;
	keyScope?: 'retained' | 'active';
	outboxQueue?: string;
	onCancel?: 'end' | 'deliver';
}

/** The arguments of pgqrs_trigger(). */
export interface StartOptions {
	/** Idempotency key: a second start with it answers the first run. */
	key?: string;
	/** A client, in whose transaction the run is started. */
	client?: Queryable;
	delay?: Duration;
	runAt?: Date;
	priority?: number;
	timeout?: Duration;
	tags?: Record<string, unknown>;
	headers?: Record<string, unknown>;
	retryPolicy?: RetryPolicy;
	onDuplicate?: 'return' | 'raise' | 'replace' | 'replace_input';
	requireWorker?: boolean;
	concurrencyKey?: string;
}

export type ExecuteOptions = Omit<StartOptions, 'client' | 'delay' | 'runAt'>;

export type WorkflowHandler<I, O> = (run: Run, input: Stored<I>) => O | Promise<O>;

export class Workflow<I, O> {
	readonly #app: App;

	constructor(app: App, readonly name: string, readonly options: WorkflowOptions, readonly handler: WorkflowHandler<I, O>) {
		this.#app = app;
	}

	/** Triggers a run. */
	start(...args: undefined extends I ? [input?: I, options?: StartOptions] : [input: I, options?: StartOptions]): Promise<Handle<O>> {
		return this.#app.start<I, O>(this, args[0] as I, args[1]);
	}

	/** Starts a run, works on it here if this process has a worker with room, and answers its output. */
	execute(...args: undefined extends I ? [input?: I, options?: ExecuteOptions] : [input: I, options?: ExecuteOptions]): Promise<Stored<O>> {
		return this.#app.execute<I, O>(this, args[0] as I, args[1]);
	}
}
