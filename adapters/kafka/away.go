package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
)

// awayAfter is how long no broker may answer before we say that Kafka is away.
// franz-go alone would try again until the delivery's timeout.
const awayAfter = time.Second

// away is the error of a delivery, or a check, while no broker answers.
type away struct {
	brokers []string // as configured
	err     error    // of the latest connection
}

func (a *away) Error() string {
	return fmt.Sprintf("no broker of %s answers: %s", strings.Join(a.brokers, ", "), reasonOf(a.err))
}
func (a *away) Unwrap() error { return a.err }

// reasonOf says why a connection could not be made, in a few words.
func reasonOf(err error) string {
	var timeout net.Error
	dns, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case unknown && !dns.IsTimeout:
		return fmt.Sprintf("the host %q cannot be found", dns.Name)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no connection in time"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return "connections are closed without an answer"
	}
	return err.Error()
}

// reach records whether any broker answers a client: connections that
// cannot be made, and no answer on one that was. It is away when that has lasted for
// awayAfter, for as many addresses as were configured: one broker of a cluster that
// is down is not the cluster, and the others answer requests for metadata meanwhile.
type reach struct {
	seeds   []string
	failing atomic.Bool // the happy path takes no lock
	wrote   atomic.Bool // records have been sent since the last guard

	mu     sync.Mutex
	since  time.Time        // of failing
	failed map[string]error // by address
	last   error
	lost   func(error) // is called once when it is away; nil: no wave waits
	timer  *time.Timer
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (r *reach) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	const produce = 0
	if key == produce && n > 0 {
		r.wrote.Store(true)
	}
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (r *reach) OnBrokerRead(from kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	switch {
	case err != nil:
		r.failedAt(from, 0, err)
	case r.failing.Load():
		r.answered()
	}
}

// failedAt notes that a connection could not be made, or ended without an answer. One
// that was made is no answer yet: proxies take connections for brokers that are gone.
func (r *reach) failedAt(to kgo.BrokerMetadata, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failing.Load() {
		r.failing.Store(true)
		r.since, r.failed = time.Now().Add(-took), map[string]error{}
		r.timer = time.AfterFunc(awayAfter-took, r.judge)
	}
	r.last = err
	r.failed[net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))] = err
	r.judgeLocked()
}

func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restart()
}

// restart forgets failures. The caller has the lock.
func (r *reach) restart() {
	r.failing.Store(false)
	r.failed = nil
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

func (r *reach) judge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judgeLocked()
}

// judgeLocked fails the waves that wait when no broker answers.
func (r *reach) judgeLocked() {
	if !r.failing.Load() || r.lost == nil || time.Since(r.since) < awayAfter || len(r.failed) < len(r.seeds) {
		return
	}
	lost := r.lost
	r.lost = nil
	lost(&away{r.seeds, r.last})
}

// guard calls lost once if no broker answers from now on. It must not wait; end
// the guard with the result.
func (r *reach) guard(lost func(error)) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restart() // what was long ago says nothing
	r.wrote.Store(false)
	r.lost = lost
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost = nil
	}
}

// guarded runs f with a context that ends when no broker answers, and returns that
// as its error.
func (c *client) guarded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.watch.guard(cancel)()
	err := f(ctx)
	if a, ok := errors.AsType[*away](context.Cause(ctx)); ok && err != nil {
		return a
	}
	if last := c.watch.unreached(); last != nil && err != nil && !errors.As(err, new(*kerr.Error)) {
		return last
	}
	return err
}

// unreached returns an error when all that was tried lately has failed.
func (r *reach) unreached() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failing.Load() || len(r.failed) < len(r.seeds) {
		return nil
	}
	return &away{r.seeds, r.last}
}

// waiting are the topics with records that were sent and that no broker answers.
// Such a wave continues, because the broker knows its records by their numbers: given up
// and sent again by another client, those that it had would be there twice.
type waiting struct {
	mu     sync.Mutex
	topics map[string]adapters.AddressStatus
}

var _ adapters.AddressReporter = (*Destination)(nil)

// Unanswered implements [adapters.AddressReporter].
func (d *Destination) Unanswered() []adapters.AddressStatus {
	d.waiting.mu.Lock()
	defer d.waiting.mu.Unlock()
	var out []adapters.AddressStatus
	for _, status := range d.waiting.topics {
		out = append(out, status)
	}
	slices.SortFunc(out, func(a, b adapters.AddressStatus) int { return strings.Compare(a.Address, b.Address) })
	return out
}

// lost is called when no broker answers a wave. Sent records are waited for, unless
// the wave is part of a transaction, which is aborted then.
func (b *bisection) lost(cancel context.CancelCauseFunc) func(error) {
	d, topic, transaction, reach := b.d, b.w.topic, b.c.transactional != "", &b.c.watch.reach
	return func(err error) {
		if transaction || !reach.wrote.Load() {
			cancel(err)
			return
		}
		d.cfg.Logger.Warn("kafka: no broker answers; records that were sent are waited for", "topic", topic, "error", err)
		d.waiting.mu.Lock()
		defer d.waiting.mu.Unlock()
		if d.waiting.topics == nil {
			d.waiting.topics = map[string]adapters.AddressStatus{}
		}
		d.waiting.topics[topic] = adapters.AddressStatus{Address: topic, Since: time.Now().Add(-awayAfter), Cause: "kafka: " + err.Error()}
	}
}

// over notes that a wave to a topic has ended.
func (w *waiting) over(topic string, log func()) {
	w.mu.Lock()
	_, was := w.topics[topic]
	delete(w.topics, topic)
	w.mu.Unlock()
	if was {
		log()
	}
}
