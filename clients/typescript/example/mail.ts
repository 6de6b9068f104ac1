// The mail step of an order application, in TypeScript: a workflow of its own, which the order's workflow runs as a
// child, whatever language that is written in.
import { App, Permanent } from 'pgqrs';

interface Mail {
	order: number;
	to: string;
}

const app = new App({ name: 'mailer' });

const mail = app.workflow<Mail, { sent: string }>('order.mail', { maxAttempts: 8, nonRetryable: ['bad_address'] }, async (run, { order, to }) => {
	if (!to.includes('@')) throw new Permanent(`"${to}" is no address`, { type: 'bad_address' });
	const id = await run.step('send', ({ signal, key }) => send(to, `Your order ${order} is on its way.`, key, signal));
	await run.transaction('note', (client) => client.query('INSERT INTO mails (mail, order_id) VALUES ($1, $2)', [id, order]).then(() => undefined));
	return { sent: id };
});

/** Sends a mail once for each key. */
async function send(to: string, text: string, key: string, signal: AbortSignal): Promise<string> {
	const relay = process.env['MAIL_RELAY'];
	if (relay === undefined) return key;
	const answer = await fetch(relay, { method: 'POST', headers: { 'Idempotency-Key': key }, body: JSON.stringify({ to, text }), signal });
	if (!answer.ok) throw new Error(`the relay answers ${answer.status}`);
	return key;
}

if (process.argv.includes('--try')) {
	const run = await mail.start({ order: 7, to: 'ada@example.com' }, { key: 'order 7' });
	console.log(run.runId);
	await app.close();
} else {
	await app.install();
	await app.work({ concurrency: 20 });
}
