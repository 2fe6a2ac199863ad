package system_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// byRoute counts what arrives at a path's first part, by the message, and where it went last.
type byRoute struct {
	mu      sync.Mutex
	arrived map[string]map[string]int
	last    map[string]string
}

func (b *byRoute) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing is seen later
	route, version, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.arrived[route] == nil {
		b.arrived[route] = map[string]int{}
	}
	for message := range strings.SplitSeq(strings.Trim(string(body), "[]"), ",") {
		b.arrived[route][message]++
	}
	b.last[route] = version
}

func (b *byRoute) count(route string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.arrived[route])
}

// The receiver of one route, and a third route, change 30 times while messages come. The other route is not drained: its lanes do not change hands. All
// arrives once, the new settings apply to what comes after, jobs know the new routes, and what cannot be used changes nothing.
func TestG3_G11_AReloadOfOneRouteDrainsNoOther(t *testing.T) {
	t.Parallel()
	box := &byRoute{arrived: map[string]map[string]int{}, last: map[string]string{}}
	server := httptest.NewServer(box)
	defer server.Close()
	db := filepath.Join(t.TempDir(), "app.db")
	config := func(version int, third bool, poll string) *outrider.Config {
		more := ""
		if third {
			more = "third: {from: app, to: third, start: end}"
		}
		cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
parked: {keep: 24h}
sources: {app: {type: sqlite, path: %[1]q, poll: {max: %[4]s}, retention: {keep: 1h}}}
destinations:
  stays: {type: http, url: "%[2]s/stays/0"}
  moves: {type: http, url: "%[2]s/moves/%[3]d", headers: {x-version: "%[3]d"}}
  third: {type: http, url: "%[2]s/third/0"}
routes:
  moves: {from: app, to: moves, middleware: [metrics, poison, retry, timeout]}
  stays: {from: app, to: stays, middleware: [metrics, {poison: {to: third}}, retry, timeout]}
  %[5]s
`, db, server.URL, version, poll, more))
		must(t, err)
		return cfg
	}
	first := config(0, false, "50ms")
	_, err := operate.Init(t.Context(), first)
	must(t, err)
	state, err := statestore.New(t.Context(), statestore.Config{Path: db})
	must(t, err)
	defer func() { must(t, state.Close()) }()
	epochs := func(route string) map[int]int64 {
		lanes, err := state.Lanes(t.Context())
		must(t, err)
		of := map[int]int64{}
		for _, l := range lanes {
			if l.Route == route {
				of[l.Slot] = l.Epoch
			}
		}
		return of
	}
	log := &logged{}
	o, err := outrider.New(first, outrider.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	stays, moves := epochs("stays"), epochs("moves")
	published := 0
	publish := func(n int) {
		for range n {
			m, err := outbox.New("t").Group(fmt.Sprint("g", published%7)).JSON(published).Build()
			must(t, err)
			must(t, operate.Publish(t.Context(), first, "app", m))
			published++
		}
	}
	for i := range 30 {
		publish(3)
		must(t, o.Reload(ctx, config(i+1, i%3 == 2, fmt.Sprintf("%dms", 50+i%2))))
		if ready := get(t, o, "/readyz"); ready != "ok\n" {
			t.Errorf("readyz says %q", ready)
		}
		if i%5 == 4 { // of a file that is not there, and so on
			if err := o.Reload(ctx, unreadable(t, db, server.URL)); err == nil || !strings.Contains(err.Error(), "the old one is at work") {
				t.Errorf("a configuration that cannot be used: %v", err)
			}
		}
	}
	for _, route := range []string{"stays", "moves"} {
		eventually(t, "everything arrives by "+route, func() bool { return box.count(route) == published })
	}
	must(t, o.Reload(ctx, config(99, true, "50ms")))
	publish(7)
	eventually(t, "the new settings are at work", func() bool { return box.count("moves") == published && box.count("third") >= 7 })
	if got := epochs("stays"); len(stays) != adapters.Slots || !maps.Equal(got, stays) {
		t.Errorf("lanes of the route that stays were taken anew: their epochs were %v and are %v", stays, got)
	}
	if got := epochs("moves"); maps.Equal(got, moves) {
		t.Errorf("the lanes of the route that changes still have their epochs: %v", got)
	}
	if n := strings.Count(log.all(), "reloading: finishing"); n != 0 {
		t.Errorf("all was drained %d times, want never", n)
	}
	page := get(t, o, "/metrics")
	for _, want := range []string{`outrider_parked_expired_total{route="third"} 0`, `outrider_retention_held_seconds{route="third",source="app"}`, `outrider_delivered_total{route="third"}`} {
		if !strings.Contains(page, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if routes := o.Stats(); len(routes) != 3 || !slices.ContainsFunc(routes, func(s adapters.RouteStats) bool { return s.Route == "third" }) {
		t.Errorf("%d routes", len(routes))
	}
	cancel()
	must(t, <-done)
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last["moves"] != "99" {
		t.Errorf("the last message went to version %s", box.last["moves"])
	}
	for route, messages := range box.arrived {
		for body, n := range messages {
			if n != 1 {
				t.Errorf("%s arrived %d times by %s", body, n, route)
			}
		}
	}
}

// unreadable is a configuration with a route whose destination cannot be made.
func unreadable(t *testing.T, db, url string) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
parked: {keep: 24h}
sources: {app: {type: sqlite, path: %[1]q, poll: {max: 50ms}, retention: {keep: 1h}}}
destinations:
  stays: {type: http, url: "%[2]s/stays/0"}
  moves: {type: http, url: "https://localhost:1", tls: {ca_file: /dev/null}}
  third: {type: http, url: "%[2]s/third/0"}
routes:
  moves: {from: app, to: moves, middleware: [metrics, poison, retry, timeout]}
  stays: {from: app, to: stays, middleware: [metrics, {poison: {to: third}}, retry, timeout]}
`, db, url))
	must(t, err)
	return cfg
}
