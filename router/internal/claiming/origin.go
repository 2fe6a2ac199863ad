package claiming

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// claimOrigin is the origin of messages that were claimed from a queue. Their results are written to the queue's table, and nothing
// to the parking.
type claimOrigin struct {
	lane.ByCursor // nothing is parked
	claimer       *Claimer
	session       *lane.Session
}

var _ lane.Origin = claimOrigin{}

// Origin implements [lane.Feeder].
func (c *Claimer) Origin(s *lane.Session) lane.Origin { return claimOrigin{claimer: c, session: s} }

// claimOf returns the claimed row of an item.
func claimOf(it *lane.Item) *claimedRow { return it.Handle.(*claimedRow) } //nolint:forcetypeassert // the claimer gave it

func (o claimOrigin) Enter(it *lane.Item) (failed int, ok bool) {
	return o.claimer.ledger.enter(claimOf(it), it)
}

func (o claimOrigin) Settled(it *lane.Item, outcome outbox.Outcome, cause error) bool {
	kept := o.claimer.ledger.conclude(ending{h: claimOf(it), outcome: outcome, attempts: it.Attempt.Number, err: cause})
	if outcome == outbox.OutcomeDead && kept == 0 {
		it.DeathWritten() // nothing waits behind it, or its row is no longer ours
	}
	return true
}

// Retry implements [lane.Origin]: it counts the attempt and gives the row back to the table until it is due, with everything of its group
// that is behind it. There are no attempts in memory: the table would not count them. Rows that the receiver refused in the same
// request have failed as well, although their chains may not have returned yet; a last attempt is left to the row's own chain.
func (o claimOrigin) Retry(it *lane.Item, at time.Time, cause error) bool {
	ends := []ending{{h: claimOf(it), outcome: outbox.OutcomeRetry, attempts: it.Attempt.Number, at: at, err: cause}}
	for _, x := range o.session.WithdrawLocked(it, true) {
		if x == it {
			continue
		}
		end := ending{h: claimOf(x), outcome: outbox.OutcomeReleased}
		if _, failed := x.Failed(); failed && outbox.AnsweredBy(cause) && x.Attempt.Number < o.session.Route.Attempts {
			end = ending{h: claimOf(x), outcome: outbox.OutcomeRetry, attempts: x.Attempt.Number, at: at, err: cause}
			o.session.Route.CountRetried()
		}
		ends = append(ends, end)
	}
	o.claimer.ledger.conclude(ends...)
	return true
}

func (o claimOrigin) PutBack(it *lane.Item) {
	o.claimer.ledger.conclude(released(o.session.WithdrawLocked(it, true))...)
}

func (claimOrigin) Parks() bool { return false }

func (o claimOrigin) GiveBack(handle any) (again *lane.Item) {
	return o.claimer.ledger.giveBack(handle.(*claimedRow)) //nolint:forcetypeassert // the claimer gave it
}

func (o claimOrigin) Release() { o.claimer.ledger.release(o.session) }

// released returns the ends of rows that go back to the table without an attempt.
func released(items []*lane.Item) []ending {
	ends := make([]ending, len(items))
	for i, it := range items {
		ends[i] = ending{h: claimOf(it), outcome: outbox.OutcomeReleased}
	}
	return ends
}

// exclusionKeyOf returns what is excluded from claims when a row of the route goes back.
func exclusionKeyOf(r *lane.Route, row *adapters.Row) exclusionKey {
	if g := r.Key(row.Group); g != "" {
		return exclusionKey{group: g}
	}
	return exclusionKey{row: queueKeyOf(row.Claim)}
}

// putBack returns what is behind an item of its group to the table, and with self the item too, to make room. It returns the number
// of rows.
func (c *Claimer) putBack(it *lane.Item, self bool, until time.Time) (n int) {
	it.Session.Evict(it, self, func(out []*lane.Item) {
		c.ledger.excludeEvicted(claimOf(it).key, until)
		c.ledger.conclude(released(out)...)
		n = len(out)
	})
	return n
}

// loseClaim drops a row whose claim is lost. The rows behind it go back, to come after it again. If the row is being sent,
// that cannot be undone.
func (c *Claimer) loseClaim(it *lane.Item) {
	it.Session.Evict(it, true, func(out []*lane.Item) {
		if len(out) > 0 && out[0] == it {
			c.ledger.forget(claimOf(it))
		}
		c.ledger.conclude(released(out)...)
	})
}

// RoomFreed implements [lane.Feeder].
func (c *Claimer) RoomFreed() {
	if c.starved.Load() {
		signal.Send(c.wake)
	}
	if rows, _ := c.hot.depth(); rows > 0 {
		signal.Send(c.hot.committed)
	}
}

// Wake implements [lane.Feeder].
func (c *Claimer) Wake() { signal.Send(c.wake) }

// AddressBack implements [lane.Feeder]: groups that were put back to make room may be claimed again.
func (c *Claimer) AddressBack() {
	c.ledger.readmit()
	signal.Send(c.wake)
}

// GiveUp implements [lane.Feeder]. Claims that began while the lane was ours may bring rows of it, which go back: when it returns, none of
// the lane's rows is marked as being processed by this instance, unless its claim is lost.
func (c *Claimer) GiveUp(ctx context.Context, lanes []adapters.LaneRef) error {
	if err := c.ledger.await(ctx); err != nil {
		return err
	}
	err := c.Settler.Flush(ctx, settling.Concluded, nil)
	if _, partly := errors.AsType[*adapters.LockedError](err); partly {
		return c.ledger.lockedIn(lanes)
	}
	return err
}

var _ lane.Transactor = claimOrigin{}

// Database implements [lane.Transactor]: that of the queue, if it has transactions for deliveries.
func (o claimOrigin) Database() string {
	if q, ok := o.claimer.Queue.(adapters.TxQueue); ok {
		return q.Database()
	}
	return ""
}

// Transact implements [lane.Transactor]: the rows' statuses are the record.
func (o claimOrigin) Transact(ctx context.Context, items []*lane.Item, deliver func(context.Context, any) error) error {
	q, ledger := o.claimer.Queue.(adapters.TxQueue), o.claimer.ledger //nolint:forcetypeassert // Database has said so
	hs := make([]*claimedRow, len(items))
	of := make(map[*adapters.Claim]*lane.Item, len(items))
	for i, it := range items {
		hs[i] = claimOf(it)
		of[hs[i].claim] = it
	}
	var refused error // of deliver
	lost, err := q.Transact(ctx, ledger.delivered(hs), func(ctx context.Context, tx any) error {
		refused = deliver(ctx, tx)
		return refused
	})
	if locked, some := errors.AsType[*adapters.LockedError](err); some { // other rows go without these, which are excluded for a while
		lost = locked.Claims
		for _, c := range lost {
			ledger.excludeEvicted(claimOf(of[c]).key, time.Now().Add(lockedPause))
		}
	}
	switch {
	case refused != nil:
		return refused
	case len(lost) > 0:
		e := &lane.LostError{}
		for _, c := range lost {
			e.Items = append(e.Items, of[c])
		}
		return e
	case errors.Is(err, adapters.ErrUnknown): // the next owner of the lane will see; until then nothing of it is written
		o.session.Route.Lease.Lost(o.session)
		return outbox.Released(err)
	case errors.Is(err, adapters.ErrRefused): // which one it is, is found out by transactions with fewer
		return outbox.Permanent(err)
	case err != nil:
		return outbox.Unavailable(fmt.Errorf("the transaction that delivers and settles failed: %w", err), 0)
	}
	ledger.committed(hs)
	return nil
}

// delivered are the results of rows that are about to be delivered in a transaction with them.
func (l *ledger) delivered(hs []*claimedRow) []adapters.ClaimResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]adapters.ClaimResult, len(hs))
	for i, h := range hs {
		out[i] = adapters.ClaimResult{Claim: h.claim, Outcome: outbox.OutcomeDelivered, Attempts: h.counts, Lane: h.lane, Epoch: h.epoch}
	}
	return out
}

// committed notes that the results of delivered are durable: what comes of the messages' chains changes nothing.
func (l *ledger) committed(hs []*claimedRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range hs {
		if h.state != rowOpen {
			continue
		}
		l.credits.Take(queueKeyOf(h.claim))
		if v := l.excluded[h.key]; v != nil {
			v.evictedUntil = time.Time{} // the group moves
		}
		l.drop(h)
	}
}
