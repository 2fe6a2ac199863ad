package handlers

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
