package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func frameworkPool(t *testing.T, json string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testenv.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `CREATE TABLE outbox_event (event_id varchar(36) PRIMARY KEY, event_type varchar(128) NOT NULL,
		aggregate_type varchar(64), aggregate_id varchar(128), tenant_id varchar(64), payload `+json+` NOT NULL, headers `+json+`,
		status smallint NOT NULL, attempts int NOT NULL DEFAULT 0, available_at timestamptz NOT NULL, created_at timestamptz NOT NULL,
		done_at timestamptz, last_error text)`)
	must(t, err)
	return pool
}

func frameworkClient(t *testing.T) *outbox.Client {
	t.Helper()
	c, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework"})
	must(t, err)
	return c
}

// aggregate is a typed name, as an enum of the framework.
type aggregate string

const userAggregate aggregate = "USER"

func TestPublishIntoTheOutboxFrameworksTable(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"json", "jsonb"} {
		pool, c := frameworkPool(t, column), frameworkClient(t)
		full, err := orderPlaced.New(placed{7}).Aggregate(string(userAggregate), "42").Group("42").Tenant("acme").Header("k", "v").ID("1").Build()
		must(t, err)
		plain, err := outbox.New("plain").RawJSON([]byte(`{"a":"b\"c"}`)).ID("2").Build()
		must(t, err)
		must(t, outbox.InTx(t.Context(), pool, func(ctx context.Context, _ pgx.Tx) error { return c.Publish(ctx, nil, full, plain) }))
		rows, err := pool.Query(t.Context(), `SELECT concat_ws(' ', event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload->>'Total', payload->>'a', headers->>'k',
			status, attempts, available_at = created_at, created_at <= clock_timestamp(), done_at, last_error) FROM outbox_event ORDER BY created_at, event_id`)
		must(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		want := "1 order.placed USER 42 acme 7 v 0 0 t t; 2 plain b\"c 0 0 t t"
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %q, want %q", column, got, want)
		}
	}
}

// Chapter 18.1: begin, publish, roll back; the row is not there.
func TestOutboxFramework_18_1_Atomicity(t *testing.T) {
	t.Parallel()
	pool, c := frameworkPool(t, "json"), frameworkClient(t)
	failure := errors.New("rolled back")
	err := outbox.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		must(t, c.Publish(ctx, tx, aboutOrder(t)))
		return failure
	})
	var n int
	must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event").Scan(&n))
	if !errors.Is(err, failure) || n != 0 {
		t.Errorf("%v, %d rows", err, n)
	}
	if err := c.Publish(t.Context(), nil, aboutOrder(t)); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("outside of a transaction: %v", err)
	}
}

func aboutOrder(t *testing.T) outbox.Envelope {
	t.Helper()
	e, err := outbox.New("order.created").Aggregate("order", "1").JSON(1).Build()
	must(t, err)
	return e
}

func TestTheOutboxFrameworksTableHasNoPlaceForSome(t *testing.T) {
	t.Parallel()
	c := frameworkClient(t)
	long := strings.Repeat("é", 65)
	for want, b := range map[string]*outbox.Builder{
		"id: is 37 characters, the table's column has 36": outbox.New("t").ID(strings.Repeat("i", 37)).JSON(1),
		"aggregate type: is 65":                           outbox.New("t").Aggregate(long, "1").JSON(1),
		"tenant: is 65":                                   outbox.New("t").Tenant(long).JSON(1),
		"group: the table has no column for it":           outbox.New("t").Group("g").Aggregate("a", "1").JSON(1),
		"tags: the table has no column":                   outbox.New("t").Tag("k", "v").JSON(1),
		"payload: is bytes":                               outbox.New("t").Bytes([]byte{0}),
	} {
		e, err := b.Build()
		must(t, err)
		if _, _, err := c.InsertQuery(e); !errors.As(err, new(*outbox.EnvelopeError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, cfg := range map[string]outbox.ClientConfig{
		"unknown Layout": {Layout: "framework"}, "is for PostgreSQL": {Layout: "yantra", Dialect: outbox.SQLite},
	} {
		if _, err := outbox.NewClient(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
