package statestore_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// wire makes connections that count round trips and can fall silent.
type wire struct {
	armed  atomic.Bool  // the next request for the lock makes it silent
	silent atomic.Bool  // answers are swallowed, and connections stay open at the server
	dialed atomic.Int32 // connections asked for
	trips  atomic.Int32 // times that somebody waited for an answer to what he had sent

	mu   sync.Mutex
	kept []net.Conn // left open when we close ours
}

func (w *wire) config(t *testing.T, dsn string) statestore.Config {
	t.Helper()
	pc, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pc.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.dialed.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.kept = append(w.kept, conn)
		w.trips.Add(1)
		return &wired{Conn: conn, wire: w}, nil
	}
	t.Cleanup(w.cut)
	return statestore.Config{Config: pc}
}

// cut ends what was left open.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.kept {
		_ = c.Close() // it may be closed
	}
	w.kept = nil
}

type wired struct {
	net.Conn
	wire *wire
	sent atomic.Bool
	mute atomic.Bool // we have closed it while the network was silent
}

func (w *wired) Write(p []byte) (int, error) {
	if w.mute.Load() {
		return len(p), nil
	}
	if bytes.Contains(p, []byte("pg_advisory_lock(")) && w.wire.armed.Swap(false) {
		w.wire.silent.Store(true)
	}
	w.sent.Store(true)
	return w.Conn.Write(p)
}

func (w *wired) Read(p []byte) (int, error) {
	if w.sent.Swap(false) {
		w.wire.trips.Add(1)
	}
	for {
		n, err := w.Conn.Read(p)
		if err != nil || !w.wire.silent.Load() {
			return n, err
		}
	}
}

// Close tells the server nothing while the network is silent.
func (w *wired) Close() error {
	if w.wire.silent.Load() {
		w.mute.Store(true)
		return w.SetDeadline(time.Unix(1, 0)) // whoever reads goes away
	}
	return w.Conn.Close()
}

// A renewal may take half of the lease. When each round trip takes a twentieth of it,
// ten are possible, and two of them are for TLS.
func TestG13_TheLockIsTakenAgainInFewRoundTrips(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	var net wire
	owner := joinedState(t, net.config(t, dsn), "a")
	acquireAll(t, owner, "a")
	terminateLease(t, connect(t, dsn))
	if _, err := owner.Renew(t.Context(), "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	terminateLease(t, connect(t, dsn)) // the first one may have read what the pool needed
	net.trips.Store(0)
	owned, err := owner.Renew(t.Context(), "a", time.Hour)
	if err != nil || len(owned) != adapters.Slots {
		t.Fatalf("renewed %d lanes, %v", len(owned), err)
	}
	if n := net.trips.Load(); n > 8 {
		t.Errorf("it took %d round trips", n)
	}
}

// What holds the lock is a session that we gave up before it had answered. The
// server does not know that, and would keep it for hours.
func TestG13_AnAbandonedAttemptDoesNotKeepTheLock(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	var net wire
	owner := joinedState(t, net.config(t, dsn), "a")
	acquireAll(t, owner, "a")
	admin := connect(t, dsn)
	holders := func() int {
		return value[int](t, admin, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	}
	for range 2 {
		terminateLease(t, admin)
		renewUnanswered(t, owner, &net, func() bool { return holders() == 1 })
		owned, err := owner.Renew(t.Context(), "a", time.Hour)
		if err != nil || len(owned) != adapters.Slots {
			t.Fatalf("renewed %d lanes, %v", len(owned), err)
		}
		if n := holders(); n != 1 {
			t.Fatalf("%d sessions hold the lock", n)
		}
	}
}

// renewUnanswered renews in a network that falls silent when the lock is asked for, and
// gives up when the server has done something.
func renewUnanswered(t *testing.T, owner *statestore.Store, net *wire, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	net.armed.Store(true)
	go func() {
		_, err := owner.Renew(ctx, "a", time.Hour)
		failed <- err
	}()
	for !net.silent.Load() || !done() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-failed; err == nil {
		t.Error("renewed without an answer")
	}
	net.silent.Store(false)
}

// Calls that wait for a server in vain have all connections of the pool.
func TestG13_TheLockNeedsNoPlaceInThePool(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	admin := connect(t, dsn)
	owner := joinedState(t, statestore.Config{URL: dsn}, "a")
	acquireAll(t, owner, "a")
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outrider_parked`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	const more = 12 // than the pool has
	for range more {
		wg.Go(func() { _, _ = owner.ParkedGroups(ctx, "r", allSlots()) })
	}
	watch := connect(t, dsn)
	for value[int](t, watch, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) < 6 {
		time.Sleep(time.Millisecond)
	}
	terminateLease(t, watch)
	limited, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if owned, err := owner.Renew(limited, "a", time.Hour); err != nil || len(owned) != adapters.Slots {
		t.Errorf("renewed %d lanes, %v", len(owned), err)
	}
}

// A database that is gone is asked for a few times a second, however often each part of
// a relay tries.
func TestADatabaseThatIsGoneIsLeftInPeace(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, dsn)
	name := strings.TrimPrefix(u.Path, "/") + "_gone"
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	var net wire
	owner := joinedState(t, net.config(t, u.String()), "a")
	if _, err := admin.Exec(t.Context(), "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		t.Fatal(err)
	}
	// Connections that are open end in words of their own.
	_, _ = owner.Renew(t.Context(), "a", time.Hour)
	_, _ = owner.Instances(t.Context())
	net.dialed.Store(0)
	began := time.Now()
	const tries = 200
	for range tries {
		if _, err := owner.Renew(t.Context(), "a", time.Hour); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Fatalf("renewed in a database that is gone: %v", err)
		}
		if _, err := owner.Instances(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Fatalf("read a database that is gone: %v", err)
		}
	}
	most := 2 + 3*int32(time.Since(began)/time.Second+1)
	if n := net.dialed.Load(); n > most {
		t.Errorf("%d connections were tried in %v, want at most %d", n, time.Since(began), most)
	}
	// What is refused is said as often; that it is there again is found.
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	for {
		if err := owner.Migrate(t.Context()); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := owner.Renew(t.Context(), "a", time.Hour); err != nil {
		t.Error(err)
	}
	if err := owner.Close(); err != nil {
		t.Error(err)
	}
	if _, err := admin.Exec(t.Context(), "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		t.Error(err)
	}
}
