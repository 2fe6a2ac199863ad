package system_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// inbox counts what arrives, by path.
type inbox struct {
	mu     sync.Mutex
	byPath map[string]int
}

func newInbox(t *testing.T) (box *inbox, url string) {
	t.Helper()
	box = &inbox{byPath: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		box.mu.Lock()
		defer box.mu.Unlock()
		box.byPath[r.URL.Path]++
	}))
	t.Cleanup(server.Close)
	return box, server.URL
}

func (b *inbox) at(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byPath[path]
}

// reloadable is a configuration whose deliveries show by their path which
// configuration is active. It ends with more.
func reloadable(t *testing.T, db, url, path, more string) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {hook: {type: http, url: "%s/%s"}}
routes: {all: {from: app, to: hook}}
%s`, db, url, path, more))
	must(t, err)
	return cfg
}

// get returns the body of an answer of the admin server.
func get(t *testing.T, o *outrider.Outrider, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + o.AdminAddress() + path)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	return string(body)
}

func TestG11_ReloadGoesOnWithTheOldConfigWhenTheNewOneFails(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t)
	db, other := filepath.Join(t.TempDir(), "app.db"), filepath.Join(t.TempDir(), "other.db")
	first, second := reloadable(t, db, url, "first", ""), reloadable(t, db, url, "second", "")
	taken := reloadable(t, db, url, "taken", fmt.Sprintf("state: {url: %q}", "sqlite:"+other))
	for _, cfg := range []*outrider.Config{first, taken} {
		_, err := operate.Init(t.Context(), cfg)
		must(t, err)
	}
	o, err := outrider.New(first, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	if err := o.Reload(t.Context(), second); err == nil || !strings.Contains(err.Error(), "has not started") {
		t.Errorf("a relay that does not run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	works := func(path string) {
		t.Helper()
		before := box.at("/" + path)
		m, err := outbox.New("t").Group("g").JSON(1).Build()
		must(t, err)
		must(t, operate.Publish(t.Context(), first, "app", m))
		eventually(t, path+" is at work", func() bool { return box.at("/"+path) == before+1 })
		if ready := get(t, o, "/readyz"); ready != "ok\n" {
			t.Errorf("readyz says %q", ready)
		}
	}
	works("first")

	// It fails when it is prepared: the old one has not stopped.
	missing := reloadable(t, filepath.Join(t.TempDir(), "none.db"), url, "missing", "")
	if err := o.Reload(t.Context(), missing); err == nil || !strings.Contains(err.Error(), "the old one is at work") {
		t.Errorf("a configuration without a database: %v", err)
	}
	works("first")

	// It fails when it starts, after the old one has stopped: another instance
	// has its state.
	state, err := statestore.New(t.Context(), statestore.Config{Path: other})
	must(t, err)
	must(t, state.Join(t.Context(), "another", time.Hour))
	if err := o.Reload(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "another instance is running") ||
		!strings.Contains(err.Error(), "the old one is at work") {
		t.Errorf("a configuration whose state is taken: %v", err)
	}
	works("first")
	must(t, state.Close())

	must(t, o.Reload(t.Context(), second))
	works("second")
	must(t, o.Reload(t.Context(), first))
	works("first")
	cancel()
	must(t, <-done)
	if err := o.Reload(t.Context(), second); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a relay that has ended: %v", err)
	}
}

// A broker that is down refuses no reload, as it refuses no start: its messages wait, and the log says so.
func TestG11_ADeadBrokerRefusesNoReload(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t)
	db := filepath.Join(t.TempDir(), "app.db")
	first := reloadable(t, db, url, "first", "")
	_, err := operate.Init(t.Context(), first)
	must(t, err)
	dead, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:1"}
log: {level: debug}
sources: {app: {type: sqlite, path: %q}}
destinations: {bus: {type: kafka, brokers: ["127.0.0.1:1"], topic: orders}}
routes: {all: {from: app, to: bus}}
`, db))
	must(t, err)
	log := &logged{}
	o, err := outrider.New(first, outrider.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()

	must(t, o.Reload(t.Context(), dead))
	if text := log.all(); !strings.Contains(text, "destination is not ready") {
		t.Errorf("the log does not say that the broker is down:\n%s", text)
	}
	m, err := outbox.New("t").Group("g").JSON(1).Build()
	must(t, err)
	must(t, operate.Publish(t.Context(), first, "app", m))
	eventually(t, "the broker's outage is known", func() bool {
		stats := o.Stats()
		return len(stats) == 1 && len(stats[0].Down) == 1
	})

	// What only a start applies is neither applied nor said to be.
	for _, section := range []string{"admin", "log"} {
		if !strings.Contains(log.all(), "the section "+section+" has changed, which takes effect at the next start") {
			t.Errorf("the log does not say that %s has not changed:\n%s", section, log.all())
		}
	}
	if page := get(t, o, "/config"); !strings.Contains(page, "Restart the relay to apply what has changed in admin and log") || strings.Contains(page, "listen: 127.0.0.1:1\n") {
		t.Errorf("the page shows:\n%s", page)
	}

	must(t, o.Reload(t.Context(), first))
	eventually(t, "the message arrives", func() bool { return box.at("/first") == 1 })
	if page := get(t, o, "/config"); strings.Contains(page, "Restart the relay") {
		t.Errorf("the page still shows:\n%s", page)
	}
	cancel()
	must(t, <-done)
}

func TestReloadIsRefusedForSuppliedParts(t *testing.T) {
	t.Parallel()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: sqlite, path: %q}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: app, to: here}}
`, filepath.Join(t.TempDir(), "app.db")))
	must(t, err)
	o, err := outrider.New(cfg, outrider.WithBatchDestination("here", make(arrivals)))
	must(t, err)
	if err := o.Reload(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "make a new one") {
		t.Errorf("got %v", err)
	}
}

// What dedupe keeps in memory outlives a reload. The messages have one group: when the
// last one has arrived, the duplicate before it is concluded.
func TestG3_AReloadForgetsNoDuplicates(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var arrived []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing is seen below
		mu.Lock()
		defer mu.Unlock()
		arrived = append(arrived, r.URL.Path+" "+string(body))
	}))
	defer server.Close()
	so := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(arrived)
	}
	db := filepath.Join(t.TempDir(), "app.db")
	config := func(path string) *outrider.Config {
		cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {hook: {type: http, url: "%s/%s"}}
routes: {all: {from: app, to: hook, middleware: [{dedupe: {store: memory}}]}}
`, db, server.URL, path))
		must(t, err)
		return cfg
	}
	first := config("first")
	_, err := operate.Init(t.Context(), first)
	must(t, err)
	publish := func(id string) {
		m, err := outbox.New("t").ID(id).Group("g").JSON(id).Build()
		must(t, err)
		must(t, operate.Publish(t.Context(), first, "app", m))
	}
	o, err := outrider.New(first, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	publish("twin")
	eventually(t, "it arrives", func() bool { return len(so()) == 1 })
	must(t, o.Reload(t.Context(), config("second")))
	publish("twin")
	publish("other")
	eventually(t, "the other arrives", func() bool {
		return slices.ContainsFunc(so(), func(m string) bool { return strings.Contains(m, `"other"`) })
	})
	cancel()
	must(t, <-done)
	if got := strings.Join(so(), " "); strings.Count(got, `"twin"`) != 1 || strings.Count(got, `"other"`) != 1 {
		t.Errorf("%s arrived, want each of the two once", got)
	}
}
