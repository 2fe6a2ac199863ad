package wake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// patience bounds waits for what must happen.
const patience = 20 * time.Second

// walEnv is a server of the test's own: the WAL is that of all databases.
type walEnv struct {
	t      *testing.T
	server *testenv.PostgresServer
	pool   *pgxpool.Pool
	log    lockedBuffer
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWALEnv(t *testing.T) *walEnv {
	t.Helper()
	e := &walEnv{t: t, server: testenv.StartPostgres(t)}
	e.pool = e.as("postgres")
	e.exec("CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text)")
	return e
}

// as returns connections of a role.
func (e *walEnv) as(role string) *pgxpool.Pool {
	e.t.Helper()
	u, err := url.Parse(e.server.URL())
	e.must(err)
	u.User = url.User(role)
	pool, err := pgxpool.New(e.t.Context(), u.String())
	e.must(err)
	e.t.Cleanup(pool.Close)
	return pool
}

func (e *walEnv) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *walEnv) exec(sql string) {
	e.t.Helper()
	_, err := e.pool.Exec(context.Background(), sql)
	e.must(err)
}

func (e *walEnv) text(sql string) (out string) {
	e.t.Helper()
	e.must(e.pool.QueryRow(e.t.Context(), sql).Scan(&out))
	return out
}

func (e *walEnv) waker(mode Mode, pool *pgxpool.Pool) *Waker {
	e.t.Helper()
	w := New(mode, pool, slog.New(slog.NewTextHandler(&e.log, &slog.HandlerOptions{Level: slog.LevelDebug})), pgx.Identifier{"t"})
	w.Rest = func(ctx context.Context, _ time.Duration) { pauseFor(ctx, 50*time.Millisecond) }
	w.silence = 200 * time.Millisecond
	w.Wake()
	e.t.Cleanup(w.Stop)
	return w
}

func (e *walEnv) until(what string, holds func() bool) {
	e.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("not within %v: %s; log:\n%s", patience, what, e.log.String())
		}
	}
}

func (e *walEnv) woken(w *Waker) {
	e.t.Helper()
	select {
	case <-w.Wake():
	case <-time.After(patience):
		e.t.Fatalf("not woken within %v; log:\n%s", patience, e.log.String())
	}
}

// quiet waits until nothing has woken the reader for a while.
func (e *walEnv) quiet(w *Waker) {
	for {
		select {
		case <-w.Wake():
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

// Every commit wakes a reader that follows the WAL, of whoever and after any loss of the connection, and the server keeps nothing for it.
func TestCommitsWakeAFollower(t *testing.T) {
	t.Parallel()
	e := newWALEnv(t)
	w := e.waker(Replication, e.pool)
	commit := func() {
		e.until("the WAL is followed", w.Follows)
		e.quiet(w)
		e.exec("INSERT INTO t (payload) VALUES ('x')")
		e.woken(w)
	}
	for range 5 {
		commit()
	}
	if got := e.text("SELECT string_agg(application_name || ' ' || sync_state, ',') FROM pg_stat_replication"); got != walApplication+" async" {
		t.Errorf("standbys %q", got)
	}
	if got := e.text("SELECT count(*)::text FROM pg_replication_slots"); got != "0" {
		t.Errorf("%s replication slots, want none", got)
	}
	e.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
	e.until("the loss is noticed", func() bool { return strings.Contains(e.log.String(), "level=WARN") })
	commit()
	e.server.Stop(server.Fast) // ends: a follower says what it has received
	e.until("the loss is noticed", func() bool { return !w.Follows() })
	e.server.Start()
	e.pool.Reset()
	commit()
	w.Stop()
	e.until("no connection is left", func() bool { return e.text("SELECT count(*)::text FROM pg_stat_replication") == "0" })
	if w.Follows() {
		t.Error("the WAL is followed after the end")
	}
}

// A follower never counts as a synchronous standby: a commit that waits for one waits on.
func TestAFollowerIsNoStandby(t *testing.T) {
	t.Parallel()
	e := newWALEnv(t)
	w := e.waker(Replication, e.pool)
	e.until("the WAL is followed", w.Follows)
	for _, names := range []string{"*", `"outrider wake"`, `ANY 1 ("outrider wake")`, "FIRST 1 (*)", "ANY 1 (*)"} {
		e.exec("ALTER SYSTEM SET synchronous_standby_names = " + quote(names))
		e.exec("SELECT pg_reload_conf()")
		e.until("the setting holds", func() bool { return e.text("SHOW synchronous_standby_names") == names })
		conn, err := pgx.Connect(t.Context(), e.server.URL())
		e.must(err)
		pid, acknowledged := conn.PgConn().PID(), new(atomic.Int64)
		ctx, cancel := context.WithCancel(t.Context())
		var committing sync.WaitGroup
		committing.Go(func() { // the first ones may come before the setting holds
			for ctx.Err() == nil {
				if _, err := conn.Exec(ctx, "INSERT INTO t (payload) VALUES ('x')"); err == nil {
					acknowledged.Add(1)
				}
			}
		})
		e.until("a commit waits", func() bool {
			return e.text(fmt.Sprintf("SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = %d", pid)) == "SyncRep"
		})
		before := acknowledged.Load()
		e.woken(w)                          // by its WAL, which is flushed
		time.Sleep(1500 * time.Millisecond) // the follower has told what it received
		if after := acknowledged.Load(); after != before {
			t.Errorf("%s: %d commits were acknowledged though no standby has them", names, after-before)
		}
		cancel()
		committing.Wait()
		e.exec("ALTER SYSTEM RESET synchronous_standby_names")
		e.exec("SELECT pg_reload_conf()")
		e.must(conn.Close(context.Background()))
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// What a role may not, and what others need, is said with what to do; the reader polls, or is notified where the tables have the trigger.
func TestWhoMayNotFollowIsToldWhy(t *testing.T) {
	t.Parallel()
	e := newWALEnv(t)
	e.exec("CREATE ROLE plain LOGIN")
	e.exec("GRANT SELECT ON t TO plain")
	plain := e.as("plain")
	find := func(mode Mode) adapters.Finding {
		found := New(mode, plain, slog.New(slog.DiscardHandler), pgx.Identifier{"t"}).Examine(t.Context())
		if len(found) != 1 {
			t.Fatalf("findings %v, want one", found)
		}
		return found[0]
	}
	expect := func(mode Mode, level adapters.Level, want ...string) {
		t.Helper()
		f := find(mode)
		text := f.Text + " | " + f.Fix
		for _, part := range want {
			if f.Level != level || !strings.Contains(text, part) {
				t.Errorf("wake: %s: level %v, %q, want level %v, %q", mode, f.Level, text, level, part)
			}
		}
	}
	expect(Replication, adapters.LevelBroken, `role "plain" may not read the WAL`, `ALTER ROLE "plain" REPLICATION; or set wake: auto`)
	expect(Auto, adapters.LevelOK, "none, new rows are found by polling", `ALTER ROLE "plain" REPLICATION`, "outrider init --notify")
	strict, auto := e.waker(Replication, plain), e.waker(Auto, plain)
	e.until("a warning", func() bool { return strings.Contains(e.log.String(), "level=WARN") })
	if n := strings.Count(e.log.String(), "level=WARN"); n != 1 || strict.Follows() || auto.Follows() {
		t.Errorf("%d warnings, want one of wake: replication; followed %v, %v", n, strict.Follows(), auto.Follows())
	}
	e.exec("CREATE FUNCTION outrider_wake() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
	e.exec("CREATE TRIGGER outrider_wake AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION outrider_wake()")
	expect(Auto, adapters.LevelOK, "by notifications of the tables' triggers")
	e.until("notifications are heard", func() bool { return auto.Sleep(t.Context()) == adapters.Armed })
	e.exec("ALTER ROLE plain REPLICATION")
	e.until("the WAL is followed", func() bool { return strict.Follows() && auto.Follows() })
	const expected = "by replication: each commit wakes the relay, whoever publishes"
	expect(Auto, adapters.LevelOK, expected)
	expect(Replication, adapters.LevelOK, "by replication: each commit wakes the relay")
	for range 3 { // of max_wal_senders, 10
		e.waker(Replication, e.pool)
	}
	e.until("five follow", func() bool {
		return e.text("SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'") == "5"
	})
	expect(Replication, adapters.LevelBroken, "max_wal_senders (10)", "raise max_wal_senders")
	late := e.waker(Replication, e.pool)
	e.until("a warning of one that comes too late", func() bool { return strings.Count(e.log.String(), "level=WARN") == 2 })
	if f := auto.Examine(t.Context())[0]; f.Text != expected || late.Follows() {
		t.Errorf("of one that follows: %q, want %q; followed by the sixth: %v", f.Text, expected, late.Follows())
	}
}

// A refusal that passes when the server has started is a lost connection, which is made again soon; others are not tried again at once.
func TestWhatAServerThatRefusesMeans(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"57P03": "", "57P01": "", // it starts, it stops
		"28000": "pg_hba.conf has no line", "53300": "too many clients already", "08P01": "not to a pooler",
	} {
		err := replicationRefused(&senders{role: "r", most: 10}, &pgconn.PgError{Severity: "FATAL", Code: code, Message: "too many clients already"})
		no, is := errors.AsType[*refused](err)
		if is != (want != "") || is && !strings.Contains(no.Error(), want) {
			t.Errorf("code %s: %v, want %q", code, err, want)
		}
	}
}

// A server that writes much WAL is not asked to send it all: the reader polls meanwhile, and follows again later.
func TestMuchWALIsNotFollowed(t *testing.T) {
	t.Parallel()
	e := newWALEnv(t)
	w := e.waker(Auto, e.pool)
	e.until("the WAL is followed", w.Follows)
	e.until("no more", func() bool {
		e.exec("INSERT INTO t (payload) SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
		return strings.Contains(e.log.String(), "more than 4 MiB of WAL in a second")
	})
	e.until("it is followed again", w.Follows)
	if strings.Contains(e.log.String(), "level=WARN") {
		t.Errorf("warnings:\n%s", e.log.String())
	}
}
