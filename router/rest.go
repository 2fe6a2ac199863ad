package router

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

const (
	// wakefulPause is the longest pause of a reader that is awake, if its source
	// can wake it: before a longer one it goes to sleep. It stays awake for
	// twice as long after it has found something, however long its pauses are:
	// falling asleep is what makes writers notify.
	wakefulPause = 10 * time.Millisecond

	// restlessPause bounds the pauses while writers that took the reader to be
	// awake are still at work.
	restlessPause = 50 * time.Millisecond
)

// Polling says how often a source is read, as [Poll] does.
type Polling struct {
	Batch  int
	Min    time.Duration
	After  int
	Factor float64
	Max    time.Duration
}

// pause is how long to wait after the nth empty read in a row.
func (p Polling) pause(n int) time.Duration {
	d := float64(p.Min)
	for i := p.After; i < n && d < float64(p.Max); i++ {
		d *= p.Factor
	}
	return min(time.Duration(d), p.Max)
}

// fixed reports whether the pause between polls never changes: then it is kept
// also when rows were seen, unless something wakes the claimer.
func (p Polling) fixed() bool { return p.Min >= p.Max }

// rest is how a reader or a claimer spends the time between two polls. It has
// one owner; only told may be poked by others.
type rest struct {
	poll   Polling
	waker  outbox.Waker  // nil: the source wakes nobody
	told   chan struct{} // somebody in this process has committed
	since  time.Time     // when something was found, or might have been
	empty  int           // polls in a row that found nothing
	asleep bool          // the source wakes us
}

// newRest returns the rest of whoever reads the source, or the queue.
func newRest(poll Polling, source any) rest {
	r := rest{poll: poll, told: make(chan struct{}, 1)}
	r.waker, _ = source.(outbox.Waker)
	return r
}

// begin returns the channel on which the source wakes us; nil where it does not.
func (r *rest) begin() <-chan struct{} {
	if r.waker == nil {
		return nil
	}
	wakes := r.waker.Wake()
	if wakes == nil {
		r.waker = nil
	}
	return wakes
}

// failed returns the pause after a poll that failed.
func (r *rest) failed() time.Duration {
	r.empty++
	return min(100*time.Millisecond<<min(r.empty, 5), 2*time.Second)
}

// found ends the rest: rows are there, or may be.
func (r *rest) found() {
	if r.asleep {
		r.waker.Awake()
	}
	r.woken()
}

// woken ends the rest of one whom the source has woken, and who is awake to it.
func (r *rest) woken() { r.since, r.empty, r.asleep = time.Now(), 0, false }

// pause returns the pause after a poll that found nothing; none when there is to
// be another poll at once. Before long pauses it sees to being woken.
func (r *rest) pause(ctx context.Context) time.Duration {
	r.empty++
	pause := r.poll.pause(r.empty)
	if r.asleep || r.waker == nil || pause <= wakefulPause {
		return pause
	}
	if time.Since(r.since) < 2*wakefulPause {
		return wakefulPause
	}
	switch r.waker.Sleep(ctx) {
	case outbox.Asleep:
		r.asleep = true
		return 0
	case outbox.Restless:
		return min(pause, restlessPause)
	default:
		return pause
	}
}
