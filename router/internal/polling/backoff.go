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
	// wakefulPause is the longest pause of a reader that is awake, if its source can wake it: before a longer one it goes to sleep. It
	// stays awake for twice as long after it has found something, however long its pauses are: writers notify readers that sleep.
	wakefulPause = 10 * time.Millisecond

	// DrainingPause bounds the pauses while transactions are open that took the reader to be awake.
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

// Fixed reports whether the pause between polls never changes: then it is kept also when rows were found, unless something wakes the claimer.
func (c Config) Fixed() bool { return c.Min >= c.Max }

// Backoff decides how long a reader or a claimer waits between two polls. Only its owner uses it; others may send to Signal and call
// [Backoff.Set].
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

// Set gives the next poll, and those after it, other settings. It ends the current pause, which may be longer than the new settings allow.
func (b *Backoff) Set(poll Config) {
	b.next.Store(&poll)
	signal.Send(b.Signal)
}

// Poll returns the settings of the poll that begins, and of the pause after it; fresh reports whether they have changed.
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

// Found resets the pauses: rows are there, or may be.
func (b *Backoff) Found() {
	if b.Armed {
		b.waker.Awake()
	}
	b.Woken()
}

// Woken resets the pauses of a reader that its source has woken.
func (b *Backoff) Woken() { b.since, b.empty, b.Armed = time.Now(), 0, false }

// Pause returns the pause after a poll that found nothing; 0: poll again at once. Before long pauses it has the source wake the reader.
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

// RoutePoll is how often a route is read that is read less often than its reader polls.
type RoutePoll struct {
	Config
	empty int
	due   time.Time

	polls, idle, next atomic.Int64 // what [RoutePoll.Stats] returns
}

// Stats returns how many reads there were, how many found nothing since the last one that found rows, and when the next one is due; the zero
// time: now. It may be called concurrently.
func (p *RoutePoll) Stats() (looks, idle int64, due time.Time) {
	if at := p.next.Load(); at != 0 {
		due = time.Unix(0, at)
	}
	return p.polls.Load(), p.idle.Load(), due
}

func (p *RoutePoll) publish() {
	p.idle.Store(int64(p.empty))
	at := int64(0)
	if !p.due.IsZero() {
		at = p.due.UnixNano()
	}
	p.next.Store(at)
}

// Due returns when the next read is due; the zero time: now.
func (p *RoutePoll) Due(now time.Time) time.Time {
	if p == nil || !now.Before(p.due) {
		return time.Time{}
	}
	return p.due
}

// Polled counts a read. If it found rows the next one follows at once, otherwise after a pause.
func (p *RoutePoll) Polled(found bool, now time.Time) {
	p.polls.Add(1)
	if found {
		p.Reset()
		return
	}
	p.empty++
	p.due = now.Add(p.pause(p.empty))
	p.publish()
}

// Reset has the next read come at once.
func (p *RoutePoll) Reset() {
	p.empty, p.due = 0, time.Time{}
	p.publish()
}
