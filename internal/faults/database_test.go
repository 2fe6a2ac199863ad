package faults_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// database is a PostgreSQL database with an empty outbox table.
type database struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

// newDatabase makes one on the shared server.
func newDatabase(t *testing.T) *database {
	t.Helper()
	return openDatabase(t, testenv.Postgres(t))
}

// openDatabase makes the outbox table in a database.
func openDatabase(t *testing.T, url string) *database {
	t.Helper()
	d := openPool(t, url)
	_, err := owntable.Init(t.Context(), d.pool, "")
	must(t, err)
	return d
}

// openPool opens connections to a database.
func openPool(t *testing.T, url string) *database {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	must(t, err)
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	return &database{t, url, pool}
}

// rows returns what was committed.
func (d *database) rows() []check.Row {
	d.t.Helper()
	rows, err := d.pool.Query(d.t.Context(), "SELECT id, coalesce(message_group, ''), position FROM outrider_outbox")
	must(d.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Row])
	must(d.t, err)
	return out
}

// sqliteRows returns what was committed.
func sqliteRows(t *testing.T, db *sql.DB) (out []check.Row) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id, message_group, position FROM outrider_outbox")
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	for rows.Next() {
		var r check.Row
		must(t, rows.Scan(&r.ID, &r.Group, &r.Position))
		out = append(out, r)
	}
	must(t, rows.Err())
	return out
}

// batch is a set of n messages in the groups PREFIX0, PREFIX1 and so on, whose
// payloads have about bytes bytes.
type batch struct {
	n, groups int
	prefix    string // of the groups. Default: "g"
	tenant    string // default: the group
	bytes     int
}

// fill commits messages in one statement. It pads their payloads.
func (d *database) fill(b batch) {
	d.t.Helper()
	if b.prefix == "" {
		b.prefix = "g"
	}
	d.exec(fillSQL, b.n, b.groups, b.prefix, b.tenant, b.bytes)
}

const fillSQL = `INSERT INTO outrider_outbox (id, type, message_group, tenant_id, payload)
	SELECT id, 'order.created', g, coalesce(nullif($4, ''), g), json_build_object('id', id, 'group', g, 'pad', repeat('x', $5))
	FROM (SELECT gen_random_uuid()::text AS id, $3 || (i % $2) AS g, i FROM generate_series(1, $1) i) AS m
	ORDER BY i`

// publish commits messages of one group and returns when they are committed.
func (d *database) publish(group string, n int) {
	d.t.Helper()
	d.inTx(func(tx pgx.Tx) { must(d.t, insert(d.t.Context(), tx, group, n)) })
}

// inTx commits what f does.
func (d *database) inTx(f func(pgx.Tx)) {
	d.t.Helper()
	tx, err := d.pool.Begin(d.t.Context())
	must(d.t, err)
	f(tx)
	must(d.t, tx.Commit(d.t.Context()))
}

func (d *database) exec(statement string, args ...any) {
	d.t.Helper()
	_, err := d.pool.Exec(d.t.Context(), statement, args...)
	must(d.t, err)
}

// one returns the single value of a query.
func one[T any](d *database, query string, args ...any) (value T) {
	d.t.Helper()
	must(d.t, d.pool.QueryRow(d.t.Context(), query, args...).Scan(&value))
	return value
}

// parked counts the parked messages with a status or the given attempts.
func (d *database) parked(where string) int {
	d.t.Helper()
	return one[int](d, "SELECT count(*) FROM outrider_parked WHERE "+where)
}

// payload is the payload of a message.
type payload struct {
	ID    string `json:"id"`
	Group string `json:"group"`
}

// insert takes the group's lock and publishes n messages of it.
func insert(ctx context.Context, tx pgx.Tx, group string, n int) error {
	if err := outbox.Lock(ctx, tx, group); err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{})
	if err != nil {
		return err
	}
	envelopes := make([]outbox.Envelope, n)
	for i := range envelopes {
		id := ulid.Make().String()
		envelopes[i], err = outbox.New("order.created").ID(id).Group(group).Tenant(group).
			JSON(payload{ID: id, Group: group}).Build()
		if err != nil {
			return err
		}
	}
	return client.Publish(ctx, tx, envelopes...)
}
