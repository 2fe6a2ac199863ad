package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/outriderhq/outrider"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/admin/api"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/web"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/testenv"
)

// sizesEnv has the sizes of the test below: parked messages, routes, paused addresses. The sizes
// that Outrider is to hold are 5000000,1000,10000; seeding them takes minutes.
const sizesEnv = "OUTRIDER_TEST_SIZES"

// sizesURLEnv has the URL of a database for the test below. If it is empty the test fills it; it stays for later runs.
const sizesURLEnv = "OUTRIDER_TEST_SIZES_URL"

// parkedRowsSQL parks messages: 4 of 5 are dead; 200 failures of 40 types, one of 1,000 messages fails in a way of its own.
const parkedRowsSQL = `
INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, next_attempt_at, last_error, event_id, event_type, position, metadata, payload, failure)
SELECT 'r' || i %% %[2]d, (i / %[2]d) %% 16, i, 'g' || i %% 100000, (ARRAY['retrying', 'dead', 'dead', 'dead', 'dead'])[1 + i %% 5], 3, now(),
    'http://h' || i %% 5 || '.example/x answers 422: customer ' || i || ' is unknown', 'e' || i, 't' || i %% 40, i, '{}', '{"customer": 1}',
    CASE WHEN i %% 1000 = 0 THEN i ELSE (i %% 200)::bigint * 100000000 + 1 END
FROM generate_series(1, %[1]d) AS i`

// fill makes a state of the sizes that a test asks for.
func fill(t *testing.T, conn *pgx.Conn, parked, routes, addresses int) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(fmt.Sprintf(`INSERT INTO outrider_outbox (type, payload, message_group) SELECT 't' || i %% %d, '{}', 'g' || i FROM generate_series(1, 20000) AS i`, routes))
	exec(fmt.Sprintf(`INSERT INTO outrider_cursor (route, slot, position, snapshot, updated_at, owner)
		SELECT 'r' || r, s, 15000 + r %% 5000, pg_current_snapshot()::text, now(), 'a' FROM generate_series(0, %d - 1) AS r, generate_series(0, 15) AS s`, routes))
	exec(`INSERT INTO outrider_instance (id, lease_until) VALUES ('a', now() + interval '1 day')`)
	exec(fmt.Sprintf(`INSERT INTO outrider_pause (route, address, reason, by) SELECT 'r' || i %% %d, 'http://h' || i || '.example/', '410', 'a' FROM generate_series(1, %d) AS i`, routes, addresses))
	exec(fmt.Sprintf(parkedRowsSQL, parked, routes))
	exec(fmt.Sprintf(`INSERT INTO outrider_audit (by, action, filter, changed) SELECT 'alice', 'redrive', '{"route": "r7"}', i FROM generate_series(1, %d) AS i`, parked/50))
	exec(fmt.Sprintf(`INSERT INTO outrider_operation (id, kind, subject, place, rate, by, state, total, done, created_at, updated_at, ended_at)
		SELECT 'O' || lpad(i::text, 25, '0'), 'redrive', '{"filter": {"Route": "r7"}}', '{}', 0, 'alice', 'done', i, 0, t, now(), t FROM generate_series(1, %d) AS i, now() AS t`, parked/500))
	for _, table := range []string{"outrider_parked", "outrider_cursor", "outrider_outbox", "outrider_pause", "outrider_audit", "outrider_operation"} {
		exec("VACUUM ANALYZE " + table)
	}
}

// sizedPaths are those of all that the API reads and the pages show. Those that look for text in errors, or that count what all
// routes have, take as long as there are messages, but no longer than a limit: they are not among them.
func sizedPaths() []string {
	var paths []string
	for _, path := range []string{
		"/routes", "/routes?limit=1000", "/routes?state=dead", "/routes?after=r500", "/routes/r7", "/sources", "/destinations", "/lanes", "/lanes?limit=1000", "/lanes?route=r7", "/instances", "/config",
		"/audit", "/audit?limit=1000", "/audit?before=77", "/operations", "/operations?limit=1000", "/operations?active=true", "/operations?after=O0000000000000000000000020", "/operations/O0000000000000000000000007",
		"/parked", "/parked?limit=1000", "/parked?route=r7", "/parked?status=dead", "/parked?status=retrying", "/parked?status=held", "/parked?status=retrying&limit=1000&after=r7/3/1000", "/parked?route=r7&status=dead&type=t7", "/parked?id=e777",
		"/parked?route=r7&group=g7", "/parked?route=r7&error=customer+777", "/parked?route=r7&before=2000-01-01T00:00:00Z", "/parked?after=r7/3/1000&limit=500", "/parked/r7/0/7", "/parked/r7/0/7?payload=true",
		"/failures", "/failures?route=r7", "/parked?route=r2&failure=000000000bebc201", "/events/e777", "/events/none",
		"/tail?source=app", "/tail?source=r7&limit=1000", "/version",
	} {
		paths = append(paths, api.Prefix+path)
	}
	return append(paths, "/", "/?state=dead", "/?q=r77", "/?from=900", "/route/r7", "/data/r7",
		"/parked", "/parked?status=dead", "/parked?status=held", "/parked?route=r7&status=dead", "/parked?route=r7&type=t7", "/parked?route=r7&group=g7", "/parked?id=e777", "/parked?after=r7/3/1000", "/parked/r7/0/7",
		"/failures", "/failures?route=r7", "/groups", "/groups?route=r7", "/event", "/event?id=e777", "/event?id=none",
		"/destinations", "/destinations?route=r7", "/instances", "/tail", "/tail?source=r7", "/operations", "/audit", "/audit?before=77", "/config", "/doctor", "/nothing",
		"/confirm?action=redrive&route=r7&status=dead", "/confirm?action=purge&route=r7&status=dead", "/confirm?action=skip&route=r7", "/confirm?action=redrive&route=r2&failure=000000000bebc201",
		"/confirm?action=pause&route=r7", "/confirm?action=seek&route=r7&to=beginning", "/confirm?action=seek-routes&routes=*&to=end", "/confirm?action=forget&route=r7", "/confirm?action=retain", "/confirm?action=reload")
}

// Nothing that the API lists, or a page shows, reads the whole of what grows. With sizesEnv it also says how long each answer took.
func TestSizes(t *testing.T) {
	t.Parallel()
	parked, routes, addresses := 60_000, 40, 400 // of which 12,000 are retrying, so that they are looked for by route
	full := os.Getenv(sizesEnv)
	if full != "" {
		if _, err := fmt.Sscanf(full, "%d,%d,%d", &parked, &routes, &addresses); err != nil {
			t.Fatalf("%s=%s: %v", sizesEnv, full, err)
		}
	}
	url := os.Getenv(sizesURLEnv)
	if url == "" {
		url = testenv.Postgres(t)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "admin: {listen: off}\nsources: {app: {type: postgres, url: %q, retention: {keep: 1h}}}\ndestinations: {log: {type: log}}\nroutes:\n", url)
	for i := range routes {
		fmt.Fprintf(&text, "  r%d: {from: app, to: log, match: {types: [t%d]}}\n", i, i)
	}
	cfg, err := outrider.ParseConfig("test", []byte(text.String()))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var filled bool
	must(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM outrider_instance)`).Scan(&filled))
	if !filled {
		fill(t, conn, parked, routes, addresses)
		source, err := owntable.New(t.Context(), owntable.Config{URL: url})
		must(t, err)
		table, err := source.Table(t.Context())
		must(t, errors.Join(err, source.Close()))
		_, err = conn.Exec(t.Context(), `UPDATE outrider_cursor SET cluster = $1, source = $2`, table.Cluster, table.Name)
		must(t, err)
	}
	seqScans := func() (n, read int64) {
		t.Helper()
		must(t, conn.QueryRow(t.Context(), `SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'outrider_parked'`).Scan(&n, &read))
		return n, read
	}
	before, _ := seqScans()

	console := console.NewConsole(console.Relay{Options: assembly.OptionsOf(nil), Config: func() *outrider.Config { return cfg }, Stats: func() []adapters.RouteStats { return nil }})
	handler := server.Handler(server.Config{API: api.New(console), Pages: web.New(console), Anonymous: operate.RoleAdmin, Stats: func() []adapters.RouteStats { return nil }})
	paths := sizedPaths()
	ask := func(path string) (int, time.Duration) {
		begun := time.Now()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body.Bytes()[max(0, w.Body.Len()-500):])
		}
		return w.Body.Len(), time.Since(begun)
	}
	rounds := 1
	if full != "" {
		rounds = 40
	}
	for _, path := range paths {
		size, first := ask(path)
		took := []time.Duration{}
		for range rounds {
			_, d := ask(path)
			took = append(took, d)
		}
		slices.Sort(took)
		if full != "" {
			slow := ""
			if took[len(took)*95/100] > 200*time.Millisecond {
				slow = "SLOW"
			}
			t.Logf("%-65s %8d bytes, first %8v, p50 %8v, p95 %8v, max %8v %s", path, size, first.Round(time.Millisecond),
				took[len(took)/2].Round(time.Millisecond), took[len(took)*95/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), slow)
		}
	}
	if full == "" {
		walk(t, handler, parked/5)
	}
	must(t, console.Close()) // its sessions hand in what they have counted
	after, read := seqScans()
	if after != before {
		t.Errorf("the whole of outrider_parked was read %d times, %d rows", after-before, read)
	}
}

// walk reads all pages of the retrying messages: each is on one of them.
func walk(t *testing.T, handler http.Handler, want int) {
	t.Helper()
	seen := map[string]bool{}
	for after, more := "", true; more; {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, api.Prefix+"/parked?status=retrying&limit=1000&after="+after, http.NoBody))
		var page struct {
			Items []struct {
				Key    string `json:"key"`
				Status string `json:"status"`
			} `json:"items"`
			Next string `json:"next"`
			More bool   `json:"more"`
		}
		must(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, m := range page.Items {
			if seen[m.Key] || m.Status != "retrying" {
				t.Errorf("%+v comes again, or is not retrying", m)
			}
			seen[m.Key] = true
		}
		after, more = page.Next, page.More
	}
	if len(seen) != want {
		t.Errorf("the pages have %d messages, want %d", len(seen), want)
	}
}
