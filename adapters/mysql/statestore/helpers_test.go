package statestore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
)

// joinedState opens a migrated store on url that joined with an hour's lease.
func joinedState(t *testing.T, url, instance string) *statestore.Store {
	t.Helper()
	state := openState(t, url)
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := state.Join(t.Context(), instance, time.Hour); err != nil {
		t.Fatal(err)
	}
	return state
}

func allSlots() []int {
	slots := make([]int, adapters.Slots)
	for i := range slots {
		slots[i] = i
	}
	return slots
}

func acquireAll(t *testing.T, state *statestore.Store, instance string) []adapters.LaneState {
	t.Helper()
	lanes, err := state.Acquire(t.Context(), instance, "r", allSlots(), adapters.Slots)
	if err != nil {
		t.Fatal(err)
	}
	return lanes
}

// settlements move the lanes to a position.
func settlements(lanes []adapters.LaneState, position int64) []adapters.Settlement {
	all := make([]adapters.Settlement, len(lanes))
	for i, lane := range lanes {
		all[i] = adapters.Settlement{LaneRef: lane.LaneRef, Epoch: lane.Epoch, NextSeq: 1, Revision: position,
			Cursor: adapters.Cursor{Position: position, Snapshot: "1000:1020:1001,1007"}, Beyond: make([]int64, lane.Slot)}
	}
	return all
}

// connect opens connections that are closed when the test ends.
func connect(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := mysql.Open(url, mysql.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func value[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// instanceLock is the lock of instance a, as its store names it.
const instanceLock = `concat('outrider-', left(sha2(concat(database(), '/a'), 256), 40))`

// killLease ends the connection that shows the life of instance a, and returns when the server has freed its lock.
func killLease(t *testing.T, db *sql.DB) {
	t.Helper()
	id := value[int64](t, db, `SELECT is_used_lock(`+instanceLock+`)`)
	if _, err := db.ExecContext(t.Context(), "KILL ?", id); err != nil {
		t.Fatal(err)
	}
	for !value[bool](t, db, `SELECT is_free_lock(`+instanceLock+`)`) {
		time.Sleep(time.Millisecond)
	}
}
