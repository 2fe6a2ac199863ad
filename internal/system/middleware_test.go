package system_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// receiver is a Watermill publisher that keeps what arrives and fails each
// message once.
type receiver struct {
	mu     sync.Mutex
	failed map[string]bool
	got    []*message.Message
}

func (r *receiver) Publish(_ string, msgs ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range msgs {
		if !r.failed[msg.UUID] {
			r.failed[msg.UUID] = true
			return fmt.Errorf("%s fails once", msg.UUID)
		}
		r.got = append(r.got, msg.Copy())
	}
	return nil
}

func (r *receiver) Close() error { return nil }

// headers returns a header of what arrived, by id.
func (r *receiver) headers(key string) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for _, msg := range r.got {
		out[msg.UUID] = append(out[msg.UUID], msg.Metadata[key])
	}
	return out
}

// relay runs a configuration until the returned function is called.
func relay(t *testing.T, cfg *outrider.Config, opts ...outrider.Option) (stop func()) {
	t.Helper()
	quiet := outrider.WithLogger(slog.New(slog.DiscardHandler))
	o, err := outrider.New(cfg, append(opts, quiet)...)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		must(t, <-done)
	}
}

// eventually waits for a condition; only the test's end bounds it.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	end := time.After(3 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within 3 minutes", what)
		}
	}
}

// shop is a database with an outbox and an application that publishes.
type shop struct {
	db     *sql.DB
	client *outbox.Client
	source string // in the configuration
}

func newShop(t *testing.T, dialect outbox.Dialect) shop {
	t.Helper()
	open, location := sqlite.Open, filepath.Join(t.TempDir(), "shop.db")
	source := fmt.Sprintf("{type: sqlite, path: %q}", location)
	if dialect == outbox.PostgreSQL {
		open = func(url string) (*sql.DB, error) { return sql.Open("pgx", url) }
		location = testenv.Postgres(t)
		source = fmt.Sprintf("{type: postgres, url: %q}", location)
	}
	db, err := open(location)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	client, err := outbox.NewClient(outbox.ClientConfig{Dialect: dialect})
	must(t, err)
	return shop{db, client, source}
}

func (s shop) publish(t *testing.T, builders ...*outbox.Builder) {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), nil)
	must(t, err)
	envelopes := make([]outbox.Envelope, len(builders))
	for i, b := range builders {
		envelopes[i], err = b.Build()
		must(t, err)
	}
	must(t, s.client.Publish(t.Context(), tx, envelopes...))
	must(t, tx.Commit())
}

// Two rows with one event id, in one group or in two, in one transaction or
// later, also after a restart of the relay, are delivered once, although the
// first attempt of each id fails.
func TestG3_ProducerDuplicatesAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	for _, dialect := range []outbox.Dialect{outbox.SQLite, outbox.PostgreSQL} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, dialect)
			cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
admin: {listen: "off"}
sources: {app: %s}
destinations: {bus: {type: publisher, topic: all}}
routes:
  orders: {from: app, to: bus, middleware: [dedupe: 1h, poison, retry: {base: 1ms}, timeout]}
`, s.source))
			must(t, err)
			_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
			must(t, err)
			r := &receiver{failed: map[string]bool{}}
			row := func(id, group string) *outbox.Builder {
				return outbox.New("order.created").ID(id).Group(group).RawJSON([]byte(`{}`))
			}
			const n = 40
			for part := range 3 {
				stop := relay(t, cfg, outrider.WithDestination("bus", r))
				for i := range n {
					old := fmt.Sprintf("e%d", (part*n+i)/2)
					fresh := fmt.Sprintf("e%d", part*n+i)
					s.publish(t, row(old, "a"), row(fresh, "a"), row(fresh, fmt.Sprint("b", i%5)), row(fresh, ""))
				}
				marker := fmt.Sprint("end", part)
				s.publish(t, row(marker, "a"))
				eventually(t, "the last message of its group", func() bool { return len(r.headers("")[marker]) > 0 })
				eventually(t, "all of them", func() bool { return len(r.headers("")) == (part+1)*(n+1) })
				stop()
			}
			for id, times := range r.headers("") {
				if len(times) != 1 {
					t.Errorf("%s arrived %d times", id, len(times))
				}
			}
		})
	}
}

// The receiver sees the application's own trace, or that of the relay when
// there is none; the metrics of the route are where they were asked for.
func TestTracingAndMetricsOfARoute(t *testing.T) {
	t.Parallel()
	s := newShop(t, outbox.SQLite)
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
admin: {listen: "off"}
sources: {app: %s}
destinations: {bus: {type: publisher, topic: all}}
routes:
  orders: {from: app, to: bus, middleware: [metrics, tracing, retry: {base: 1ms}, breaker]}
  copies: {from: app, to: bus, middleware: [metrics, tracing: {}, breaker: {ratio: 0.5}]}
`, s.source))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	spans, registry := tracetest.NewSpanRecorder(), prometheus.NewPedanticRegistry()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	r := &receiver{failed: map[string]bool{"own": true}}
	stop := relay(t, cfg, outrider.WithDestination("bus", r), outrider.WithTracerProvider(provider), outrider.WithRegisterer(registry))
	const own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s.publish(t, outbox.New("t").ID("own").RawJSON([]byte(`{}`)).Header("traceparent", own).Header("tracestate", "app=1"),
		outbox.New("t").ID("none").RawJSON([]byte(`{}`)))
	eventually(t, "two messages on two routes", func() bool {
		got := r.headers("traceparent")
		return len(got["own"]) == 2 && len(got["none"]) == 2
	})
	stop()
	must(t, provider.Shutdown(t.Context()))
	got := r.headers("traceparent")
	for _, header := range got["own"] {
		if header != own {
			t.Errorf("the application's trace became %s", header)
		}
	}
	ours := map[string]string{}
	for _, span := range spans.Ended() {
		sc := span.SpanContext()
		ours[fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID())] = span.Name()
		if span.Parent().IsValid() {
			t.Errorf("parent %v", span.Parent())
		}
	}
	for _, header := range got["none"] {
		if name := ours[header]; name != "send orders" && name != "send copies" {
			t.Errorf("the receiver got %q, which is none of %v", header, ours)
		}
	}
	for name, least := range map[string]int{"outrider_attempts_total": 3, "outrider_breaker_state": 2} {
		if series, err := testutil.GatherAndCount(registry, name); err != nil || series < least {
			t.Errorf("%s: %d series, %v", name, series, err)
		}
	}
}

// Spans go to where the environment says; without it there are none.
func TestTracingExportsByEnvironment(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(string(body), "send orders") && strings.Contains(string(body), "shop-relay") {
			paths = append(paths, req.URL.Path)
		}
	}))
	defer collector.Close()
	s := newShop(t, outbox.SQLite)
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
admin: {listen: "off"}
sources: {app: %s}
destinations: {bus: {type: publisher, topic: all}}
routes: {orders: {from: app, to: bus, middleware: [tracing, retry: {base: 1ms}]}}
`, s.source))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	r := &receiver{failed: map[string]bool{}}
	for round, id := range []string{"untraced", "traced"} {
		if round == 1 {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			t.Setenv("OTEL_SERVICE_NAME", "shop-relay")
		}
		stop := relay(t, cfg, outrider.WithDestination("bus", r))
		s.publish(t, outbox.New("t").ID(id).RawJSON([]byte(`{}`)))
		eventually(t, id, func() bool { return len(r.headers("traceparent")[id]) == 1 })
		stop() // sends the last spans
		if traced := r.headers("traceparent")[id][0] != ""; traced != (round == 1) {
			t.Errorf("%s: a trace: %v", id, traced)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(paths) == 0 || paths[0] != "/v1/traces" {
		t.Errorf("spans were sent to %v", paths)
	}
}
