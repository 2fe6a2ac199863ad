package lane

import "slices"

// charge is a message whose attempts were charged although its address may have
// been at fault. It knows the message itself only while that is in its lane: what
// is parked, dead or delivered is not kept in memory. All but n is guarded
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

// inParking reports whether only the parking has the message.
func (c *charge) inParking() bool { return c.item == nil && c.handle == nil && c.row != opKey{} }

// giveBack returns the attempts to the message, because its address was at fault: to
// where that is now.
func (c *charge) giveBack() {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !c.inParking():
		if c.handle != nil || !s.lost {
			s.charges.giveBack(c)
		}
	case !s.lost:
		s.parking.giveBack(c)
	}
}

// charged are the attempts of an address's suspect group since its last success.
type charged []*charge

// maxCharged bounds the messages whose attempts can be given back.
const maxCharged = 64

// addLocked notes an attempt of a message.
func (l *charged) addLocked(it *Item) {
	*l = slices.DeleteFunc(*l, func(c *charge) bool { return c.session == it.Session && c.settled() })
	row := opKey{it.slot, it.seq}
	i := slices.IndexFunc(*l, func(c *charge) bool {
		return c == it.charge || c.session == it.Session && it.seq != 0 && c.row == row
	})
	if i < 0 {
		if len(*l) == maxCharged {
			return
		}
		i = len(*l)
		c := &charge{session: it.Session}
		if !it.Session.origin.Parks() {
			c.handle = it.Handle // its origin keeps it instead of the parking
		}
		*l = append(*l, c)
	}
	if it.charge != nil {
		it.charge.item = nil // perhaps another address's
	}
	it.charge = (*l)[i]
	it.charge.item = it
	it.charge.n++
}

// forget removes what a session that ends was charged.
func (l *charged) forget(s *Session) {
	*l = slices.DeleteFunc(*l, func(c *charge) bool { return c.session == s })
}

// charges are the attempts that a session has to give back to its messages, because
// their address was at fault. It is guarded by the session's mutex.
//
// A chain may have read the number of its attempt, so the message gets what is owed
// when the chain has returned; one in the parking, when its row is read.
type charges struct {
	owed    map[*Item]int
	credits map[groupKey]map[int64]int // by sequence number
}

// giveBack returns the attempts of a charge to a message in the lane, or to one that its
// origin keeps: when that has come to the session again, it is returned to the new item.
func (c *charges) giveBack(ch *charge) {
	switch it := ch.item; {
	case it != nil && it.death != nil: // too late
	case ch.handle != nil:
		for range ch.n {
			if again := ch.session.origin.GiveBack(ch.handle); again != nil && again.Session == ch.session {
				c.owe(again, 1)
			}
		}
	case it != nil:
		c.owe(it, ch.n)
	}
}

// owe gives attempts back to an item, at once unless its chain runs.
func (c *charges) owe(it *Item, n int) {
	if it.phase != running {
		it.giveBackLocked(n)
		return
	}
	if c.owed == nil {
		c.owed = map[*Item]int{}
	}
	c.owed[it] += n
}

// credit notes that the attempts of a charge are to be given back to a message in the parking.
func (c *charges) credit(ch *charge) {
	if c.credits[ch.group] == nil {
		if c.credits == nil {
			c.credits = map[groupKey]map[int64]int{}
		}
		c.credits[ch.group] = map[int64]int{}
	}
	c.credits[ch.group][ch.row.seq] += ch.n
}

// repay gives an item what it is owed, while its chain does not run.
func (c *charges) repay(it *Item) {
	n := 0
	if len(c.owed) > 0 {
		n = c.owed[it]
		delete(c.owed, it)
	}
	if it.death != nil { // too late
		return
	}
	if len(c.credits) > 0 && it.seq != 0 {
		n += c.take(keyOf(it.slot, it.key, it.seq), it.seq)
	}
	it.giveBackLocked(n)
}

// take returns the attempts that are to be given back to a message of the parking.
func (c *charges) take(group groupKey, seq int64) int {
	credits := c.credits[group]
	n := credits[seq]
	if delete(credits, seq); len(credits) == 0 {
		delete(c.credits, group)
	}
	return n
}

// dropGroup forgets what is owed to a group that has left the parking.
func (c *charges) dropGroup(group groupKey) { delete(c.credits, group) }

// left ends what charges know of an item that leaves the lane; where its row is, if
// it was parked.
func (c *charges) left(it *Item) {
	if len(c.owed) > 0 {
		delete(c.owed, it)
	}
	ch := it.charge
	if ch == nil {
		return
	}
	it.charge, ch.item = nil, nil
	ch.group, ch.row = groupKey{}, opKey{}
	if it.phase == parked {
		ch.group, ch.row = keyOf(it.slot, it.key, it.seq), opKey{it.slot, it.seq}
	}
}

// giveBackLocked takes attempts off that were not the message's fault, while no chain runs.
func (it *Item) giveBackLocked(n int) {
	if n > 0 {
		it.Attempt.Number = max(it.Attempt.Number-n, 1)
	}
}
