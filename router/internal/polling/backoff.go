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

	// A reader that follows commits is woken a little before their rows are visible. So it polls a few times more: at once, which takes some
	// tenths of a millisecond, and then after firstLook and twice that, because an idle process cannot pause for less than 1 ms. Commits that
	// bring it nothing, such as those of others, have it begin with longer pauses, of at most vainPause: it does not poll for each of them.
	firstLook = time.Millisecond
	atOnce    = 2
	looks     = atOnce + 2
	vainPause = 25 * time.Millisecond
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
	failed int                    // polls in a row that failed
	armed  bool                   // the source wakes us, because we sleep

	failing bool // the last poll failed

	wakes <-chan struct{} // of the source; nil: it has no wake-ups
	quiet bool            // the pause follows a poll that found nothing, after the last look
	woken time.Time       // when the source last woke us
	look  int             // how many polls of a commit's looks are over
	vain  int             // commits in a row that brought us nothing
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
	if b.quiet = false; !b.failing {
		b.failed = 0
	}
	b.failing = false
	if b.next.Load() == nil {
		return b.poll, false
	}
	b.poll = *b.next.Swap(nil)
	return b.poll, true
}

// Begin has the source wake us from now on, and reports whether it does.
func (b *Backoff) Begin() bool {
	if b.waker != nil {
		b.wakes = b.waker.Wake()
	}
	if b.wakes == nil {
		b.waker = nil
	}
	return b.wakes != nil
}

// Wakes returns the channel on which the source wakes us during the pause that begins; nil: it waits until that is over.
func (b *Backoff) Wakes() <-chan struct{} {
	if !b.quiet && b.follows() {
		return nil
	}
	return b.wakes
}

// Failed returns the pause after a poll that failed. Only failures make it longer: a table that was quiet before its server ended the
// connections is read again as soon as a busy one.
func (b *Backoff) Failed() time.Duration {
	pause := min(100*time.Millisecond<<min(b.failed, 5), 2*time.Second)
	b.failed, b.failing = b.failed+1, true
	return pause
}

// Found resets the pauses: rows are there, or may be.
func (b *Backoff) Found() {
	if b.armed {
		b.waker.Awake()
	}
	b.reset()
	b.look, b.vain = looks, 0
}

// Woken resets the pauses of a reader that its source has woken, and reports whether a publisher did, rather than any commit.
func (b *Backoff) Woken() (called bool) {
	called = !b.follows()
	if b.armed && !called {
		b.waker.Awake()
	}
	empty := b.empty
	b.reset()
	b.woken = b.since
	if b.vain++; b.vain > looks {
		b.empty = empty
	}
	b.look = min(b.vain, looks) - 1
	return called
}

func (b *Backoff) reset() { b.since, b.empty, b.armed = time.Now(), 0, false }

// Relies reports whether wake-ups find new rows, and polls are only there for what no wake-up comes for.
func (b *Backoff) Relies() bool { return b.armed || b.follows() }

func (b *Backoff) follows() bool { return b.waker != nil && b.waker.Follows() }

// Pause returns the pause after a poll that found nothing; 0: poll again at once. Before long pauses it has the source wake the reader.
func (b *Backoff) Pause(ctx context.Context) time.Duration {
	if b.follows() {
		if pause, more := b.untilLook(); more {
			return pause
		}
	}
	b.quiet = true
	b.empty++
	pause := b.poll.pause(b.empty)
	if b.waker == nil || pause <= wakefulPause || b.Relies() {
		return pause
	}
	if time.Since(b.since) < 2*wakefulPause {
		return wakefulPause
	}
	switch b.waker.Sleep(ctx) {
	case adapters.Armed:
		b.armed = true
		return 0
	case adapters.Draining:
		return min(pause, DrainingPause)
	default:
		return pause
	}
}

// untilLook returns the pause before the next look after a commit; false: all are over, and no other commit has come.
func (b *Backoff) untilLook() (time.Duration, bool) {
	if b.look >= looks {
		select {
		case <-b.wakes:
			b.Woken()
		default:
			return 0, false
		}
	}
	n := max(b.look, b.vain-1) - atOnce
	b.look++
	if n < 0 {
		return 0, true
	}
	return min(firstLook<<min(n, 10), vainPause), true
}

// LooksOver reports whether the pause follows the last look after a commit that came later than a time.
func (b *Backoff) LooksOver(since time.Time) bool { return b.quiet && b.woken.After(since) }

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
