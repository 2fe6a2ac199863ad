package faults_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// grafanaDashboard is the file that operators import.
const grafanaDashboard = "../../deploy/grafana/outrider.json"

// panel is what a dashboard has of a panel.
type panel struct {
	ID    int    `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
	Grid  struct {
		X int `json:"x"`
		W int `json:"w"`
	} `json:"gridPos"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// queueRelay makes what no outage does: a queue table, retention, and messages that are skipped.
func queueRelay(t *testing.T, m *monitoring) {
	t.Helper()
	db, to := newDatabase(t), receive(t, nil)
	file := writeConfig(t, fmt.Sprintf(`
admin: {listen: "127.0.0.1:0"}
sources:
  app: {type: postgres, url: %[1]q, poll: {max: 50ms}, retention: {mode: delete, keep: 24h}}
  queue: {type: postgres, url: %[1]q, layout: flowcatalyst}
destinations: {there: {type: http, url: %[2]q}}
routes:
  twice: {from: app, to: there, middleware: [dedupe: 1h, poison, retry]}
  work: {from: queue, to: there}
`, db.url, to.url()))
	text, err := os.ReadFile(file)
	must(t, err)
	t.Log(command(t, "init", "-c", file))
	m.scrape(start(t, string(text)))
	for range 2 {
		db.exec(`INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ('same', 'order.created', 'g', '{"id":"same"}')`)
	}
	db.exec(`INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES ('e', 'EVENT', 'g', '{"type":"t"}', 'PENDING', now())`)
	until(t, "both are delivered, and counted", func() bool {
		var found struct{ Result []any }
		err := m.get(t, "/api/v1/query", url.Values{"query": {`outrider_skipped_total > 0 and on (instance) outrider_delivered_total{route="work"} > 0`}}, &found)
		return err == nil && len(found.Result) > 0
	})
}

func unixTime(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// checkDashboard runs each query of the dashboard over the time of the outages: all have something to show.
func checkDashboard(t *testing.T, m *monitoring) {
	t.Helper()
	queueRelay(t, m)
	text, err := os.ReadFile(grafanaDashboard)
	must(t, err)
	var d struct {
		Panels []panel `json:"panels"`
	}
	must(t, json.Unmarshal(text, &d))
	variables := strings.NewReplacer("$job", "outrider", "$instance", ".*", "$route", ".*", "$__rate_interval", "10s")
	asked, ids := 0, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Grid.X+p.Grid.W > 24 || p.Grid.W == 0 || p.Title == "" {
			t.Errorf("panel %d %q has the id of another, no place, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q has %d queries", p.Title, len(p.Targets))
		}
		for _, q := range p.Targets {
			asked++
			query := url.Values{"query": {variables.Replace(q.Expr)}, "start": {unixTime(time.Now().Add(-measured))}, "step": {"1s"}}
			until(t, fmt.Sprintf("panel %q shows something: %s", p.Title, query.Get("query")), func() bool {
				var found struct{ Result []struct{ Values [][2]any } }
				query.Set("end", unixTime(time.Now()))
				must(t, m.get(t, "/api/v1/query_range", query, &found))
				for _, r := range found.Result {
					if slices.ContainsFunc(r.Values, func(v [2]any) bool { return v[1] != "NaN" }) {
						return true
					}
				}
				return false
			})
		}
	}
	t.Logf("%d queries of %d panels have series", asked, len(d.Panels))
	if asked < 40 {
		t.Errorf("only %d queries", asked)
	}
}
