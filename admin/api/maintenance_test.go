package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// What the command line does to routes and tables as a whole, the API does, too.
func TestTheAPIRebasesForgetsAndRemoves(t *testing.T) {
	t.Parallel()
	const keys = ", retention: {keep: 0s, every: 24h}" // the relay looks once, before there is anything
	for name, open := range map[string]func(*testing.T) *site{
		"sqlite":   func(t *testing.T) *site { return onSQLiteWith(t, keys) },
		"postgres": func(t *testing.T) *site { return onPostgresWith(t, keys) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i := range 3 {
				s.publish(fmt.Sprint("m-", i), `{"customer": "kind"}`)
			}
			s.until("all are settled", func() bool {
				_, route := s.ask("read", "GET", "/routes/orders", "")
				return s.took.Load() == 3 && route["behind"] == 0.0
			})
			testRebase(t, s)
			testForget(t, s)
			testMaintenance(t, s)
			testRetention(t, s)
		})
	}
}

func testRebase(t *testing.T, s *site) {
	t.Helper()
	for _, c := range []struct {
		status      int
		token, body string
	}{
		{403, "operate", `{}`}, {422, "admin", `{"force": true, "adopt": true}`},
		{409, "admin", `{}`}, {409, "admin", `{"adopt": true}`}, // the cursor is good, and the table's own
	} {
		s.refused(c.status, c.token, "POST", "/routes/orders/rebase", c.body)
	}
	s.refused(http.StatusNotFound, "admin", "POST", "/routes/none/rebase", `{}`)
	s.want("admin", "POST", "/routes/orders/rebase", `{"force": true, "dry_run": true}`, `"applied":false`, `"route":"orders"`)
	if n := s.count(fmt.Sprintf(auditSQL, "rebase")); n != 0 {
		t.Errorf("a dry run is audited %d times", n)
	}
	s.want("admin", "POST", "/routes/orders/rebase", `{"force": true, "by": "alice"}`, `"applied":true`, `"skipped":0`)
	if n := s.count(fmt.Sprintf(auditSQL, "rebase")); n != 1 {
		t.Errorf("%d audit records of the rebase", n)
	}
	s.refused(http.StatusConflict, "admin", "POST", "/routes/orders/seek", `{"to": "offsets"}`) // which such a table does not have
}

func testForget(t *testing.T, s *site) {
	t.Helper()
	const kept = `SELECT count(*) FROM outrider_pause WHERE route = 'gone'`
	s.count(`INSERT INTO outrider_pause (route, address, reason, by, at) SELECT 'gone', '', 'why', 'alice', updated_at FROM outrider_cursor WHERE updated_at IS NOT NULL LIMIT 1 RETURNING 1`)
	s.refused(http.StatusForbidden, "operate", "POST", "/routes/gone/forget", `{}`)
	s.refused(http.StatusNotFound, "admin", "POST", "/routes/none/forget", `{}`)
	s.refused(http.StatusConflict, "admin", "POST", "/routes/orders/forget", `{}`)
	s.want("admin", "POST", "/routes/orders/forget", `{"force": true, "dry_run": true}`, `"lanes":16`, `"applied":false`)
	s.want("admin", "POST", "/routes/gone/forget", `{"dry_run": true}`, `"pauses":1`, `"applied":false`)
	if s.count(kept) != 1 {
		t.Error("a dry run, or a refused request, has forgotten something")
	}
	s.want("admin", "POST", "/routes/gone/forget", `{"by": "alice"}`, `"pauses":1`, `"applied":true`)
	if n := s.count(kept); n != 0 || s.count(fmt.Sprintf(auditSQL, "forget")) != 1 {
		t.Errorf("%d pauses are left, or it was not audited", n)
	}
}

func testMaintenance(t *testing.T, s *site) {
	t.Helper()
	s.refused(http.StatusForbidden, "read", "GET", "/doctor", "")
	s.want("operate", "GET", "/doctor", "", `"part":"source app"`, `"part":"destination hook"`, `"part":"route orders"`, `"broken":0`)
	for source, items := range map[string]int{"app": 3, "orders": 3, "app&types=other.*": 0, "app&limit=1": 1} {
		if n := len(s.want("read", "GET", "/tail?source="+source, "")["items"].([]any)); n != items {
			t.Errorf("the tail of %s has %d rows, want %d", source, n, items)
		}
	}
	s.want("read", "GET", "/tail?source=app", "", `"id":"m-2"`, `"type":"order.created"`, `"payload_bytes":20`)
	s.refused(http.StatusNotFound, "read", "GET", "/tail?source=none", "")
	s.refused(http.StatusUnprocessableEntity, "read", "GET", "/tail", "")
	s.refused(http.StatusUnprocessableEntity, "read", "GET", "/tail?source=app&types=%5B", "")
	s.want("read", "GET", "/version", "", `"version":`, `"go":`)
}

func testRetention(t *testing.T, s *site) {
	t.Helper()
	const rows = `SELECT count(*) FROM outrider_outbox`
	s.until("all are settled where the cursor was rebased to", func() bool {
		report, _ := json.Marshal(s.want("read", "GET", "/retention", "", `"removed":false`, `"source":"app"`))
		return strings.Contains(string(report), `"rows":3`)
	})
	s.refused(http.StatusForbidden, "operate", "POST", "/retention", "")
	if n := s.count(rows); n != 3 {
		t.Fatalf("%d rows are left after they were only counted", n)
	}
	s.want("admin", "POST", "/retention", "", `"removed":true`, `"rows":3`, `"more":false`)
	if n := s.count(rows); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if n := s.count(fmt.Sprintf(namelessSQL, "remove old rows") + ` AND changed = 3`); n != 1 {
		t.Errorf("%d audit records of 3 removed rows", n)
	}
	s.want("admin", "POST", "/retention", "", `"removed":true`, `"rows":0`)
	if n := s.count(fmt.Sprintf(namelessSQL, "remove old rows")); n != 1 {
		t.Errorf("%d audit records, one of them of nothing", n)
	}
}
