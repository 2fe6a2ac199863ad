package handlers

// Cut takes t and the messages of its group behind it out of the gate, or,
// without self, only those behind it, and returns their tickets in order. What
// is being sent stays. Chains that wait are released; chains that run are
// released when they get here. What is before t keeps its place and may go.
func (g *Gate) Cut(t *Ticket, self bool) (out []*Ticket) {
	g.mu.Lock()
	defer g.unlock()
	q := t.group
	front, behind := q.front(), false
	kept := make([]*Ticket, 0, len(q.queue)-q.head)
	for _, x := range q.queue[q.head:] {
		switch {
		case x == nil:
			continue
		case !behind && (x != t || !self), x.state == sending:
			behind = behind || x == t
			kept = append(kept, x)
			continue
		case x.state == here:
			g.wake(x, errWithdrawn)
		}
		behind = true
		x.state, x.unwanted = gone, true
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil
	}
	q.keep(kept)
	if q.front() != front {
		g.unready(q)
	}
	g.advance(q)
	return out
}
