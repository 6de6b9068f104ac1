// An app: what a program runs and calls.
import type pg from 'pg';

import { Connection, Database, Duration, interval, row, Row, rows, Statement } from './database.js';
import { describe, isConnectionLost, PgqrsError, retryOf, typed, WaitTimeout, WorkerNotFound, WorkerStopped } from './errors.js';
import { Handle, SignalOptions } from './handle.js';
import { Codec, fromJson, parseJson, Stored, toJson } from './json.js';
import { backOff } from './lease.js';
import { Queue, QueueHandler, QueueOptions, SendOptions } from './queue.js';
import { nameOf } from './run.js';
import { delivery, outgoing } from './trace.js';
import { Worker, WorkerOptions } from './worker.js';
import { ExecuteOptions, StartOptions, Workflow, WorkflowHandler, WorkflowOptions } from './workflow.js';

/** Where messages for operators go. */
export type Log = Pick<Console, 'info' | 'warn' | 'error'>;

export interface AppOptions {
	/** What `pg` takes, or a URL; without, the environment (PGHOST …) says. */
	connection?: Connection;
	/** The schema of the extension, if search_path does not find it. */
	schema?: string;
	/** Whether statements are prepared, true without: false behind a pooler that does not know prepared statements. */
	prepare?: boolean;
	/** The application name of the connections, and the name of workers. */
	name?: string;
	codec?: Codec;
	log?: Log;
}

/** The arguments of pgqrs_schedule(). */
export interface ScheduleOptions extends Pick<StartOptions, 'priority' | 'timeout' | 'tags'> {
	input?: unknown;
	timezone?: string;
	maxCatchup?: number;
	overlap?: 'allow' | 'skip' | 'cancel';
	enabled?: boolean;
}

export interface ConsumeOptions {
	batchSize?: number;
	visibilityTimeout?: Duration;
}

/** Of a call whose connection was lost, where that does no harm. */
const TRIES = 8;
/** Connections of calls, and of those that wait. */
const MOST = { calls: 10, waits: 100 };

export class App {
	readonly workflows = new Map<string, Workflow<any, any>>();
	readonly queues = new Map<string, Queue<any>>();
	readonly name: string | undefined;
	readonly codec: Codec | undefined;
	readonly log: Log;
	readonly database: Database;
	/** Those that run. */
	readonly workers = new Set<Worker>();
	readonly #schedules: { name: string; cron: string; workflow: string; options: ScheduleOptions }[] = [];
	readonly #pools = new Map<string, pg.Pool>();

	constructor(options: AppOptions = {}) {
		this.name = options.name;
		this.codec = options.codec;
		this.log = options.log ?? console;
		this.database = new Database(options.connection, options.name, options.schema, options.prepare ?? true);
	}

	/** Makes a function the handler of a workflow. */
	workflow<I = unknown, O = unknown>(name: string, handler: WorkflowHandler<I, O>): Workflow<I, O>;
	workflow<I = unknown, O = unknown>(name: string, options: WorkflowOptions, handler: WorkflowHandler<I, O>): Workflow<I, O>;
	workflow<I, O>(name: string, options: WorkflowOptions | WorkflowHandler<I, O>, handler?: WorkflowHandler<I, O>): Workflow<I, O> {
		this.#requireFree(name);
		const workflow = typeof options === 'function' ? new Workflow(this, name, {}, options) : new Workflow(this, name, options, handler!);
		this.workflows.set(name, workflow);
		return workflow;
	}

	/** Makes a function the handler of the messages of a queue. */
	queue<P = unknown>(name: string, handler: QueueHandler<P>): Queue<P>;
	queue<P = unknown>(name: string, options: QueueOptions, handler: QueueHandler<P>): Queue<P>;
	queue<P>(name: string, options: QueueOptions | QueueHandler<P>, handler?: QueueHandler<P>): Queue<P> {
		this.#requireFree(name);
		const queue = typeof options === 'function' ? new Queue(this, name, {}, options) : new Queue(this, name, options, handler!);
		this.queues.set(name, queue);
		return queue;
	}

	/** install() makes such a schedule. */
	schedule(name: string, cron: string, workflow: Workflow<any, any> | string, options: ScheduleOptions = {}): void {
		this.#schedules.push({ name, cron, workflow: nameOf(workflow), options });
	}

	#requireFree(name: string): void {
		if (this.workflows.has(name) || this.queues.has(name)) throw new PgqrsError(`"${name}" has a handler already`);
	}

	/** Makes the workflows, queues and schedules as they are declared here, in one transaction.  What exists gets these settings. */
	async install(): Promise<void> {
		const select = this.database.select.bind(this.database);
		const client = this.database.client();
		await client.connect();
		try {
			await client.query('BEGIN');
			for (const { name, options } of sorted(this.workflows.values()))
				await row(client, select('pgqrs_create_workflow', [name], { ...options, replace: true }));
			for (const { name, options } of sorted(this.queues.values()))
				await row(client, select('pgqrs_create_queue', [name], { ...options, replace: true }));
			for (const { name, cron, workflow, options } of sorted(this.#schedules)) {
				const { input, ...rest } = options;
				await row(client, select('pgqrs_schedule', [name, cron, workflow, this.encode(input)], rest));
			}
			await client.query('COMMIT');
		} catch (error) {
			throw typed(error);
		} finally {
			await client.end();
		}
	}

	/** Works until SIGTERM or SIGINT, or until stop(). */
	work(options?: WorkerOptions): Promise<void> {
		return this.worker(options).run();
	}

	worker(options?: WorkerOptions): Worker {
		return new Worker(this, options);
	}

	/** Triggers a run. */
	async start<I = unknown, O = unknown>(workflow: Workflow<I, O> | string, input?: I, options: StartOptions = {}): Promise<Handle<O>> {
		return new Handle<O>(this, await this.#send('pgqrs_trigger', [nameOf(workflow), this.encode(input)], options));
	}

	/**
	 * Starts a run, works on it in this process if one of its workers has room, and answers its output.  It is a run
	 * like any other: where this process does not end it, other workers do.
	 */
	async execute<I = unknown, O = unknown>(workflow: Workflow<I, O> | string, input?: I, options: ExecuteOptions = {}): Promise<Stored<O>> {
		const name = nameOf(workflow);
		const worker = [...this.workers].find((candidate) => candidate.serves(name));
		try {
			if (worker) {
				const start = this.#sending('pgqrs_start', [name, this.encode(input), worker.id], options);
				const [claim, output] = await worker.execute(() => this.#run(options.key !== undefined, () => row(worker.pool, start)));
				return output === undefined ? this.#outcome(new Handle<O>(this, claim['run_id'])) : (this.decode(parseJson(output)) as Stored<O>);
			}
		} catch (error) {
			if (!(error instanceof WorkerStopped || error instanceof WorkerNotFound)) throw error; // of these nothing was started
		}
		return this.#outcome<O>(await this.start<I, O>(workflow, input, options));
	}

	/** Waits however long that takes.  Those that wait take turns, as there are fewer connections. */
	async #outcome<O>(handle: Handle<O>): Promise<Stored<O>> {
		for (;;) {
			try {
				return await handle.result({ timeout: '5 s' });
			} catch (error) {
				if (!(error instanceof WaitTimeout)) throw error;
			}
		}
	}

	/** A run by its id. */
	handle<O = unknown>(runId: number): Handle<O> {
		return new Handle<O>(this, runId);
	}

	/** A run by its idempotency key. */
	async find<I, O>(workflow: Workflow<I, O> | string, key: string): Promise<Handle<O> | undefined> {
		const answer = await this.call('pgqrs_find_run', [nameOf(workflow), key]);
		const runId: number | null = answer['pgqrs_find_run'];
		return runId === null ? undefined : new Handle<O>(this, runId);
	}

	signal(runId: number, name: string, payload?: unknown, options: SignalOptions = {}): Promise<number> {
		return this.#send('pgqrs_signal', [runId, name, this.encode(payload)], options);
	}

	/** Sends a message and answers its id. */
	produce(queue: Queue<any> | string, payload: unknown, options: SendOptions = {}): Promise<number> {
		return this.#send('pgqrs_enqueue', [nameOf(queue), this.encode(payload)], options);
	}

	/**
	 * Claims messages and calls a handler with the payload of each, which then ends, or fails with its error; answers
	 * how many there were.  Without a worker: their leases are not extended, see visibilityTimeout.
	 */
	async consume<P = unknown>(queue: Queue<P> | string, handler: (payload: Stored<P>) => unknown, options: ConsumeOptions = {}): Promise<number> {
		const claim = this.database.select('pgqrs_dequeue', [nameOf(queue)], options);
		const claims = await this.#run(false, () => rows(this.#pool('calls'), claim));
		for (const { message_id: id, lease, payload, headers, attempt } of claims) {
			try {
				const value = this.decode(payload) as Stored<P>;
				await delivery(`${nameOf(queue)} message`, headers ?? {}, { 'pgqrs.message_id': id, 'pgqrs.attempt': attempt }, async () => handler(value));
			} catch (error) {
				const { retryable, after } = retryOf(error);
				this.log.warn(`pgqrs: message ${id} of ${nameOf(queue)} failed: ${describe(error).message}`);
				await this.call('pgqrs_nack_message', [id, lease, JSON.stringify(describe(error)), interval(after), retryable]);
				continue;
			}
			await this.#run(true, () => row(this.#pool('calls'), this.database.select('pgqrs_archive_message', [id, lease])));
		}
		return claims.length;
	}

	/** Any function of pgqrs that answers one row. */
	call(name: string, args: unknown[], options?: object): Promise<Row> {
		return this.#run(false, () => row(this.#pool('calls'), this.database.select(name, args, options)));
	}

	/** Waits until one of several runs has ended: its handle, whose result() then answers at once. */
	async waitAny<O>(handles: readonly Handle<O>[], options: { timeout?: Duration } = {}): Promise<Handle<O> | undefined> {
		const statement = this.database.procedure('pgqrs_wait_any', [handles.map((handle) => handle.runId), interval(options.timeout ?? '300 s')]);
		const { run_id: ended } = await this.#run(true, () => row(this.#pool('waits'), statement));
		return handles.find((handle) => handle.runId === ended);
	}

	/** Waits for the end of a run. */
	wait(runId: number, timeout: string | null): Promise<Row> {
		return this.#run(true, () => row(this.#pool('waits'), this.database.procedure('pgqrs_wait', [runId, timeout])));
	}

	#send(name: string, args: unknown[], { client, ...options }: StartOptions): Promise<number> {
		const statement = this.#sending(name, args, options);
		if (client) statement.name = undefined;
		return this.#run(options.key !== undefined && client === undefined, async () => (await row(client ?? this.#pool('calls'), statement))[name]);
	}

	/** A call that sends something, with its trace. */
	#sending(name: string, args: unknown[], { key, headers, ...options }: StartOptions): Statement {
		return this.database.select(name, args, { ...options, idempotencyKey: key, headers: outgoing(headers) });
	}

	/** A call, repeated on another connection if one is lost and that does no harm. */
	async #run<T>(repeat: boolean, call: () => Promise<T>): Promise<T> {
		for (let tries = 0; ; tries++) {
			try {
				return await call();
			} catch (error) {
				if (!repeat || !isConnectionLost(error) || tries === TRIES) throw typed(error);
			}
			await backOff(tries);
		}
	}

	/** Ends the connections. */
	async close(): Promise<void> {
		const pools = [...this.#pools.values()];
		this.#pools.clear();
		await Promise.all(pools.map((pool) => pool.end()));
	}

	#pool(name: keyof typeof MOST): pg.Pool {
		const pool = this.#pools.get(name) ?? this.database.pool(MOST[name]);
		this.#pools.set(name, pool);
		return pool;
	}

	encode(value: unknown): string {
		return toJson(value, this.codec);
	}

	decode(value: unknown): unknown {
		return fromJson(value, this.codec);
	}
}

function sorted<T extends { name: string }>(items: Iterable<T>): T[] {
	return [...items].sort((a, b) => (a.name < b.name ? -1 : 1));
}
