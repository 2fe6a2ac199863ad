package statestore_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// joinedState opens a migrated store on url that joined with an hour's lease.
func joinedState(t *testing.T, cfg statestore.Config, instance string) *statestore.Store {
	t.Helper()
	state := openState(t, cfg)
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
		all[i] = adapters.Settlement{
			LaneRef: lane.LaneRef, Epoch: lane.Epoch, NextSeq: 1,
			Cursor: adapters.Cursor{Position: position, Snapshot: "1000:1020:1001,1007"},
			Beyond: make([]int64, lane.Slot), // of different lengths
		}
	}
	return all
}

// connect opens a plain connection that is closed when the test ends.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// terminateLease ends the connection that shows an instance's life and returns
// when the server has released its lock. One that we closed may be there for a moment.
func terminateLease(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	const lease = ` FROM pg_stat_activity WHERE application_name = 'outrider-lease' AND datname = current_database()`
	pids := value[[]int32](t, conn, `SELECT array_agg(pid)`+lease)
	for len(pids) > 1 {
		time.Sleep(time.Millisecond)
		pids = value[[]int32](t, conn, `SELECT array_agg(pid)`+lease)
	}
	if len(pids) == 0 {
		t.Fatal("no connection holds a lock")
	}
	if !value[bool](t, conn, `SELECT pg_terminate_backend($1, 30000)`, pids[0]) {
		t.Fatal("the connection did not end")
	}
}

func TestLanesMoveAtOnceWhenTheOwnersConnectionDrops(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	owner := joinedState(t, statestore.Config{URL: dsn}, "a")
	old := acquireAll(t, owner, "a")
	other := joinedState(t, statestore.Config{URL: dsn}, "b")
	if got := acquireAll(t, other, "b"); len(got) != 0 {
		t.Fatalf("b acquired %d lanes of a living owner", len(got))
	}
	if err := other.Leave(t.Context(), "b"); err != nil { // so that one lease connection is left
		t.Fatal(err)
	}
	terminateLease(t, connect(t, dsn))
	if err := other.Join(t.Context(), "b", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := acquireAll(t, other, "b"); len(got) != adapters.Slots { // a's lease runs for an hour
		t.Fatalf("b acquired %d lanes after a's connection was gone", len(got))
	}
	fenced, err := owner.Settle(t.Context(), settlements(old, 5))
	if err != nil || len(fenced) != adapters.Slots {
		t.Fatalf("the former owner settled: fenced %d, %v", len(fenced), err)
	}
	owned, err := owner.Renew(t.Context(), "a", time.Hour)
	if err != nil || len(owned) != 0 {
		t.Fatalf("the former owner renewed %d lanes, %v", len(owned), err)
	}
}

func TestRenewTakesTheLockAgain(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	owner := joinedState(t, statestore.Config{URL: dsn}, "a")
	acquireAll(t, owner, "a")
	terminateLease(t, connect(t, dsn))
	owned, err := owner.Renew(t.Context(), "a", time.Hour)
	if err != nil || len(owned) != adapters.Slots {
		t.Fatalf("renewed %d lanes, %v", len(owned), err)
	}
	other := joinedState(t, statestore.Config{URL: dsn}, "b")
	if got := acquireAll(t, other, "b"); len(got) != 0 {
		t.Fatalf("b acquired %d lanes of an owner that is back", len(got))
	}
}

func TestOneIDOneProcess(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	joinedState(t, statestore.Config{URL: dsn}, "a")
	twin := openState(t, statestore.Config{URL: dsn})
	err := twin.Join(t.Context(), "a", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "id of its own") {
		t.Fatalf("a second process joined with the id of a living one: %v", err)
	}
}

// statements is a tracer that counts.
type statements struct {
	mu  sync.Mutex
	sql []string
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql = append(s.sql, data.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.sql
	s.sql = nil
	return taken
}

func TestSettleOfAllLanesIsOneStatement(t *testing.T) {
	t.Parallel()
	tracer := &statements{}
	state := joinedState(t, statestore.Config{URL: testenv.Postgres(t), Tracer: tracer}, "a")
	lanes := acquireAll(t, state, "a")
	tracer.take()
	fenced, err := state.Settle(t.Context(), settlements(lanes, 7))
	if err != nil || len(fenced) > 0 {
		t.Fatal(fenced, err)
	}
	if sql := tracer.take(); len(sql) != 1 {
		t.Errorf("a settle of %d lanes took %d statements: %q", len(lanes), len(sql), sql)
	}
	for i, lane := range acquireAll(t, state, "a") {
		if lane.Cursor.Position != 7 || len(lane.Beyond) != lane.Slot {
			t.Errorf("lane %d came back as %+v", i, lane)
		}
	}
}

// An index on a column that settles change would make none of the updates
// heap-only. All of them are on a quiet server; while others of this server's
// tests hold transactions open, dead versions stay and every fifth or so goes
// to another page, and more of them if none goes meanwhile.
func TestG8_SettlesAreHeapOnly(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	lanes := acquireAll(t, state, "a")
	const settles = 50
	for n := range settles {
		if fenced, err := state.Settle(t.Context(), settlements(lanes, int64(n))); err != nil || len(fenced) > 0 {
			t.Fatal(fenced, err)
		}
	}
	if err := state.Close(); err != nil { // a session that ends reports its statistics
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	for {
		total := value[int64](t, conn, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'outrider_cursor'`)
		hot := value[int64](t, conn, `SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'outrider_cursor'`)
		if total >= settles*adapters.Slots {
			if hot*4 < total {
				t.Errorf("%d of %d updates were heap-only", hot, total)
			}
			return
		}
		select {
		case <-time.After(10 * time.Millisecond): // reported asynchronously
		case <-t.Context().Done():
			t.Fatal("no statistics")
		}
	}
}

func TestEveryCommandIsAudited(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	lanes := acquireAll(t, state, "a")
	s := settlements(lanes[:1], 1)
	s[0].Park = []adapters.Parked{{Seq: 1, Status: adapters.ParkedDead, ID: "e"}}
	if _, err := state.Settle(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, c := range []adapters.ParkedCommand{
		{Action: adapters.ParkedRedrive, Filter: adapters.ParkedFilter{ID: "e", Limit: 3}, By: "alice\x00"},
		{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{Route: "r"}, By: "bob"},
		{Action: adapters.ParkedPurge, All: true, By: "bob"},
	} {
		if _, err := state.ChangeParked(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	got := value[[]string](t, connect(t, dsn),
		`SELECT array_agg(concat_ws(' ', by, action, filter, changed) ORDER BY id) FROM outrider_audit`)
	want := []string{"alice\uFFFD redrive {\"id\": \"e\", \"limit\": \"3\"} 1", `bob skip {"route": "r"} 1`, `bob purge {} 0`}
	if !slices.Equal(got, want) {
		t.Errorf("audited: %q, want %q", got, want)
	}
}

func TestSchemasKeepOutridersApart(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	one := joinedState(t, statestore.Config{URL: dsn, Schema: "One"}, "a")
	two := joinedState(t, statestore.Config{URL: dsn, Schema: "two"}, "a") // no twin: another schema
	if a, b := acquireAll(t, one, "a"), acquireAll(t, two, "a"); len(a) != adapters.Slots || len(b) != adapters.Slots {
		t.Fatalf("acquired %d and %d lanes", len(a), len(b))
	}
	got := value[[]string](t, connect(t, dsn),
		`SELECT array_agg(schemaname ORDER BY schemaname) FROM pg_tables WHERE tablename IN ('outrider_cursor', 'outrider_migrations')`)
	if !slices.Equal(got, []string{"One", "One", "two", "two"}) {
		t.Errorf("tables are in %q", got)
	}
}

func TestMissingTablesSayWhatToDo(t *testing.T) {
	t.Parallel()
	state := openState(t, statestore.Config{URL: testenv.Postgres(t)})
	if _, err := state.Lanes(t.Context()); err == nil || !strings.Contains(err.Error(), "Migrate") {
		t.Fatalf("got %v", err)
	}
}

func TestG12_StateErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	const canary = "c4nary"
	for _, dsn := range []string{
		"postgres://u:" + canary + "@127.0.0.1:1/db?connect_timeout=5",
		"postgres://u:" + canary + "#x@127.0.0.1:1/db",
		"postgres://u:" + canary + "%zz@127.0.0.1:1/db",
		"postgres://u:x@" + canary + "@127.0.0.1:1/db",
		"host=127.0.0.1 port=nope password=" + canary,
		"postgres://u@127.0.0.1:1/db?connect_timeout=5&password=" + url.QueryEscape(canary+"&"),
	} {
		state, err := statestore.New(t.Context(), statestore.Config{URL: dsn})
		if err == nil {
			_ = state.Close()
			t.Errorf("%s: no error", dsn)
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("the password is in %q", err)
		}
	}
}

// TestG4_IdleStateHoldsNoTransaction: nothing of ours keeps a snapshot open.
func TestG4_IdleStateHoldsNoTransaction(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	state := joinedState(t, statestore.Config{URL: dsn}, "a")
	acquireAll(t, state, "a")
	open := value[int](t, connect(t, dsn), `SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'`)
	if open != 0 {
		t.Errorf("%d transactions are open", open)
	}
}

var _ pgx.QueryTracer = (*statements)(nil)
