package polling

import "time"

// Pace is how often one of those who share a reader looks for rows, where that is less often than the reader polls.
type Pace struct {
	Config
	empty int
	due   time.Time
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
	if found {
		p.Reset()
		return
	}
	p.empty++
	p.due = now.Add(p.pause(p.empty))
}

// Reset has the next look come at once.
func (p *Pace) Reset() { p.empty, p.due = 0, time.Time{} }
