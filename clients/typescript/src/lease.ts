// A lease: the calls under it, and what their answers oblige to.
import type pg from 'pg';

import { Database, row, Row, Statement } from './database.js';
import { Cancelled, isConflict, isPassing, Leave, LeaseLost, Parked, sqlstate, typed } from './errors.js';

const LOST = ['PQ003', 'PQ006', 'PQ007', 'PQ014'];
const TRIES = 10;

/** What a poll says of a message or run that was claimed. */
export interface Claim extends Row {
	message_id: number;
	queue: string;
	lease: number;
	attempt: number;
	failures: number;
	payload: unknown;
	headers?: Record<string, unknown> | null;
	run_id?: number | null;
	workflow?: string | null;
	input?: unknown;
	cancel_requested?: boolean;
	steps?: Record<string, StoredStep>;
	steps_truncated?: boolean;
}

export interface StoredStep {
	kind: string;
	status: 'SUCCESS' | 'ERROR';
	output: unknown;
	error: unknown;
	undo?: boolean;
}

export class Lease {
	readonly id: number;
	readonly lease: number;
	/** Aborts when the lease is lost, or when the run is asked to stop. */
	readonly controller = new AbortController();
	/** Why the handler was left: each further call throws it again. */
	left?: Leave;
	/** Given up, or its work has ended. */
	ended = false;
	/** The run was asked to stop by a request that came after the claim. */
	cancelling = false;
	#calls = 0;
	#gone = false;

	constructor(claim: Claim, readonly database: Database, readonly pool: pg.Pool) {
		this.id = claim.message_id;
		this.lease = claim.lease;
	}

	/** What a poll has told of it. */
	heed(state: string): void {
		if (state === 'gone') {
			this.#gone = true;
			this.#loseIfGone();
		} else if (state === 'cancel_requested' && !this.cancelling) {
			this.cancelling = true;
			this.controller.abort(new Cancelled());
		}
	}

	/** A call that is under way tells itself what became of the lease. */
	#loseIfGone(): void {
		if (this.#gone && !this.ended && this.#calls === 0) this.lose();
	}

	lose(message?: string, cause?: unknown): LeaseLost {
		const lost = new LeaseLost(message, { cause });
		this.ended = true;
		this.left ??= lost;
		this.controller.abort(lost);
		return lost;
	}

	/** Gives the run back: the handler is left. */
	park(): never {
		this.ended = true;
		this.left = new Parked();
		this.controller.abort(this.left);
		throw this.left;
	}

	check(): void {
		if (this.left) throw this.left;
		if (this.ended) throw new LeaseLost('the run or message has ended: a call came after the end of its handler');
	}

	statement(name: string, args: unknown[], options?: object): Statement {
		return this.database.select(name, [this.id, this.lease, ...args], options);
	}

	/** A call under the lease. */
	call(name: string, args: unknown[] = [], options?: object): Promise<Row> {
		const statement = this.statement(name, args, options);
		return this.#persist(() => row(this.pool, statement));
	}

	/** A call that gives the lease up. */
	end(name: string, args: unknown[] = [], options?: object): Promise<Row> {
		const statement = this.statement(name, args, options);
		return this.#persist(async () => {
			const answer = await row(this.pool, statement);
			this.ended = true;
			return answer;
		});
	}

	/** Repeats a call as long as its answer may be lost and the lease good. */
	async #persist<T>(attempt: () => Promise<T>): Promise<T> {
		for (let tries = 0; ; tries++) {
			this.check();
			this.#calls++;
			try {
				return await attempt();
			} catch (error) {
				if (!isPassing(error)) throw this.#judge(error);
			} finally {
				this.#calls--;
				this.#loseIfGone();
			}
			await backOff(tries);
		}
	}

	/** Work on a connection and the call that it commits with, in one transaction; false: it has committed before. */
	async transaction<T>(work: (client: pg.ClientBase) => T | Promise<T>, last: (value: T) => Statement): Promise<[boolean, T]> {
		for (let tries = 1; ; tries++) {
			this.check();
			try {
				return await this.#transaction(work, last);
			} catch (error) {
				if (!(error instanceof Interrupted)) throw error;
				if (tries === TRIES) throw error.cause;
			}
			await backOff(tries);
		}
	}

	async #transaction<T>(work: (client: pg.ClientBase) => T | Promise<T>, last: (value: T) => Statement): Promise<[boolean, T]> {
		const client = await this.#persist(() => this.pool.connect());
		let broken: Error | undefined;
		const onError = (error: Error): void => {
			broken = error;
		};
		client.on('error', onError);
		try {
			await client.query('BEGIN');
			const value = await work(client);
			this.check();
			this.#calls++;
			try {
				const answer = await row(client, { ...last(value), name: undefined }).catch((error) => {
					throw isPassing(error) ? error : this.#judge(error);
				});
				const stored = Object.values(answer)[0] as boolean;
				await client.query(stored ? 'COMMIT' : 'ROLLBACK');
				return [stored, value];
			} finally {
				this.#calls--;
				this.#loseIfGone();
			}
		} catch (error) {
			await client.query('ROLLBACK').catch(onError);
			throw broken || isConflict(error) ? new Interrupted(error) : error;
		} finally {
			client.off('error', onError);
			client.release(broken);
		}
	}

	/** What an error of a call under the lease is to the handler. */
	#judge(error: unknown): unknown {
		const state = sqlstate(error);
		if (state !== undefined && LOST.includes(state)) return this.lose((error as Error).message, error);
		return state === 'PQ010' ? new Cancelled() : typed(error);
	}
}

/** A transaction that is to be repeated. */
class Interrupted extends Error {
	constructor(cause: unknown) {
		super('the transaction was interrupted', { cause });
	}
}

/** Waits, longer from time to time. */
export function backOff(tries: number, signal?: AbortSignal): Promise<void> {
	const most = Math.min(5000, 10 * 2 ** Math.min(tries, 10));
	return pause(most * (0.5 + Math.random() / 2), signal);
}

export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		const timer = setTimeout(done, milliseconds);
		signal?.addEventListener('abort', done, { once: true });
		function done(): void {
			clearTimeout(timer);
			signal?.removeEventListener('abort', done);
			resolve();
		}
	});
}
