package interleave_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	mysqlqueue "github.com/outriderhq/outrider/adapters/mysql/queuetable"
	mysqlstate "github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// queueTables are the tables of the scenarios: FlowCatalyst's, whose rows are marked as being processed.
var queueTables = []layout.Table{{Name: events, Kind: "EVENT"}}

// queueLayout is their layout.
var queueLayout = *layout.FlowCatalyst().Queue

// insertEvent publishes a row there, at a time.
const insertEvent = "INSERT INTO " + events + ` (id, type, message_group, payload, status, created_at) VALUES ('%s', 'EVENT', '%s', '{"type":"t"}', 'PENDING', `

// quiet is a log of connections that the scheduler cuts.
var quiet = slog.New(slog.DiscardHandler)

// pooled opens a database for its setup.
func pooled(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// logDatabase makes a database with an outbox and state tables. A deadlock is found while no other session goes on, and plans are those of
// large tables.
func logDatabase(t *testing.T) string {
	t.Helper()
	return logDatabaseOf(t, owntable.Init)
}

// partDatabase is one whose outbox has partitions.
func partDatabase(t *testing.T) string {
	t.Helper()
	return logDatabaseOf(t, func(ctx context.Context, pool *pgxpool.Pool, table string) ([]string, error) {
		return owntable.InitPartitioned(ctx, pool, table, rowsOfPart)
	})
}

// repeatable is a database in which transactions have another isolation level, unless they say which.
func repeatable(database func(t *testing.T) string) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		url := database(t)
		_, err := pooled(t, url).Exec(context.Background(),
			`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = "repeatable read"', current_database()); END $$`)
		must(t, err)
		return url
	}
}

func logDatabaseOf(t *testing.T, init func(ctx context.Context, pool *pgxpool.Pool, table string) ([]string, error)) string {
	t.Helper()
	url, ctx := testenv.Postgres(t), context.Background()
	pool := pooled(t, url)
	_, err := init(ctx, pool, "")
	must(t, err)
	_, err = pool.Exec(ctx, `CREATE TABLE sink (id text NOT NULL);
DO $$ DECLARE s text; BEGIN
    FOREACH s IN ARRAY ARRAY['deadlock_timeout = ''20ms''', 'enable_hashjoin = off', 'enable_mergejoin = off', 'enable_seqscan = off'] LOOP
        EXECUTE format('ALTER DATABASE %I SET ', current_database()) || s;
    END LOOP;
END $$`)
	must(t, err)
	migrate(t)(statestore.New(ctx, statestore.Config{URL: url}))
	return url
}

// migrate makes the tables of a state store.
func migrate(t *testing.T) func(store adapters.OperatorStore, err error) {
	return func(store adapters.OperatorStore, err error) {
		t.Helper()
		must(t, err)
		must(t, store.Migrate(context.Background()))
		must(t, store.Close())
	}
}

// cleanState empties the tables of a state store. In PostgreSQL settles go aside when cursor rows move to other pages: in an empty table
// they do not.
var cleanState = []string{"DELETE FROM outrider_parked", "DELETE FROM outrider_pause", "DELETE FROM outrider_audit", "TRUNCATE outrider_cursor"}

// logWorld opens relays on such a database.
func logWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := newWorld(t, url, m)
	w.group, w.insert = group, "INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ('%s', 't', '%s', '1')"
	w.endLease = "UPDATE outrider_instance SET lease_until = '-infinity' WHERE id = '%s'"
	w.clean = append(slices.Clone(cleanState), "TRUNCATE outrider_settled, outrider_outbox", "DELETE FROM sink",
		"UPDATE outrider_instance SET lease_until = now() + interval '1 hour'")
	w.fresh = func() (err error) {
		w.start, err = w.relays[drainer].source.Start(w.ctx, adapters.Start{Kind: adapters.StartBeginning})
		return err
	}
	w.keepState(t, func(url string) (adapters.OperatorStore, error) {
		return statestore.New(w.ctx, statestore.Config{URL: url, Logger: quiet})
	})
	var slot int
	must(t, w.sql.QueryRow("SELECT (hashtextextended($1, 0) & 15)::int", group).Scan(&slot))
	for name, r := range w.relays {
		src, err := owntable.New(w.ctx, owntable.Config{URL: w.session(name).url, Logger: quiet})
		must(t, err)
		w.closers = append(w.closers, src.Close)
		r.slot, r.source, r.read = slot, src, r.readTable
		r.table, err = src.Table(w.ctx)
		must(t, err)
	}
	return w
}

// keepState opens the state stores of all sessions.
func (w *world) keepState(t *testing.T, open func(url string) (adapters.OperatorStore, error)) {
	t.Helper()
	for name, r := range w.relays {
		var err error
		r.store, err = open(w.session(name).url)
		must(t, err)
		w.closers = append(w.closers, r.store.Close)
		if name == relayA || name == relayB || name == drainer {
			must(t, r.store.Join(w.ctx, name, lease))
		}
	}
	fresh := w.fresh
	w.fresh = func() error {
		err := fresh()
		for name, r := range w.relays {
			if r.owns, r.lane = false, (adapters.LaneState{}); name == relayA || name == relayB || name == drainer {
				_, renewErr := again(func() (map[adapters.LaneRef]adapters.LaneMark, error) { return r.store.Renew(w.ctx, name, lease) }) // it may have been removed
				err = errors.Join(err, renewErr)
			}
		}
		return err
	}
}

// queueDatabase makes a database with a queue table.
func queueDatabase(t *testing.T) string {
	t.Helper()
	url := testenv.Postgres(t)
	_, err := queuetable.Init(context.Background(), pooled(t, url), queueLayout, true, queueTables...)
	must(t, err)
	return url
}

// queueWorld opens queues on such a database.
func queueWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := newWorld(t, url, m)
	w.insert = insertEvent + "clock_timestamp())"
	w.claimFrom(func(url string, timeout time.Duration) (adapters.OperatorQueue, error) {
		return queuetable.New(w.ctx, queuetable.Config{URL: url, Tables: queueTables, Layout: queueLayout, Timeout: timeout, Logger: quiet})
	})
	return w
}

// claimFrom opens the queues of all sessions for each run: what they know of their claims is new in each. Another takes all that is claimed
// for stuck, and so does the drainer.
func (w *world) claimFrom(open func(url string, timeout time.Duration) (adapters.OperatorQueue, error)) {
	shut := func() (err error) {
		for _, r := range w.relays {
			if r.queue != nil {
				err = errors.Join(err, r.queue.Close())
			}
		}
		return err
	}
	w.closers, w.clean = append(w.closers, shut), append(w.clean, "DELETE FROM "+events)
	w.fresh = func() error {
		err := shut()
		for name, r := range w.relays {
			if r.queue = nil; name == publisher {
				continue
			}
			timeout := time.Duration(0)
			if r.retakes = name == another || name == drainer; r.retakes {
				timeout = time.Nanosecond
			}
			q, openErr := open(w.session(name).url, timeout)
			if err = errors.Join(err, openErr); openErr == nil {
				r.queue, r.limit, r.held = q, 4, nil
			}
		}
		return err
	}
}

// mariadbDatabase starts a server, with a queue table and state tables.
func mariadbDatabase(t *testing.T) string {
	t.Helper()
	url, ctx := testenv.StartMariaDB(t, "innodb_flush_log_at_trx_commit=0").Database(), context.Background()
	db, err := openSQL(url)
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = mysqlqueue.Init(ctx, db, queueLayout, true, queueTables...)
	must(t, err)
	migrate(t)(mysqlstate.New(ctx, mysqlstate.Config{URL: url}))
	return url
}

// mariadbStateWorld has relays with their state store there. The rows are in memory, and all visible.
func mariadbStateWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := newWorld(t, url, m)
	w.group, w.endLease = group, "UPDATE outrider_instance SET lease_until = 0 WHERE id = '%s'"
	w.clean = append(slices.Clone(cleanState[:3]), "DELETE FROM outrider_cursor", "UPDATE outrider_instance SET lease_until = 4000000000000000")
	var mu sync.Mutex
	var rows []string
	w.fresh = func() error {
		rows = nil
		return nil
	}
	w.keepState(t, func(url string) (adapters.OperatorStore, error) {
		return mysqlstate.New(w.ctx, mysqlstate.Config{URL: url, Logger: quiet})
	})
	for _, r := range w.relays {
		r.table, r.read = adapters.Table{Name: "memory"}, func(_ context.Context, from adapters.Cursor) (got reading, _ error) {
			mu.Lock()
			defer mu.Unlock()
			last := min(int(from.Position)+rowsOfRead, len(rows))
			return reading{ids: rows[from.Position:last], next: adapters.Cursor{Position: int64(last)}, drained: last == len(rows)}, nil
		}
	}
	w.put = func(id string) error {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, id)
		return nil
	}
	return w
}

// mariadbQueueWorld has queues there.
func mariadbQueueWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := newWorld(t, url, m)
	w.insert = insertEvent + "NOW(6))"
	w.claimFrom(func(url string, timeout time.Duration) (adapters.OperatorQueue, error) {
		return mysqlqueue.New(mysqlqueue.Config{URL: url, Tables: queueTables, Layout: queueLayout, Timeout: timeout, Logger: quiet})
	})
	return w
}

// asideWorld is one whose relays have settled beside an old snapshot until their settles went aside, which they do for minutes.
func asideWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	if briefly() {
		t.Skip("it takes seconds until settles go aside; make interleave waits for it")
	}
	w := logWorld(t, url, m)
	must(t, w.begin(&scenario{setup: free()}))
	must(t, w.exec(operator, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM outrider_cursor"))
	for _, name := range []string{relayA, relayB} {
		r, began := w.relays[name], time.Now()
		must(t, acquire(r))
		for aside := 0; aside == 0; {
			for range 100 {
				must(t, settlesCursor(r))
			}
			var err error
			aside, err = w.count("outrider_settled")
			if must(t, err); time.Since(began) > time.Minute {
				t.Fatal("settles do not go aside")
			}
		}
		must(t, release(r))
		must(t, w.exec(drainer, "DELETE FROM outrider_settled"))
	}
	must(t, w.exec(operator, "COMMIT"))
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
