package handlers

import "time"

// Stall is a group that does not move.
type Stall struct {
	Front   *Ticket
	Waiting int  // messages of the group, the front included
	Sending bool // the front is being sent, and has been for long
	Down    bool // the front waits for an address that is down or hangs
}

// Stalled returns the groups whose front is away, being sent since before slow,
// or waiting for an address that Allow refuses, or that has completed nothing
// since before slow. Whether a front that is away is stalled, or just on its way through
// its chain, is for the caller to tell.
func (g *Gate) Stalled(slow time.Time) []Stall {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Stall
	since := int64(slow.Sub(g.epoch))
	for _, q := range g.groups {
		t := q.front()
		if t == nil || t.state == here || t.state == sending && t.since > since {
			continue
		}
		out = append(out, Stall{Front: t, Waiting: q.len(), Sending: t.state == sending})
	}
	for _, p := range g.pipes {
		if !p.down && (p.moved.After(slow) || !g.cfg.Permit()) {
			continue
		}
		for _, q := range p.ready {
			if t := q.front(); t != nil {
				out = append(out, Stall{Front: t, Waiting: q.len(), Down: true})
			}
		}
	}
	return out
}

// Front returns the first message of the group that has not left, nil if there
// is none.
func (g *Gate) Front(key string) *Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.groups[key]; q != nil {
		return q.front()
	}
	return nil
}
