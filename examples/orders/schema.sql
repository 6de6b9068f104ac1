-- What the shop keeps beside its workflows.
CREATE TABLE stock (item text PRIMARY KEY, amount int NOT NULL CHECK (amount >= 0));
CREATE TABLE orders (order_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id bigint, request text UNIQUE,
	item text NOT NULL, customer text NOT NULL, state text NOT NULL DEFAULT 'new');
CREATE TABLE invoices (order_id bigint PRIMARY KEY REFERENCES orders, amount int NOT NULL);
CREATE TABLE reports (made_at timestamptz NOT NULL DEFAULT now(), orders bigint NOT NULL);

-- Mails may be sent before the first mailer (mail.ts) runs; it gives the queue its settings.
SELECT pgqrs_create_queue('shop.mail');
