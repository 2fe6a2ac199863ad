package lane

import (
	"slices"
	"time"
)

// charge is a message whose attempts were charged although its address may have been at
// fault. It knows the message itself only while that is in its lane: messages that are
// parked, dead or delivered are not kept in memory. All but n is guarded by the session's
// mutex, n by that of health.
type charge struct {
	session *Session
	n       int      // attempts
	item    *Item    // nil: not in the lane
	handle  any      // by which the origin keeps it, also while it is not in the lane
	group   groupKey // in the parking, with its row there;
	row     opKey    // zero: it is not there
}

// maxCharges bounds the messages of an address whose attempts can be given back.
const maxCharges = 64

// charge notes an attempt of a message of the address's suspect group.
func (a *address) charge(it *Item) {
	a.charges = slices.DeleteFunc(a.charges, func(c *charge) bool {
		return c.session == it.Session && c.item == nil && c.handle == nil && c.row == opKey{} // nothing is left to give back to
	})
	row := opKey{it.slot, it.seq}
	i := slices.IndexFunc(a.charges, func(c *charge) bool {
		return c == it.charge || c.session == it.Session && it.seq != 0 && c.row == row
	})
	if i < 0 {
		if len(a.charges) == maxCharges {
			return
		}
		i = len(a.charges)
		c := &charge{session: it.Session}
		if !it.Session.origin.Parks() {
			c.handle = it.Handle // its origin keeps it instead of the parking
		}
		a.charges = append(a.charges, c)
	}
	if it.charge != nil {
		it.charge.item = nil // perhaps another address's
	}
	it.charge = a.charges[i]
	it.charge.item = it
	it.charge.n++
}

// giveBack returns the attempts to the message, because its address was at fault. A chain may
// have read the number of its attempt, so the message gets them when the chain has returned;
// one in the parking, when its row is read.
func (c *charge) giveBack() {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch it := c.item; {
	case c.handle == nil && s.lost:
	case it != nil && it.death != nil: // too late
	case c.handle != nil:
		for range c.n {
			if again := s.origin.GiveBack(c.handle); again != nil && again.Session == s {
				again.credit(1)
			}
		}
	case it != nil:
		it.credit(c.n)
	case c.row != opKey{}:
		s.parking.credit(c)
	}
}

// Credits are attempts to be given back to messages of which only the rows are there, by row. The zero
// value has none.
type Credits[K comparable] map[K]int

// Give adds attempts of a row.
func (c *Credits[K]) Give(row K, n int) {
	if *c == nil {
		*c = Credits[K]{}
	}
	(*c)[row] += n
}

// Take removes and returns those of a row.
func (c Credits[K]) Take(row K) int {
	n := c[row]
	delete(c, row)
	return n
}

// credit gives attempts back to an item: at once, unless its chain runs.
func (it *Item) credit(n int) {
	it.credits += n
	if it.phase != running {
		it.repay()
	}
}

// repay takes the attempts off that were given back, while no chain of the item runs.
func (it *Item) repay() {
	if it.credits > 0 && it.death == nil {
		it.Attempt.Number = max(it.Attempt.Number-it.credits, 1)
	}
	it.credits = 0
}

// uncharge ends what the charge of an item that leaves the lane knows of it, but for the
// place of its row if it was parked.
func (it *Item) uncharge() {
	c := it.charge
	it.charge, c.item = nil, nil
	c.group, c.row = groupKey{}, opKey{}
	if it.phase == parked {
		c.group, c.row = keyOf(it.slot, it.key, it.seq), opKey{it.slot, it.seq}
	}
}

// credit notes that attempts are to be given back to a message in the parking. Its row is
// corrected when it is read, which is at once unless its group is on its way back.
func (p *parking) credit(c *charge) {
	g := p.groups[c.group]
	if g == nil {
		return
	}
	g.credits.Give(c.row.seq, c.n)
	if g.movable() {
		p.again(g, time.Time{})
	}
}

// repay gives an item what it and its row are owed, while its chain does not run.
func (p *parking) repay(it *Item) {
	if g := p.groups[keyOf(it.slot, it.key, it.seq)]; g != nil && it.seq != 0 {
		it.credits += g.credits.Take(it.seq)
	}
	it.repay()
}
