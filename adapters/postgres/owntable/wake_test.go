package owntable

import (
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
	"github.com/outriderhq/outrider/outbox"
)

// wakeEnv is an outbox table, a source on it that is notified, and a client that
// notifies.
type wakeEnv struct {
	*sourceEnv
	src    *Source
	client *outbox.Client
}

func newWakeEnv(t *testing.T) *wakeEnv {
	t.Helper()
	e := &wakeEnv{sourceEnv: newSourceEnv(t)}
	e.src = e.notified()
	var err error
	e.client, err = outbox.NewClient(outbox.ClientConfig{Notify: true})
	pgtest.Must(t, err)
	return e
}

// notified returns a source that listens.
func (e *wakeEnv) notified() *Source {
	e.T.Helper()
	src, err := New(e.Ctx, Config{URL: e.URL, Wake: wake.Notify})
	pgtest.Must(e.T, err)
	src.base.Listening.Relied = 300 * time.Millisecond
	e.T.Cleanup(func() { pgtest.Must(e.T, src.Close()) })
	e.woken(src) // it listens
	return src
}

// patience bounds waits for what must happen.
const wakeTestPatience = 20 * time.Second

func (e *wakeEnv) woken(src *Source) {
	e.T.Helper()
	select {
	case <-src.Wake():
	case <-time.After(wakeTestPatience):
		e.T.Fatalf("the source was not woken within %v", wakeTestPatience)
	}
}

func (e *wakeEnv) sleep(src *Source, want adapters.Sleep) {
	e.T.Helper()
	if got := src.Sleep(e.Ctx); got != want {
		e.T.Fatalf("asked to sleep: %v, want %v", got, want)
	}
}

// fallAsleep sleeps once all who took the reader to be awake have ended.
func (e *wakeEnv) fallAsleep(src *Source) {
	e.T.Helper()
	for end := time.Now().Add(wakeTestPatience); src.Sleep(e.Ctx) != adapters.Armed; {
		if time.Now().After(end) {
			e.T.Fatal("the reader cannot sleep")
		}
	}
}

// publish publishes a message in tx, or in one of its own.
func (e *wakeEnv) publish(tx pgx.Tx) {
	e.T.Helper()
	m, err := outbox.New("t").JSON(1).Build()
	pgtest.Must(e.T, err)
	if tx != nil {
		pgtest.Must(e.T, e.client.Publish(e.Ctx, tx, m))
		return
	}
	pgtest.Must(e.T, pgx.BeginFunc(e.Ctx, e.Pool, func(tx pgx.Tx) error { return e.client.Publish(e.Ctx, tx, m) }))
}

// overhear counts the notifications until the end of the test.
func (e *wakeEnv) overhear() *atomic.Int64 {
	e.T.Helper()
	conn, err := pgx.Connect(e.Ctx, e.URL)
	pgtest.Must(e.T, err)
	_, err = conn.Exec(e.Ctx, "LISTEN "+outbox.WakeChannel)
	pgtest.Must(e.T, err)
	n := new(atomic.Int64)
	ctx, cancel := context.WithCancel(e.Ctx)
	var heard sync.WaitGroup
	heard.Go(func() {
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return
			}
			n.Add(1)
		}
	})
	e.T.Cleanup(func() { cancel(); heard.Wait(); _ = conn.Close(e.Ctx) })
	return n
}

// Only who commits while the reader sleeps notifies it.
func TestPublishersCallASleepingReaderOnly(t *testing.T) {
	t.Parallel()
	e := newWakeEnv(t)
	calls := e.overhear()
	for range 20 {
		e.publish(nil)
	}
	e.fallAsleep(e.src)
	if n := calls.Load(); n != 0 {
		t.Errorf("%d notifications for a reader that is awake", n)
	}
	e.publish(nil)
	e.woken(e.src)
	e.risen()
	for range 20 {
		e.publish(nil)
	}
	e.fallAsleep(e.src)
	e.src.Awake()
	e.risen()
	for range 20 {
		e.publish(nil)
	}
	e.fallAsleep(e.src)
	if n := calls.Load(); n > 4 { // one of the publisher's, one or two of the reader's own
		t.Errorf("%d notifications, the reader was woken once", n)
	}
}

// A transaction that took the reader to be awake keeps it awake until it ends.
func TestAReaderDoesNotSleepBeforePublishersHaveEnded(t *testing.T) {
	t.Parallel()
	e := newWakeEnv(t)
	tx := e.Begin()
	e.publish(tx)
	e.sleep(e.src, adapters.Draining)
	pgtest.Must(t, tx.Commit(e.Ctx))
	e.sleep(e.src, adapters.Armed)
	// What is rolled back, by a savepoint too, neither calls nor keeps awake.
	tx = e.Begin()
	inner, err := tx.Begin(e.Ctx)
	pgtest.Must(t, err)
	e.publish(inner)
	pgtest.Must(t, inner.Rollback(e.Ctx))
	pgtest.Must(t, tx.Commit(e.Ctx))
	tx = e.Begin()
	e.publish(tx)
	pgtest.Must(t, tx.Rollback(e.Ctx))
	select {
	case <-e.src.Wake():
		t.Error("woken by what was rolled back")
	default:
	}
	e.publish(nil)
	e.woken(e.src)
}

// Other languages have the trigger, or the statement of the documentation.
func TestWakeBySQL(t *testing.T) {
	t.Parallel()
	e := newWakeEnv(t)
	_, err := postgres.InitWake(e.Ctx, e.Pool, DefaultTable)
	pgtest.Must(t, err)
	did, err := postgres.InitWake(e.Ctx, e.Pool, DefaultTable)
	pgtest.Must(t, err)
	if want := `trigger outrider_wake on "outrider_outbox" exists`; !slices.Equal(did, []string{want}) {
		t.Errorf("again: %q, want %q", did, want)
	}
	calls := e.overhear()
	e.fallAsleep(e.src)
	insert(t, e.Pool, "g", "x")
	e.woken(e.src)
	e.risen()
	insert(t, e.Pool, "g", "x")
	e.Exec("DROP TRIGGER outrider_wake ON outrider_outbox")
	e.fallAsleep(e.src)
	insert(t, e.Pool, "g", "x") // nobody calls
	e.Exec(fmt.Sprintf("SELECT pg_notify('outrider_wake', 'outrider_outbox') WHERE NOT "+
		"pg_try_advisory_xact_lock_shared(hashtextextended('outrider_outbox', %d))", int64(8031453545463114597)))
	e.woken(e.src)
	if n := calls.Load(); n > 2 {
		t.Errorf("%d notifications, want 2", n)
	}
	e.Exec(postgres.InitWakeSQL(DefaultTable)) // as printed
	e.Exec(postgres.InitWakeSQL(DefaultTable))
	e.fallAsleep(e.src)
	insert(t, e.Pool, "g", "x")
	e.woken(e.src)
}

// Two instances on one table: the lock of one serves both, and whoever relied on
// it is told when it goes.
func TestTwoReadersSleepByOneLock(t *testing.T) {
	t.Parallel()
	e := newWakeEnv(t)
	other := e.notified()
	e.fallAsleep(e.src)
	e.sleep(other, adapters.Armed)
	e.publish(nil)
	e.woken(e.src)
	e.woken(other)
	e.fallAsleep(e.src)
	e.sleep(other, adapters.Armed)
	e.src.Awake() // it found something by itself
	e.woken(other)
	e.fallAsleep(other)
	e.sleep(e.src, adapters.Armed)
	pgtest.Must(t, other.Close()) // no word
	e.risen()
	e.publish(nil) // so nobody calls
	e.woken(e.src) // it looks after the lock that it relies on
}

// risen waits until no session shows that it sleeps.
func (e *wakeEnv) risen() {
	e.T.Helper()
	for end := time.Now().Add(wakeTestPatience); e.lockOwners() > 0; {
		if time.Now().After(end) {
			e.T.Fatal("a reader that was woken still shows that it sleeps")
		}
	}
}

// lockOwners counts the sessions that show that they sleep.
func (e *wakeEnv) lockOwners() (n int) {
	e.T.Helper()
	pgtest.Must(e.T, e.Pool.QueryRow(e.Ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n))
	return n
}

// A reader whose connection breaks is woken, polls, and is notified again later.
func TestAListenerComesBack(t *testing.T) {
	t.Parallel()
	e := newWakeEnv(t)
	for range 3 {
		e.fallAsleep(e.src)
		e.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_try_advisory_lock%'`)
		e.woken(e.src) // nobody would wake it now
		e.fallAsleep(e.src)
		e.publish(nil)
		e.woken(e.src)
	}
}

// TestG13_AListenerIsBackWithTheServer however long that was away: the pauses between
// its attempts stay short, and it reads at once, because whoever committed meanwhile
// called in vain.
func TestG13_AListenerIsBackWithTheServer(t *testing.T) {
	t.Parallel()
	private := testenv.StartPostgres(t)
	pool, err := pgxpool.New(t.Context(), private.URL())
	pgtest.Must(t, err)
	t.Cleanup(pool.Close)
	_, err = Init(t.Context(), pool, "")
	pgtest.Must(t, err)
	e := &wakeEnv{sourceEnv: &sourceEnv{Env: &pgtest.Env{T: t, Ctx: context.Background(), URL: private.URL(), Pool: pool}}}
	e.client, err = outbox.NewClient(outbox.ClientConfig{Notify: true})
	pgtest.Must(t, err)
	e.src, err = New(e.Ctx, Config{URL: e.URL, Wake: wake.Notify, Logger: slog.New(slog.DiscardHandler)})
	pgtest.Must(t, err)
	attempts := make(chan time.Duration) // each continues when its pause was read
	e.src.base.Listening.Rest = func(ctx context.Context, pause time.Duration) {
		select {
		case attempts <- pause:
		case <-ctx.Done():
		}
	}
	t.Cleanup(func() { pgtest.Must(t, e.src.Close()) })
	for range 2 {
		e.woken(e.src)
		e.fallAsleep(e.src)
		private.Stop(server.Immediate)
		short := func(pause time.Duration) {
			if pause > time.Second/3 {
				t.Fatalf("it tries again after %v only", pause)
			}
		}
		for range 20 {
			short(<-attempts)
		}
		select {
		case <-e.src.Wake(): // that the connection broke
		default:
		}
		private.Start()
		const most = 6 // the connections of the pool may have broken, too
		for tries := 0; ; tries++ {
			select {
			case pause := <-attempts:
				if short(pause); tries == most {
					t.Fatalf("it did not come back in %d attempts", most)
				}
				continue
			case <-e.src.Wake():
			}
			break
		}
		e.fallAsleep(e.src)
		pool.Reset()
		e.publish(nil)
	}
	e.woken(e.src)
}

func TestWakeIsOffUnlessConfigured(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	if e.src.Wake() != nil || e.src.Sleep(t.Context()) != adapters.Unsupported {
		t.Error("a source that only polls can be woken")
	}
	e.src.Awake()
	if _, err := New(t.Context(), Config{URL: e.URL, Wake: "listen"}); err == nil || !strings.Contains(err.Error(), "WakeNotify") {
		t.Errorf("an unknown Wake: %v", err)
	}
}

// TestG1_NoMessageIsLeftToThePoll lets writers with transactions of all lengths
// publish beside a reader that polls only while it is awake: it never pauses
// by the clock once it sleeps, so what nobody calls it for is never read.
func TestG1_NoMessageIsLeftToThePoll(t *testing.T) {
	t.Parallel()
	const writers, each, enough = 8, 20, 5
	e := newWakeEnv(t)
	calls := e.overhear()
	l := e.Lanes(e.src, adapters.StartBeginning, 1000)
	var work sync.WaitGroup
	got, slept, want := map[string]bool{}, 0, 0
	next := func() int {
		rows, _, err := l.Next(e.Ctx, nil)
		pgtest.Must(t, err)
		for _, r := range rows {
			got[r.ID] = true
		}
		return len(rows)
	}
	for round := 0; round < 20 && slept < enough; round++ {
		pause := 20 * time.Millisecond << (round / 3) // on a busy machine there is seldom nothing to read
		want += writers * each
		for range writers {
			work.Go(func() { e.write(each, pause) })
		}
		for quiet := 0; len(got) < want; {
			if next() > 0 {
				quiet = 0
				continue
			}
			if quiet++; quiet < 3 || e.src.Sleep(e.Ctx) != adapters.Armed {
				continue
			}
			next() // the last look
			if slept++; len(got) < want {
				e.woken(e.src)
			}
			quiet = 0
		}
		work.Wait()
	}
	t.Logf("%d messages, slept %d times, %d notifications", len(got), slept, calls.Load())
	if slept < enough {
		t.Errorf("the reader slept %d times: nothing was tested", slept)
	}
}

// write publishes messages in transactions that stay open for up to 20 ms, of
// which some are rolled back, with pauses.
func (e *wakeEnv) write(n int, pause time.Duration) {
	for done := 0; done < n; {
		time.Sleep(rand.N(pause))
		err := pgx.BeginFunc(e.Ctx, e.Pool, func(tx pgx.Tx) error {
			e.publish(tx)
			if rand.N(3) == 0 {
				time.Sleep(rand.N(20 * time.Millisecond))
			}
			if rand.N(10) == 0 {
				return errRolledBack
			}
			return nil
		})
		if err == nil {
			done++
		} else if !errors.Is(err, errRolledBack) {
			e.T.Error(err)
			return
		}
	}
}

var errRolledBack = errors.New("rolled back")

func TestDoctorTellsWhetherNotificationsAreHeard(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	for name, tt := range map[string]struct {
		url  string
		want adapters.Level
	}{"server": {server, adapters.LevelOK}, "pooler": {pgtest.StartPooler(t, server), adapters.LevelBroken}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := pgxpool.New(t.Context(), tt.url)
			pgtest.Must(t, err)
			t.Cleanup(pool.Close)
			w := wake.New(wake.Notify, pool, nil, pgx.Identifier{"t"})
			if f := w.Examine(t.Context())[0]; f.Level != tt.want {
				t.Errorf("%v: %s; want %v", f.Level, f.Text, tt.want)
			}
		})
	}
}
