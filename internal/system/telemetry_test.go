package system_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// otlp decodes what an OpenTelemetry Collector would: OTLP over HTTP.
type otlp struct {
	url string

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	metrics  map[string]*metricspb.Metric
	sets     int // of metrics
	keys     []string
}

func newOTLP(t *testing.T) *otlp {
	t.Helper()
	c := &otlp{metrics: map[string]*metricspb.Metric{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *otlp) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, r.Header.Get("X-Key"))
	switch r.URL.Path {
	case "/v1/traces":
		var in collectortrace.ExportTraceServiceRequest
		err = proto.Unmarshal(raw, &in)
		for _, rs := range in.GetResourceSpans() {
			c.resource = textsOf(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	case "/v1/metrics":
		var in collectormetrics.ExportMetricsServiceRequest
		err = proto.Unmarshal(raw, &in)
		c.sets++
		for _, rm := range in.GetResourceMetrics() {
			for _, sm := range rm.GetScopeMetrics() {
				for _, m := range sm.GetMetrics() {
					c.metrics[m.GetName()] = m
				}
			}
		}
	default:
		err = fmt.Errorf("unknown path %s", r.URL.Path)
	}
	return err
}

// named returns the spans whose names begin so.
func (c *otlp) named(prefix string) (found []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if strings.HasPrefix(s.GetName(), prefix) {
			found = append(found, s)
		}
	}
	return found
}

// sum is the sum of a counter over its points; -1: it is not there.
func (c *otlp) sum(name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.metrics[name]
	if !ok {
		return -1
	}
	total := 0.0
	for _, p := range m.GetSum().GetDataPoints() {
		total += p.GetAsDouble() + float64(p.GetAsInt())
	}
	return total
}

func (c *otlp) received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets
}

func textsOf(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		v := kv.GetValue()
		out[kv.GetKey()] = v.GetStringValue()
		if v.GetStringValue() == "" {
			out[kv.GetKey()] = strconv.FormatInt(v.GetIntValue(), 10)
		}
	}
	return out
}

// traced is a relay with the tracing middleware, and with further sections of a configuration.
func traced(t *testing.T, s shop, sections string) *outrider.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
admin: {listen: "off"}
%s
sources: {app: %s}
destinations: {bus: {type: publisher, topic: all}}
routes: {orders: {from: app, to: bus, middleware: [tracing, retry: {base: 1ms}]}}
`, sections, s.source))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	return cfg
}

const (
	sampledTrace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	unsampledTrace = "0af7651916cd43dd8448eb211c80319c"
)

// A collector gets a span of each attempt, linked to the application's trace and sampled as that, a span of each settle behind them,
// and the metrics, the last of them at the end.
func TestTelemetryArrivesAtACollector(t *testing.T) {
	t.Parallel()
	s, c := newShop(t, outbox.SQLite), newOTLP(t)
	cfg := traced(t, s, fmt.Sprintf("telemetry: {url: %q, headers: {X-Key: secret}, metrics: 1h}", c.url))
	r := &receiver{failed: map[string]bool{"dropped": true, "none": true}} // own fails once
	stop := relay(t, cfg, outrider.WithDestination("bus", r))
	s.publish(t, outbox.New("order.created").ID("own").RawJSON([]byte(`{"n":1}`)).Header("traceparent", "00-"+sampledTrace+"-00f067aa0ba902b7-01"),
		outbox.New("order.created").ID("dropped").RawJSON([]byte(`{}`)).Header("traceparent", "00-"+unsampledTrace+"-b7ad6b7169203331-00"),
		outbox.New("order.created").ID("none").RawJSON([]byte(`{}`)))
	eventually(t, "three messages", func() bool {
		got := r.headers("traceparent")
		return len(got["own"]) == 1 && len(got["dropped"]) == 1 && len(got["none"]) == 1
	})
	stop()

	attempts := map[string][]*tracepb.Span{}
	for _, span := range c.named("send orders") {
		attributes := textsOf(span.GetAttributes())
		for key, want := range map[string]string{"messaging.system": "outrider", "messaging.destination.name": "orders",
			"messaging.operation.name": "send", "messaging.operation.type": "send"} {
			if attributes[key] != want {
				t.Errorf("%s is %q, want %q", key, attributes[key], want)
			}
		}
		if len(span.GetParentSpanId()) > 0 || span.GetKind() != tracepb.Span_SPAN_KIND_PRODUCER {
			t.Errorf("span %v has a parent, or is not of a producer", span)
		}
		attempts[attributes["messaging.message.id"]] = append(attempts[attributes["messaging.message.id"]], span)
	}
	if len(attempts["own"]) != 2 || len(attempts["none"]) != 1 || len(attempts["dropped"]) != 0 {
		t.Errorf("attempts %v, want two of a message that failed once, one without a trace, and none of one that is not sampled", attempts)
	}
	for _, span := range attempts["own"] {
		if links := span.GetLinks(); len(links) != 1 || hex.EncodeToString(links[0].GetTraceId()) != sampledTrace || hex.EncodeToString(span.GetTraceId()) == sampledTrace {
			t.Errorf("links %v of trace %x", links, span.GetTraceId())
		}
	}
	for _, span := range attempts["none"] {
		if len(span.GetLinks()) != 0 {
			t.Errorf("links %v", span.GetLinks())
		}
	}
	settles := c.named("settle state store")
	if len(settles) == 0 || len(settles) > 3 {
		t.Errorf("%d spans of settles, want one of each behind an attempt", len(settles))
	}
	for _, span := range settles {
		a := textsOf(span.GetAttributes())
		if a["messaging.operation.type"] != "settle" || a["outrider.lanes"] == "" || span.GetEndTimeUnixNano() < span.GetStartTimeUnixNano() {
			t.Errorf("settle %v", span)
		}
	}
	if c.resource["service.name"] != "outrider" || c.resource["telemetry.sdk.language"] != "go" {
		t.Errorf("resource %v", c.resource)
	}
	if got := c.sum("outrider_delivered_total"); got != 3 {
		t.Errorf("outrider_delivered_total is %v, want 3", got)
	}
	if slices.ContainsFunc(c.keys, func(key string) bool { return key != "secret" }) {
		t.Errorf("headers %v", c.keys)
	}
}

// Without a receiver nothing is sent, and nothing is traced; metrics go beside Prometheus only where that is asked for.
func TestTelemetryIsOffByDefault(t *testing.T) {
	s, c := newShop(t, outbox.SQLite), newOTLP(t)
	for name, env := range map[string]map[string]string{
		"nothing":      {},
		"disabled":     {"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"},
		"no exporters": {"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range env {
				t.Setenv(key, value)
			}
			r := &receiver{failed: map[string]bool{}}
			stop := relay(t, traced(t, s, ""), outrider.WithDestination("bus", r))
			s.publish(t, outbox.New("t").ID(name).RawJSON([]byte(`{}`)))
			eventually(t, name, func() bool { return len(r.headers("traceparent")[name]) == 1 })
			stop()
			if header := r.headers("traceparent")[name][0]; header != "" || len(c.keys) > 0 {
				t.Errorf("traceparent %q, %d requests", header, len(c.keys))
			}
		})
	}
	t.Run("metrics by the environment", func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
		t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
		stop := relay(t, traced(t, s, ""), outrider.WithDestination("bus", &receiver{failed: map[string]bool{}}))
		stop()
		if c.received() == 0 {
			t.Error("no metrics")
		}
	})
}

// A relay sends on after a reload.
func TestTelemetryGoesOnAfterAReload(t *testing.T) {
	t.Parallel()
	s, c := newShop(t, outbox.SQLite), newOTLP(t)
	text := fmt.Sprintf("admin: {listen: \"off\"}\ntelemetry: {url: %q, metrics: 1s}\nsources: {app: %s}\n"+
		"destinations: {bus: {type: discard}}\nroutes: {orders: {from: app, to: bus, middleware: [tracing, retry]}}\n", c.url, s.source)
	cfg, err := outrider.ParseConfig("test.yaml", []byte(text))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	<-o.Ready()
	s.publish(t, outbox.New("t").ID("before").RawJSON([]byte(`{}`)))
	eventually(t, "a metric", func() bool { return c.sum("outrider_delivered_total") == 1 })
	again, err := outrider.ParseConfig("test.yaml", []byte("drain_timeout: 20s\n"+text))
	must(t, err)
	must(t, o.Reload(ctx, again))
	eventually(t, "the span of before", func() bool { return len(c.named("send orders")) == 1 }) // the reload has closed its exporter
	sets := c.received()
	s.publish(t, outbox.New("t").ID("after").RawJSON([]byte(`{}`)))
	eventually(t, "metrics after the reload", func() bool { return c.received() > sets+1 && c.sum("outrider_delivered_total") >= 1 })
	cancel()
	must(t, <-done)
	if n := len(c.named("send orders")); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
}

// A collector that takes requests and never answers holds up neither deliveries nor, beyond a few seconds, the end.
func TestTelemetryEndsWhenItsCollectorHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	s := newShop(t, outbox.SQLite)
	r := &receiver{failed: map[string]bool{}}
	stop := relay(t, traced(t, s, fmt.Sprintf("telemetry: {url: %q, metrics: 1s}", server.URL)), outrider.WithDestination("bus", r))
	s.publish(t, outbox.New("t").ID("a").RawJSON([]byte(`{}`)))
	eventually(t, "a delivery", func() bool { return len(r.headers("")["a"]) == 1 })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended: // two flushes of at most 5 s each; an exporter alone tries for a minute
	case <-time.After(40 * time.Second):
		t.Fatal("the relay does not end")
	}
}
