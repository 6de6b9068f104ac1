// Values in and out: what JSON and jsonb can hold.
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
	: T extends bigint | symbol | ((...args: never[]) => unknown)
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
		text = JSON.stringify(value, refuse) ?? 'null';
		if (codec) text = JSON.stringify(codec.encode(JSON.parse(text)));
	} catch (error) {
		if (error instanceof NotSerializable) throw error;
		throw new NotSerializable(`the value cannot be stored: ${(error as Error).message}`, { cause: error });
	}
	if (UNSTORABLE.test(text)) throw new NotSerializable('the value cannot be stored: jsonb has no NUL character and no half of a surrogate pair');
	return text;
}

/** JSON.stringify() asks this for each value. */
function refuse(key: string, value: unknown): unknown {
	const what =
		typeof value === 'bigint' || typeof value === 'function' || typeof value === 'symbol'
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
