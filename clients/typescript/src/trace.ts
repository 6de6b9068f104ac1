// Trace context of W3C in headers, and spans where @opentelemetry/api is installed.
import { AsyncLocalStorage } from 'node:async_hooks';

import { Leave } from './errors.js';

export type Headers = Readonly<Record<string, unknown>>;

const FIELDS = ['traceparent', 'tracestate'];

/** What is being worked on: its headers, and the run whose step is being executed.  One for both: each costs all promises. */
export const current = new AsyncLocalStorage<{ readonly headers: Headers; readonly executing?: object }>();

// By a name that the compiler does not look up: programs without it have no such types.
const api: string = '@opentelemetry/api';
export const telemetry: { api?: any } = { api: await import(api).catch(() => undefined) };

/** The headers of something that is sent: with the current trace, unless they name one. */
export function outgoing(headers: Headers = {}): Headers | undefined {
	if ('traceparent' in headers) return headers;
	const carrier: Record<string, unknown> = {};
	telemetry.api?.propagation.inject(telemetry.api.context.active(), carrier);
	if (Object.keys(carrier).length === 0) {
		const came = current.getStore()?.headers ?? {};
		for (const field of FIELDS.filter((name) => name in came)) carrier[field] = came[field];
	}
	const all = { ...carrier, ...headers };
	return Object.keys(all).length === 0 ? undefined : all;
}

/** Works on what came with these headers. */
export function delivery<T>(name: string, headers: Headers, attributes: object, work: () => Promise<T>): Promise<T> {
	return current.run({ headers }, () => span(name, attributes, work, headers));
}

/** A span around work; headers: its parent is in there. */
export function span<T>(name: string, attributes: object, work: () => Promise<T>, headers?: Headers): Promise<T> {
	const otel = telemetry.api;
	if (!otel) return work();
	const active = otel.context.active();
	const parent = headers ? otel.propagation.extract(active, headers) : active;
	return otel.trace.getTracer('pgqrs').startActiveSpan(name, { attributes }, parent, async (current: any) => {
		try {
			return await work();
		} catch (error) {
			if (!(error instanceof Leave)) {
				current.recordException(error);
				current.setStatus({ code: otel.SpanStatusCode.ERROR });
			}
			throw error;
		} finally {
			current.end();
		}
	});
}
