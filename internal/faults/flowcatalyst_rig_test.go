package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// flowCatalystTables is the SQL of FlowCatalyst's document, both tables.
const flowCatalystTables = `
CREATE TABLE outbox_events (
    id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL, retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP, error_message TEXT);
CREATE INDEX idx_outbox_events_status ON outbox_events(status, message_group, created_at);
CREATE TABLE outbox_dispatch_jobs (
    id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL, retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP, error_message TEXT);
CREATE INDEX idx_outbox_dispatch_jobs_status ON outbox_dispatch_jobs(status, message_group, created_at);`

// catalyst is a database with FlowCatalyst's tables.
type catalyst struct {
	*database
	client *outbox.FlowCatalyst
}

func newCatalyst(t *testing.T) *catalyst {
	t.Helper()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	client, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{})
	must(t, err)
	c := &catalyst{&database{t, url, pool}, client}
	c.exec(flowCatalystTables)
	return c
}

// item is the payload of an item, which says what its row says.
type item struct {
	Kind  string `json:"kind"`
	Group string `json:"group"` // empty: NULL
	Type  string `json:"type"`
	Ref   string `json:"ref"` // unique
}

// publish commits n items of a group of a kind, in one transaction.
func (c *catalyst) publish(ctx context.Context, kind outbox.FlowCatalystKind, group, ref string, n int) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if err := outbox.Lock(ctx, tx, string(kind)+":"+cmp.Or(group, "default")); err != nil {
			return err
		}
		items := make([]outbox.FlowCatalystItem, n)
		for i := range items {
			payload, err := json.Marshal(item{string(kind), group, "order.created", fmt.Sprint(ref, "-", i)})
			if err != nil {
				return err
			}
			items[i] = outbox.FlowCatalystItem{Kind: kind, Group: group, Payload: payload}
		}
		_, err := c.client.Publish(ctx, tx, items...)
		return err
	})
}

// fill publishes n items to each of so many groups of both kinds, and to the
// groups without a name.
func (c *catalyst) fill(ref string, groups, n int) {
	c.t.Helper()
	for _, kind := range []outbox.FlowCatalystKind{outbox.FlowCatalystEvent, outbox.FlowCatalystDispatchJob} {
		for g := range groups {
			must(c.t, c.publish(c.t.Context(), kind, fmt.Sprint("g", g), fmt.Sprint(ref, "-", kind, "-", g), n))
		}
		must(c.t, c.publish(c.t.Context(), kind, "", fmt.Sprint(ref, "-", kind), n))
	}
}

// both is the rows of both tables.
const both = "(SELECT 'EVENT' AS kind, * FROM outbox_events UNION ALL SELECT 'DISPATCH_JOB', * FROM outbox_dispatch_jobs) AS items"

// rows returns what was committed, in the order that the document defines.
func (c *catalyst) rows() []check.Row {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), `SELECT payload::json->>'ref', kind || ':' || coalesce(message_group, 'default'),
		row_number() OVER (ORDER BY created_at, id) FROM `+both)
	must(c.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Row])
	must(c.t, err)
	return out
}

// count counts the rows of both tables that meet a condition.
func (c *catalyst) count(where string) int {
	c.t.Helper()
	return one[int](c.database, "SELECT count(*) FROM "+both+" WHERE "+where)
}

// statuses counts rows by status and retries.
func (c *catalyst) statuses() string {
	c.t.Helper()
	return one[string](c.database, `SELECT coalesce(string_agg(status || '/' || retry_count || ': ' || n, ', ' ORDER BY status, retry_count), '')
		FROM (SELECT status, retry_count, count(*) AS n FROM `+both+` GROUP BY 1, 2) AS s`)
}

// config is the minimal configuration of a user, and the additions of a test.
func (c *catalyst) config(to, source string) string {
	return fmt.Sprintf(`admin: {listen: off}
lease: 5s
sources:
  app: {type: postgres, layout: flowcatalyst, url: %q, %s}
destinations:
  platform: {type: http, preset: flowcatalyst, url: %q, token: secret-token}
routes:
  outbox: {from: app, to: platform}
`, c.url, source, to)
}

// busy polls more often than once a second, for tests with many items.
const busy = "poll: {min: 5ms, max: 50ms}"

// api is a platform that records the batches that it is sent, and complains of
// what FlowCatalyst's processor would not have sent.
type api struct {
	*receiver
	refuse func([]item) int // status of a request; 0: take it
	killed bool             // the program is killed: answers to its last requests may overlap with the next one's

	amid   sync.Mutex
	now    int            // requests in flight
	most   int            // that were at once
	groups map[string]int // requests in flight by group
	sends  map[string]int // requests that an item was in
	batch  int            // items of the largest request
}

func newAPI(t *testing.T, refuse func([]item) int) *api {
	t.Helper()
	a := &api{refuse: refuse, groups: map[string]int{}, sends: map[string]int{}}
	a.receiver = receiveWith(t, a.serve)
	return a
}

func (a *api) serve(r *receiver, w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var items []item
	if err != nil || json.Unmarshal(body, &items) != nil || len(items) == 0 {
		w.WriteHeader(http.StatusBadRequest) // cut off by a kill, or doctor's
		return
	}
	group := a.examine(r, req, items)
	a.enter(group, items)
	pause(req.Context(), time.Millisecond)
	status := http.StatusOK
	if a.refuse != nil {
		status = cmp.Or(a.refuse(items), status)
	}
	if status == http.StatusOK && req.Context().Err() == nil {
		taken := make([]payload, len(items))
		for i, it := range items {
			taken[i] = payload{ID: it.Ref, Group: group}
		}
		r.take(taken)
	}
	a.leave(group)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "the platform says no") // of no meaning with 200
}

// examine checks a request and returns its group.
func (a *api) examine(r *receiver, req *http.Request, items []item) string {
	path := map[string]string{"EVENT": "/api/events/batch", "DISPATCH_JOB": "/api/dispatch/jobs/batch"}[items[0].Kind]
	if req.Method != http.MethodPost || req.URL.Path != path || req.Header.Get("Authorization") != "Bearer secret-token" ||
		req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s %s with %v holds items of kind %s", req.Method, req.URL, req.Header, items[0].Kind)
	}
	for _, it := range items {
		if it.Group != items[0].Group || it.Kind != items[0].Kind {
			r.t.Errorf("a request holds items of %s:%s and %s:%s", items[0].Kind, items[0].Group, it.Kind, it.Group)
		}
	}
	return items[0].Kind + ":" + cmp.Or(items[0].Group, "default")
}

func (a *api) enter(group string, items []item) {
	a.amid.Lock()
	defer a.amid.Unlock()
	a.now++
	a.most = max(a.most, a.now)
	a.batch = max(a.batch, len(items))
	if a.groups[group]++; a.groups[group] > 1 && !a.killed {
		a.t.Errorf("group %s has %d requests at once", group, a.groups[group])
	}
	for _, it := range items {
		a.sends[it.Ref]++
	}
}

func (a *api) leave(group string) {
	a.amid.Lock()
	defer a.amid.Unlock()
	a.now--
	a.groups[group]--
}

// sent returns how often items were sent, sorted, without repetitions.
func (a *api) sent(which func(ref string) bool) []int {
	a.amid.Lock()
	defer a.amid.Unlock()
	var out []int
	for ref, n := range a.sends {
		if which(ref) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// compare wants everything delivered in order, and returns the report.
func (c *catalyst) compare(a *api) check.Report {
	c.t.Helper()
	report := check.Compare(c.rows(), a.all()...)
	c.t.Log(report)
	if !report.Clean() {
		c.t.Errorf("not clean: %v", report)
	}
	return report
}
