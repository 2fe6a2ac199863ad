package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokens by role; each has 32 bytes or more.
var tokens = map[string]string{"read": strings.Repeat("r", 32), "operate": strings.Repeat("o", 32), "admin": strings.Repeat("a", 40)}

// site is a relay that runs, with its API.
type site struct {
	t     *testing.T
	cfg   *outrider.Config
	relay *outrider.Outrider
	count func(sql string) int // asks the database
	wrong atomic.Bool          // the receiver refuses events whose payload says bad
	took  atomic.Int64
	hold  atomic.Bool // the receiver does not answer meanwhile
	held  atomic.Int64
	heard heardPauses
}

// heardPauses counts, in the relay's log, how often it has heard that groups were paused or resumed.
type heardPauses struct{ n atomic.Int64 }

func (h *heardPauses) Write(log []byte) (int, error) {
	h.n.Add(int64(bytes.Count(log, []byte("paused groups have changed"))))
	return len(log), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newSite starts a relay on a source, given as YAML.
func newSite(t *testing.T, source string, count func(string) int, more ...string) *site {
	t.Helper()
	s := &site{t: t, count: count}
	s.wrong.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if s.wrong.Load() && bytes.Contains(body, []byte("bad")) {
			http.Error(w, "unknown customer", http.StatusUnprocessableEntity)
			return
		}
		if s.hold.Load() {
			s.held.Add(1)
			for s.hold.Load() && r.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		s.took.Add(1)
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	for role, token := range tokens {
		must(t, os.WriteFile(filepath.Join(dir, role), []byte(token+"\n"), 0o600))
	}
	lease := "lease: 1s\n"
	if slices.ContainsFunc(more, func(text string) bool { return strings.HasPrefix(text, "lease:") }) {
		lease = ""
	}
	text := fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0", tokens_file: %[1]q, operate_tokens_file: %[2]q, admin_tokens_file: %[3]q}
sources: {app: %[4]s}
destinations: {hook: {type: webhook, url: %[5]q, secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}}
routes: {orders: {from: app, to: hook}}
%[6]s`, filepath.Join(dir, "read"), filepath.Join(dir, "operate"), filepath.Join(dir, "admin"), source, receiver.URL+"/orders", lease+strings.Join(more, ""))
	read := func() (*outrider.Config, error) { return outrider.ParseConfig("test", text) }
	cfg, err := read()
	must(t, err)
	s.cfg = cfg
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	s.relay, err = outrider.New(cfg, outrider.WithLogger(slog.New(slog.NewTextHandler(&s.heard, nil))), outrider.WithReload(read))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.relay.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.relay.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return s
}

func (s *site) publish(id, payload string) {
	s.t.Helper()
	e, err := outbox.New("order.created").RawJSON([]byte(payload)).ID(id).Group("g-" + id).Build()
	must(s.t, err)
	must(s.t, operate.Publish(s.t.Context(), s.cfg, "app", e))
}

// ask sends a request and returns the answer as JSON.
func (s *site) ask(token, method, path, body string) (int, map[string]any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.relay.AdminAddress()+"/api/v1"+path, strings.NewReader(body))
	must(s.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+tokens[token])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	must(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		s.t.Fatalf("%s %s answers %d %q: %v", method, path, resp.StatusCode, text, err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode >= 400 && kind != "application/problem+json" {
		s.t.Errorf("%s %s: an error of type %s", method, path, kind)
	}
	return resp.StatusCode, answer
}

// want sends a request that has to succeed, and looks for texts in the answer.
func (s *site) want(token, method, path, body string, want ...string) map[string]any {
	s.t.Helper()
	status, answer := s.ask(token, method, path, body)
	text, _ := json.Marshal(answer)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			s.t.Errorf("%s %s: the answer lacks %s: %s", method, path, w, text)
		}
	}
	return answer
}

// refused sends a request that has to fail.
func (s *site) refused(status int, token, method, path, body string) {
	s.t.Helper()
	if got, answer := s.ask(token, method, path, body); got != status {
		s.t.Errorf("%s %s as %q: %d, want %d: %v", method, path, token, got, status, answer)
	}
}

// until waits for a condition.
func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("not within two minutes: %s", what)
		}
	}
}

const (
	parkedSQL = `SELECT count(*) FROM outrider_parked`
	auditSQL  = `SELECT count(*) FROM outrider_audit WHERE action = '%s' AND by LIKE 'alice by API, token %%'`

	// Requests without a body say only which token they had.
	namelessSQL = `SELECT count(*) FROM outrider_audit WHERE action = '%s' AND by LIKE '%%by API, token %%'`
)

func onSQLite(t *testing.T) *site { return onSQLiteWith(t, "") }

// onSQLiteWith is [onSQLite] with further keys of the source.
func onSQLiteWith(t *testing.T, keys string) *site {
	path := filepath.Join(t.TempDir(), "app.db")
	return newSite(t, fmt.Sprintf("{type: sqlite, path: %q%s}", path, keys), func(query string) (n int) {
		t.Helper()
		db, err := sqlite.Open(path)
		must(t, err)
		defer func() { _ = db.Close() }()
		must(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	})
}

func onPostgres(t *testing.T, more ...string) *site { return onPostgresWith(t, "", more...) }

// onPostgresWith is [onPostgres] with further keys of the source.
func onPostgresWith(t *testing.T, keys string, more ...string) *site {
	s, _ := onPostgresAt(t, keys, more...)
	return s
}

// onPostgresAt also returns the URL of the database.
func onPostgresAt(t *testing.T, keys string, more ...string) (s *site, url string) {
	url = testenv.Postgres(t)
	return newSite(t, fmt.Sprintf("{type: postgres, url: %q%s}", url, keys), func(query string) (n int) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		must(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		must(t, conn.QueryRow(t.Context(), query).Scan(&n))
		return n
	}, more...), url
}

// What the API shows is what is there, and each action does in the database what the
// command does.
func TestTheAPIShowsAndMends(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *site{"sqlite": onSQLite, "postgres": func(t *testing.T) *site { return onPostgres(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.publish("good", `{"customer": "kind"}`)
			s.publish("bad-1", `{"customer": "bad", "lines": [1]}`)
			s.until("bad-1 is dead", func() bool { return s.count(parkedSQL+" WHERE status = 'dead'") == 1 })
			s.until("good arrived", func() bool { return s.took.Load() == 1 })
			t.Run("read", func(t *testing.T) { testReading(t, s) })
			t.Run("parked", func(t *testing.T) { testParked(t, s) })
			t.Run("control", func(t *testing.T) { testControl(t, s) })
			t.Run("operations", func(t *testing.T) { testOperations(t, s) })
		})
	}
}

func testReading(t *testing.T, s *site) {
	s.t = t
	s.until("the route's cause is its dead message", func() bool {
		_, route := s.ask("read", "GET", "/routes/orders", "")
		cause, _ := route["cause"].(map[string]any)
		return cause["kind"] == "dead" && strings.Contains(cause["text"].(string), "422")
	})
	s.want("read", "GET", "/routes", "", `"route":"orders"`, `"dead":1`, `"alive":true`)
	s.want("read", "GET", "/sources", "", `"name":"app"`, `"routes":["orders"]`)
	s.want("read", "GET", "/destinations", "", `"name":"hook"`, `"type":"webhook"`)
	first := s.want("read", "GET", "/lanes?limit=10", "", `"next":"orders/09"`)
	second := s.want("read", "GET", "/lanes?limit=10&after="+first["next"].(string), "", `"slot":10`, `"slot":15`)
	if n := len(second["items"].([]any)); n != 6 {
		t.Errorf("the second page of lanes has %d", n)
	}
	s.want("read", "GET", "/instances", "", `"alive":true`, `"lanes":16`)
	if text, _ := json.Marshal(s.want("read", "GET", "/config", "", "***", "orders:")); bytes.Contains(text, []byte("MfKQ9r8G")) {
		t.Errorf("the configuration shows a secret: %s", text)
	}
	s.want("read", "GET", "/failures", "", `"count":1`, `"address":"http://127.0.0.1:`, `"type":"order.created"`, `"by_status":{"dead":1}`)
	s.want("read", "GET", "/events/bad-1", "", `"where":"dead"`, `"route":"orders"`, `"position":`)
	s.until("it is known when good was settled", func() bool {
		_, good := s.ask("read", "GET", "/events/good", "")
		text, _ := json.Marshal(good)
		return strings.Contains(string(text), `"where":"settled"`)
	})
	s.want("read", "GET", "/events/none", "", `"places":[]`, `"notes":["source app: no index finds ids`)
	list := s.want("read", "GET", "/parked?route=orders&status=dead", "", `"id":"bad-1"`, `"payload_bytes":33`)
	if text, _ := json.Marshal(list); bytes.Contains(text, []byte("lines")) {
		t.Errorf("a list shows payloads: %s", text)
	}
	key := list["items"].([]any)[0].(map[string]any)["key"].(string)
	s.want("read", "GET", "/parked/"+key, "", `"payload":{"customer":"***","lines":["***"]}`, `"tries":[{"at":"`, `"attempt":1`)
	failure := s.want("read", "GET", "/failures?route=orders", "")["items"].([]any)[0].(map[string]any)["fingerprint"].(string)
	s.want("read", "GET", "/parked?route=orders&failure="+failure, "", `"id":"bad-1"`)
	s.want("read", "GET", "/parked?failure=0000000000000001", "", `"items":[]`)
	s.refused(http.StatusUnprocessableEntity, "read", "GET", "/parked?failure=x", "")
	s.refused(http.StatusForbidden, "read", "GET", "/parked/"+key+"?payload=true", "")
	s.want("operate", "GET", "/parked/"+key+"?payload=true", "", `"customer":"bad"`)
	for _, path := range []string{"/routes/none", "/parked?route=none", "/parked/orders/0/99", fmt.Sprintf("/parked/orders/%d/1", adapters.MaxLanes-1), "/failures?route=none", "/none"} {
		s.refused(http.StatusNotFound, "read", "GET", path, "")
	}
	for _, path := range []string{"/routes?limit=0", "/routes?limit=x", "/parked?status=ill", "/parked?after=x", "/parked?before=never", "/parked?error=%00", fmt.Sprintf("/parked/orders/%d/1", adapters.MaxLanes)} {
		s.refused(http.StatusUnprocessableEntity, "read", "GET", path, "")
	}
	s.refused(http.StatusMethodNotAllowed, "admin", "POST", "/routes", "{}")
}

func testParked(t *testing.T, s *site) {
	s.t = t
	for _, c := range []struct {
		status            int
		token, path, body string
	}{
		{401, "", "/parked/redrive", `{"all": true}`}, {403, "read", "/parked/redrive", `{"all": true}`},
		{403, "operate", "/parked/purge", `{"all": true}`}, {403, "operate", "/routes/orders/seek", `{"to": "end"}`}, {403, "operate", "/reload", ""},
		{422, "admin", "/parked/purge", `{}`}, {422, "admin", "/parked/purge", `{"all": true, "id": "x"}`},
		{422, "admin", "/parked/purge", `{"ALL": true}`}, {422, "admin", "/parked/purge", `{"id": null}`}, {400, "admin", "/parked/purge", `[]`},
		{422, "admin", "/parked/redrive", `{"status": "waiting"}`}, {422, "admin", "/parked/skip", `{"status": "dead"}`},
		{422, "admin", "/parked/purge", `{"id": "x", "limit": 0}`}, {415, "admin", "/parked/purge", ""}, {404, "admin", "/parked/purge", `{"route": "none"}`},
	} {
		s.refused(c.status, c.token, "POST", c.path, c.body)
	}
	s.want("operate", "POST", "/parked/redrive", `{"id": "bad-1", "dry_run": true}`, `"total":1`, `"changed":0`)
	if s.count(parkedSQL+" WHERE status = 'dead'") != 1 || s.count(`SELECT count(*) FROM outrider_audit`) != 0 {
		t.Error("a dry run, or a refused request, changed something")
	}
	s.wrong.Store(false)
	s.want("operate", "POST", "/parked/redrive", `{"id": "bad-1", "by": "alice"}`, `"changed":1`)
	s.until("bad-1 arrived", func() bool { return s.took.Load() == 2 && s.count(parkedSQL) == 0 })
	if n := s.count(fmt.Sprintf(auditSQL, "redrive")); n != 1 {
		t.Errorf("%d audit records of the redrive", n)
	}
	s.wrong.Store(true)
	s.publish("bad-2", `"bad"`)
	s.publish("bad-3", `"bad"`)
	s.until("both are dead", func() bool { return s.count(parkedSQL+" WHERE status = 'dead'") == 2 })
	page := s.want("read", "GET", "/parked?limit=1", "")
	s.want("read", "GET", "/parked?limit=1&after="+page["next"].(string), "", `"bad-`)
	s.want("admin", "POST", "/parked/purge", `{"all": true, "limit": 1, "by": "alice"}`, `"changed":1`, `"more":true`)
	if n := s.count(parkedSQL); n != 1 {
		t.Errorf("%d messages are parked after one was purged", n)
	}
	s.want("admin", "POST", "/parked/purge", `{"type": "order.created", "by": "alice"}`, `"changed":1`, `"more":false`)
	if n := s.count(parkedSQL) + s.count(fmt.Sprintf(auditSQL, "purge")); n != 2 {
		t.Errorf("parked messages and audit records of purges: %d, want 0 and 2", n)
	}
	s.want("read", "GET", "/audit?limit=1", "", `"action":"purge"`, `"next":`, `"by":"alice by API, token `)
}

func testControl(t *testing.T, s *site) {
	s.t = t
	cause := func(kind string) func() bool {
		return func() bool {
			_, route := s.ask("read", "GET", "/routes/orders", "")
			cause, _ := route["cause"].(map[string]any)
			return cause["kind"] == kind
		}
	}
	const pauses = `SELECT count(*) FROM outrider_pause`
	s.want("operate", "POST", "/routes/orders/pause", `{"reason": "maintenance", "by": "alice"}`, `"changed":true`)
	s.want("operate", "POST", "/routes/orders/pause", `{}`, `"changed":false`)
	if n := s.count(pauses + ` WHERE address = '' AND reason = 'maintenance'`); n != 1 {
		t.Errorf("%d pauses in the database", n)
	}
	s.until("the cause is the pause", cause("paused"))
	s.until("the lanes are released", func() bool { return s.count(`SELECT count(*) FROM outrider_cursor WHERE owner IS NOT NULL`) == 0 })
	s.publish("late", `{"customer": "kind"}`)
	s.want("read", "GET", "/events/late", "", `"where":"unread"`, `no instance owns its lane`)
	s.want("operate", "POST", "/routes/orders/resume", `{"by": "alice"}`, `"changed":true`)
	s.want("operate", "POST", "/routes/orders/pause", `{"address": "http://127.0.0.1:1/x"}`, `"changed":true`)
	s.until("the cause is the address", cause("address_unavailable"))
	s.want("read", "GET", "/destinations", "", `"address":"http://127.0.0.1:1/x"`)
	s.want("operate", "POST", "/routes/orders/resume", `{"address": "http://127.0.0.1:1/x"}`, `"changed":true`)
	if n := s.count(pauses); n != 0 {
		t.Errorf("%d pauses in the database after all were resumed", n)
	}
	s.refused(http.StatusNotFound, "operate", "POST", "/routes/none/pause", `{}`)
	s.refused(http.StatusUnprocessableEntity, "operate", "POST", "/routes/orders/pause", `{"group": "g", "address": "x"}`)
	s.wrong.Store(false)
	heard := s.heard.n.Load()
	s.want("operate", "POST", "/routes/orders/pause", `{"group": "g-late", "by": "alice", "reason": "why"}`, `"changed":true`, `"group":"g-late"`)
	s.until("the cause is the group", cause("group_paused"))
	s.until("the relay obeys", func() bool { return s.heard.n.Load() > heard })
	s.publish("late", `{}`)
	s.until("it waits", func() bool { return s.count(parkedSQL+" WHERE status = 'waiting'") == 1 })
	// A seek beside the paused group: other groups come again, and of this one nothing before it is resumed.
	before := s.took.Load()
	s.want("admin", "POST", "/routes/orders/seek", `{"to": "beginning", "by": "alice"}`, `"again":6`, `"applied":true`)
	s.until("the others came again", func() bool { return s.took.Load() == before+4 })
	s.until("all of the group waits", func() bool { return s.count(parkedSQL+" WHERE status = 'waiting'") == 3 })
	if n := s.took.Load() - before; n != 4 {
		t.Errorf("%d messages came again beside a paused group", n)
	}
	s.want("operate", "POST", "/routes/orders/resume", `{"group": "g-late", "by": "alice"}`, `"changed":true`)
	s.until("it arrived", func() bool { return s.count(parkedSQL) == 0 })
	s.wrong.Store(true)
	s.until("all is well", cause("fine"))

	s.want("admin", "POST", "/routes/orders/seek", `{"to": "beginning", "dry_run": true}`, `"again":6`, `"applied":false`)
	s.wrong.Store(false)
	took := s.took.Load()
	s.want("admin", "POST", "/routes/orders/seek", `{"to": "beginning", "by": "alice"}`, `"again":6`, `"applied":true`)
	s.until("all came again", func() bool { return s.took.Load() >= took+6 })
	if n := s.count(fmt.Sprintf(auditSQL, "seek")); n != 2 {
		t.Errorf("%d audit records of the seek", n)
	}
	s.refused(http.StatusConflict, "admin", "POST", "/routes/orders/seek", `{"to": "1000000"}`)
	s.refused(http.StatusUnprocessableEntity, "admin", "POST", "/routes/orders/seek", `{"to": "never"}`)
	s.want("admin", "POST", "/reload", "", `"reloaded":true`, `"routes":1`)
	if n := s.count(fmt.Sprintf(namelessSQL, "reload")); n != 1 {
		t.Errorf("%d audit records of the reload", n)
	}
	s.want("read", "GET", "/routes/orders", "", `"route":"orders"`) // by the next configuration's state
}
