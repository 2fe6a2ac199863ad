package handlers

import (
	"context"
	"slices"
	"time"
)

// Stall is a group that does not move.
type Stall struct {
	Front   *Ticket
	Waiting int  // messages of the group, the front included
	Sending bool // the front is being sent, and has been for long
	Down    bool // the front waits for an address that is down or hangs
}

// Stalled returns the groups whose front is away, being sent since before slow, or waiting for an address that Allow refuses, or that
// has completed nothing since before slow. The caller decides whether a front that is away is stalled or running through its
// chain. A message without a group is a group of its own, but is not returned while it is away.
func (g *Gate) Stalled(slow time.Time) []Stall {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Stall
	for _, q := range g.groups {
		if t := q.front(); t != nil && t.state == away {
			out = append(out, Stall{Front: t, Waiting: q.len()})
		}
	}
	since := int64(slow.Sub(g.epoch))
	hangs := func(t *Ticket) {
		if t.state == sending && t.since <= since && t.group.front() == t {
			out = append(out, Stall{Front: t, Waiting: t.group.len(), Sending: true})
		}
	}
	for b := range g.batches {
		for _, t := range b.tickets {
			hangs(t)
		}
	}
	for t := range g.reserved {
		hangs(t)
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

// Front returns the first message of the group that has not left; nil: none.
func (g *Gate) Front(key string) *Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.groups[key]; q != nil {
		return q.front()
	}
	return nil
}

// Last returns the last message of the group that has not left, except those that [Gate.Stay] keeps: they are over. Nil: none.
func (g *Gate) Last(key string) *Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.groups[key]; q != nil {
		for _, t := range slices.Backward(q.queue[q.head:]) {
			if t != nil && !t.stays {
				return t
			}
		}
	}
	return nil
}

// abandonAfter is how long a destination may take to return after Abort. Code that ignores its context is left behind with its batch
// and its permit, and what it returns later is ignored.
const abandonAfter = time.Second

// awaitWorkers waits until no worker delivers, or for a while after Abort. Call with the mutex held.
func (g *Gate) awaitWorkers() {
	abandoned := false
	stop := context.AfterFunc(g.ctx, func() {
		time.AfterFunc(abandonAfter, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			abandoned = true
			g.idle.Broadcast()
		})
	})
	defer stop()
	for g.workers > 0 && !abandoned {
		g.idle.Wait()
	}
}

// Each calls f for the messages of the gate that have not left it and that it can find: those
// of groups, those in line and those being sent. Messages without a group that are in their
// chains are not among them. It is called with the gate locked, and for some messages twice.
func (g *Gate) Each(f func(t *Ticket, sending bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range g.groups {
		q.each(f)
	}
	for _, p := range g.pipes {
		for _, q := range p.ready {
			q.each(f)
		}
	}
	for b := range g.batches {
		for _, t := range b.tickets {
			f(t, t.state == sending)
		}
	}
}

func (g *group) each(f func(t *Ticket, sending bool)) {
	for _, t := range g.queue[g.head:] {
		if t != nil {
			f(t, t.state == sending)
		}
	}
}
