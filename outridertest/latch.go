package outridertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Latch is a publisher for tests: it counts its events, and lets a test wait for a number of them. Its methods may be called concurrently.
//
//	latch := outridertest.NewLatch(3)
//	relay, err := outrider.New(cfg, outrider.WithPublisher("events", latch))
//	... // run the relay and publish three events
//	latch.Await(t)
//
// The zero Latch expects nothing.
type Latch struct {
	mu    sync.Mutex
	left  int
	got   []outbox.Envelope
	sick  bool
	err   error
	opens chan struct{} // closed when none is left; nil without a waiter
}

// NewLatch returns a latch that opens when it has taken n events.
func NewLatch(n int) *Latch { return &Latch{left: n} }

// Expect drops all recorded events, and makes the latch open after n more.
func (l *Latch) Expect(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.got = n, nil
}

// Name is "CountDownLatchPublisher".
func (*Latch) Name() string { return "CountDownLatchPublisher" }

// IsHealthy reports whether the latch takes events: see [Latch.SetHealthy].
func (l *Latch) IsHealthy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.sick
}

// SetHealthy sets the result of IsHealthy. An unhealthy latch is an address that is down: nothing is published, and no attempt
// counts.
func (l *Latch) SetHealthy(healthy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sick = !healthy
}

// SetError makes the latch refuse all batches with err; nil: it accepts them.
func (l *Latch) SetError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// PublishBatch takes events.
func (l *Latch) PublishBatch(_ context.Context, events []outbox.Envelope) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.got = append(l.got, events...)
	l.left -= len(events)
	if l.left <= 0 && l.opens != nil {
		close(l.opens)
		l.opens = nil
	}
	return nil
}

// Events returns the events since the latch was created or [Latch.Expect] was called, in the order of
// delivery.
func (l *Latch) Events() []outbox.Envelope {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]outbox.Envelope(nil), l.got...)
}

// Left returns how many events are still expected; below 0 when more came.
func (l *Latch) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// errShut is the error of a wait that timed out.
var errShut = errors.New("the latch did not open")

// Await waits until no event is expected any more. It fails the test after [DefaultTimeout].
func (l *Latch) Await(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeoutCause(tb.Context(), DefaultTimeout, errShut)
	defer cancel()
	if err := l.wait(ctx); err != nil {
		tb.Fatalf("outridertest: %v: %d events came, %d more are expected", err, len(l.Events()), l.Left())
	}
}

// AwaitWithin is [Latch.Await] with another timeout and without a test: it reports whether the latch opened in that time.
func (l *Latch) AwaitWithin(timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.wait(ctx) == nil
}

// wait waits until the latch is open, or ctx ends.
func (l *Latch) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.left <= 0 {
			l.mu.Unlock()
			return nil
		}
		if l.opens == nil {
			l.opens = make(chan struct{})
		}
		opens := l.opens
		l.mu.Unlock()
		select {
		case <-opens:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
