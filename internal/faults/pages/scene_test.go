package pages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// adminToken is one that may do everything.
const adminToken = "an-administrator-with-forty-characters-x"

// scene is a relay with its pages, a database and receivers that can be made to fail.
type scene struct {
	t     *testing.T
	db    string
	cfg   *outrider.Config
	relay *outrider.Outrider
	base  string    // URL of the pages
	asked *pgx.Conn // see count

	mu    sync.Mutex
	text  string         // of the configuration's file
	rules map[string]int // status by a part of path or body
	took  map[string]int // by path
	hold  chan struct{}  // requests to /hang wait for it
	back  bool           // requests to /away are taken, and not to come back in an hour
}

// receive answers as the rules say.
func (s *scene) receive(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.URL.Path, "/shut") && r.Header.Get("X-Api-Key") != "valid" {
		http.Error(w, "the key was revoked", http.StatusUnauthorized)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/hang") {
		select {
		case <-s.hold:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/away") && !s.back {
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "maintenance", http.StatusServiceUnavailable)
		return
	}
	for part, status := range s.rules {
		if strings.HasPrefix(r.URL.Path, part) || bytes.Contains(body, []byte(part)) {
			http.Error(w, reasons[status], status)
			return
		}
	}
	s.took[r.URL.Path]++
}

// reasons are the bodies of the receivers' answers.
var reasons = map[int]string{
	http.StatusUnprocessableEntity: "unknown currency XTS", http.StatusGone: "this endpoint was removed", http.StatusInternalServerError: "deadlock detected, try again",
	http.StatusUnauthorized: "the signature's key was revoked", http.StatusServiceUnavailable: "maintenance until 15:00",
}

// rule has receivers answer a status where path or body have a part; 0: no longer.
func (s *scene) rule(part string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules, part)
	if status != 0 {
		s.rules[part] = status
	}
}

// taken is how many messages a path has taken.
func (s *scene) taken(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took[path]
}

// newScene starts a relay. destinations and routes are YAML, in which RECEIVER is the
// receivers' URL; access has the keys of the section admin about callers.
func newScene(t *testing.T, access, destinations, routes string) *scene {
	t.Helper()
	return newSceneOn(t, testenv.Postgres(t), access, destinations, routes)
}

// newSceneOn is [newScene] on a database that was prepared.
func newSceneOn(t *testing.T, db, access, destinations, routes string) *scene {
	t.Helper()
	s := &scene{t: t, db: db, rules: map[string]int{}, took: map[string]int{}, hold: make(chan struct{})}
	receiver := httptest.NewServer(http.HandlerFunc(s.receive))
	t.Cleanup(receiver.Close)
	s.text = fmt.Sprintf(`
lease: 2s
admin: {listen: "127.0.0.1:0", %s}
sources: {app: {type: postgres, url: %q}}
destinations:
%s
routes:
%s`, access, s.db, strings.ReplaceAll(destinations, "RECEIVER", receiver.URL), routes)
	read := func() (*outrider.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return outrider.ParseConfig("outrider.yaml", []byte(s.text))
	}
	var err error
	s.cfg, err = read()
	must(t, err)
	_, err = operate.Init(t.Context(), s.cfg)
	must(t, err)
	s.relay, err = outrider.New(s.cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)), outrider.WithReload(read), outrider.WithInstance("relay-1"))
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
	s.base = "http://" + s.relay.AdminAddress()
	return s
}

// edit changes the configuration's file. It takes effect at the next reload.
func (s *scene) edit(from, to string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(s.text, from) {
		s.t.Fatalf("the configuration has no %q", from)
	}
	s.text = strings.Replace(s.text, from, to, 1)
}

// withToken returns the keys of the section admin for the token of an administrator.
func withToken(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(path, []byte(adminToken+"\n"), 0o600))
	return fmt.Sprintf("admin_tokens_file: %q", path)
}

// event is a message to publish.
type event struct{ id, typ, tenant, group, payload string }

func (s *scene) publish(events ...event) {
	s.t.Helper()
	var out []outbox.Envelope
	for _, e := range events {
		b := outbox.New(e.typ).RawJSON([]byte(e.payload)).Group(e.group).Tenant(e.tenant)
		if e.id != "" {
			b = b.ID(e.id)
		}
		built, err := b.Build()
		must(s.t, err)
		out = append(out, built)
	}
	must(s.t, operate.Publish(s.t.Context(), s.cfg, "app", out...))
}

// connect connects to the database.
func (s *scene) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.db)
	must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// count queries the database on a connection that stays open, because tests poll it.
func (s *scene) count(query string) (n int) {
	s.t.Helper()
	if s.asked == nil || s.asked.Ping(s.t.Context()) != nil {
		s.asked = s.connect()
	}
	must(s.t, s.asked.QueryRow(s.t.Context(), query).Scan(&n))
	return n
}

const (
	parkedSQL = `SELECT count(*) FROM outrider_parked WHERE status = '%s' AND route = '%s'`
	hooks     = `  %s: {type: webhook, url: "RECEIVER/%s", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}` + "\n"
)

// parked counts the parked messages of a route with a status.
func (s *scene) parked(route, status string) int {
	s.t.Helper()
	return s.count(fmt.Sprintf(parkedSQL, status, route))
}
