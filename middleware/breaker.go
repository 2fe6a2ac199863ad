package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/outriderhq/outrider/outbox"
)

// The defaults of [Breaker].
const (
	DefaultFailures = 5
	DefaultRequests = 20
	DefaultInterval = time.Minute
	DefaultOpen     = 10 * time.Second
	DefaultProbes   = 1
)

// Breaker stops attempts after too many failures, and retries with a few after a pause. All handlers that one Breaker is added to share its
// state: for a route, all of its lanes and groups. It belongs innermost, so that it sees only the deliveries.
//
// Transient failures and [outbox.Unavailable] count against the address, deliveries for it. Messages that are permanently rejected, skipped,
// released or filtered, addresses that are gone, and panics do not count.
//
// While it is open, attempts fail with [outbox.Unavailable] at once. On a lane these cost nothing, and the attempts of the failures that opened it
// are given back. The lane probes the address with one message at a time, so a half-open breaker refuses no message there: a message that
// it let in might wait behind one that it refused. Elsewhere it lets Probes messages in.
//
// A Breaker must not be copied after its first use.
type Breaker struct {
	// Failures is the number of consecutive failures that open it. 0: 5, or with a Ratio no such limit.
	Failures int

	// Ratio is the share of failures, from above 0 to 1, that opens it, once
	// there were Requests attempts within the last Interval. 0: none does.
	Ratio    float64
	Requests int           // 0: 20
	Interval time.Duration // 0: 60 s

	// Open is how long it stays open. 0: 10 s.
	Open time.Duration

	// Probes is the number of consecutive deliveries that then close it, and
	// outside of lanes also the number of attempts at once until then. 0: 1.
	Probes int

	// Name in logs and metrics; on a route, the route's name.
	Name string

	// Logger logs its changes. Nil: slog.Default().
	Logger *slog.Logger

	// Registerer takes the metrics outrider_breaker_state (0: closed, 1: half open, 2: open) and outrider_breaker_opened_total, with the
	// label route, which is Name. Nil: none.
	Registerer prometheus.Registerer

	once    sync.Once
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	state   atomic.Int32 // a gobreaker.State; the breaker's own would change it
	until   atomic.Int64 // when it is no longer open, in Unix nanoseconds
	latest  atomic.Value // of failures, as text
	metrics breakerMetrics
}

// Validate returns an error that names every wrong field and what it may be.
func (b *Breaker) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("breaker: "+format, args...))
	}
	for name, n := range map[string]int{"failures": b.Failures, "requests": b.Requests, "probes": b.Probes} {
		if n < 0 {
			wrong("%s is %d: give 1 or more", name, n)
		}
	}
	if !between(b.Ratio, 0, 1) {
		wrong("ratio is %v: give a number above 0 and at most 1", b.Ratio)
	}
	if b.Interval < 0 {
		wrong("interval is %v: give a duration above 0", b.Interval)
	}
	if b.Open < 0 {
		wrong("open is %v: give a duration above 0", b.Open)
	}
	return errors.Join(errs...)
}

// Middleware returns the handler with the breaker around it.
func (b *Breaker) Middleware(h message.HandlerFunc) message.HandlerFunc {
	b.once.Do(b.start)
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context() // middleware further in may leave another one
		_, onLane := outbox.AttemptOf(ctx)
		done, refused := b.breaker.Allow()
		switch {
		case refused == nil:
			return b.attempt(ctx, msg, h, done)
		case onLane && errors.Is(refused, gobreaker.ErrTooManyRequests):
			return h(msg)
		}
		return nil, b.unavailable(fmt.Errorf("breaker: not attempted after too many failures: %w; the latest: %v", refused, b.latest.Load()))
	}
}

// attempt lets a message through and counts its result. The failure that opens the breaker is the address's already. Failures of a half-open
// breaker stay what they are: a lane ends messages that fail each time they are the probe.
func (b *Breaker) attempt(
	ctx context.Context, msg *message.Message, h message.HandlerFunc, done func(error),
) (produced []*message.Message, err error) {
	before := gobreaker.State(b.state.Load())
	result := errNothing
	defer func() { // also when the handler panics
		done(result)
		opened := before == gobreaker.StateClosed && gobreaker.State(b.state.Load()) == gobreaker.StateOpen
		if _, onLane := outbox.AttemptOf(ctx); onLane && opened && errors.Is(result, errFailure) {
			err = b.unavailable(fmt.Errorf("breaker: opened by too many failures: %w", err))
		}
	}()
	produced, err = h(msg)
	if result = judge(ctx, err); errors.Is(result, errFailure) {
		b.latest.Store(err.Error())
	}
	return produced, err
}

// The conclusions from an attempt about the address; nil: it works.
var (
	errNothing = errors.New("nothing")
	errFailure = errors.New("that it fails")
)

func judge(ctx context.Context, err error) error {
	v := outbox.VerdictOf(err)
	switch outcomeOf(ctx, err) {
	case outbox.OutcomeDelivered:
		return nil
	case outbox.OutcomeRetry:
		return errFailure
	case outbox.OutcomeDead:
		if v.Exhausted {
			return errFailure
		}
	case outbox.OutcomeUnavailable:
		if !v.Gone {
			return errFailure
		}
	case outbox.OutcomeSkipped, outbox.OutcomeReleased:
	}
	return errNothing
}

// unavailable is the error of a message that meets an open breaker.
func (b *Breaker) unavailable(cause error) error {
	left := time.Until(time.Unix(0, b.until.Load()))
	// A moment later: at its very end it is still open.
	return &outbox.Error{Kind: outbox.KindUnavailable, Err: cause, RetryAfter: max(left, 0) + time.Millisecond, Outage: true}
}

func (b *Breaker) start() {
	if b.Failures <= 0 && b.Ratio <= 0 {
		b.Failures = DefaultFailures
	}
	b.Open = positive(b.Open, DefaultOpen)
	if b.Logger == nil {
		b.Logger = slog.Default()
	}
	settings := gobreaker.Settings{
		Name: b.Name, MaxRequests: uint32(max(b.Probes, DefaultProbes)), Timeout: b.Open,
		ReadyToTrip: b.trips, OnStateChange: b.changed,
		IsExcluded: func(err error) bool { return errors.Is(err, errNothing) },
	}
	if b.Ratio > 0 {
		b.Requests, b.Interval = positive(b.Requests, DefaultRequests), positive(b.Interval, DefaultInterval)
		settings.Interval, settings.BucketPeriod = b.Interval, max(b.Interval/10, 1)
	}
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	b.metrics.register(b.Registerer, b.Name)
}

// trips reports whether a closed breaker opens.
func (b *Breaker) trips(c gobreaker.Counts) bool {
	if b.Failures > 0 && int64(c.ConsecutiveFailures) >= int64(b.Failures) {
		return true
	}
	known := c.TotalFailures + c.TotalSuccesses
	return b.Ratio > 0 && int64(known) >= int64(b.Requests) && float64(c.TotalFailures) >= b.Ratio*float64(known)
}

// changed is called with the breaker locked.
func (b *Breaker) changed(_ string, from, to gobreaker.State) {
	log := b.Logger.With("breaker", b.Name, "from", from.String(), "to", to.String())
	b.metrics.set(to)
	if to == gobreaker.StateOpen {
		b.until.Store(time.Now().Add(b.Open).UnixNano())
	}
	b.state.Store(int32(to))
	if to == gobreaker.StateOpen {
		log.Warn("breaker opens: nothing is attempted for a while", "for", b.Open.String())
		return
	}
	log.Info("breaker changes")
}

// breakerMetrics are nil without a registerer.
type breakerMetrics struct {
	state  prometheus.Gauge
	opened prometheus.Counter
}

func (m *breakerMetrics) register(r prometheus.Registerer, name string) {
	if r == nil {
		return
	}
	m.state = register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "outrider_breaker_state", Help: "State of the breaker: 0 closed, 1 half open, 2 open.",
	}, []string{"route"})).WithLabelValues(name)
	m.opened = register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "outrider_breaker_opened_total", Help: "How often the breaker opened.",
	}, []string{"route"})).WithLabelValues(name)
}

func (m *breakerMetrics) set(s gobreaker.State) {
	if m.state == nil {
		return
	}
	switch s {
	case gobreaker.StateClosed:
		m.state.Set(0)
	case gobreaker.StateHalfOpen:
		m.state.Set(1)
	case gobreaker.StateOpen:
		m.state.Set(2)
		m.opened.Inc()
	}
}
