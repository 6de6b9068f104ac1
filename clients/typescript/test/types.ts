// What the compiler has to refuse, and what it has to know; compiled with the tests and never run.
import { App, type Queue, type Run, type Workflow } from '../src/index.js';

declare const app: App;
declare const run: Run;
declare const order: Workflow<{ id: number }, { at: Date; note?: string }>;
declare const empty: Workflow<undefined, void>;
declare const mail: Queue<{ to: string }>;

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function sure<_ extends true>(): void {}

export async function refused(): Promise<void> {
	// @ts-expect-error: an input is missing
	await order.start();
	// @ts-expect-error: an input of another type
	await order.start({ id: '1' });
	// @ts-expect-error: an option that is not there
	await order.start({ id: 1 }, { keys: 'k' });
	// @ts-expect-error: a payload of another type
	await mail.produce({ from: 'ada' });
	// @ts-expect-error: a handler of another input
	app.workflow<number>('w', (_, text: string) => text);
	// @ts-expect-error: a result that cannot be stored is nothing to go on with
	(await run.step('f', () => () => 1))();
}

export async function known(): Promise<void> {
	const done = await (await order.start({ id: 1 })).result();
	sure<Equal<typeof done, { at: string; note?: string | undefined }>>();
	const nothing = await (await empty.start()).result();
	sure<Equal<typeof nothing, null>>();
	const large = await run.step('bigint', () => 1n);
	sure<Equal<typeof large, number | bigint>>();
	const list = await run.children(order, [{ id: 1 }]);
	sure<Equal<typeof list, { at: string; note?: string | undefined }[]>>();
	await app.consume(mail, ({ to }) => to.length);
}
