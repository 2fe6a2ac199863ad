package claiming

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
)

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
	hs := make([]*holding, len(items))
	of := make(map[*adapters.Claim]*lane.Item, len(items))
	for i, it := range items {
		hs[i] = holdingOf(it)
		of[hs[i].claim] = it
	}
	var refused error // of deliver
	lost, err := q.Transact(ctx, ledger.delivered(hs), func(ctx context.Context, tx any) error {
		refused = deliver(ctx, tx)
		return refused
	})
	if locked, some := errors.AsType[*adapters.LockedError](err); some { // the others go without these, which are left out for a while
		lost = locked.Claims
		for _, c := range lost {
			ledger.leaveOutEvicted(holdingOf(of[c]).key, time.Now().Add(lockedPause))
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
func (l *ledger) delivered(hs []*holding) []adapters.ClaimResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]adapters.ClaimResult, len(hs))
	for i, h := range hs {
		out[i] = adapters.ClaimResult{Claim: h.claim, Outcome: outbox.OutcomeDelivered, Attempts: h.counts, Lane: h.lane, Epoch: h.epoch}
	}
	return out
}

// committed notes that the results of delivered are durable: what comes of the messages' chains changes nothing.
func (l *ledger) committed(hs []*holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range hs {
		if h.state != rowOpen {
			continue
		}
		l.credits.Take(queueKeyOf(h.claim))
		if v := l.left[h.key]; v != nil {
			v.evictedUntil = time.Time{} // the group moves
		}
		l.drop(h)
	}
}
