// The mail step of the shop in examples/orders, as a worker in TypeScript: it takes the messages of the queue
// shop.mail, which the shop's workflows send.
import { App, Permanent } from 'pgqrs';

interface Mail {
	'invoice of order': number;
}

const app = new App({ name: 'mailer' }); // PGHOST, PGDATABASE and so on say where

app.queue<Mail>('shop.mail', { maxAttempts: 8 }, async (mail, message) => {
	if (mail['invoice of order'] < 1) throw new Permanent('there is no such order', { type: 'no_order' });
	await send(mail, `mail ${message.id}`, message.signal);
});

/** A message may be delivered again after a crash, so the relay is given a key by which it knows that. */
async function send(mail: Mail, key: string, signal: AbortSignal): Promise<void> {
	const relay = process.env['RELAY'];
	if (relay === undefined) return console.log('mail:', JSON.stringify(mail));
	const answer = await fetch(relay, { method: 'POST', headers: { 'Idempotency-Key': key }, body: JSON.stringify(mail), signal });
	if (!answer.ok) throw new Error(`the relay answers ${answer.status}`);
}

await app.install();
await app.work({ concurrency: 20 });
