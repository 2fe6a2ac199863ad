package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Duplicate is the id that [Talkie.Publish] returns for a message which it did not write, because the table has one of the
// same topic with the same idempotency key.
const Duplicate int64 = 0

// TalkieConfig configures a [Talkie].
type TalkieConfig struct {
	// Dialect is the database: [PostgreSQL] or [MySQL]. Default: [PostgreSQL].
	Dialect Dialect

	// Table, optionally "schema.table". The name is quoted, so it is taken literally. Default: outbox, found by the
	// transaction's search_path.
	Table string
}

// Talkie writes rows into the outbox table of Talkie on PostgreSQL, MariaDB or MySQL, in the application's transaction. It may be
// shared.
type Talkie struct {
	dialect Dialect
	table   string
	insert  string
	jobless string // the same without the column job_id, which the table need not have
}

// TalkieMessage is one row to be written.
type TalkieMessage struct {
	// Topic of Kafka that the message goes to; required.
	Topic string

	// Payload is a JSON value; required. The table's jsonb does not keep spaces and the order of keys.
	Payload []byte

	// Key of the record, whose order is kept. Default: JobID. Without both the message has no key and no order.
	Key string

	// JobID is a UUID, which travels as the header x-correlation-id. Empty: NULL; the table need not have the column job_id then.
	JobID string

	// IdempotencyKey makes the message unique in its topic: a second one with the same key is not written. Empty: NULL,
	// no comparison.
	IdempotencyKey string
}

// NewTalkie returns a client, or an error that names the setting at fault. It does not connect to the database.
func NewTalkie(cfg TalkieConfig) (*Talkie, error) {
	dialect := cmp.Or(cfg.Dialect, PostgreSQL)
	if dialect != PostgreSQL && dialect != MySQL {
		return nil, fmt.Errorf("outbox: Talkie client: unknown Dialect %q; use outbox.PostgreSQL or outbox.MySQL", dialect)
	}
	table, err := quoteTable(cmp.Or(cfg.Table, "outbox"), dialect)
	if err != nil {
		return nil, fmt.Errorf("outbox: Talkie client: %w", err)
	}
	t := &Talkie{dialect: dialect, table: table, insert: talkieMySQLInsert(table)}
	if dialect == PostgreSQL {
		t.insert = talkieInsert(table)
	}
	t.jobless = strings.NewReplacer("(job_id, ", "(", "(nullif($1::text, '')::uuid, ", "(", "VALUES (?, ", "VALUES (").Replace(t.insert)
	return t, nil
}

// talkieInsert is the statement of a [Talkie] client for PostgreSQL.
func talkieInsert(table string) string {
	return "INSERT INTO " + table + " (job_id, topic, key, payload_json, idempotency_key, created_at)\n" +
		"VALUES (nullif($1::text, '')::uuid, $2::text, nullif(coalesce(nullif($3::text, ''), $1::text), ''), $4::text::jsonb, nullif($5::text, ''), pg_catalog.clock_timestamp())\n" +
		"ON CONFLICT (topic, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING\n" +
		"RETURNING id"
}

// Publish writes one message in tx, which is a pgx.Tx or a *sql.Tx or nil as in [Client.Publish], and returns the row's id, or
// [Duplicate]: that is no error, and the transaction continues. In MySQL the column's collation says which keys are the same: most take
// "a" and "A" for one. A transaction that writes the same key at the same time
// is waited for. The message is sent when the application commits and never was when it rolls back.
//
// Anything but a running transaction is refused with [ErrNoTransaction]. After any other error of the database the
// transaction must be rolled back.
//
// The order of a key is that of created_at, the server's clock: it is kept when the writers of a key take turns,
// see [Lock].
func (t *Talkie) Publish(ctx context.Context, tx any, m TalkieMessage) (id int64, err error) {
	tx = current(ctx, tx)
	if _, err := transaction(tx, t.dialect); err != nil {
		return 0, fmt.Errorf("outbox: publish: %w", err)
	}
	if err := m.check(); err != nil {
		return 0, fmt.Errorf("outbox: publish: %w", err)
	}
	if t.dialect == MySQL {
		return t.publishMySQL(ctx, tx, &m)
	}
	args, insert := []any{m.JobID, m.Topic, m.Key, string(m.Payload), m.IdempotencyKey}, t.insert
	if m.JobID == "" {
		insert = t.jobless
	}
	switch tx := tx.(type) {
	case interface {
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	}:
		err = tx.QueryRow(ctx, insert, args...).Scan(&id)
	case interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}:
		err = tx.QueryRowContext(ctx, insert, args...).Scan(&id)
	default:
		return 0, fmt.Errorf("outbox: publish: a %T has neither QueryRow nor QueryRowContext: %w", tx, ErrNoTransaction)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.Is(err, sql.ErrNoRows):
		return Duplicate, nil
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return 0, fmt.Errorf("outbox: publish: the transaction has ended already (%w): %w", err, ErrNoTransaction)
	case err != nil:
		explained := (&Client{dialect: PostgreSQL, table: t.table}).explain(err)
		return 0, fmt.Errorf("outbox: publish into table %s: %w", t.table, explained)
	}
	return id, nil
}

// check refuses what the table would, or what could not be sent.
func (m *TalkieMessage) check() error {
	if m.Topic == "" {
		return errors.New("topic: is empty; it names the topic of Kafka")
	}
	for name, text := range map[string]string{"topic": m.Topic, "key": m.Key, "job id": m.JobID, "idempotency key": m.IdempotencyKey} {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return fmt.Errorf("%s: is not text that a database can store", name)
		}
	}
	if len(m.Payload) > MaxPayloadBytes {
		return fmt.Errorf("payload: is %d bytes, the limit is %d; store large content elsewhere and publish where it is", len(m.Payload), MaxPayloadBytes)
	}
	if err := CheckJSON(m.Payload); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	return nil
}
