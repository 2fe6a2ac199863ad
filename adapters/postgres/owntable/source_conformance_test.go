package owntable_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestSourceConformance(t *testing.T) {
	t.Parallel()
	adaptertest.Source(t, func(t *testing.T) adaptertest.SourceHarness {
		url := testenv.Postgres(t)
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if _, err := owntable.Init(t.Context(), pool, ""); err != nil {
			t.Fatal(err)
		}
		source, err := owntable.New(t.Context(), owntable.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return adaptertest.SourceHarness{
			Source:       source,
			Insert:       func(t *testing.T, rows ...adapters.Row) { publishRows(t, pool, rows) },
			InsertBroken: func(t *testing.T, group string) { publishBroken(t, pool, group) },
		}
	})
}

// publishRows inserts the rows in one transaction, as an application would.
func publishRows(t *testing.T, pool *pgxpool.Pool, rows []adapters.Row) {
	t.Helper()
	err := pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for i := range rows {
			r := &rows[i]
			var text, occurred any
			var bytes []byte
			if r.Binary {
				bytes = r.Payload
			} else {
				text = string(r.Payload)
			}
			if !r.OccurredAt.IsZero() {
				occurred = r.OccurredAt
			}
			batch.Queue(`INSERT INTO outrider_outbox (id, type, message_group, aggregate_type, aggregate_id, tenant_id,
    tags, headers, payload, payload_bytes, occurred_at)
VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11)`,
				r.ID, r.Type, r.Group, r.AggregateType, r.AggregateID, r.Tenant,
				jsonObject(r.Tags), jsonObject(r.Headers), text, bytes, occurred)
		}
		return tx.SendBatch(context.Background(), batch).Close()
	})
	if err != nil {
		t.Error(err)
	}
}

func jsonObject(m map[string]string) any {
	if len(m) == 0 {
		return nil
	}
	b, _ := json.Marshal(m)
	return string(b)
}

func publishBroken(t *testing.T, pool *pgxpool.Pool, group string) {
	t.Helper()
	_, err := pool.Exec(context.Background(),
		`INSERT INTO outrider_outbox (type, message_group, payload, tags) VALUES ('t', $1, '{}', '[1]')`, group)
	if err != nil {
		t.Fatal(err)
	}
}
