package router

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// claimOrigin is where the messages of a session come from that were claimed from a
// queue. Whatever becomes of them is written to the queue's table, and none of it to
// the parking.
type claimOrigin struct {
	claimer *claimer
	session *session
}

var _ Origin = claimOrigin{}

// Origin implements [Feeder].
func (c *claimer) Origin(s *session) Origin { return claimOrigin{c, s} }

// holdingOf is the claimed row of an item.
func holdingOf(it *item) *holding { return it.handle.(*holding) } //nolint:forcetypeassert // the claimer gave it

// Enter implements [Origin].
func (o claimOrigin) Enter(it *item) (failed int, ok bool) {
	return o.claimer.ledger.enter(holdingOf(it), it)
}

// Settled implements [Origin].
func (o claimOrigin) Settled(it *item, outcome outbox.Outcome) bool {
	o.claimer.ledger.conclude(ending{h: holdingOf(it), outcome: outcome, attempts: it.attempt.Number})
	return true
}

// Dead implements [Origin].
func (o claimOrigin) Dead(it *item, cause error) bool {
	o.claimer.ledger.conclude(ending{h: holdingOf(it), outcome: outbox.Dead, attempts: it.attempt.Number, err: cause})
	return true
}

// Retry implements [Origin]: it counts the attempt and gives the row back to the table
// until it is due, with everything of its group that is behind it. There are no attempts
// in between: the table would not know of them. What the receiver refused in the
// same request has failed as well, although its chain may not have returned yet;
// a last attempt is left to the row's own chain.
func (o claimOrigin) Retry(it *item, at time.Time, cause error) bool {
	ends := []ending{{h: holdingOf(it), outcome: outbox.Retry, attempts: it.attempt.Number, at: at, err: cause}}
	for _, x := range o.session.withdraw(it, true) {
		if x == it {
			continue
		}
		end := ending{h: holdingOf(x), outcome: outbox.Put}
		if _, failed := x.Failed(); failed && outbox.AnsweredBy(cause) && x.attempt.Number < o.session.Route().Attempts {
			end = ending{h: holdingOf(x), outcome: outbox.Retry, attempts: x.attempt.Number, at: at, err: cause}
			o.session.Route().CountRetried()
		}
		ends = append(ends, end)
	}
	o.claimer.ledger.conclude(ends...)
	return true
}

// Parks implements [Origin].
func (claimOrigin) Parks() bool { return false }

// Parked implements [Origin].
func (claimOrigin) Parked(*item) any { return nil }

// Durable implements [Origin].
func (claimOrigin) Durable([]any, bool) {}

// GiveBack implements [Origin].
func (o claimOrigin) GiveBack(handle any) (again *item) {
	return o.claimer.ledger.giveBack(handle.(*holding)) //nolint:forcetypeassert // the claimer gave it
}

// Release implements [Origin].
func (o claimOrigin) Release() { o.claimer.ledger.release(o.session) }

// leaveKeyOf is what is left out of claims when a row of the route goes back.
func leaveKeyOf(r *route, row *outbox.Row) leaveKey {
	if g := r.key(row.Group); g != "" {
		return leaveKey{group: g}
	}
	return leaveKey{row: queueKeyOf(row.Claim)}
}

// putBack returns what is behind an item of its group to the table, and with
// self the item too, to make room. It returns how many rows that were.
func (c *claimer) putBack(it *item, self bool, until time.Time) (n int) {
	it.session.evict(it, self, func(out []*item) {
		var ends []ending
		for _, x := range out {
			ends = append(ends, ending{h: holdingOf(x), outcome: outbox.Put})
		}
		c.ledger.relieve(holdingOf(it).key, until)
		c.ledger.conclude(ends...)
		n = len(ends)
	})
	return n
}

// loseClaim drops a row that is no longer claimed: somebody else has it or will
// have it. What is behind it goes back, to come after it again. If it is being
// sent, there is nothing that could be done about it.
func (c *claimer) loseClaim(it *item) {
	it.session.evict(it, true, func(out []*item) {
		var ends []ending
		for _, x := range out {
			if x == it {
				c.ledger.forget(holdingOf(x))
				continue
			}
			ends = append(ends, ending{h: holdingOf(x), outcome: outbox.Put})
		}
		c.ledger.conclude(ends...)
	})
}

// RoomFreed implements [Feeder].
func (c *claimer) RoomFreed() {
	if c.starved.Load() {
		poke(c.wake)
	}
}

// Wake implements [Feeder].
func (c *claimer) Wake() { poke(c.wake) }

// AddressBack implements [Feeder]: groups that were put back to make room may be
// claimed again.
func (c *claimer) AddressBack() {
	c.ledger.comeBack()
	poke(c.wake)
}

// GiveUp implements [Feeder].
func (c *claimer) GiveUp(ctx context.Context) error { return c.settler.flush(ctx, concluded) }
