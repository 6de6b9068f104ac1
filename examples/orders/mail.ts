// The mail step of the shop, in TypeScript: a worker for the queue shop.mail, to which shop.py sends.
import { App, Permanent, Retry } from 'pgqrs';

interface Mail {
	'invoice of order': number;
}

const app = new App({ name: 'mailer' }); // PGHOST, PGDATABASE and so on say where
const { RELAY } = process.env;

app.queue<Mail>('shop.mail', { maxAttempts: 8 }, async (mail, message) => {
	if (mail['invoice of order'] < 1) throw new Permanent('there is no such order', { type: 'no_order' });
	await send(mail, `mail ${message.id}`, message.signal);
});

/** A message may be delivered again after a crash, so the relay is given a key by which it knows that. */
async function send(mail: Mail, key: string, signal: AbortSignal): Promise<void> {
	if (RELAY === undefined) return console.log('mail:', JSON.stringify(mail));
	const answer = await fetch(RELAY, { method: 'POST', headers: { 'Idempotency-Key': key }, body: JSON.stringify(mail), signal });
	if (!answer.ok) throw new Retry(`the relay answers ${answer.status}`, { after: 500 });
}

await app.install();
await app.work({ concurrency: 20 });
