// Errors: of the server by SQLSTATE, of steps and runs, and those that leave a handler.
import pg from 'pg';

/** What the server stores for an error. */
export interface ErrorObject {
	type?: string;
	message?: string;
	[key: string]: unknown;
}

/** An error of pgqrs, raised by the server or by this client. */
export class PgqrsError extends Error {
	/** The SQLSTATE, if the server raised it. */
	readonly code?: string;
	readonly detail?: string;
	readonly hint?: string;

	constructor(message: string, options?: { cause?: unknown }) {
		super(message, options);
		this.name = new.target.name;
		const cause = options?.cause;
		if (cause instanceof pg.DatabaseError) {
			this.detail = cause.detail;
			this.hint = cause.hint;
		}
	}
}

/** The class of the errors of a SQLSTATE. */
function raisedBy<Code extends string>(sqlstate: Code) {
	return class extends PgqrsError {
		override readonly code: Code = sqlstate;
	};
}

export class QueueNotFound extends raisedBy('PQ001') {}
export class WorkflowNotFound extends raisedBy('PQ002') {}
export class RunNotFound extends raisedBy('PQ003') {}
export class MessageNotFound extends raisedBy('PQ004') {}
export class WorkerNotFound extends raisedBy('PQ005') {}
export class PayloadTooLarge extends raisedBy('PQ008') {}
export class InUse extends raisedBy('PQ009') {}
export class OtherNode extends raisedBy('PQ011') {}
export class WaitTimeout extends raisedBy('PQ012') {}
export class NoWorker extends raisedBy('PQ013') {}
export class WorkerStopped extends raisedBy('PQ014') {}
export class ScheduleInvalid extends raisedBy('PQ015') {}
export class InvalidState extends raisedBy('PQ016') {}

const SERVER_ERRORS = [
	QueueNotFound, WorkflowNotFound, RunNotFound, MessageNotFound, WorkerNotFound, PayloadTooLarge, InUse, OtherNode, WaitTimeout,
	NoWorker, WorkerStopped, ScheduleInvalid, InvalidState,
];
const BY_CODE = new Map<string | undefined, (typeof SERVER_ERRORS)[number]>(SERVER_ERRORS.map((kind) => [new kind('').code, kind]));

/** The errors of the server that have a class here; `code` tells them apart. */
export type ServerError = InstanceType<(typeof SERVER_ERRORS)[number]>;

/** The extension in the database and this client do not fit together. */
export class Incompatible extends PgqrsError {}

/** A value cannot be stored as JSON. */
export class NotSerializable extends PgqrsError {}

/** The id of a step is empty, longer than 255 bytes, or that of a step of another kind; or a step begins within another one. */
export class InvalidStep extends PgqrsError {}

/** A signal did not come in time. */
export class SignalTimeout extends PgqrsError {}

/** What was stored as an error: `error` is the JSON object, `type` its type. */
export class Failure extends PgqrsError {
	readonly error: ErrorObject;

	constructor(error: unknown, options?: { cause?: unknown }) {
		const object = isObject(error) ? (error as ErrorObject) : { message: String(error) };
		super(String(object.message ?? object.type ?? 'failed'), options);
		this.error = object;
	}

	get type(): string | undefined {
		return this.error.type;
	}
}

/** A step failed for good. */
export class StepFailed extends Failure {}

/** A child did not succeed. */
export class ChildFailed extends Failure {
	constructor(readonly status: string, error: unknown) {
		super(error ?? { type: status, message: `the child is ${status}` });
	}
}

/** A run ended in ERROR. */
export class RunFailed extends Failure {}

/** A run was cancelled. */
export class RunCancelled extends Failure {}

export interface RaiseOptions {
	/** The type that is stored, which `nonRetryable` of a workflow is compared with. */
	type?: string;
	cause?: unknown;
}

/** Thrown by a handler or step: another try is useless. */
export class Permanent extends Error {
	readonly type: string;

	constructor(message: string, options: RaiseOptions = {}) {
		super(message, options);
		this.name = 'Permanent';
		this.type = options.type ?? this.name;
	}
}

/** Thrown by a handler or step: try again. */
export class Retry extends Error {
	readonly type: string;
	/** Milliseconds until then, or an interval; without, by the policy. */
	readonly after?: number | string;

	constructor(message = 'asked for another try', options: RaiseOptions & { after?: number | string } = {}) {
		super(message, options);
		this.name = 'Retry';
		this.type = options.type ?? this.name;
		this.after = options.after;
	}
}

/**
 * Leaves a handler.  A handler that catches it throws it again: after `Parked` and `LeaseLost`
 * each further call of the run does so too, and what the handler returns counts for nothing.
 */
export class Leave extends Error {
	constructor(message: string, options?: { cause?: unknown }) {
		super(message, options);
		this.name = new.target.name;
	}
}

/** The run is given back until something happens or it is tried again. */
export class Parked extends Leave {
	constructor() {
		super('the run is given back until it goes on');
	}
}

/** The lease is not the worker's any more: the work is dropped. */
export class LeaseLost extends Leave {
	constructor(message = 'the lease is lost', options?: { cause?: unknown }) {
		super(message, options);
	}
}

/** The run was asked to stop.  A handler may catch it to clean up, and throws it again. */
export class Cancelled extends Leave {
	constructor() {
		super('the run was asked to stop');
	}
}

function isObject(value: unknown): boolean {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The SQLSTATE of an error of the server. */
export function sqlstate(error: unknown): string | undefined {
	return error instanceof pg.DatabaseError || error instanceof PgqrsError ? error.code : undefined;
}

/** The error for what a call of pgqrs raised; others stay what they are. */
export function typed(error: unknown): unknown {
	if (!(error instanceof pg.DatabaseError)) return error;
	const kind = BY_CODE.get(error.code);
	if (kind) return new kind(error.hint ? `${error.message}. ${error.hint}` : error.message, { cause: error });
	if (error.code === '3F000' || (error.code === '42883' && error.message.includes('pgqrs_')))
		return new Incompatible(
			`${error.message}: the extension pgqrs is missing in this database, is older than this client, or is in a schema outside of search_path (option schema)`,
			{ cause: error }
		);
	return error;
}

const SYSTEM = new Set(['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH']);
const CLOSED = /^(Connection terminated|timeout exceeded|Query read timeout|Client (was closed|has encountered))/;

/** Whether an error of a statement says that its connection is lost, and the answer with it. */
export function isConnectionLost(error: unknown): boolean {
	if (!(error instanceof Error)) return false;
	if (error instanceof pg.DatabaseError) return /^(08|57P0[123])/.test(error.code ?? '');
	return SYSTEM.has((error as { code?: string }).code ?? '') || CLOSED.test(error.message);
}

/** Whether a transaction is to be repeated as it is. */
export function isConflict(error: unknown): boolean {
	return ['40001', '40P01'].includes(sqlstate(error) ?? '');
}

/** Whether the server may answer the same call another time: it is starting, full, or a standby. */
export function isPassing(error: unknown): boolean {
	return isConnectionLost(error) || isConflict(error) || /^(53|25006)/.test(sqlstate(error) ?? '');
}

/** The JSON object that is stored for an error. */
export function describe(error: unknown): ErrorObject {
	if (error instanceof Failure) return error.error;
	if (!(error instanceof Error)) return { type: 'Error', message: wellFormed(String(error)) };
	const type = error instanceof Permanent || error instanceof Retry ? error.type : sqlstate(error) ?? nameOf(error);
	return { type: wellFormed(type), message: wellFormed(error.message), stack: wellFormed(error.stack ?? '').slice(0, 8000) };
}

function nameOf(error: Error): string {
	return error.name !== 'Error' ? error.name : error.constructor.name || 'Error';
}

/** Whether another try may help, and after how long (by the policy, if undefined). */
export function retryOf(error: unknown): { retryable: boolean; after?: number | string } {
	if (error instanceof Retry) return { retryable: true, after: error.after };
	const permanent = [Permanent, Failure, NotSerializable, InvalidStep, PayloadTooLarge];
	return { retryable: !permanent.some((kind) => error instanceof kind) };
}

/** Text that jsonb can hold. */
function wellFormed(text: string): string {
	return text.replace(/\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}
