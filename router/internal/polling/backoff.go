// Package polling decides how long a reader waits between two reads.
package polling

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/signal"
)

const (
	// wakefulPause is the longest pause of a reader that is awake, if its source
	// can wake it: before a longer one it goes to sleep. It stays awake for
	// twice as long after it has found something, however long its pauses are:
	// falling asleep is what makes writers notify.
	wakefulPause = 10 * time.Millisecond

	// DrainingPause bounds the pauses while writers that took the reader to be
	// awake are still at work.
	DrainingPause = 50 * time.Millisecond
)

// Config says how often a source is read, as the key poll of a source does.
type Config struct {
	Batch  int
	Min    time.Duration
	After  int
	Factor float64
	Max    time.Duration
}

// pause is how long to wait after the nth empty read in a row.
func (c Config) pause(n int) time.Duration {
	d := float64(c.Min)
	for i := c.After; i < n && d < float64(c.Max); i++ {
		d *= c.Factor
	}
	return min(time.Duration(d), c.Max)
}

// Fixed reports whether the pause between polls never changes: then it is kept
// also when rows were seen, unless something wakes the claimer.
func (c Config) Fixed() bool { return c.Min >= c.Max }

// Backoff is how a reader or a claimer spends the time between two polls. It has
// one owner; others may only send to Signal and call [Backoff.Set].
type Backoff struct {
	poll   Config
	next   atomic.Pointer[Config] // what Set wants of the next poll; nil: as before
	waker  adapters.Waker         // nil: the source has no wake-ups
	Signal chan struct{}          // this process has committed rows
	since  time.Time              // when something was found, or might have been
	empty  int                    // polls in a row that found nothing
	Armed  bool                   // the source wakes us
}

// NewBackoff returns the backoff of the reader of a source or a queue.
func NewBackoff(poll Config, source any) *Backoff {
	r := &Backoff{poll: poll, Signal: make(chan struct{}, 1)}
	r.waker, _ = source.(adapters.Waker)
	return r
}

// Set gives the next poll, and those after it, other settings. It ends the rest, which
// may be much longer than the new settings have it.
func (b *Backoff) Set(poll Config) {
	b.next.Store(&poll)
	signal.Send(b.Signal)
}

// Poll returns the settings of the poll that begins, for all of it and the rest after
// it; fresh reports whether they are others than the poll before had.
func (b *Backoff) Poll() (poll Config, fresh bool) {
	if b.next.Load() == nil {
		return b.poll, false
	}
	b.poll = *b.next.Swap(nil)
	return b.poll, true
}

// Begin returns the channel on which the source wakes us; nil where it does not.
func (b *Backoff) Begin() <-chan struct{} {
	if b.waker == nil {
		return nil
	}
	wakes := b.waker.Wake()
	if wakes == nil {
		b.waker = nil
	}
	return wakes
}

// Failed returns the pause after a poll that failed.
func (b *Backoff) Failed() time.Duration {
	b.empty++
	return min(100*time.Millisecond<<min(b.empty, 5), 2*time.Second)
}

// Found ends the rest: rows are there, or may be.
func (b *Backoff) Found() {
	if b.Armed {
		b.waker.Awake()
	}
	b.Woken()
}

// Woken ends the rest of a reader that its source has woken.
func (b *Backoff) Woken() { b.since, b.empty, b.Armed = time.Now(), 0, false }

// Pause returns the pause after a poll that found nothing; none when there is to
// be another poll at once. Before long pauses it sees to being woken.
func (b *Backoff) Pause(ctx context.Context) time.Duration {
	b.empty++
	pause := b.poll.pause(b.empty)
	if b.Armed || b.waker == nil || pause <= wakefulPause {
		return pause
	}
	if time.Since(b.since) < 2*wakefulPause {
		return wakefulPause
	}
	switch b.waker.Sleep(ctx) {
	case adapters.Armed:
		b.Armed = true
		return 0
	case adapters.Draining:
		return min(pause, DrainingPause)
	default:
		return pause
	}
}

// Pace is how often one of those who share a reader looks for rows, where that is less often than the reader polls.
type Pace struct {
	Config
	empty int
	due   time.Time

	looks, idle, next atomic.Int64 // what [Pace.Stats] returns, which others call
}

// Stats returns how many looks there were, how many found nothing since the last one that did, and when the next one is due; the zero time: now.
// It may be called concurrently with the rest.
func (p *Pace) Stats() (looks, idle int64, due time.Time) {
	if at := p.next.Load(); at != 0 {
		due = time.Unix(0, at)
	}
	return p.looks.Load(), p.idle.Load(), due
}

func (p *Pace) publish() {
	p.idle.Store(int64(p.empty))
	at := int64(0)
	if !p.due.IsZero() {
		at = p.due.UnixNano()
	}
	p.next.Store(at)
}

// Due returns when the next look is due; the zero time: now.
func (p *Pace) Due(now time.Time) time.Time {
	if p == nil || !now.Before(p.due) {
		return time.Time{}
	}
	return p.due
}

// Looked notes a look. One that found something is followed by the next one at once, as long as there is a backlog, and any
// other by a pause.
func (p *Pace) Looked(found bool, now time.Time) {
	p.looks.Add(1)
	if found {
		p.Reset()
		return
	}
	p.empty++
	p.due = now.Add(p.pause(p.empty))
	p.publish()
}

// Reset has the next look come at once.
func (p *Pace) Reset() {
	p.empty, p.due = 0, time.Time{}
	p.publish()
}
