package faults_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
)

// liteQueue is a queue table in a SQLite file.
type liteQueue struct {
	source    string // keys of the source other than type and path
	create    string // empty: `outrider init` does
	insert    string // of key, group and payload, created now
	done      string // finishes a row that waits, as another program would
	rows      string // id, group and position of each row, if no other process changed it
	unsettled string // counts what is not done
}

// now is the time with digits that no other row has.
const now = `strftime('%Y-%m-%dT%H:%M:%f', 'now') || printf('%06dZ', (SELECT coalesce(max(rowid), 0) + 1 FROM {t}) % 1000000)`

var liteQueues = map[string]liteQueue{
	"outbox-framework": {
		source: "layout: outbox-framework",
		insert: `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, attempts, available_at, created_at)
SELECT ?1, 'jobs', 'User', ?2, ?3, 0, 0, at, at FROM (SELECT ` + strings.ReplaceAll(now, "{t}", "outbox_event") + ` AS at)`,
		done:      `UPDATE outbox_event SET status = 1, done_at = created_at WHERE event_id = ?1 AND status IN (0, 2)`,
		rows:      `SELECT event_id, aggregate_id, row_number() OVER (ORDER BY created_at, event_id) FROM outbox_event WHERE event_id NOT LIKE 'f-%'`,
		unsettled: `SELECT count(*) FROM outbox_event WHERE status <> 1 OR done_at IS NULL OR last_error IS NOT NULL OR attempts <> 0`,
	},
	"talkie": {
		source: "layout: talkie",
		insert: `INSERT INTO outbox (idempotency_key, topic, key, payload_json, created_at, next_attempt_at)
SELECT ?1, 'jobs', ?2, ?3, at, at FROM (SELECT ` + strings.ReplaceAll(now, "{t}", "outbox") + ` AS at)`,
		done:      `UPDATE outbox SET status = 'published', published_at = created_at WHERE idempotency_key = ?1 AND status = 'pending'`,
		rows:      `SELECT idempotency_key, key, row_number() OVER (ORDER BY created_at, id) FROM outbox WHERE idempotency_key NOT LIKE 'f-%'`,
		unsettled: `SELECT count(*) FROM outbox WHERE status <> 'published' OR published_at IS NULL OR last_error IS NOT NULL OR retry_count <> 0`,
	},
	"custom": {
		source: `layout: custom, table: Jobs, queue: {key: id, type: kind, payload: body, status: state, created: made, claimed: taken, group: client,
    attempts: tries, statuses: {pending: "new", processing: "busy", done: "sent", dead: "gone"}}`,
		create:    `CREATE TABLE Jobs (id text PRIMARY KEY, kind text, client text, body text, state text DEFAULT 'new', tries int DEFAULT 0, made datetime, taken datetime)`,
		insert:    `INSERT INTO Jobs (id, kind, client, body, made) SELECT ?1, 'jobs', ?2, ?3, ` + strings.ReplaceAll(now, "{t}", "Jobs"),
		done:      `UPDATE Jobs SET state = 'sent' WHERE id = ?1 AND state = 'new'`,
		rows:      `SELECT id, client, row_number() OVER (ORDER BY made, id) FROM Jobs WHERE id NOT LIKE 'f-%'`,
		unsettled: `SELECT count(*) FROM Jobs WHERE state <> 'sent' OR tries <> 0`,
	},
}

// TestG1_G2_SQLiteQueuesKilledAtEveryStep kills the program at each step between the claim of a row and its settlement,
// while an application writes and another hand finishes some of the rows.
func TestG1_G2_SQLiteQueuesKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, q := range liteQueues {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "app.db")
			db, err := sqlite.Open(path)
			must(t, err)
			t.Cleanup(func() { must(t, db.Close()) })
			if q.create != "" {
				_, err = db.Exec(q.create)
				must(t, err)
			}
			to := receive(t, nil)
			config := fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: sqlite, path: %q, %s,\n    %s, claims: {timeout: 1s, recover: 1s}}\n"+
				"destinations: {out: {type: http, url: %q}}\nroutes: {outbox: {from: app, to: out}}\n", path, q.source, busy, to.url())
			initialise(t, config)
			stop := q.writeEvery(t, db, 50*time.Millisecond)
			defer stop()
			points := []failpoint.Point{failpoint.Fetched, failpoint.BeforeSend, failpoint.AfterSend, failpoint.BeforeSettle, failpoint.InSettle, failpoint.AfterSettle}
			kills := killAtEach(t, points, to, func(env string) *relay { return startWith(t, config, env) })
			stop()
			r := start(t, config)
			r.says("msg=ready")
			r.until("delivered and settled everything", func() bool {
				var n int
				must(t, db.QueryRow(q.unsettled).Scan(&n))
				return n == 0
			})
			r.stop()
			var rows []check.Row
			found, err := db.Query(q.rows)
			must(t, err)
			defer func() { must(t, found.Close()) }()
			for found.Next() {
				var row check.Row
				must(t, found.Scan(&row.ID, &row.Group, &row.Position))
				rows = append(rows, row)
			}
			must(t, found.Err())
			streams := to.all()
			for i := range streams {
				streams[i] = slices.DeleteFunc(slices.Clone(streams[i]), func(d check.Delivery) bool { return strings.HasPrefix(d.ID, "f-") })
			}
			report := check.Compare(rows, streams...)
			t.Logf("%d kills: %v", kills, report)
			if !report.Clean() || report.Committed == 0 || report.Duplicates > kills*1000 {
				t.Errorf("not clean: %v", report)
			}
		})
	}
}

// writeEvery publishes into twenty groups until it is stopped. Some rows are finished by hand in the next transaction.
func (q *liteQueue) writeEvery(t *testing.T, db *sql.DB, d time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := q.publish(db, fmt.Sprint("g", rand.IntN(20)), fmt.Sprint("w", w, "-", n), 1+rand.IntN(8)); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				if _, err := db.Exec(q.done, fmt.Sprint("f-w", w, "-", n)); err != nil {
					t.Errorf("another hand: %v", err)
					return
				}
				pause(ctx, d)
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}

// publish commits n rows of a group, and one before them that another hand finishes, in one transaction.
func (q *liteQueue) publish(db *sql.DB, group, ref string, n int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	ids := []string{"f-" + ref}
	for i := range n {
		ids = append(ids, fmt.Sprint(ref, "-", i))
	}
	for _, id := range ids {
		if _, err := tx.Exec(q.insert, id, group, fmt.Sprintf(`{"id": %q, "group": %q}`, id, group)); err != nil {
			return err
		}
	}
	return tx.Commit()
}
