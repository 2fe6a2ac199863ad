package queuetable

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// frameworkDocument is the definition in the outbox framework's document, as it stands.
var frameworkDocument = []string{`CREATE TABLE outbox_event (
  event_id VARCHAR(36) PRIMARY KEY,
  event_type VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64),
  aggregate_id VARCHAR(128),
  tenant_id VARCHAR(64),
  payload JSON NOT NULL,
  headers JSON,
  status TINYINT NOT NULL,
  attempts INT NOT NULL DEFAULT 0,
  available_at DATETIME(6) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  done_at DATETIME(6),
  last_error TEXT
);`, `CREATE INDEX idx_status_available ON outbox_event(status, available_at, created_at);`}

// framework is a database with the document's table.
func framework(t *testing.T) *env {
	t.Helper()
	p := layout.OutboxFramework()
	e := newEnv(t, *p.Queue, p.Queue.Tables...)
	for _, statement := range frameworkDocument {
		e.exec(statement)
	}
	return e
}

// TestTheFrameworksTableAsItsDocumentHasIt: after init the application writes and reads it as before, and rows become as the framework leaves them.
func TestTheFrameworksTableAsItsDocumentHasIt(t *testing.T) {
	t.Parallel()
	e := framework(t)
	e.init()
	e.exec(`INSERT INTO outbox_event VALUES ('1', 'UserCreated', 'User', '17', 'acme', '{"n": 1}', '{"k": "v"}', 0, 0, UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, UTC_TIMESTAMP(6), NULL, NULL),
		('2', 'UserCreated', 'User', '18', NULL, '{"n": 2}', NULL, 2, 3, UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, UTC_TIMESTAMP(6), NULL, 'timeout'),
		('3', 'UserCreated', 'User', '19', NULL, '{"n": 3}', NULL, 0, 9, UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, UTC_TIMESTAMP(6), NULL, NULL)`)
	q := e.open()
	must(t, q.Check(t.Context()))
	rows := e.claim(q, 10)
	slices.SortFunc(rows, func(a, b *adapters.Row) int { return strings.Compare(a.ID, b.ID) })
	if len(rows) != 3 || rows[0].Group != "User:17" || rows[0].Type != "UserCreated" || rows[0].Headers["k"] != "v" || rows[1].Claim.Attempts != 3 {
		t.Fatalf("claimed %+v", rows)
	}
	results := delivered(rows...)
	results[1].Attempts = rows[1].Claim.Attempts
	results[2].Outcome, results[2].Attempts, results[2].Error = outbox.OutcomeDead, 10, "refused"
	if lost, err := q.Settle(t.Context(), results); err != nil || len(lost) > 0 {
		t.Fatalf("%d claims were lost, %v", len(lost), err)
	}
	all, err := e.db.QueryContext(t.Context(), "SELECT * FROM outbox_event")
	must(t, err)
	defer func() { _ = all.Close() }() // Err returns the error
	columns, err := all.Columns()
	must(t, err)
	must(t, all.Err())
	if len(columns) != 13 {
		t.Errorf("SELECT * shows the columns %v, want the document's 13", columns)
	}
	for id, want := range map[string]string{"1": "1 0 done", "2": "1 3 done timeout", "3": "3 9 refused"} {
		var got string
		must(t, e.db.QueryRowContext(t.Context(), "SELECT concat_ws(' ', status, attempts, if(abs(timestampdiff(SECOND, done_at, UTC_TIMESTAMP())) < 60, 'done', NULL), last_error) "+
			"FROM outbox_event WHERE event_id = ?", id).Scan(&got))
		if got != want {
			t.Errorf("row %s is %q, want %q", id, got, want)
		}
	}
}

// TestPayloadsOfTheTypeJSON: MariaDB keeps their bytes. MySQL writes them anew, which doctor says.
func TestPayloadsOfTheTypeJSON(t *testing.T) {
	t.Parallel()
	const payload = `{"b" : 1.50,  "a": "é 😀"}`
	e := framework(t)
	e.exec("INSERT INTO outbox_event (event_id, event_type, payload, status, available_at, created_at) VALUES ('1', 'x', ?, 0, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))", payload)
	e.init()
	q := e.open()
	rows := e.claim(q, 10)
	if len(rows) != 1 {
		t.Fatalf("claimed %d rows", len(rows))
	}
	kept := string(rows[0].Payload) == payload
	said := slices.ContainsFunc(q.Examine(t.Context()), func(f adapters.Finding) bool { return strings.Contains(f.Text, "which MySQL writes anew") })
	if kept == said {
		t.Errorf("the payload is %s, and whether doctor warns of it: %t", rows[0].Payload, said)
	}
}

// originals is how many rows the original's claim finds and locks.
func originals(t *testing.T, tx *sql.Tx, most int) (n int) {
	t.Helper()
	rows, err := tx.Query("SELECT id FROM outbox_events WHERE status = 'PENDING' ORDER BY message_group, created_at LIMIT ? FOR UPDATE SKIP LOCKED", most)
	must(t, err)
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		n++
	}
	must(t, rows.Err())
	return n
}

// TestG13_AClaimLocksOnlyItsRows: while it holds its locks others claim every other row by the original's statement, and write rows of the same groups.
func TestG13_AClaimLocksOnlyItsRows(t *testing.T) {
	t.Parallel()
	const n, limit = 90, 10
	e := document(t)
	e.tables = e.tables[:1]
	var rows []adaptertest.QueueRow
	for i := range n {
		rows = append(rows, event(fmt.Sprintf("%013d", i), fmt.Sprint("g", i%9), born.Add(time.Duration(i)*time.Second)))
	}
	e.insert(rows...)
	q := e.open()
	free := -1
	req := everything(limit)
	req.Match = func(*adapters.Row) bool { // the claim has locked its rows, and reads them
		if free < 0 {
			tx, err := e.db.BeginTx(context.Background(), nil)
			must(t, err)
			defer func() { must(t, tx.Rollback()) }()
			free = originals(t, tx, n)
			_, err = tx.Exec("SET SESSION innodb_lock_wait_timeout = 1")
			must(t, err)
			for i := range 9 {
				_, err := tx.Exec("INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES (?, 'EVENT', ?, '{}', 'PENDING', ?)",
					fmt.Sprint("new", i), fmt.Sprint("g", i), born)
				must(t, err)
			}
		}
		return true
	}
	claimed, err := q.Claim(t.Context(), req)
	must(t, err)
	if len(claimed) != limit || free != n-limit {
		t.Errorf("claimed %d rows, and others could have claimed %d meanwhile, want %d and %d", len(claimed), free, limit, n-limit)
	}
}
