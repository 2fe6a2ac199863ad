package interleave_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// Instances of the scenarios. The last one is no session: it comes when they are over.
const (
	relayA    = "a"
	relayB    = "b"
	publisher = "publisher"
	another   = "another" // publisher
	operator  = "operator"
	drainer   = "drainer"
)

// group is the ordering key of all rows, so that they are in one lane.
const group = "g"

// rowsOfRead is how many rows a read returns at most: fewer than there may be.
const rowsOfRead = 2

// quiet is a log of connections that the scheduler cuts.
var quiet = slog.New(slog.DiscardHandler)

// logDatabase makes a database with an outbox and state tables.
func logDatabase(t *testing.T) string {
	t.Helper()
	url := testenv.Postgres(t)
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	must(t, err)
	defer pool.Close()
	_, err = owntable.Init(ctx, pool, "")
	must(t, err)
	// A deadlock is found while no other session goes on, and plans are those of large tables.
	_, err = pool.Exec(ctx, `CREATE TABLE sink (id text NOT NULL);
DO $$ DECLARE s text; BEGIN
    FOREACH s IN ARRAY ARRAY['deadlock_timeout = ''20ms''', 'enable_hashjoin = off', 'enable_mergejoin = off', 'enable_seqscan = off'] LOOP
        EXECUTE format('ALTER DATABASE %I SET ', current_database()) || s;
    END LOOP;
END $$`)
	must(t, err)
	store, err := statestore.New(ctx, statestore.Config{URL: url})
	must(t, err)
	must(t, store.Migrate(ctx))
	must(t, store.Close())
	return url
}

// logReset empties all tables, and lets all instances live.
//
// Settles go aside when cursor rows move to other pages: in an empty table they do not.
const logReset = `TRUNCATE outrider_cursor, outrider_settled, outrider_outbox; DELETE FROM outrider_parked; DELETE FROM outrider_pause;
DELETE FROM outrider_audit; DELETE FROM sink; UPDATE outrider_instance SET lease_until = now() + interval '1 hour'`

// logWorld opens relays on such a database.
func logWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	ctx := context.Background()
	db, err := openPostgres(url)
	must(t, err)
	w := newWorld(ctx, url, db)
	w.mutant, w.relays = m, map[string]*relay{}
	t.Cleanup(w.close)
	var slot int
	must(t, db.admin.QueryRow(ctx, "SELECT (hashtextextended($1, 0) & 15)::int", group).Scan(&slot))
	for _, name := range []string{relayA, relayB, publisher, another, operator, drainer} {
		s, err := w.newSession(name)
		must(t, err)
		address := s.url
		store, err := statestore.New(ctx, statestore.Config{URL: address, Logger: quiet})
		must(t, err)
		src, err := owntable.New(ctx, owntable.Config{URL: address, Logger: quiet})
		must(t, err)
		w.closers = append(w.closers, store.Close, src.Close)
		r := &relay{w: w, name: name, store: store, slot: slot, source: src, read: func(ctx context.Context, from adapters.Cursor) (got reading, err error) {
			results, err := src.Fetch(ctx, []adapters.Read{{Slot: slot, From: from, Limit: rowsOfRead}}, func(_ int, row *adapters.Row) bool {
				got.ids = append(got.ids, row.ID)
				return true
			})
			if len(got.ids) > rowsOfRead {
				w.fault("a read of %d rows returned %v", rowsOfRead, got.ids)
			}
			if err == nil {
				got.next, got.drained = results[0].Next, results[0].Drained
			}
			return got, err
		}}
		r.table, err = src.Table(ctx)
		must(t, err)
		w.relays[name] = r
		if name == relayA || name == relayB || name == drainer {
			must(t, store.Join(ctx, name, lease))
		}
	}
	w.reset = func() (err error) {
		if _, err = db.admin.Exec(ctx, logReset); err == nil {
			w.start, err = w.relays[drainer].source.Start(ctx, adapters.Start{Kind: adapters.StartBeginning})
		}
		return err
	}
	w.count = db.count
	w.put = func(id string) error { return w.exec(drainer, insert(id)) }
	w.endLease = "UPDATE outrider_instance SET lease_until = '-infinity' WHERE id = '%s'"
	w.exec = w.sqlOf(map[string]*pgx.Conn{})
	return w
}

// sqlOf runs SQL in sessions of PostgreSQL, each over a connection that it keeps.
func (w *world) sqlOf(conns map[string]*pgx.Conn) func(name string, statements ...string) error {
	return func(name string, statements ...string) (err error) {
		conn := conns[name]
		if conn == nil || conn.IsClosed() {
			if conn, err = pgx.Connect(w.ctx, w.session(name).url); err != nil {
				return err
			}
			conns[name] = conn
			w.closers = append(w.closers, func() error { return conn.Close(w.ctx) })
		}
		for _, statement := range statements {
			if _, err := conn.Exec(w.ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	}
}

// close ends all sessions.
func (w *world) close() {
	close(w.closing)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, _, moving := w.moving(); !moving {
			break
		}
	}
	for _, f := range w.closers {
		_ = f() // the server ends what is left
	}
	for _, s := range w.sessions {
		s.close()
	}
	w.db.close()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
