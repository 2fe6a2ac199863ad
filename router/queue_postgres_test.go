package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// flowcatalyst is a database with FlowCatalyst's two tables as its documents
// describe them, and a route that drains them.
type flowcatalyst struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
	dest *receiver

	through string        // address of a proxy in front of the server, for the queue; empty: none
	alter   func(*Route)  // optional
	log     slog.Handler  // of the relay; nil: none
	timeout time.Duration // of claims; 0: the default
}

func newFlowcatalyst(t *testing.T) *flowcatalyst {
	t.Helper()
	f := &flowcatalyst{t: t, url: testenv.Postgres(t),
		dest: &receiver{ordering: adapters.Ordering{MaxMessages: 100, MaxGroups: 1, MaxRequests: 10, Static: true}}}
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	f.conn = conn
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, table := range []string{"outbox_events", "outbox_dispatch_jobs"} {
		f.exec(strings.ReplaceAll(`CREATE TABLE {t} (
		    id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL,
		    status VARCHAR(20) NOT NULL, retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL,
		    processed_at TIMESTAMP, error_message TEXT);
		CREATE INDEX ON {t} (status, message_group, created_at)`, "{t}", table))
	}
	return f
}

func (f *flowcatalyst) exec(sql string) {
	f.t.Helper()
	if _, err := f.conn.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
}

// insert writes n rows of so many groups; ids and times ascend.
func (f *flowcatalyst) insert(table, prefix string, groups, from, n int) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`INSERT INTO %s (id, type, message_group, payload, status, created_at)
		SELECT '%s' || to_char(i, 'FM000000000000'), 'EVENT', 'g' || i %% %d, '{"type":"order.created"}', 'PENDING',
		       localtimestamp + i * interval '1 microsecond'
		FROM generate_series(%d, %d) AS i`, table, prefix, groups, from, from+n-1))
}

// start runs a relay until the returned function is called.
func (f *flowcatalyst) start() (stop func()) {
	f.t.Helper()
	return f.startWith(postgres.WakePoll, Poll{Batch: 500, Max: 50 * time.Millisecond})
}

// startWith is start of a relay that notices rows in a certain way.
func (f *flowcatalyst) startWith(wake postgres.Wake, poll Poll) (stop func()) {
	f.t.Helper()
	ctx := context.Background()
	config := Config{Logger: slog.New(slog.DiscardHandler)}
	if f.log != nil {
		config.Logger = slog.New(f.log)
	}
	queue, err := queuetable.New(ctx, queuetable.Config{Logger: config.Logger, URL: cmp.Or(f.through, f.url), Timeout: f.timeout, Tables: layout.FlowCatalyst().Queue.Tables, Layout: *layout.FlowCatalyst().Queue, Wake: wake})
	if err == nil {
		err = queue.Check(ctx)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	state, err := statestore.New(ctx, statestore.Config{URL: f.url})
	if err != nil {
		f.t.Fatal(err)
	}
	route := Route{
		Name: "platform", Queue: queue, State: state, Destination: f.dest, Attempts: 4,
		Middleware: stack(20*time.Millisecond, 4), Poll: poll, Claims: Claims{Timeout: f.timeout},
	}
	if f.alter != nil {
		f.alter(&route)
	}
	rt, err := New(config, []Route{route})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	return func() {
		f.t.Helper()
		cancel()
		if err := errors.Join(<-done, queue.Close(), state.Close()); err != nil {
			f.t.Fatal(err)
		}
		if n := f.count("status = 'PROCESSING'"); n != 0 {
			f.t.Fatalf("after a stop %d rows are in PROCESSING", n)
		}
	}
}

// count counts rows of both tables.
func (f *flowcatalyst) count(where string) (n int) {
	f.t.Helper()
	err := f.conn.QueryRow(f.t.Context(), `SELECT (SELECT count(*) FROM outbox_events WHERE `+where+`) +
		(SELECT count(*) FROM outbox_dispatch_jobs WHERE `+where+`)`).Scan(&n)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *flowcatalyst) await(where string, want int) {
	f.t.Helper()
	for end := time.Now().Add(3 * time.Minute); f.count(where) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%d rows are %s, want %d; %d arrived", f.count(where), where, want, f.dest.count())
		}
	}
}

// Rows of both tables are drained over restarts, with failures: every row
// arrives once, in the order of its group, and the statuses are exact.
func TestG1_G2_G3_FlowCatalystTables(t *testing.T) {
	f := newFlowcatalyst(t)
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	left := map[string]int{} // failures to come, by id
	dead, retried := 0, map[string]int{}
	const rows = 2000
	for i := range rows {
		id := fmt.Sprintf("e%012d", i)
		switch random.IntN(500) {
		case 0, 1, 2, 3:
			left[id] = 1 + random.IntN(3)
			retried[id] = left[id]
		case 4:
			left[id] = 1000
			dead++
		}
	}
	f.dest.setFail(func(_ string, msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if left[msg.UUID] == 0 {
			return nil
		}
		left[msg.UUID]--
		return errors.New("status 500")
	})
	f.insert("outbox_events", "e", 40, 0, rows)
	f.insert("outbox_dispatch_jobs", "j", 40, 0, 1000)
	for i := range 3 {
		stop := f.start()
		for f.dest.count() < 600*(i+1) {
			time.Sleep(time.Millisecond)
		}
		stop()
	}
	stop := f.start()
	f.await("status IN ('PENDING', 'PROCESSING')", 0)
	stop()
	if n := f.count("status = 'COMPLETED'"); n != rows+1000-dead {
		t.Errorf("%d are COMPLETED, want %d", n, rows+1000-dead)
	}
	if n := f.count("status = 'FAILED' AND retry_count = 3 AND error_message IS NOT NULL"); n != dead {
		t.Errorf("%d are FAILED after 3 retries, want %d", n, dead)
	}
	if n := f.count("retry_count > 0 AND status = 'COMPLETED'"); n > len(retried) {
		t.Errorf("%d rows count retries, only %d failed", n, len(retried))
	}
	f.checkOrdered(rows + 1000 - dead)
}

// checkOrdered checks that n rows arrived once each, in the order of their groups.
func (f *flowcatalyst) checkOrdered(n int) {
	f.t.Helper()
	seen := map[string]bool{}
	for group, ids := range f.dest.received() {
		if !slices.IsSorted(ids) {
			f.t.Errorf("group %s is out of order", group)
		}
		for _, id := range ids {
			if seen[id] {
				f.t.Errorf("%s arrived twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != n {
		f.t.Errorf("%d arrived, want %d", len(seen), n)
	}
}

// A claimer that sleeps is woken by whoever inserts, into any of its tables: it
// would not look by itself before an hour has gone.
func TestG1_NotificationsAloneEmptyAQueue(t *testing.T) {
	t.Parallel()
	f := newFlowcatalyst(t)
	pool, err := pgxpool.New(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tables := []string{"outbox_events", "outbox_dispatch_jobs"}
	if _, err := postgres.InitWake(t.Context(), pool, tables...); err != nil {
		t.Fatal(err)
	}
	stop := f.startWith(postgres.WakeNotify, Poll{Batch: 500, Min: time.Hour, Max: time.Hour})
	for i := range 3 {
		f.awaitSleep(tables...)
		f.insert("outbox_events", "e", 1, i, 1)
		f.await("status = 'COMPLETED'", 2*i+1)
		f.awaitSleep(tables...)
		f.insert("outbox_dispatch_jobs", "j", 1, i, 1)
		f.await("status = 'COMPLETED'", 2*i+2)
	}
	stop()
	f.checkOrdered(6)
}

// A message that failed is tried again when its backoff is over, although the claimer has gone to sleep meanwhile and nobody inserts a row.
func TestG13_ARetryIsNotLeftToThePoll(t *testing.T) {
	t.Parallel()
	f := newFlowcatalyst(t)
	f.alter = func(r *Route) { r.Middleware = stack(2*time.Second, 4) }
	tables := f.notified(true)
	var tries atomic.Int64
	sent, asleep := make(chan struct{}), make(chan struct{})
	f.dest.setFail(func(string, *message.Message) error {
		if tries.Add(1) > 1 {
			return nil
		}
		close(sent)
		<-asleep
		return errInjected
	})
	stop := f.startWith(postgres.WakeNotify, Poll{Batch: 500, Min: time.Hour, Max: time.Hour})
	f.awaitSleep(tables...)
	f.insert(tables[0], "e", 1, 0, 1)
	<-sent
	f.awaitSleep(tables...)
	close(asleep)
	f.await("status = 'COMPLETED'", 1)
	stop()
	f.checkOrdered(1)
	if n := tries.Load(); n != 2 {
		t.Errorf("%d tries, want 2", n)
	}
}

// awaitSleep returns when the claimer wants to be notified of rows of these tables.
func (f *flowcatalyst) awaitSleep(tables ...string) {
	f.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var asleep bool
		err := f.conn.QueryRow(f.t.Context(), `SELECT bool_and(NOT pg_try_advisory_xact_lock_shared(hashtextextended(name, $1)))
			FROM unnest($2::text[]) AS t(name)`, outbox.WakeNamespace, tables).Scan(&asleep)
		switch {
		case err != nil:
			f.t.Fatal(err)
		case asleep:
			return
		case time.Now().After(end):
			f.t.Fatal("the claimer does not go to sleep")
		}
	}
}
