package console

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/testenv"
)

// kennel is a watchdog with a clock of its own, and what a relay would have written, by hand.
type kennel struct {
	t       *testing.T
	c       *Console
	w       *watchdog
	now     time.Time
	log     bytes.Buffer
	lanes   []adapters.LaneState
	store   adapters.OperatorStore
	src     adapters.OperatorSource
	exec    func(sql string, args ...any)
	down    []adapters.AddressStatus
	resumed time.Time
	name    string // of the process
}

const watchedRoutes = `
routes:
  orders: {from: app, to: log, match: {types: ["order.*"]}}
`

func newKennel(t *testing.T, source string, exec func(string, ...any)) *kennel {
	t.Helper()
	k := &kennel{t: t, now: time.Now(), exec: exec}
	cfg, err := config.Parse("test", []byte("admin: {listen: off}\nsources: {app: "+source+"}\ndestinations: {log: {type: log}}\n"+watchedRoutes), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&k.log, nil))
	k.c = NewConsole(Relay{Config: func() *config.Config { return cfg }, Options: assembly.OptionsOf(nil), Instance: func() string { return k.name },
		Stats: func() []adapters.RouteStats {
			return []adapters.RouteStats{{Route: "orders", Down: k.down, Resumed: k.resumed}}
		}})
	t.Cleanup(func() {
		if err := k.c.Close(); err != nil {
			t.Error(err)
		}
	})
	k.w = newWatchdog(time.Minute, log)
	return k
}

// own has an instance own all lanes of the route, with cursors at the beginning.
func (k *kennel) own() {
	k.t.Helper()
	k.must(k.c.Use(k.t.Context(), func(op *operate.Operator) error {
		f, err := op.Open(k.t.Context(), "app")
		if err != nil {
			return err
		}
		k.src = f.Source
		if k.store, err = op.Store(k.t.Context(), "orders"); err != nil {
			return err
		}
		ctx := k.t.Context()
		if err := k.store.Migrate(ctx); err != nil {
			return err
		}
		if err := k.store.Join(ctx, "a", time.Hour); err != nil {
			return err
		}
		k.t.Cleanup(func() { k.must(k.store.Leave(context.WithoutCancel(ctx), "a")) })
		slots := make([]int, adapters.Slots)
		for i := range slots {
			slots[i] = i
		}
		k.lanes, err = k.store.Acquire(ctx, "a", "orders", slots, len(slots))
		return err
	}))
	k.settle(adapters.StartBeginning)
}

// settle moves all cursors.
func (k *kennel) settle(to adapters.StartKind) {
	k.t.Helper()
	c, err := k.src.Start(k.t.Context(), adapters.Start{Kind: to})
	k.must(err)
	table, err := k.src.Table(k.t.Context())
	k.must(err)
	var all []adapters.Settlement
	for i := range k.lanes {
		l := &k.lanes[i]
		l.Revision++
		all = append(all, adapters.Settlement{LaneRef: l.LaneRef, Epoch: l.Epoch, Cursor: c, NextSeq: 1, Table: table, Revision: l.Revision})
	}
	fenced, err := k.store.Settle(k.t.Context(), all)
	k.must(err)
	if len(fenced) > 0 {
		k.t.Fatalf("%d lanes are fenced", len(fenced))
	}
}

func (k *kennel) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// after checks when some time has passed, and compares what is overdue: rows and cause, or nothing.
func (k *kennel) after(d time.Duration, want string) {
	k.t.Helper()
	k.now = k.now.Add(d)
	k.w.check(k.t.Context(), k.c, k.now)
	got := ""
	if o := k.w.overdue("orders"); o != nil {
		got = fmt.Sprintf("%d %s", o.Rows, o.Cause)
	}
	if got != want {
		k.t.Errorf("overdue: %q, want %q; log: %s", got, want, k.log.String())
	}
}

func (k *kennel) publish(typ string, n int) {
	k.t.Helper()
	for i := range n {
		k.exec(fmt.Sprintf(`INSERT INTO outrider_outbox (type, payload, message_group) VALUES ('%s', '{}', 'g%d')`, typ, i))
	}
}

func kennels(t *testing.T, test func(*kennel)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "app.db")
		test(newKennel(t, fmt.Sprintf("{type: sqlite, path: %q}", path), func(sql string, args ...any) {
			t.Helper()
			db, err := sqlite.Open(path)
			if err == nil {
				_, err = db.ExecContext(t.Context(), sql, args...)
				_ = db.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testenv.Postgres(t)
		test(newKennel(t, fmt.Sprintf("{type: postgres, url: %q}", url), onPostgres(t, url)))
	})
}

func onPostgres(t *testing.T, url string) func(string, ...any) {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
}

// A row that was visible for longer than the limit and is not settled is told, with its cause; whoever has settled it, it is forgotten.
func TestG13_TheWatchdogFindsWhatIsNotSettled(t *testing.T) {
	kennels(t, func(k *kennel) {
		k.own()
		k.publish("order.created", 3)
		k.publish("other", 2) // no route wants them
		k.after(0, "")
		k.after(59*time.Second, "")
		k.after(2*time.Second, "3 stuck")
		k.after(30*time.Second, "3 stuck")
		k.after(31*time.Second, "3 stuck")
		if n := strings.Count(k.log.String(), "nothing explains it"); n != 2 {
			k.t.Errorf("logged %d times within 62 s: %s", n, k.log.String())
		}
		k.down = []adapters.AddressStatus{{Address: "x"}}
		k.after(time.Second, "3 address_unavailable")
		k.down = nil
		k.settle(adapters.StartEnd)
		k.after(time.Second, "")
		if !strings.Contains(k.log.String(), "has settled what was overdue") {
			k.t.Errorf("the end is not logged: %s", k.log.String())
		}
		k.publish("order.paid", 1)
		k.after(time.Second, "")
		k.after(61*time.Second, "1 stuck")
		k.settle(adapters.StartBeginning) // a seek: all of it has to be settled again, from now on
		k.after(time.Second, "")
		k.after(59*time.Second, "")
		k.after(2*time.Second, "4 stuck")
	})
}

// Nothing is told of a route that an operator has paused, nor of rows that nobody could have settled.
func TestTheWatchdogIsSilentWhileNothingIsDue(t *testing.T) {
	kennels(t, func(k *kennel) {
		k.own()
		k.after(0, "")
		k.after(61*time.Second, "")
		k.publish("order.created", 2)
		k.exec(`INSERT INTO outrider_pause (route, address, reason, by, at) SELECT 'orders', '', 'maintenance', 'alice', updated_at FROM outrider_cursor LIMIT 1`)
		k.after(time.Second, "")
		k.after(2*time.Minute, "")
		k.exec(`DELETE FROM outrider_pause`)
		k.after(time.Second, "") // it has been resumed just now
		k.after(59*time.Second, "")
		k.after(2*time.Second, "2 stuck")
		k.resumed = k.now.Add(30 * time.Second) // after a pause that no check has seen
		k.after(61*time.Second, "")
		k.after(30*time.Second, "2 stuck")
	})
}

// What another live instance owns is watched there, where it is known which addresses are down; when it is gone, anybody may say so.
func TestTheWatchdogLeavesOthersLanesToThem(t *testing.T) {
	kennels(t, func(k *kennel) {
		k.name = "b"
		k.own() // by a
		k.publish("order.created", 2)
		k.after(0, "")
		k.after(2*time.Minute, "")
		k.after(2*time.Minute, "")
		k.must(k.store.Leave(k.t.Context(), "a"))
		k.after(time.Second, "")
		k.after(61*time.Second, "2 no_owner")
		k.must(k.store.Join(k.t.Context(), "a", time.Hour)) // the test's end has it leave
	})
}

// Checks are work for the database, so the watchdog rests after them; but one that got no answer does not blind it.
func TestTheWatchdogRestsAndIsNotBlinded(t *testing.T) {
	t.Parallel()
	w := newWatchdog(time.Minute, nil)
	for took, want := range map[time.Duration]time.Duration{time.Millisecond: 30 * time.Second, 2 * time.Second: 200 * time.Second, watchPatience: 10 * time.Minute} {
		if got := w.rest(took); got != want {
			t.Errorf("after a check of %v it rests for %v, want %v", took, got, want)
		}
	}
}

// A paused group explains nothing about the others of its route.
func TestTheWatchdogWatchesARouteWithAPausedGroup(t *testing.T) {
	kennels(t, func(k *kennel) {
		k.own()
		_, err := k.store.Pause(k.t.Context(), adapters.Pause{Route: "orders", Group: "g7", By: "alice"})
		k.must(err)
		k.publish("order.created", 2)
		k.after(0, "")
		k.after(61*time.Second, "2 stuck")
	})
}

// Rows that the route does not want do not hide one that comes to stand before them, late.
func TestG1_G13_TheWatchdogLooksAgainBeforeRowsThatNobodyWants(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	k := newKennel(t, fmt.Sprintf("{type: postgres, url: %q}", url), onPostgres(t, url))
	k.own()
	other := onPostgres(t, url)
	other("BEGIN")
	other(`INSERT INTO outrider_outbox (type, payload, message_group) VALUES ('order.late', '{}', 'g')`)
	k.exec(`INSERT INTO outrider_outbox (type, payload, message_group) SELECT 'other', '{}', 'g' FROM generate_series(1, 500)`)
	k.after(0, "")
	for range 3 {
		k.after(61*time.Second, "")
	}
	other("COMMIT")
	for range 4 { // what is behind, the end, the beginning when it is due
		k.now = k.now.Add(61 * time.Second)
		k.w.check(t.Context(), k.c, k.now)
	}
	k.after(time.Second, "1 stuck")
}

// A row counts from the time at which it became visible, also when it is committed late, below the cursor.
func TestG1_G13_TheWatchdogFindsWhatWasCommittedLate(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	k := newKennel(t, fmt.Sprintf("{type: postgres, url: %q}", url), onPostgres(t, url))
	k.own()
	other := onPostgres(t, url)
	other("BEGIN")
	other(`INSERT INTO outrider_outbox (type, payload, message_group) VALUES ('order.late', '{}', 'g0')`)
	k.publish("order.created", 4)
	k.settle(adapters.StartEnd) // above the late row, which its snapshot does not show
	k.after(0, "")
	k.after(61*time.Second, "")
	k.after(61*time.Second, "")
	other("COMMIT")
	k.after(time.Second, "")
	k.after(59*time.Second, "")
	k.after(2*time.Second, "1 stuck")
	k.settle(adapters.StartEnd)
	k.after(time.Second, "")
}

// A row of a queue that waits unchanged is told, unless one before it in its group explains that.
func TestG13_TheWatchdogFindsWhatIsNotClaimed(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	k := newKennel(t, fmt.Sprintf("{type: postgres, url: %q, layout: flowcatalyst}", url), onPostgres(t, url))
	insert := func(id, group, status, typ string) {
		k.exec(`INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES ($1, 'EVENT', $2, $3, $4, now()::timestamp)`,
			id, group, fmt.Sprintf(`{"type": %q}`, typ), status)
	}
	insert("u", "h", "PENDING", "other")
	insert("a", "g", "PROCESSING", "order.created")
	insert("b", "g", "PENDING", "order.created")
	k.after(0, "")
	k.after(61*time.Second, "") // b waits behind a, and no route wants u
	k.exec(`UPDATE outbox_events SET status = 'COMPLETED' WHERE id = 'a'`)
	k.after(time.Second, "1 no_owner")
	k.exec(`UPDATE outbox_events SET processed_at = now()::timestamp WHERE id = 'b'`) // somebody was there
	k.after(time.Second, "")
	k.after(61*time.Second, "1 no_owner")
	k.exec(`INSERT INTO outrider_pause (route, address, message_group, reason, by) VALUES ('orders', 'group EVENT:g', 'EVENT:g', '', 'alice')`)
	k.after(time.Second, "") // it waits for alice
	k.exec(`DELETE FROM outrider_pause`)
	k.after(2*time.Minute, "") // it is found that alice has let go
	k.after(59*time.Second, "")
	k.after(2*time.Second, "1 no_owner")
	k.exec(`UPDATE outbox_events SET status = 'COMPLETED' WHERE id = 'b'`)
	k.after(time.Second, "")
}
