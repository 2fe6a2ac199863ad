package interleave_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/internal/testenv"
)

// queueTables are the tables of the scenarios: FlowCatalyst's, whose rows are marked as being processed.
var queueTables = []layout.Table{{Name: events, Kind: "EVENT"}}

// claimerNames are the sessions with a queue. Another takes all that is claimed for stuck, and so does the drainer.
var claimerNames = []string{relayA, relayB, another, operator, drainer}

// atOnce has every claim count as stuck.
const atOnce = time.Nanosecond

// queueDatabase makes a database with a queue table.
func queueDatabase(t *testing.T) string {
	t.Helper()
	url := testenv.Postgres(t)
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	must(t, err)
	defer pool.Close()
	_, err = queuetable.Init(ctx, pool, *layout.FlowCatalyst().Queue, true, queueTables...)
	must(t, err)
	_, err = pool.Exec(ctx, "CREATE TABLE sink (id text NOT NULL)")
	must(t, err)
	return url
}

// queueWorld opens claimers on such a database. What they know of their claims is new in each run.
func queueWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	ctx := context.Background()
	db, err := openPostgres(url)
	must(t, err)
	w := newWorld(ctx, url, db)
	w.mutant = m
	t.Cleanup(w.close)
	for _, name := range append([]string{publisher}, claimerNames...) {
		_, err := w.newSession(name)
		must(t, err)
	}
	w.open = func(url string, timeout time.Duration) (adapters.OperatorQueue, error) {
		return queuetable.New(ctx, queuetable.Config{URL: url, Tables: queueTables, Layout: *layout.FlowCatalyst().Queue, Timeout: timeout, Logger: quiet})
	}
	w.reset = func() error {
		if _, err := db.admin.Exec(ctx, "DELETE FROM "+events+"; DELETE FROM sink"); err != nil {
			return err
		}
		return w.openClaimers()
	}
	w.count = db.count
	w.insert = func(id string) string {
		return fmt.Sprintf(`INSERT INTO %s (id, type, message_group, payload, status, created_at) VALUES ('%s', 'EVENT', '%s', '{"type":"t"}', 'PENDING', clock_timestamp())`, events, id, id[:1])
	}
	w.put = func(id string) error { return w.exec(drainer, w.insert(id)) }
	w.exec = w.sqlOf(map[string]*pgx.Conn{})
	w.closers = append(w.closers, w.closeClaimers)
	return w
}

// openClaimers opens new queues for a run.
func (w *world) openClaimers() error {
	if err := w.closeClaimers(); err != nil {
		return err
	}
	w.claimers = map[string]*claimer{}
	for _, name := range claimerNames {
		c := &claimer{w: w, name: name, limit: 4, retakes: name == another || name == drainer}
		timeout := time.Duration(0)
		if c.retakes {
			timeout = atOnce
		}
		var err error
		if c.q, err = w.open(w.session(name).url, timeout); err != nil {
			return err
		}
		w.claimers[name] = c
	}
	return nil
}

func (w *world) closeClaimers() error {
	for _, c := range w.claimers {
		if err := c.q.Close(); err != nil {
			return err
		}
	}
	w.claimers = nil
	return nil
}
