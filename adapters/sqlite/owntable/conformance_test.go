package owntable_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSourceConformance(t *testing.T) {
	t.Parallel()
	adaptertest.Source(t, func(t *testing.T) adaptertest.SourceHarness {
		path := filepath.Join(t.TempDir(), "out?box #1.db")
		db := openApp(t, path)
		return adaptertest.SourceHarness{
			Source:       openSource(t, path),
			Insert:       func(t *testing.T, rows ...adapters.Row) { insert(t, db, rows...) },
			InsertBroken: func(t *testing.T, group string) { insertBroken(t, db, group) },
		}
	})
}

// openApp opens a database as its application does, with an outbox table.
func openApp(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := owntable.Init(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	return db
}

func openSource(t *testing.T, path string) *owntable.Source {
	t.Helper()
	source, err := owntable.New(owntable.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

// insert publishes the rows in one transaction.
func insert(t *testing.T, db *sql.DB, rows ...adapters.Row) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = tx.Rollback() }()
	for i := range rows {
		r := &rows[i]
		var payload, bytes, occurred any
		if r.Binary {
			bytes = r.Payload
		} else {
			payload = string(r.Payload)
		}
		if !r.OccurredAt.IsZero() {
			occurred = r.OccurredAt.Format(time.RFC3339Nano)
		}
		_, err := tx.Exec(`INSERT INTO outrider_outbox (id, type, message_group, aggregate_type, aggregate_id, tenant_id,
    tags, headers, payload, payload_bytes, occurred_at) VALUES (?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?)`,
			r.ID, r.Type, r.Group, r.AggregateType, r.AggregateID, r.Tenant,
			object(r.Tags), object(r.Headers), payload, bytes, occurred)
		if err != nil {
			t.Error(err)
			return
		}
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

func object(m map[string]string) any {
	if len(m) == 0 {
		return nil
	}
	b, _ := json.Marshal(m)
	return string(b)
}

func insertBroken(t *testing.T, db *sql.DB, group string) {
	t.Helper()
	_, err := db.Exec(`INSERT INTO outrider_outbox (type, message_group, payload, tags) VALUES ('t', ?, '{}', '[1]')`, group)
	if err != nil {
		t.Fatal(err)
	}
}
