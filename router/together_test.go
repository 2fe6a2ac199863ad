package router

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// All middleware in one route, together with Watermill's own, through failures,
// panics and an outage: every id arrives once, in order, with a trace.
func TestG1_G2_AllMiddlewareInOneRoute(t *testing.T) {
	for _, o := range []adapters.Ordering{wave, group} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			inBubble(t, o, everythingInOneRoute)
		})
	}
}

func everythingInOneRoute(r *rig) {
	registry, spans := prometheus.NewPedanticRegistry(), tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	quiet := slog.New(slog.DiscardHandler)
	var seen sync.Map
	flaky := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if _, again := seen.LoadOrStore(msg.UUID, true); !again && msg.Metadata[outbox.MetaPosition] == "9" {
				panic("boom")
			}
			return h(msg)
		}
	}
	down := time.Now().Add(20 * time.Second)
	var failed, untraced sync.Map
	r.dest.fail = func(_ string, msg *message.Message) error {
		if msg.Metadata["traceparent"] == "" {
			untraced.Store(msg.UUID, true)
		}
		if _, again := failed.LoadOrStore(msg.UUID, true); time.Now().Before(down) || !again && len(msg.UUID)%2 == 0 {
			return errors.New("status 500")
		}
		return nil
	}
	const groups, n = 5, 15
	for i := range n {
		for g := range groups {
			r.add(fmt.Sprintf("g%d", g), fmt.Sprintf("g%d-%d", g, i))
			if i%3 == 0 {
				r.add(fmt.Sprintf("g%d", (g+i)%groups), fmt.Sprintf("g%d-%d", g, i)) // a twin
			}
		}
	}
	r.start(r.route(func(def *Route) {
		def.Attempts = 10
		def.Middleware = slices.Concat([]message.HandlerMiddleware{
			stock.Recoverer, stock.CorrelationID,
			middleware.Tracing{Provider: provider}.Middleware,
			(&middleware.Metrics{Registerer: registry}).Middleware,
			(&middleware.Dedupe{Logger: quiet}).Middleware,
			(&middleware.Throttle{Rate: 1000, Burst: 50}).Middleware,
		}, stack(10*time.Millisecond, 10), []message.HandlerMiddleware{
			stock.NewThrottle(1000, time.Second).Middleware, stock.Timeout(time.Hour), stock.Recoverer, flaky,
			(&middleware.Breaker{Open: 2 * time.Second, Name: "orders", Registerer: registry, Logger: quiet}).Middleware,
		})
	}))
	r.await(groups * n)
	time.Sleep(time.Minute)
	r.stop()
	r.wantParked()
	got := map[string]int{}
	for _, msg := range r.dest.got {
		got[msg.UUID]++
		if _, bare := untraced.Load(msg.UUID); bare {
			r.t.Errorf("%s arrived without a trace", msg.UUID)
		}
	}
	if len(got) != groups*n || len(r.dest.got) != groups*n {
		r.t.Errorf("%d messages of %d ids arrived, want %d", len(r.dest.got), len(got), groups*n)
	}
	for name, least := range map[string]int{"outrider_attempts_total": 3, "outrider_attempt_duration_seconds": 3, "outrider_breaker_opened_total": 1} {
		if series, err := testutil.GatherAndCount(registry, name); err != nil || series < least {
			r.t.Errorf("%s: %d series, %v", name, series, err)
		}
	}
	if len(spans.Ended()) < groups*n {
		r.t.Errorf("%d spans", len(spans.Ended()))
	}
	order := map[string]int{}
	for _, msg := range r.dest.got {
		var position int
		if _, err := fmt.Sscan(msg.Metadata[outbox.MetaPosition], &position); err != nil {
			r.t.Fatal(err)
		}
		g := msg.Metadata[outbox.MetaGroup]
		if position < order[g] {
			r.t.Errorf("position %d of %s arrived after %d", position, g, order[g])
		}
		order[g] = position
	}
}
