package interleave_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/queuetable"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// mariadbDatabase starts a server, with a queue table and state tables.
func mariadbDatabase(t *testing.T) string {
	t.Helper()
	address := testenv.StartMariaDB(t, "innodb_flush_log_at_trx_commit=0").Database()
	ctx := context.Background()
	db, err := openMariaDB(address)
	must(t, err)
	defer db.close()
	_, err = queuetable.Init(ctx, db.db, *layout.FlowCatalyst().Queue, true, queueTables...)
	must(t, err)
	store, err := statestore.New(ctx, statestore.Config{URL: address})
	must(t, err)
	must(t, store.Migrate(ctx))
	must(t, store.Close())
	return address
}

// mariadbWorld opens sessions there.
func mariadbWorld(t *testing.T, address string, m *mutant) (*world, *mariadb) {
	t.Helper()
	db, err := openMariaDB(address)
	must(t, err)
	w := newWorld(context.Background(), address, db)
	w.mutant, w.count, w.exec = m, db.count, w.sqlOfMariaDB()
	t.Cleanup(w.close)
	for _, name := range append([]string{publisher}, claimerNames...) {
		_, err := w.newSession(name)
		must(t, err)
	}
	return w, db
}

// mariadbStateWorld has relays with their state store there. The rows are in memory, and all visible.
func mariadbStateWorld(t *testing.T, address string, m *mutant) *world {
	t.Helper()
	w, db := mariadbWorld(t, address, m)
	w.relays, w.endLease = map[string]*relay{}, "UPDATE outrider_instance SET lease_until = 0 WHERE id = '%s'"
	var mu sync.Mutex
	var rows []string
	for _, name := range claimerNames {
		store, err := statestore.New(w.ctx, statestore.Config{URL: w.session(name).url, Logger: quiet})
		must(t, err)
		w.closers = append(w.closers, store.Close)
		w.relays[name] = &relay{w: w, name: name, store: store, table: adapters.Table{Name: "memory"}, read: func(_ context.Context, from adapters.Cursor) (got reading, _ error) {
			mu.Lock()
			defer mu.Unlock()
			last := min(int(from.Position)+rowsOfRead, len(rows))
			return reading{ids: rows[from.Position:last], next: adapters.Cursor{Position: int64(last)}, drained: last == len(rows)}, nil
		}}
		if name == relayA || name == relayB || name == drainer {
			must(t, store.Join(w.ctx, name, lease))
		}
	}
	w.put = func(id string) error {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, id)
		return nil
	}
	w.reset = func() error {
		rows = nil
		for _, statement := range []string{"DELETE FROM outrider_cursor", "DELETE FROM outrider_parked", "DELETE FROM outrider_pause", "DELETE FROM outrider_audit",
			"UPDATE outrider_instance SET lease_until = 4000000000000000"} {
			if _, err := db.db.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}
	return w
}

// mariadbQueueWorld has claimers there.
func mariadbQueueWorld(t *testing.T, address string, m *mutant) *world {
	t.Helper()
	w, db := mariadbWorld(t, address, m)
	w.open = func(url string, timeout time.Duration) (adapters.OperatorQueue, error) {
		return queuetable.New(queuetable.Config{URL: url, Tables: queueTables, Layout: *layout.FlowCatalyst().Queue, Timeout: timeout, Logger: quiet})
	}
	w.reset = func() error {
		if _, err := db.db.Exec("DELETE FROM " + events); err != nil {
			return err
		}
		return w.openClaimers()
	}
	w.insert = func(id string) string {
		return fmt.Sprintf(`INSERT INTO %s (id, type, message_group, payload, status, created_at) VALUES ('%s', 'EVENT', '%s', '{"type":"t"}', 'PENDING', NOW(6))`, events, id, id[:1])
	}
	w.put = func(id string) error { return w.exec(drainer, w.insert(id)) }
	w.closers = append(w.closers, w.closeClaimers)
	return w
}

func TestInterleavingsOfAStateStoreInMariaDB(t *testing.T) {
	t.Parallel()
	w := mariadbStateWorld(t, mariadbDatabase(t), nil)
	for _, sc := range stateScenarios {
		w.play(t, sc)
	}
}

func TestInterleavingsOfAQueueInMariaDB(t *testing.T) {
	t.Parallel()
	w := mariadbQueueWorld(t, mariadbDatabase(t), nil)
	for _, sc := range queueScenarios {
		w.play(t, sc)
	}
}
