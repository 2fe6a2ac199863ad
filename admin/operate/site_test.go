package operate_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
)

// site is an operator of a relay that does not run, with a source of each kind: a log table, a queue and one without a table. All of it
// is in one SQLite file.
type site struct {
	t  *testing.T
	op *operate.Operator
	db *sql.DB
}

// micros is the present in the state tables' unit.
const micros = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"

// newSite returns a site whose routes have the cursor 2 of 5 rows in each lane, three dead messages and one that waits for a retry, and
// whose queue has two dead rows and one that waits.
func newSite(t *testing.T) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "site.db")
	cfg, err := outrider.ParseConfig("site.yaml", fmt.Appendf(nil, `
state: {url: %q}
sources:
  app: {type: sqlite, path: %q}
  jobs: {type: sqlite, path: %q, layout: talkie}
  calls: {type: http, listen: "127.0.0.1:1"}
destinations: {nowhere: {type: discard}, bus: {type: kafka, brokers: ["127.0.0.1:1"], topic: "shop.{{.Type}}"}}
routes:
  orders: {from: app, to: nowhere}
  whole: {from: app, to: nowhere, order: global}
  bus: {from: app, to: bus, match: {types: ["order.*"]}}
  work: {from: jobs, to: nowhere}
  calls: {from: calls, to: nowhere}
`, path, path, path))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	s := &site{t: t}
	s.db, err = sqlite.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, s.db.Close()) })
	s.op, err = operate.NewOperator(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, s.op.Close()) })
	for i := 1; i <= 5; i++ {
		s.exec("INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES (?, 'order.created', 'g', '{}')", fmt.Sprint("e", i))
	}
	for slot := range 16 {
		s.exec("INSERT INTO outrider_cursor (route, slot, position, updated_at) VALUES ('orders', ?, 2, "+micros+")", slot)
	}
	for i := 1; i <= 4; i++ {
		status := "dead"
		if i == 4 {
			status = "retrying"
		}
		s.exec(`INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, last_error, event_id, event_type, position, metadata, payload, parked_at)
VALUES ('orders', 3, ?, 'g' || ?, ?, 9, 'status 500 of http://u:pw@h/x: no', 'p' || ?, 't', ?, '{}', '', `+micros+")", i, i, status, i, i)
	}
	for i := 1; i <= 3; i++ {
		status := "dead_lettered"
		if i == 3 {
			status = "pending"
		}
		s.exec(`INSERT INTO outbox (topic, key, payload_json, status, retry_count) VALUES ('t', 'k', '{}', ?, 5)`, status)
	}
	return s
}

func (s *site) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.db.ExecContext(s.t.Context(), statement, args...)
	must(s.t, err)
}

// count is the number that a query has.
func (s *site) count(query string) (n int) {
	s.t.Helper()
	must(s.t, s.db.QueryRowContext(s.t.Context(), query).Scan(&n))
	return n
}

// audited checks the audit log: action, author and number of each record, the oldest first.
func (s *site) audited(want ...string) {
	s.t.Helper()
	records, _, err := s.op.Audit(context.WithoutCancel(s.t.Context()), "", 100)
	must(s.t, err)
	var got []string
	for _, r := range records {
		got = append([]string{fmt.Sprintf("%s by %s: %d", r.Action, r.By, r.Changed)}, got...)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		s.t.Errorf("the audit log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// refuses checks that a command fails with a text, and what it does not allow is a refusal of the kind wanted.
func refuses[E error](t *testing.T, name string, err error, want string) {
	t.Helper()
	var kind E
	if !asError(err, &kind) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v (%T), want a %T with %q", name, err, err, kind, want)
	}
}
