package middleware

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/internal/lanectx"
	"github.com/outriderhq/outrider/outbox"
)

// Metrics measures the inner middleware and the delivery, with Prometheus:
//
//   - outrider_attempt_duration_seconds, a histogram of the time that the rest
//     of the chain takes, waiting for a turn included; its buckets reach an hour;
//   - outrider_attempts_total, a counter of the results.
//
// Both have the labels route (outside of lanes the name of the Watermill handler) and kind: delivered, skipped, retry, unavailable, dead or
// released, as [outbox.Outcome] names them. Groups, ids and addresses are never labels. As the outermost layer it measures the verdicts of the
// route, inside of retry the results of deliveries.
//
// Any number of Metrics may share a Registerer. A Metrics must not be copied after its first use.
type Metrics struct {
	// Registerer takes the metrics. Nil: prometheus.DefaultRegisterer.
	Registerer prometheus.Registerer

	once     sync.Once
	duration *prometheus.HistogramVec
	results  *prometheus.CounterVec
}

// attemptBuckets are seconds: from a millisecond to an hour.
var attemptBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// kindPanic labels attempts that ended with a panic.
const kindPanic = "panic"

// Middleware returns the handler with the measurement around it.
func (m *Metrics) Middleware(h message.HandlerFunc) message.HandlerFunc {
	m.once.Do(m.start)
	return func(msg *message.Message) (produced []*message.Message, err error) {
		ctx, begun, kind := msg.Context(), m.begun(msg.Context()), kindPanic
		defer func() {
			route := message.HandlerNameFromCtx(ctx)
			if attempt, ok := outbox.AttemptOf(ctx); ok {
				route = attempt.Route
			}
			m.duration.WithLabelValues(route, kind).Observe(time.Since(begun).Seconds())
			m.results.WithLabelValues(route, kind).Inc()
		}()
		produced, err = h(msg)
		kind = outcomeOf(ctx, err).String()
		return produced, err
	}
}

// AfterDelivery is the marker of a [Layer].
func (*Metrics) AfterDelivery() {}

// BeforeDelivery notes when an attempt begins whose chain runs afterwards.
func (m *Metrics) BeforeDelivery(msg *message.Message) {
	msg.SetContext(&begunContext{Context: msg.Context(), by: m, at: time.Now()})
}

// begunContext says when an attempt began.
type begunContext struct {
	context.Context
	by *Metrics
	at time.Time
}

// begunKey is the key of a Metrics' begunContext.
type begunKey struct{ by *Metrics }

// Value answers the Metrics that made the context.
func (c *begunContext) Value(key any) any {
	if k, ok := key.(begunKey); ok && k.by == c.by {
		return c
	}
	return c.Context.Value(key)
}

func (c *begunContext) Quiet() bool { return lanectx.IsQuiet(c.Context) }

// begun is when the attempt began: now, unless its delivery came first.
func (m *Metrics) begun(ctx context.Context) time.Time {
	if c, ok := ctx.Value(begunKey{m}).(*begunContext); ok {
		return c.at
	}
	return time.Now()
}

// outcomeOf is the outcome of an attempt. On a lane it takes into account whether the message was delivered.
func outcomeOf(ctx context.Context, err error) outbox.Outcome {
	delivered, known := outbox.DeliveredOf(ctx)
	switch {
	case delivered:
		return outbox.OutcomeDelivered
	case known && err == nil:
		return outbox.OutcomeSkipped // a middleware kept it
	}
	return outbox.VerdictOf(err).Outcome
}

func (m *Metrics) start() {
	if m.Registerer == nil {
		m.Registerer = prometheus.DefaultRegisterer
	}
	labels := []string{"route", "kind"}
	m.duration = register(m.Registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "outrider_attempt_duration_seconds", Buckets: attemptBuckets,
		Help: "Time that an attempt took inside of the metrics middleware.",
	}, labels))
	m.results = register(m.Registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "outrider_attempts_total", Help: "Attempts by their result.",
	}, labels))
}

// register registers a collector, or returns the one that was registered under its name before. One that cannot be registered, because its name
// is used differently, is used without being scraped.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](r.Register(c)); ok {
		if known, ok := taken.ExistingCollector.(C); ok {
			return known
		}
	}
	return c
}
