// The database: statements of pgqrs, and the connections that they run on.
import { createHash } from 'node:crypto';
import { userInfo } from 'node:os';
import pg from 'pg';

import { parseJson, toJson } from './json.js';

/** Milliseconds, or an interval of PostgreSQL such as '5 min'. */
export type Duration = number | string;

/** A client or pool of `pg`; a client's open transaction is taken part in. */
export interface Queryable {
	query(config: pg.QueryConfig): Promise<pg.QueryResult>;
}

export interface Statement {
	/** Of a prepared statement; absent: it is parsed for this call alone. */
	name?: string | undefined;
	text: string;
	values: unknown[];
}

export type Row = Record<string, any>;

/** Where the database is: what `pg` takes, or a URL; without, the environment (PGHOST …) says. */
export type Connection = string | pg.PoolConfig;

const INT8 = 20;
const JSONB = 3802;

// For the statements here alone: what the application has set for its own stays.
const types: pg.CustomTypesConfig = {
	getTypeParser(oid: number, format?: any): any {
		if (oid === INT8 && format !== 'binary') return Number;
		if (oid === JSONB && format !== 'binary') return parseJson;
		return pg.types.getTypeParser(oid, format);
	},
};

/** Arguments that are durations: numbers of them are milliseconds. */
const INTERVALS = new Set([
	'delay', 'timeout', 'initial_interval', 'max_interval', 'visibility_timeout', 'retention', 'dead_retention', 'rate_period', 'check_after', 'retry_after',
]);
const JSON_ARGUMENTS = new Set(['tags', 'headers', 'retry_policy', 'labels']);

export function interval(duration: Duration | undefined): string | null {
	return typeof duration === 'number' ? `${duration} milliseconds` : duration ?? null;
}

function ignore(): void {}

/** Pools and clients for a place, and statements for the functions in its schema. */
export class Database {
	readonly #config: pg.PoolConfig;
	readonly #prefix: string;
	/** Few: functions, with the options that a program uses. */
	readonly #known = new Map<string, Pick<Statement, 'name' | 'text'>>();

	constructor(connection: Connection | undefined, name: string | undefined, schema: string | undefined, readonly prepare: boolean) {
		this.#config = {
			connectionTimeoutMillis: 10_000,
			keepAlive: true,
			...(process.env['PGUSER'] === undefined ? { user: userInfo().username } : {}),
			...(name === undefined ? {} : { application_name: name }),
			...(typeof connection === 'string' ? { connectionString: connection } : connection),
		};
		this.#prefix = schema === undefined ? '' : `"${schema.replaceAll('"', '""')}".`;
	}

	/** A pool.  That a connection is lost ends no process: the statement that needs it says so. */
	pool(max?: number): pg.Pool {
		const pool = new pg.Pool({ ...this.#config, ...(max === undefined ? {} : { max }) });
		pool.on('error', ignore);
		pool.on('connect', (client) => void client.on('error', ignore));
		return pool;
	}

	client(): pg.Client {
		const client = new pg.Client(this.#config);
		client.on('error', ignore);
		return client;
	}

	/** A call with positional arguments, then named ones, of which those that are undefined are left out. */
	select(name: string, args: unknown[], options: object = {}): Statement {
		const given = Object.entries(options).filter(([, value]) => value !== undefined);
		const named = given.map(([key, value]): [string, unknown] => argument(key, value));
		return this.#statement('SELECT * FROM', name, args, named);
	}

	procedure(name: string, args: unknown[]): Statement {
		return this.#statement('CALL', name, args, []);
	}

	/** A name tells the text: behind a pooler another program's statements may be in the session. */
	#statement(verb: string, call: string, args: unknown[], named: [string, unknown][]): Statement {
		const key = `${call} ${args.length} ${named.map(([name]) => name)}`;
		let known = this.#known.get(key);
		if (!known) {
			const marks = args.map((_, n) => `$${n + 1}`).concat(named.map(([name], n) => `${name} => $${args.length + n + 1}`));
			const text = `${verb} ${this.#prefix}${call}(${marks.join(', ')})`;
			known = { name: this.prepare ? `pgqrs_${createHash('sha256').update(text).digest('hex').slice(0, 32)}` : undefined, text };
			this.#known.set(key, known);
		}
		return { ...known, values: [...args, ...named.map(([, value]) => value)] };
	}
}

/** What a statement answers; its errors as they come from `pg`. */
export async function rows(on: Queryable, statement: Statement): Promise<Row[]> {
	try {
		return (await on.query({ ...statement, types })).rows;
	} catch (error) {
		// An update of the extension has given the function other columns, or the application has thrown the statement away.
		if (!['RevalidateCachedQuery', 'FetchPreparedStatement', 'StorePreparedStatement'].includes((error as pg.DatabaseError).routine ?? '')) throw error;
		// A pool has dropped that connection.
		if (on instanceof pg.Client) Object.assign((on as Row)['connection'], { parsedStatements: {} });
		return (await on.query({ ...statement, name: undefined, types })).rows;
	}
}

export async function row(on: Queryable, statement: Statement): Promise<Row> {
	return (await rows(on, statement))[0] ?? {};
}

/** The name and value of an argument of SQL for an option. */
function argument(key: string, value: unknown): [string, unknown] {
	const name = snake(key);
	if (!/^[a-z_]+$/.test(name)) throw new TypeError(`"${key}" is no option`);
	if (INTERVALS.has(name)) return [name, interval(value as Duration)];
	if (name === 'retry_policy') return [name, toJson(policy(value as object))];
	return [name, JSON_ARGUMENTS.has(name) ? toJson(value) : value];
}

function policy(options: object): object {
	return Object.fromEntries(
		Object.entries(options).map(([key, value]) => [snake(key), INTERVALS.has(snake(key)) ? interval(value) : value])
	);
}

function snake(key: string): string {
	return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
