// A run under its lease: what the handler of a workflow calls.
import type pg from 'pg';

import { Duration, interval, Row } from './database.js';
import {
	Cancelled, ChildFailed, describe, InvalidState, InvalidStep, Leave, retryOf, SignalTimeout, StepFailed,
} from './errors.js';
import { Codec, fromJson, parseJson, Stored, toJson } from './json.js';
import type { Claim, Lease, StoredStep } from './lease.js';
import { current, outgoing, span } from './trace.js';
import type { StartOptions, Workflow } from './workflow.js';

export interface StepOptions {
	/** How often an execution may fail; without, as the workflow says. */
	maxAttempts?: number;
}

export interface StepContext {
	/** Aborts when the lease is lost or the run is asked to stop. */
	readonly signal: AbortSignal;
	/** The same for each execution of this step of this run, and only for these: an idempotency key for other systems. */
	readonly key: string;
}

export interface WaitOptions {
	/** The step id; without, made of what is waited for, and ' #2' the second time. */
	id?: string;
}

export interface Signal<T> {
	readonly payload: T;
	readonly headers: Record<string, unknown> | null;
}

/** What awaitAny() waited for. */
export type Event =
	| { readonly source: 'signal'; readonly name: string; readonly payload: unknown }
	| { readonly source: 'child'; readonly name: string; readonly payload: { status: string; output: unknown; error: unknown } }
	| { readonly source: 'timeout'; readonly name: null; readonly payload: null };

let origin = performance.timeOrigin;
let last = 0;

/**
 * Now, by another microsecond each time: quick steps are listed in the order of their start.
 * Date.now() tells only milliseconds, by which a step would precede a child that the server has just started.
 */
function instant(): string {
	const before = performance.now();
	const millisecond = Date.now();
	const passed = performance.now();
	// A clock may be set: then what it said between the two tells anew where it began.
	origin = Math.min(Math.max(origin, millisecond - passed), millisecond + 0.999 - before);
	last = Math.max(Math.floor((origin + passed) * 1000), last + 1);
	return new Date(last / 1000).toISOString().replace('Z', `${last % 1000}`.padStart(3, '0') + 'Z');
}

/** A child that startChild() started. */
export interface Child<O> {
	readonly id: string;
	/** Only a type. */
	readonly output?: O;
}

export interface ChildOptions extends Omit<StartOptions, 'key' | 'client'>, WaitOptions {
	key?: string;
	onParentEnd?: 'cancel' | 'abandon';
}

type StepFunction<T> = (step: StepContext) => T | Promise<T>;
type TransactionFunction<T> = (client: pg.ClientBase, step: StepContext) => T | Promise<T>;

export class Run {
	readonly id: number;
	readonly workflow: string;
	/** How often it was claimed. */
	readonly attempt: number;
	readonly failures: number;
	readonly headers: Readonly<Record<string, unknown>>;
	readonly #lease: Lease;
	readonly #codec: Codec | undefined;
	readonly #steps: Map<string, StoredStep>;
	#allSteps: boolean;
	readonly #kinds = new Map<string, string>();
	readonly #names = new Map<string, number>();
	/** The claim is for the undo, which Cancelled begins. */
	readonly #undo: boolean;
	#undoBegun = false;

	constructor(claim: Claim, lease: Lease, codec: Codec | undefined) {
		this.id = claim.message_id;
		this.workflow = claim.workflow ?? claim.queue;
		this.attempt = claim.attempt;
		this.failures = claim.failures;
		this.headers = claim.headers ?? {};
		this.#lease = lease;
		this.#codec = codec;
		this.#steps = new Map(Object.entries(claim.steps ?? {}));
		this.#allSteps = claim.steps !== undefined && !claim.steps_truncated;
		this.#undo = claim.cancel_requested === true;
	}

	/** Aborts when the lease is lost or the run is asked to stop. */
	get signal(): AbortSignal {
		return this.#lease.controller.signal;
	}

	/** Whether the run was asked to stop; the next step that has not finished throws Cancelled. */
	get cancelRequested(): boolean {
		return this.#undo || this.#lease.cancelling;
	}

	/** Throws if the run was asked to stop or its lease is lost: for long work between steps. */
	check(): void {
		this.#lease.check();
		this.#heedCancel();
	}

	/**
	 * Calls a function once, stores its result, and answers the stored one ever after.  An error is tried again by
	 * the workflow's policy, or maxAttempts times; at last it is thrown as StepFailed.
	 */
	step<T>(id: string, call: StepFunction<T>): Promise<Stored<T>>;
	step<T>(id: string, options: StepOptions, call: StepFunction<T>): Promise<Stored<T>>;
	step<T>(id: string, options: StepOptions | StepFunction<T>, call?: StepFunction<T>): Promise<Stored<T>> {
		const [settings, work] = withOptions<StepOptions, StepFunction<T>>(options, call);
		return this.#step(id, settings, async (context, stored) => {
			const output = toJson(await work(context), this.#codec);
			const answer = await this.#lease.call('pgqrs_step_complete', stored(output));
			return [answer['pgqrs_step_complete'], output];
		});
	}

	/**
	 * step() of a function that is given a client: what it writes there and the result of the step commit together,
	 * so exactly once.  The function may be called more than once, and must not commit.
	 */
	transaction<T>(id: string, call: TransactionFunction<T>): Promise<Stored<T>>;
	transaction<T>(id: string, options: StepOptions, call: TransactionFunction<T>): Promise<Stored<T>>;
	transaction<T>(id: string, options: StepOptions | TransactionFunction<T>, call?: TransactionFunction<T>): Promise<Stored<T>> {
		const [settings, work] = withOptions<StepOptions, TransactionFunction<T>>(options, call);
		return this.#step(id, settings, (context, stored) =>
			this.#lease.transaction(
				async (client) => toJson(await work(client, context), this.#codec),
				(output) => this.#lease.statement('pgqrs_step_complete', stored(output))
			)
		);
	}

	/** Gives the run back for a while. */
	sleep(duration: Duration, options?: WaitOptions): Promise<void> {
		return this.#sleep([interval(duration), null], options);
	}

	sleepUntil(instant: Date, options?: WaitOptions): Promise<void> {
		return this.#sleep([null, instant], options);
	}

	/** The payload of the next signal of that name; throws SignalTimeout. */
	async receive<T = unknown>(signal: string, options?: WaitOptions & { timeout?: Duration }): Promise<T> {
		return (await this.receiveSignal<T>(signal, options)).payload;
	}

	/** The same, with the headers of the signal. */
	receiveSignal<T = unknown>(signal: string, options: WaitOptions & { timeout?: Duration } = {}): Promise<Signal<T>> {
		return this.#operation(signal, 'SIGNAL', options, async (id) => {
			const answer = await this.#lease.call('pgqrs_await_signal', [id, signal, interval(options.timeout)]);
			this.#parkUnless(answer['received'] || answer['timed_out']);
			if (answer['timed_out']) throw new SignalTimeout(`signal "${signal}" did not come in time`);
			return { payload: this.#decode(answer['payload']) as T, headers: answer['headers'] };
		});
	}

	/** Gives the run back until it is resumed, and answers what it was resumed with. */
	pause<T = unknown>(options: WaitOptions & { reason?: unknown; checkAfter?: Duration } = {}): Promise<T> {
		return this.#operation('pause', 'PAUSE', options, async (id) => {
			const reason = options.reason === undefined ? null : toJson(options.reason, this.#codec);
			const answer = await this.#lease.call('pgqrs_pause_run', [id, interval(options.checkAfter ?? '1 hour'), reason]);
			this.#parkUnless(answer['resumed']);
			return this.#decode(answer['output']) as T;
		});
	}

	/** Starts a run of another workflow and goes on. */
	startChild<I, O>(workflow: Workflow<I, O> | string, input?: I, options: ChildOptions = {}): Promise<Child<O>> {
		return this.#operation(nameOf(workflow), 'CHILD', options, async (id) => {
			await this.#startChild(id, nameOf(workflow), input, options);
			return { id };
		});
	}

	/** The output of a child that startChild() started, given it or its step id; throws ChildFailed. */
	resultOf<O>(child: Child<O> | string): Promise<Stored<O>> {
		const id = typeof child === 'string' ? child : child.id;
		return this.#operation(id, 'CHILD', { id }, () => this.#awaitChild<O>(id));
	}

	/** Runs another workflow and answers its output; throws ChildFailed. */
	child<I, O>(workflow: Workflow<I, O> | string, input?: I, options: ChildOptions = {}): Promise<Stored<O>> {
		return this.#operation(nameOf(workflow), 'CHILD', options, async (id) => {
			if (this.attempt > 1) {
				// Most likely it was started before: then this saves a call.
				try {
					return await this.#awaitChild<O>(id);
				} catch (error) {
					if (!(error instanceof InvalidState)) throw error;
				}
			}
			await this.#startChild(id, nameOf(workflow), input, options);
			return this.#awaitChild<O>(id);
		});
	}

	/** Runs a child for each input and answers the outputs in this order; throws ChildFailed for the first that failed. */
	children<I, O>(workflow: Workflow<I, O> | string, inputs: readonly I[], options: Omit<ChildOptions, 'key'> & { keys?: string[] } = {}): Promise<Stored<O>[]> {
		return this.#operation(nameOf(workflow), 'CHILD', options, async (id) => {
			const { id: _, keys, ...rest } = options;
			const texts = inputs.map((input) => toJson(input, this.#codec));
			await this.#lease.call('pgqrs_start_children', [id, nameOf(workflow), texts], { ...rest, idempotencyKeys: keys });
			const { done, results } = await this.#lease.call('pgqrs_await_children', [id]);
			this.#parkUnless(done);
			const outputs: Stored<O>[] = [];
			for (const [n, result] of results.entries()) {
				if (result.status !== 'SUCCESS') throw new ChildFailed(result.status, result.error);
				outputs.push(result.truncated ? await this.#awaitChild<O>(`${id}[${n + 1}]`) : (this.#decode(result.output ?? null) as Stored<O>));
			}
			return outputs;
		});
	}

	/** The first of several signals and children (by startChild(), or their step ids). */
	awaitAny(options: WaitOptions & { signals?: string[]; children?: (Child<unknown> | string)[]; timeout?: Duration }): Promise<Event> {
		return this.#operation('any', 'ANY', options, async (id) => {
			const children = (options.children ?? []).map((child) => (typeof child === 'string' ? child : child.id));
			const answer = await this.#lease.call('pgqrs_await_any', [id, options.signals ?? [], children, interval(options.timeout)]);
			this.#parkUnless(answer['ready']);
			const { source, name, payload } = answer;
			if (source === 'signal') return { source, name, payload: this.#decode(payload) };
			if (source === 'child') return { source, name, payload: { ...payload, output: this.#decode(payload.output) } };
			return { source, name: null, payload: null };
		});
	}

	progress(progress: unknown): Promise<void> {
		return handled((async () => void (await this.#lease.call('pgqrs_set_progress', [toJson(progress, this.#codec)])))());
	}

	#step<T>(
		id: string,
		options: StepOptions,
		execute: (context: StepContext, stored: (output: string) => unknown[]) => Promise<[boolean, string]>
	): Promise<Stored<T>> {
		return this.#operation(id, 'FUNCTION', { id }, async () => {
			const before = await this.#stored(id);
			if (before) return this.#outcome(before) as Stored<T>;
			const startedAt = instant();
			let stored: boolean;
			let text: string;
			try {
				const context = { signal: this.signal, key: `${this.id}/${id}` };
				const work = (): Promise<[boolean, string]> => execute(context, (output) => [id, output, startedAt]);
				[stored, text] = await current.run({ headers: this.headers, executing: this }, () => span(id, { 'pgqrs.run_id': this.id }, work));
			} catch (error) {
				if (error instanceof Leave) throw error;
				if (this.signal.aborted && (error as Error | undefined)?.name === 'AbortError') throw this.signal.reason;
				return this.#failStep(id, error, options);
			}
			// What another call stored first stays.
			const step = stored ? undefined : await this.#begin(id);
			const outcome: StoredStep = step ?? { kind: 'FUNCTION', status: 'SUCCESS', output: parseJson(text), error: null };
			this.#steps.set(id, outcome);
			return this.#outcome(outcome) as Stored<T>;
		});
	}

	/** How the step ended, if it did. */
	async #stored(id: string): Promise<StoredStep | undefined> {
		const known = this.#steps.get(id);
		if (known?.kind === 'FUNCTION' || (!known && this.#allSteps)) return known;
		return this.#begin(id);
	}

	async #begin(id: string): Promise<StoredStep | undefined> {
		const { should_execute, status, output, error } = await this.#lease.call('pgqrs_step_begin', [id]);
		return should_execute ? undefined : { kind: 'FUNCTION', status, output, error };
	}

	#outcome(step: StoredStep): unknown {
		if (step.status === 'ERROR') throw new StepFailed(step.error);
		return this.#decode(step.output);
	}

	async #failStep(id: string, error: unknown, options: StepOptions): Promise<never> {
		const { retryable, after } = retryOf(error);
		const described = describe(error);
		const { outcome } = await this.#lease.call('pgqrs_step_fail', [
			id, JSON.stringify(described), retryable, interval(after), options.maxAttempts ?? null, false,
		]);
		if (outcome === 'RETRY') this.#lease.park();
		this.#steps.set(id, { kind: 'FUNCTION', status: 'ERROR', output: null, error: described });
		throw new StepFailed(described, { cause: error });
	}

	#sleep(args: unknown[], options: WaitOptions = {}): Promise<void> {
		return this.#operation('sleep', 'SLEEP', options, async (id) => {
			if (this.#steps.get(id)?.status === 'SUCCESS') return;
			const answer = await this.#lease.call('pgqrs_sleep', [id, ...args]);
			this.#parkUnless(answer['pgqrs_sleep']);
		});
	}

	async #startChild(id: string, workflow: string, input: unknown, options: ChildOptions): Promise<void> {
		const { id: _, key, ...rest } = options;
		const named = { ...rest, idempotencyKey: key, headers: outgoing(rest.headers) };
		await this.#lease.call('pgqrs_start_child', [id, workflow, toJson(input, this.#codec)], named);
	}

	async #awaitChild<O>(id: string): Promise<Stored<O>> {
		const { done, status, output, error }: Row = await this.#lease.call('pgqrs_await_child', [id]);
		this.#parkUnless(done);
		if (status !== 'SUCCESS') throw new ChildFailed(status, error);
		return this.#decode(output) as Stored<O>;
	}

	/** Each operation: its step id, what a cancel means for it, and the operation itself. */
	#operation<T>(name: string, kind: string, options: WaitOptions, operation: (id: string) => Promise<T>): Promise<T> {
		return handled(
			(async () => {
				this.#lease.check();
				if (current.getStore()?.executing === this) throw new InvalidStep('a step cannot begin another one of its run');
				const id = options.id ?? this.#automaticId(name);
				const bytes = Buffer.byteLength(id);
				if (bytes === 0 || bytes > 255) throw new InvalidStep(`a step id has 1 to 255 bytes, "${id.slice(0, 40)}" has ${bytes}`);
				const other = this.#kinds.get(id) ?? kind;
				if (other !== kind) throw new InvalidStep(`step "${id}" is of kind ${other} already: give one of the two another id`);
				this.#kinds.set(id, kind);
				this.#heedCancel(this.#steps.get(id));
				return operation(id);
			})()
		);
	}

	#automaticId(name: string): string {
		const count = (this.#names.get(name) ?? 0) + 1;
		this.#names.set(name, count);
		return count === 1 ? name : `${name} #${count}`;
	}

	/** Each time under a lease from before the request; in the undo once, at the first step that was not finished before it. */
	#heedCancel(step?: StoredStep): void {
		if (this.#lease.cancelling) throw new Cancelled();
		if (!this.#undo || this.#undoBegun || (step && !step.undo)) return;
		this.#undoBegun = true;
		throw new Cancelled();
	}

	#parkUnless(ready: boolean): void {
		if (!ready) this.#lease.park();
	}

	#decode(value: unknown): unknown {
		return fromJson(value, this.#codec);
	}
}

/** A promise whose error ends no process if it is not awaited. */
function handled<T>(promise: Promise<T>): Promise<T> {
	promise.catch(() => undefined);
	return promise;
}

function withOptions<Options extends object, Call>(options: Options | Call, call: Call | undefined): [Options, Call] {
	return call === undefined ? [{} as Options, options as Call] : [options as Options, call];
}

export function nameOf(workflow: { readonly name: string } | string): string {
	return typeof workflow === 'string' ? workflow : workflow.name;
}
