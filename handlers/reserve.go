package handlers

import "context"

// Reserve marks a message as being sent outside of the gate (the
// poison destination gets it): it keeps its place until [Gate.Return], as if it
// were in a batch. It returns false for one that is being sent, or is gone.
func (g *Gate) Reserve(t *Ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.state != away {
		return false
	}
	t.state, t.since = sending, g.clock()
	g.reserved[t] = struct{}{}
	return true
}

// Return ends what [Gate.Reserve] began.
func (g *Gate) Return(t *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.reserved, t)
	if t.state == sending {
		t.state = away
	}
}

// Context ends with [Gate.Abort].
func (g *Gate) Context() context.Context { return g.ctx }
