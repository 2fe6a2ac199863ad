package lane

import (
	"slices"

	"github.com/outriderhq/outrider/router/internal/parkedgroup"
)

// Charge has the attempts that were charged to a message although its address may have been at fault. It refers to the item only while
// that is in its lane: messages that are parked, dead or delivered are not kept in memory. n is guarded by the mutex of the route's
// addresses, all else by the session's.
type Charge struct {
	session *Session
	n       int             // attempts
	item    *Item           // nil: not in the lane
	handle  any             // by which the origin keeps it, also while it is not in the lane
	group   parkedgroup.Key // in the parking, with its row there;
	row     parkedgroup.Row // zero: it is not there
}

// maxCharges bounds the messages of an address whose attempts can be given back.
const maxCharges = 64

// Charge implements health.Message.
func (it *Item) Charge(charges []*Charge) []*Charge {
	charges = slices.DeleteFunc(charges, func(c *Charge) bool {
		return c.session == it.Session && c.item == nil && c.handle == nil && c.row == parkedgroup.Row{} // nothing is left to give back to
	})
	i := slices.IndexFunc(charges, func(c *Charge) bool {
		return c == it.charge || c.session == it.Session && it.seq != 0 && c.row == it.parkedRow()
	})
	if i < 0 {
		if len(charges) == maxCharges {
			return charges
		}
		i = len(charges)
		c := &Charge{session: it.Session}
		if !it.Session.origin.Parks() {
			c.handle = it.Handle // its origin keeps it instead of the parking
		}
		charges = append(charges, c)
	}
	if it.charge != nil {
		it.charge.item = nil // perhaps another address's
	}
	it.charge = charges[i]
	it.charge.item = it
	it.charge.n++
	return charges
}

// credit gives attempts back to an item: at once, unless its chain runs.
func (it *Item) credit(n int) {
	it.credits += n
	if it.phase != running {
		it.repay()
	}
}

// repay takes off the attempts that were given back. No chain of the item runs.
func (it *Item) repay() {
	if it.credits > 0 && it.death == nil {
		it.Attempt.Number = max(it.Attempt.Number-it.credits, 1)
	}
	it.credits = 0
}

// uncharge separates an item that leaves the lane from its charge, which keeps the key of its row if the item was parked.
func (it *Item) uncharge() {
	c := it.charge
	it.charge, c.item = nil, nil
	c.group, c.row = parkedgroup.Key{}, parkedgroup.Row{}
	if it.phase == parked {
		c.group, c.row = it.parkedKey(), it.parkedRow()
	}
}
