package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters/sqlite"
)

// With 500 routes status fits on a screen: what needs attention, the worst first, and
// how many are ok.
func TestStatusOfManyRoutesIsReadable(t *testing.T) {
	t.Parallel()
	const routes = 500
	var text strings.Builder
	text.WriteString("destinations:\n  nowhere: {type: discard}\nroutes:\n")
	for i := range routes {
		fmt.Fprintf(&text, "  r%03d: {from: app, to: nowhere, match: {types: [t%d]}}\n", i, i)
	}
	s := newSite(t, text.String())
	s.must("init")
	db, err := sqlite.Open(s.db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // read by the commands in connections of their own
	for _, sql := range []string{
		`INSERT INTO outrider_instance (id, lease_until, joined_at) VALUES ('relay', (unixepoch() + 3600) * 1000000, unixepoch() * 1000000)`,
		`WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 499), s(m) AS (SELECT 0 UNION ALL SELECT m + 1 FROM s WHERE m < 15)
INSERT INTO outrider_cursor (route, slot, owner, epoch, updated_at) SELECT printf('r%03d', n), m, 'relay', 1, unixepoch() * 1000000 FROM r, s`,
		`INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, next_attempt_at, last_error, event_id, event_type, position, metadata, payload, parked_at)
VALUES ('r400', 3, 1, 'g', 'dead', 10, NULL, 'no such customer', 'e1', 't', 1, '{}', '1', unixepoch() * 1000000),
       ('r450', 3, 1, 'g', 'held', 10, NULL, 'no such customer', 'e2', 't', 1, '{}', '1', unixepoch() * 1000000)`,
	} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.must("pause", "r123", "--wait=0s")
	out := s.must("status")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) > 24 || !strings.HasPrefix(lines[0], "ROUTE") || !strings.Contains(out, "and 497 routes ok: --all lists them") {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
	var listed []string
	for _, line := range lines[1:4] {
		name, _, _ := strings.Cut(line, " ")
		listed = append(listed, name)
	}
	var all struct {
		Status []struct {
			Route string `json:"route"`
			State string `json:"state"`
		} `json:"status"`
	}
	if err := json.Unmarshal([]byte(s.must("status", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	var first []string
	for _, r := range all.Status[:min(3, len(all.Status))] {
		first = append(first, r.Route)
		if r.State == "ok" {
			t.Errorf("route %s is ok and among the first", r.Route)
		}
	}
	if len(all.Status) != routes || fmt.Sprint(listed) != fmt.Sprint(first) {
		t.Errorf("%d routes; the table lists %v, the worst are %v", len(all.Status), listed, first)
	}
	if n := strings.Count(s.must("status", "--all"), "\nr"); n < routes {
		t.Errorf("--all lists %d routes", n)
	}
	if out := s.must("status", "r4*", "--state", "ok"); strings.Contains(out, "r400") || !strings.Contains(out, "r499") {
		t.Errorf("a pattern and a state list\n%s", out)
	}
}
