package system_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/outbox"
)

// supplied is a publisher of an application.
type supplied struct {
	publish func(msg *message.Message) error
	close   func() error
}

func (p *supplied) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		if err := p.publish(msg); err != nil {
			return err
		}
	}
	return nil
}

func (p *supplied) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// embedded is a configuration with a destination, and perhaps a source, that the
// program supplies, and the messages a, b and c in its outbox.
func embedded(t *testing.T, more string) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: sqlite, path: %q}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: app, to: here, middleware: [{poison: {}}, {retry: {attempts: 4, base: 1ms}}, {timeout: 10s}]}}
%s`, filepath.Join(t.TempDir(), "app.db"), more))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	for _, id := range []string{"a", "b", "c"} {
		m, err := outbox.New("t").Group(id).JSON(id).Build()
		must(t, err)
		must(t, operate.Publish(t.Context(), cfg, "app", m))
	}
	return cfg
}

func TestG1_APublisherThatPanicsFailsTheAttempt(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries, arrived := map[string]int{}, map[string]int{}
	p := &supplied{publish: func(msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		id := string(msg.Payload)
		if tries[id]++; id != `"b"` && tries[id] < 4 {
			panic("boom " + id)
		}
		arrived[id]++
		return nil
	}}
	var log logged
	o, err := outrider.New(embedded(t, ""), outrider.WithDestination("here", p), outrider.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	eventually(t, "all arrive", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived) == 3
	})
	cancel()
	must(t, <-done)
	for id, n := range arrived {
		if n != 1 {
			t.Errorf("%s arrived %d times", id, n)
		}
	}
	if n := log.count("stack="); n != 1 {
		t.Errorf("the stack is logged %d times, want once:\n%s", n, log.text.String())
	}
	if n := log.count("boom"); n == 0 || log.count("embedding_test.go") == 0 {
		t.Errorf("the log does not say what panicked where:\n%s", log.text.String())
	}
}

func TestARelayRunsOnce(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	p := &supplied{publish: func(*message.Message) error { got.Add(1); return nil }}
	o, err := outrider.New(embedded(t, ""), outrider.WithDestination("here", p), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	eventually(t, "all arrive", func() bool { return got.Load() == 3 })
	again := func() {
		t.Helper()
		if err := o.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "outrider.New") {
			t.Errorf("another Run returns %v", err)
		}
	}
	again()
	cancel()
	must(t, <-done)
	again()
}

func TestOptionsThatAreNilAreRefused(t *testing.T) {
	t.Parallel()
	cfg := embedded(t, "")
	var none *supplied
	for name, opt := range map[string]outrider.Option{
		`WithBatchDestination("here")`:         outrider.WithBatchDestination("here", nil),
		`WithDestination("here")`:              outrider.WithDestination("here", none),
		`WithMiddleware("all"), middleware 2`:  outrider.WithMiddleware("all", func(h message.HandlerFunc) message.HandlerFunc { return h }, nil),
		`WithSource("queue")`:                  outrider.WithSource("queue", nil),
		`WithDestination("nowhere"): the conf`: outrider.WithDestination("nowhere", &supplied{}),
		`WithListeners("here")`:                outrider.WithListeners("here", nil),
		`WithListeners("here"): the conf`:      outrider.WithListeners("here", listeners.New()),
	} {
		if _, err := outrider.New(cfg, outrider.WithDestination("here", &supplied{}), opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := outrider.New(cfg, outrider.WithDestination("here", &supplied{}), outrider.WithLogger(nil),
		outrider.WithRegisterer(prometheus.Registerer(nil)), outrider.WithTracerProvider(nil))
	must(t, err)
}

func TestG3_ACloseThatBlocksDoesNotKeepTheRelayFromEnding(t *testing.T) {
	t.Parallel()
	closing := make(chan struct{})
	t.Cleanup(func() { close(closing) })
	for name, how := range map[string]struct {
		close func() error
		want  string
	}{
		"blocks": {func() error { <-closing; return nil }, "destination here: its Close did not return within"},
		"panics": {func() error { panic("closed twice") }, "closed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			p := &supplied{publish: func(*message.Message) error { got.Add(1); return nil }, close: how.close}
			o, err := outrider.New(embedded(t, "drain_timeout: 1s"), outrider.WithDestination("here", p),
				outrider.WithLogger(slog.New(slog.DiscardHandler)))
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- o.Run(ctx) }()
			eventually(t, "all arrive", func() bool { return got.Load() == 3 })
			cancel()
			if err := <-done; err == nil || !strings.Contains(err.Error(), how.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A program opens no port that it did not ask for, and can mount health and metrics
// in its own server.
func TestAnEmbeddedRelayOpensNoPort(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "app.db")
	cfg, err := outrider.NewConfig(outrider.Config{
		Sources:      map[string]config.Source{"app": &config.SQLite{Path: db}},
		Destinations: map[string]config.Destination{"nowhere": &config.Discard{}},
		Routes:       []config.Route{{Name: "all", From: "app", Targets: []string{"nowhere"}}},
	})
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	h := http.StripPrefix("/outrider", o.Handler())
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.example.com/outrider"+path, http.NoBody))
		return w
	}
	if w := get("/readyz"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before Run: %d %s", w.Code, w.Body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	if at := o.AdminAddress(); at != "" {
		t.Errorf("it listens on %s", at)
	}
	if w := get("/readyz"); w.Code != http.StatusOK {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	if w := get("/metrics"); !strings.Contains(w.Body.String(), `outrider_lanes{route="all"} 16`) {
		t.Errorf("/metrics: %d %s", w.Code, w.Body)
	}
	cancel()
	must(t, <-done)
}
