// Values in and out: what JSON and jsonb can hold.
import { randomUUID } from 'node:crypto';

import { NotSerializable } from './errors.js';

/** Turns values into JSON and back: override both for encryption or another format. */
export interface Codec {
	/** What it returns has to be something that JSON can hold. */
	encode(value: unknown): unknown;
	decode(value: unknown): unknown;
}

/** A value after it was stored: a Date, for example, is a string then. */
export type Stored<T> = 0 extends 1 & T
	? T
	: T extends string | number | boolean | null
	? T
	: T extends undefined | void
	? null
	: T extends bigint
	? bigint | number
	: T extends symbol | ((...args: never[]) => unknown)
	? never
	: T extends { toJSON(...args: never[]): infer U }
	? U
	: T extends object
	? { [K in keyof T]: StoredProperty<T[K]> }
	: T;

type StoredProperty<T> = undefined extends T ? Stored<Exclude<T, undefined>> | undefined : Stored<T>;

// Outside of a pair of backslashes: NUL, which jsonb has not, and halves of surrogate pairs.
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/;

/** A value as JSON text. */
export function toJson(value: unknown, codec?: Codec): string {
	let text: string;
	try {
		text = stringify(value);
		if (codec) text = stringify(codec.encode(parseJson(text)));
	} catch (error) {
		if (error instanceof NotSerializable) throw error;
		throw new NotSerializable(`the value cannot be stored: ${(error as Error).message}`, { cause: error });
	}
	if (UNSTORABLE.test(text)) throw new NotSerializable('the value cannot be stored: jsonb has no NUL character and no half of a surrogate pair');
	return text;
}

/** Begins a string that stands for an integer, where JSON.stringify() and JSON.parse() know no bigint. */
const BIGINT = `bigint ${randomUUID()} `;
const BIGINTS = new RegExp(`"${BIGINT}(-?\\d+)"`, 'g');
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

function stringify(value: unknown): string {
	const text = JSON.stringify(value, storable) ?? 'null';
	return text.includes(BIGINT) ? text.replace(BIGINTS, '$1') : text;
}

/** JSON.parse(), but an integer that a number does not hold is a bigint. */
export function parseJson(text: string): any {
	if (!/\d{16}/.test(text)) return JSON.parse(text);
	const marked = text.replace(TOKEN, (token) => (/^-?\d{16,}$/.test(token) && digits(token) !== digits(`${Number(token)}`) ? `"${BIGINT}${token}"` : token));
	if (marked === text) return JSON.parse(text);
	return JSON.parse(marked, (_, value) => (typeof value === 'string' && value.startsWith(BIGINT) ? BigInt(value.slice(BIGINT.length)) : value));
}

/** Those of an integer without the zeros at its end, which may be written as 1e+20. */
function digits(integer: string): string {
	return integer.replace(/e.*|[.-]/g, '').replace(/0+$/, '');
}

/** JSON.stringify() asks this for each value. */
function storable(key: string, value: unknown): unknown {
	if (typeof value === 'bigint') return `${BIGINT}${value}`;
	const what =
		typeof value === 'function' || typeof value === 'symbol'
			? `a ${typeof value}`
			: typeof value === 'number' && !Number.isFinite(value)
			? String(value)
			: value instanceof Map || value instanceof Set
			? `a ${value.constructor.name}`
			: undefined;
	if (what !== undefined) throw new NotSerializable(`the value cannot be stored: ${what}${key === '' ? '' : ` (at "${key}")`} is no JSON`);
	return value;
}

/** A stored value. */
export function fromJson(value: unknown, codec?: Codec): unknown {
	return codec ? codec.decode(value) : value;
}
