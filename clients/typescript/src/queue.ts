// A queue, and a message of it under its lease.
import type pg from 'pg';

import type { App } from './app.js';
import type { Duration, Queryable } from './database.js';
import type { Stored } from './json.js';
import type { Claim, Lease } from './lease.js';
import type { FlowOptions } from './workflow.js';

/** The arguments of pgqrs_create_queue(). */
export interface QueueOptions extends FlowOptions {
	maxAttempts?: number;
	maxInFlight?: number;
	retention?: Duration;
	deadRetention?: Duration;
}

/** The arguments of pgqrs_enqueue(). */
export interface SendOptions {
	/** Idempotency key: a second message with it is the first. */
	key?: string;
	/** A client, in whose transaction the message is sent. */
	client?: Queryable;
	delay?: Duration;
	runAt?: Date;
	priority?: number;
	headers?: Record<string, unknown>;
	concurrencyKey?: string;
	onDuplicate?: 'return' | 'raise' | 'replace' | 'replace_input';
}

export type QueueHandler<P> = (payload: Stored<P>, message: Message) => unknown;

export class Queue<P> {
	readonly #app: App;

	constructor(app: App, readonly name: string, readonly options: QueueOptions, readonly handler: QueueHandler<P>) {
		this.#app = app;
	}

	/** Sends a message and answers its id. */
	produce(payload: P, options?: SendOptions): Promise<number> {
		return this.#app.produce(this.name, payload, options);
	}
}

export class Message {
	readonly id: number;
	readonly queue: string;
	/** How often it was claimed. */
	readonly attempt: number;
	readonly failures: number;
	readonly headers: Readonly<Record<string, unknown>>;
	readonly #lease: Lease;

	constructor(claim: Claim, lease: Lease) {
		this.id = claim.message_id;
		this.queue = claim.queue;
		this.attempt = claim.attempt;
		this.failures = claim.failures;
		this.headers = claim.headers ?? {};
		this.#lease = lease;
	}

	/** Aborts when the lease is lost. */
	get signal(): AbortSignal {
		return this.#lease.controller.signal;
	}

	/**
	 * Ends the message in one transaction with what the function writes on the client, so exactly once.  The function
	 * may be called more than once, and must not commit.
	 */
	async transaction(work: (client: pg.ClientBase) => unknown): Promise<void> {
		await this.#lease.transaction(
			async (client) => {
				await work(client);
			},
			() => this.#lease.statement('pgqrs_archive_message', [])
		);
		this.#lease.ended = true;
	}
}
