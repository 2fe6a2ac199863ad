package polling

import (
	"sync/atomic"
	"time"
)

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
