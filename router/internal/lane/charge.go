package lane

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// charge is a message whose attempts were charged although its address may have
// been at fault. It knows the message itself only while that is in its lane: what
// is parked, dead or delivered is kept in memory by nobody. All but n is guarded
// by the session's mutex, n by that of health.
type charge struct {
	session *Session
	n       int      // attempts
	item    *Item    // nil: not in the lane
	handle  any      // by which the origin keeps it, also while it is not in the lane
	group   groupKey // in the parking, with its row there;
	row     opKey    // zero: it is not there
}

// settled reports whether there is nothing left to give attempts back to.
func (c *charge) settled() bool { return c.item == nil && c.handle == nil && c.row == opKey{} }

// charge notes an attempt of a message of the suspect group. Call with the
// session's mutex held.
func (a *address) charge(it *Item) {
	a.charged = slices.DeleteFunc(a.charged, func(c *charge) bool { return c.session == it.Session && c.settled() })
	row := opKey{it.slot, it.seq}
	i := slices.IndexFunc(a.charged, func(c *charge) bool {
		return c == it.charge || c.session == it.Session && it.seq != 0 && c.row == row
	})
	if i < 0 {
		if len(a.charged) == maxCharged {
			return
		}
		i = len(a.charged)
		a.charged = append(a.charged, &charge{session: it.Session, handle: it.Session.kept(it)})
	}
	if it.charge != nil {
		it.charge.item = nil // perhaps another address's
	}
	it.charge = a.charged[i]
	it.charge.item = it
	it.charge.n++
}

// uncharge ends what a charge knows of an item that leaves the lane; where its
// row is, if it was parked.
func (it *Item) uncharge() {
	c := it.charge
	if c == nil {
		return
	}
	it.charge, c.item = nil, nil
	c.group, c.row = groupKey{}, opKey{}
	if it.phase == parked {
		c.group, c.row = keyOf(it.slot, it.key, it.seq), opKey{it.slot, it.seq}
	}
}

// giveBack returns attempts that were charged to a message although its address
// was at fault.
func (s *Session) giveBack(c *charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := c.item
	switch {
	case it != nil && it.death != nil: // too late
	case c.handle != nil:
		for range c.n {
			s.giveBackKept(c.handle)
		}
	case s.lost:
	case it == nil:
		s.correctParked(c)
	case it.phase == running:
		it.owed += c.n
	default:
		it.giveBack(c.n)
	}
}

// kept is the handle of a message that its origin keeps instead of the parking.
func (s *Session) kept(it *Item) any {
	if s.origin.Parks() {
		return nil
	}
	return it.Handle
}

// giveBackKept returns an attempt to a message that the origin keeps. Call with the
// mutex held.
func (s *Session) giveBackKept(handle any) {
	again := s.origin.GiveBack(handle)
	switch {
	case again == nil || again.Session != s:
	case again.phase == running:
		again.owed++
	default:
		again.giveBack(1)
	}
}

// correctParked gives attempts back to a parked message. Its row is corrected when
// it is read, which is at once unless its group is on its way back.
func (s *Session) correctParked(c *charge) {
	g := s.parking.groups[c.group]
	if g == nil || c.row == (opKey{}) {
		return
	}
	if g.credits == nil {
		g.credits = map[int64]int{}
	}
	g.credits[c.row.seq] += c.n
	if g.movable() {
		g.due = time.Time{}
		s.parking.schedule(g)
	}
}

// correct writes rows anew of which attempts were given back, when they stay in
// the parking.
func (s *Session) correct(g *parkedGroup, rows []adapters.Parked) {
	for _, p := range rows {
		n := min(g.credits[p.Seq], p.Attempts)
		delete(g.credits, p.Seq)
		if n > 0 && p.Metadata[MetaDeath] == "" { // otherwise it is too late
			p.Was = p.Attempts
			p.Attempts -= n
			s.ops.put(p)
			s.noteProgress()
		}
	}
}

// takeCredit returns the attempts that are to be given back to a message.
func (p *parking) takeCredit(it *Item) int {
	if it.seq == 0 {
		return 0
	}
	g := p.groups[keyOf(it.slot, it.key, it.seq)]
	if g == nil {
		return 0
	}
	n := g.credits[it.seq]
	delete(g.credits, it.seq)
	return n
}

// left forgets a message that leaves the lane without being concluded: one that
// is held, or that was run again for an opening and has not got to the gate.
func (h *health) left(it *Item) {
	if h.trouble.Load() == 0 {
		return
	}
	h.mu.Lock()
	for _, a := range h.addresses {
		if i := slices.Index(a.held, it); i >= 0 {
			a.held = slices.Delete(a.held, i, i+1)
		}
	}
	h.mu.Unlock()
	h.concluded(it)
}

// concluded notes that a message was concluded: if it was a probe that told
// nothing (skipped, released), or was run for an opening that it did not take,
// another is planned.
func (h *health) concluded(it *Item) {
	if h.trouble.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !it.probed { // thousands of addresses may be in trouble
		return
	}
	for _, a := range h.addresses {
		if a.probe == &it.Ticket {
			a.probe = nil
			h.plan(a, 0)
		} else if a.open && a.sent == it {
			h.plan(a, 0) // it stays open for those that wait at the gate
		}
		if a.sent == it {
			a.sent = nil
		}
	}
}
