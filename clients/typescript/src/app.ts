// An app: what a program runs and calls.
import type pg from 'pg';

import { call, Connection, Database, Duration, Queryable, row, Row } from './database.js';
import { isConnectionLost, PgqrsError, typed } from './errors.js';
import { Handle, SignalOptions } from './handle.js';
import { Codec, fromJson, toJson } from './json.js';
import { backOff } from './lease.js';
import { Queue, QueueHandler, QueueOptions, SendOptions } from './queue.js';
import { nameOf } from './run.js';
import { Worker, WorkerOptions } from './worker.js';
import { StartOptions, Workflow, WorkflowHandler, WorkflowOptions } from './workflow.js';

/** Where messages for operators go. */
export type Log = Pick<Console, 'info' | 'warn' | 'error'>;

export interface AppOptions {
	/** What `pg` takes, or a URL; without, the environment (PGHOST …) says. */
	connection?: Connection;
	/** The schema of the extension, if search_path does not find it. */
	schema?: string;
	/** The application name of the connections, and the name of workers. */
	name?: string;
	codec?: Codec;
	log?: Log;
}

/** The arguments of pgqrs_schedule(). */
export interface ScheduleOptions {
	input?: unknown;
	timezone?: string;
	maxCatchup?: number;
	overlap?: 'allow' | 'skip' | 'cancel';
	priority?: number;
	timeout?: Duration;
	tags?: Record<string, unknown>;
	enabled?: boolean;
}

interface Schedule {
	name: string;
	cron: string;
	workflow: string;
	options: ScheduleOptions;
}

const TRIES = 8;

export class App {
	readonly workflows = new Map<string, Workflow<any, any>>();
	readonly queues = new Map<string, Queue<any>>();
	readonly name: string | undefined;
	readonly codec: Codec | undefined;
	readonly log: Log;
	readonly database: Database;
	readonly #schedules: Schedule[] = [];
	#pool: pg.Pool | undefined;

	constructor(options: AppOptions = {}) {
		this.name = options.name;
		this.codec = options.codec;
		this.log = options.log ?? console;
		this.database = new Database(options.connection, options.name, options.schema);
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
		const client = this.database.client();
		await client.connect();
		try {
			await client.query('BEGIN');
			for (const { name, options } of sorted(this.workflows.values()))
				await this.#call(client, 'pgqrs_create_workflow', [name], { ...options, replace: true });
			for (const { name, options } of sorted(this.queues.values()))
				await this.#call(client, 'pgqrs_create_queue', [name], { ...options, replace: true });
			for (const { name, cron, workflow, options } of sorted(this.#schedules)) {
				const { input, ...rest } = options;
				await this.#call(client, 'pgqrs_schedule', [name, cron, workflow, this.encode(input)], rest);
			}
			await client.query('COMMIT');
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
		const { client, key, ...rest } = options;
		const answer = await this.#call(client, 'pgqrs_trigger', [nameOf(workflow), this.encode(input)], { ...rest, idempotencyKey: key });
		return new Handle<O>(this, answer['pgqrs_trigger']);
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

	async signal(runId: number, name: string, payload?: unknown, options: SignalOptions = {}): Promise<number> {
		const { client, key, ...rest } = options;
		const answer = await this.#call(client, 'pgqrs_signal', [runId, name, this.encode(payload)], { ...rest, idempotencyKey: key });
		return answer['pgqrs_signal'];
	}

	/** Sends a message and answers its id. */
	async enqueue(queue: Queue<any> | string, payload: unknown, options: SendOptions = {}): Promise<number> {
		const { client, key, ...rest } = options;
		const answer = await this.#call(client, 'pgqrs_enqueue', [nameOf(queue), this.encode(payload)], { ...rest, idempotencyKey: key });
		return answer['pgqrs_enqueue'];
	}

	/** Any function of pgqrs that answers one row. */
	call(name: string, args: unknown[], options?: object): Promise<Row> {
		return this.#call(undefined, name, args, options);
	}

	#call(client: Queryable | undefined, name: string, args: unknown[], options?: object): Promise<Row> {
		return call(client ?? this.#connections(), this.database.select(name, args, options));
	}

	/** Waits for the end of a run, on another connection if one is lost. */
	async wait(runId: number, timeout: string | null): Promise<Row> {
		for (let tries = 0; ; tries++) {
			try {
				return await row(this.#connections(), this.database.procedure('pgqrs_wait', [runId, timeout]));
			} catch (error) {
				if (!isConnectionLost(error) || tries === TRIES) throw typed(error);
			}
			await backOff(tries);
		}
	}

	/** Ends the connections. */
	async close(): Promise<void> {
		const pool = this.#pool;
		this.#pool = undefined;
		await pool?.end();
	}

	#connections(): pg.Pool {
		return (this.#pool ??= this.database.pool());
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
