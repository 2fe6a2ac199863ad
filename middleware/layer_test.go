package middleware_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outriderhq/outrider/middleware"
)

// Where messages are delivered first, metrics and spans measure the delivery, and what
// is sent has the attempt's traceparent.
func TestWatchersBeginBeforeTheDelivery(t *testing.T) {
	t.Parallel()
	recorded, registry := tracetest.NewSpanRecorder(), prometheus.NewRegistry()
	tracing := middleware.Tracing{Provider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorded))}
	c := middleware.NewChain(&middleware.Metrics{Registerer: registry}, tracing, tracing,
		middleware.Timeout{Limit: time.Minute}, middleware.Timeout{Limit: time.Second})
	if !c.DeliverFirst || c.Limit != time.Second || len(c.Middleware) != 3 || len(c.Before) != 3 {
		t.Fatalf("chain %+v", c)
	}
	msg := message.NewMessage("m1", []byte(`{}`))
	msg.SetContext(context.Background())
	for _, before := range c.Before {
		before(msg)
	}
	if msg.Metadata["traceparent"] == "" {
		t.Error("nothing in the message says which trace the attempt belongs to")
	}
	const took = 20 * time.Millisecond
	time.Sleep(took) // the delivery
	failure := errors.New("refused")
	h := chain(func(*message.Message) ([]*message.Message, error) { return nil, failure }, c.Middleware...)
	if _, err := h(msg); !errors.Is(err, failure) {
		t.Errorf("the chain made %v of the outcome", err)
	}
	spans := recorded.Ended()
	if len(spans) != 2 || len(recorded.Started()) != 2 {
		t.Fatalf("%d spans begun, %d ended, want one of each tracing", len(recorded.Started()), len(spans))
	}
	for _, s := range spans {
		if d := s.EndTime().Sub(s.StartTime()); d < took {
			t.Errorf("a span of %v, shorter than the delivery", d)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); h != nil && h.GetSampleSum() < took.Seconds() {
			t.Errorf("%s measured %vs, less than the delivery", f.GetName(), h.GetSampleSum())
		}
	}
}

// One layer without the marker has the whole chain run around the delivery, and then
// the timeout is in it and nothing is called before.
func TestOneUnmarkedLayerRunsTheChainAroundTheDelivery(t *testing.T) {
	t.Parallel()
	passOn := func(h message.HandlerFunc) message.HandlerFunc { return h }
	for name, unmarked := range map[string]middleware.Layer{
		"func": middleware.Func(passOn), "throttle": &middleware.Throttle{Rate: 1}, "dedupe": &middleware.Dedupe{}, "breaker": &middleware.Breaker{},
	} {
		c := middleware.NewChain(middleware.Tracing{}, middleware.AfterDelivery(passOn), unmarked, middleware.Timeout{})
		if c.DeliverFirst || c.Limit != 0 || len(c.Middleware) != 4 || len(c.Before) != 0 {
			t.Errorf("%s: chain %+v", name, c)
		}
	}
	if c := middleware.NewChain(); !c.DeliverFirst {
		t.Error("an empty chain waits for deliveries")
	}
}
