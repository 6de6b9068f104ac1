// A worker: one poll, which extends what is held and claims, and the handlers beside it.
import { hostname } from 'node:os';
import type pg from 'pg';

import type { App } from './app.js';
import { Duration, interval, row, Row, rows, Statement } from './database.js';
import { Cancelled, describe, ErrorObject, Incompatible, isPassing, LeaseLost, PgqrsError, retryOf, sqlstate, typed, WorkerNotFound, WorkerStopped } from './errors.js';
import { fromJson, toJson } from './json.js';
import { backOff, Claim, Lease, pause, StoredStep } from './lease.js';
import { Message } from './queue.js';
import { Run } from './run.js';
import { delivery } from './trace.js';

export interface WorkerOptions {
	/** Runs and messages at once. */
	concurrency?: number;
	/** Milliseconds that these may take to end after SIGTERM; then, or after a second one, they are given back. */
	grace?: number;
	/** Connections that the handlers share, besides the one that polls. */
	connections?: number;
	/** Names are unique: a worker takes over from the one that had its name. */
	name?: string;
	/** Patterns of queues, if not those with a handler. */
	queues?: string[];
	labels?: Record<string, unknown>;
	/** Whether SIGTERM and SIGINT stop it. */
	signals?: boolean;
}

export const VERSION = '0.1.1';
const POLL = 30_000;
/** Milliseconds for which polls do not name a run that execute() has started: each end of one would end the poll. */
const YOUNG = 1000;
const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const;

interface Task {
	readonly lease: Lease;
	/** From when on polls name it. */
	readonly named: number;
	/** The output as JSON text, if it has completed a run. */
	readonly done: Promise<string | undefined>;
}

export class Worker {
	readonly name: string;
	readonly #app: App;
	readonly #options: WorkerOptions;
	readonly #concurrency: number;
	readonly #grace: number;
	readonly #queues: string[];
	/** Of the handlers, and of runs that execute() starts. */
	readonly pool: pg.Pool;
	/** What a poll names: claims whose end has not been told. */
	readonly #held = new Map<number, Task>();
	/** Runs that are being started in its name. */
	#starting = 0;
	#client: pg.Client | undefined;
	id: number | undefined;
	/** Aborts when the worker is to take nothing new. */
	readonly #draining = new AbortController();
	/** When what has not ended is given back. */
	#deadline = Infinity;

	constructor(app: App, options: WorkerOptions = {}) {
		this.#app = app;
		this.#options = options;
		this.#concurrency = options.concurrency ?? 10;
		this.#grace = options.grace ?? 30_000;
		this.name = options.name ?? app.name ?? `${hostname()}:${process.pid}`;
		this.#queues = options.queues ?? [...app.workflows.keys(), ...app.queues.keys()].sort();
		if (this.#queues.length === 0) throw new PgqrsError('there is no handler: declare one with app.workflow or app.queue');
		this.pool = app.database.pool(Math.max(1, Math.min(options.connections ?? 5, this.#concurrency)));
	}

	/** Works until drain(), or a signal to stop; untilIdle: or until there is nothing that can be claimed. */
	async run(untilIdle = false): Promise<void> {
		const drain = (): void => this.drain();
		const signals = untilIdle || this.#options.signals === false ? [] : STOP_SIGNALS;
		for (const signal of signals) process.on(signal, drain);
		try {
			await this.#register();
			this.#app.workers.add(this);
			if (this.id !== undefined) await this.#work(untilIdle);
		} finally {
			this.#app.workers.delete(this);
			for (const signal of signals) process.off(signal, drain);
			await this.#stop();
		}
	}

	/** Whether it would take another run of the workflow now. */
	serves(workflow: string): boolean {
		const subscribes = (pattern: string): boolean =>
			pattern === workflow || pattern === '*' || (pattern.endsWith('.*') && workflow.startsWith(pattern.slice(0, -1)));
		const free = this.id !== undefined && this.#size < this.#concurrency && !this.#draining.signal.aborted;
		return free && this.#app.workflows.has(workflow) && this.#queues.some(subscribes);
	}

	/** Held, or about to be. */
	get #size(): number {
		return this.#held.size + this.#starting;
	}

	/** Starts a run in its name and works on it; with its output as JSON text, unless another delivery will end it. */
	async execute(start: () => Promise<Row>): Promise<[Row, string | undefined]> {
		this.#starting++;
		try {
			const claim = await start();
			const output = claim['lease'] == null || !this.#app.workers.has(this) ? undefined : this.#keep(claim as Claim);
			return Promise.all([claim, output]);
		} finally {
			this.#starting--;
		}
	}

	/** Works on a run that the poll which is asleep does not know of, and extends its lease. */
	#keep(claim: Claim): Promise<string | undefined> {
		const { lease, done } = this.#begin({ ...claim, steps: {} }, Date.now() + YOUNG);
		const third = (Number(claim['visible_after']) - Number(claim['enqueued_at'])) / 3;
		return new Promise((resolve) => {
			const look = (): void => {
				if (!lease.ended) return void this.#extend(lease);
				clearInterval(timer);
				if (lease.left) resolve(undefined);
			};
			const timer = setInterval(look, third > 0 ? Math.min(third, 60_000) : 1000);
			lease.controller.signal.addEventListener('abort', look);
			void done.then(resolve).finally(() => clearInterval(timer));
		});
	}

	async #extend({ id, lease }: Lease): Promise<void> {
		const answer = await this.#app.call('pgqrs_extend_leases', [[id], [lease]]).catch(() => undefined);
		if (answer) this.#heed(id, !answer['extended'] ? 'gone' : answer['cancel_requested'] ? 'cancel_requested' : 'extended');
	}

	/** Takes nothing new; the worker ends when what it holds has ended.  The second time: gives that back. */
	drain(): void {
		this.#deadline = Date.now() + (this.#draining.signal.aborted ? 0 : this.#grace);
		if (this.#draining.signal.aborted) return;
		this.#draining.abort();
		this.#app.log.info(`pgqrs: ${this.name} drains: ${this.#held.size} to end`);
		// That ends the poll which is asleep.
		if (this.id !== undefined) row(this.pool, this.#app.database.select('pgqrs_suspend_worker', [this.id])).catch(() => undefined);
	}

	/** Registers, however long the database is away or cannot be written to. */
	async #register(): Promise<void> {
		const database = this.#app.database;
		await this.#persist(async () => {
			const { pgqrs_version: version } = await this.#query(database.select('pgqrs_version', []));
			if (!fits(version))
				throw new Incompatible(
					`the extension has version ${version}, this client fits ${VERSION}: ALTER EXTENSION pgqrs UPDATE, or install the client of that version`
				);
			const answer = await this.#query(
				database.select('pgqrs_register_worker', [this.name, this.#queues], {
					hostname: hostname(),
					version: VERSION,
					maxConcurrent: this.#concurrency,
					labels: this.#options.labels,
				})
			);
			this.id = answer['pgqrs_register_worker'];
			this.#app.log.info(`pgqrs: ${this.name} is worker ${this.id} for ${this.#queues.join(', ')}`);
		});
	}

	async #stop(): Promise<void> {
		const left = [...this.#held.values()];
		for (const task of left) task.lease.lose('the worker stops');
		this.#held.clear();
		if (this.id !== undefined) await this.#query(this.#app.database.select('pgqrs_stop_worker', [this.id])).catch(() => undefined);
		this.#disconnect();
		const ended = this.pool.end().catch(() => undefined);
		// A handler that hangs keeps its connection.
		if (left.length === 0) await ended;
	}

	async #query(statement: Statement, timeout?: number): Promise<Row> {
		if (!this.#client) {
			const client = this.#app.database.client();
			client.on('end', () => {
				if (this.#client === client) this.#client = undefined;
			});
			await client.connect();
			this.#client = client;
		}
		const timer = timeout === undefined ? undefined : setTimeout(() => this.#disconnect(), timeout);
		try {
			return await row(this.#client, statement);
		} catch (error) {
			if (isPassing(error)) this.#disconnect();
			throw typed(error);
		} finally {
			clearTimeout(timer);
		}
	}

	#disconnect(): void {
		const client = this.#client;
		this.#client = undefined;
		client?.end().catch(() => undefined);
	}

	/** Calls until it is answered: what has no work loses nothing by waiting.  Undefined: it drains instead. */
	async #persist<T>(attempt: () => Promise<T>): Promise<T | undefined> {
		for (let tries = 0; ; tries++) {
			try {
				return await attempt();
			} catch (error) {
				if (error instanceof WorkerStopped || error instanceof WorkerNotFound || error instanceof Incompatible) throw error;
				this.#app.log.warn(`pgqrs: ${this.name} tries again: ${(error as Error).message}`);
			}
			const draining = this.#draining.signal.aborted;
			if (draining && (this.#size === 0 || Date.now() >= this.#deadline)) return undefined;
			await backOff(draining ? 5 : tries + 3, this.#size === 0 ? this.#draining.signal : undefined);
		}
	}

	async #work(untilIdle: boolean): Promise<void> {
		for (;;) {
			let timeout = untilIdle && this.#held.size === 0 ? 0 : POLL;
			if (this.#draining.signal.aborted) {
				// A second signal moves the deadline.
				timeout = Math.min(1000, this.#deadline - Date.now());
				if (this.#size === 0) return;
				if (timeout <= 0) {
					this.#app.log.warn(`pgqrs: ${this.name} gives back ${this.#held.size} that did not end in time`);
					return;
				}
			}
			const idle = this.#held.size === 0;
			const answer = await this.#persist(() => this.#poll(timeout));
			for (const { message_id, state } of answer?.['held'] ?? []) this.#heed(message_id, state);
			const claims: Claim[] = answer?.['work'] ?? [];
			for (const claim of claims) this.#begin(claim);
			if (untilIdle && idle && claims.length === 0) return;
		}
	}

	#poll(timeout: number): Promise<Row> {
		const tasks = [...this.#held.values()].filter((task) => this.#draining.signal.aborted || task.named <= Date.now());
		const leases = tasks.map((task) => task.lease);
		const statement = this.#app.database.procedure('pgqrs_poll', [
			this.id,
			interval(tasks.length < this.#held.size ? Math.min(timeout, YOUNG) : timeout),
			this.#draining.signal.aborted ? 0 : this.#concurrency,
			leases.map((lease) => lease.id),
			leases.map((lease) => lease.lease),
		]);
		return this.#query(statement, timeout + 30_000);
	}

	#heed(id: number, state: string): void {
		const task = this.#held.get(id);
		if (!task) return;
		task.lease.heed(state);
		if (state === 'gone') this.#held.delete(id);
	}

	#begin(claim: Claim, named = 0): Task {
		const lease = new Lease(claim, this.#app.database, this.pool);
		const done = this.#handle(claim, lease).finally(() => {
			if (this.#held.get(lease.id) === task) this.#held.delete(lease.id);
		});
		const task: Task = { lease, named, done };
		// A delivery proves that the lease of the one before is gone.
		this.#held.get(lease.id)?.lease.heed('gone');
		this.#held.set(lease.id, task);
		return task;
	}

	/** One delivery, to the end of it. */
	async #handle(claim: Claim, lease: Lease): Promise<string | undefined> {
		try {
			return await (claim.run_id == null ? this.#handleMessage(claim, lease) : this.#handleRun(claim, lease));
		} catch (error) {
			if (lease.ended) return undefined;
			this.#app.log.error(`pgqrs: ${claim.message_id} of ${claim.queue} is given back: ${(error as Error).message}`);
			await pause(5000, lease.controller.signal);
			return undefined;
		} finally {
			if (lease.left instanceof LeaseLost) this.#app.log.info(`pgqrs: ${claim.message_id} of ${claim.queue} is dropped: ${lease.left.message}`);
		}
	}

	async #handleRun(claim: Claim, lease: Lease): Promise<string | undefined> {
		const definition = this.#app.workflows.get(claim.queue);
		if (!definition) return this.#refuse(lease, 'pgqrs_fail_run', `this worker has no handler for workflow "${claim.queue}"`);
		const codec = this.#app.codec;
		try {
			if (claim.cancel_requested && claim.steps_truncated) await this.#loadSteps(claim);
			const run = new Run(claim, lease, codec);
			return await delivery(run.workflow, run.headers, { 'pgqrs.run_id': run.id, 'pgqrs.attempt': run.attempt }, async () => {
				const output = toJson(await definition.handler(run, fromJson(claim.input ?? null, codec) as never), codec);
				if (lease.ended) return undefined;
				await lease.end('pgqrs_complete_run', [output]);
				return output;
			});
		} catch (error) {
			await this.#giveUp(claim, lease, error, async ({ retryable, after }, described) => {
				await lease.end('pgqrs_fail_run', [described, retryable, interval(after)]);
			});
			return undefined;
		}
	}

	async #handleMessage(claim: Claim, lease: Lease): Promise<undefined> {
		const definition = this.#app.queues.get(claim.queue);
		if (!definition) return this.#refuse(lease, 'pgqrs_nack_message', `this worker has no handler for queue "${claim.queue}"`);
		try {
			const message = new Message(claim, lease);
			await delivery(`${message.queue} message`, message.headers, { 'pgqrs.message_id': message.id, 'pgqrs.attempt': message.attempt }, async () => {
				await definition.handler(fromJson(claim.payload, this.#app.codec) as never, message);
				if (!lease.ended) await lease.end('pgqrs_archive_message');
			});
		} catch (error) {
			await this.#giveUp(claim, lease, error, async ({ retryable, after }, described) => {
				await lease.end('pgqrs_nack_message', [described, interval(after), retryable]);
			});
		}
	}

	async #refuse(lease: Lease, name: string, message: string): Promise<undefined> {
		this.#app.log.error(`pgqrs: ${message}`);
		await lease.end(name, [JSON.stringify({ type: 'no_handler_registered', message })], { retryable: false });
		return undefined;
	}

	/** After an error: the run or message fails, unless its lease was given up or lost before. */
	async #giveUp(
		claim: Claim,
		lease: Lease,
		error: unknown,
		fail: (retry: { retryable: boolean; after?: Duration }, described: string) => Promise<void>
	): Promise<void> {
		if (lease.ended) return;
		if (error instanceof Cancelled && claim.run_id != null) return void (await lease.end('pgqrs_acknowledge_cancel'));
		const described: ErrorObject = describe(error);
		this.#app.log.warn(`pgqrs: ${claim.message_id} of ${claim.queue} failed: ${described.message}`);
		try {
			await fail(retryOf(error), JSON.stringify(described));
		} catch (refusal) {
			if (refusal instanceof Cancelled) return void (await lease.end('pgqrs_acknowledge_cancel'));
			if (lease.ended || sqlstate(refusal) === undefined) throw refusal;
			await fail(retryOf(error), JSON.stringify({ type: 'unserializable_error' }));
		}
	}

	/** For an undo that has more steps than a poll brings: which were there before. */
	async #loadSteps(claim: Claim): Promise<void> {
		const steps = await rows(this.pool, this.#app.database.select('pgqrs_list_steps', [claim.run_id]));
		claim.steps = Object.fromEntries(steps.filter((step) => ['SUCCESS', 'ERROR'].includes(step['status'])).map((step) => [step['step_id'], step as StoredStep]));
		claim.steps_truncated = false;
	}
}

/** Whether the extension has what this client calls: before 1.0 the minor version tells. */
function fits(version: string): boolean {
	return version.split('.', 2).join('.') === VERSION.split('.', 2).join('.');
}
