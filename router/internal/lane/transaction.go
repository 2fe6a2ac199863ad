package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Transactor is implemented by origins that record deliveries in a transaction of their own.
type Transactor interface {
	// Database names the database of the transactions; empty: there are none.
	Database() string

	// Transact has deliver write into a transaction, which records the messages of the items as delivered and commits. An error of deliver
	// is returned as it is, and nothing is written; nor is anything if items are lost, which is a [*LostError]. Any other error is
	// [outbox.Unavailable] or [outbox.Released]. It is called without the session's mutex.
	Transact(ctx context.Context, items []*Item, deliver func(ctx context.Context, tx any) error) error
}

// transaction is a session's destination if delivery and settling commit together: every message arrives exactly once.
type transaction struct {
	adapters.Destination
	to adapters.TxDestination
	in Transactor
}

// through returns the session's own destination: one that fences former owners, or transactions, if messages are settled in the
// destination's database. nil: the route's destination is used.
func through(s *Session) adapters.Destination {
	if f, ok := s.Route.Destination.(adapters.Fencer); ok {
		fenced := f.Fence(s.Lane.Name, func(ctx context.Context) (bool, error) { return s.Route.Lease.StillOwned(ctx, s) })
		to, notes := fenced.(adapters.OnceDestination)
		if _, byCursor := s.origin.(ByCursor); notes && byCursor {
			return once{to, s}
		}
		return fenced
	}
	to, ok := s.Route.Destination.(adapters.TxDestination)
	if !ok {
		return nil
	}
	in, ok := s.origin.(Transactor)
	if _, byCursor := s.origin.(ByCursor); byCursor {
		var store adapters.TxStateStore
		store, ok = s.Route.State.(adapters.TxStateStore)
		in = cursorTransactor{s, store}
	}
	if !ok || in.Database() == "" || in.Database() != to.Database() {
		return nil
	}
	return transaction{to, to, in}
}

// Ordering implements [adapters.Destination]. One transaction of a lane follows another.
func (t transaction) Ordering() adapters.Ordering {
	o := t.Destination.Ordering()
	o.Unit = adapters.UnitWave
	return o
}

// Close implements [adapters.Destination]. The destination is the route's.
func (t transaction) Close() error { return nil }

func (t transaction) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	return adapters.InParts(batch, groupOf, func(part []*message.Message) ([]error, error) { return t.try(ctx, address, part) })
}

// try delivers messages in one transaction, for [adapters.InParts]. A batch may need several transactions, so messages whose group was
// paused meanwhile are not delivered.
func (t transaction) try(ctx context.Context, address string, batch []*message.Message) (errs []error, ended error) {
	items := make([]*Item, len(batch))
	for i, msg := range batch {
		items[i] = itemOf(msg)
		if items[i].Session.Route.Paused().Has(items[i].key) {
			errs = slices.Grow(errs, len(batch))[:len(batch)]
			errs[i] = errGroupPaused
		}
	}
	if errs != nil {
		return errs, nil
	}
	var committed func()
	err := t.in.Transact(ctx, items, func(ctx context.Context, tx any) error {
		if committed, errs = t.to.DeliverTx(ctx, tx, address, batch); errs != nil {
			return errRefused
		}
		return nil
	})
	lost, someLost := errors.AsType[*LostError](err)
	switch {
	case err == nil:
		if committed != nil {
			committed()
		}
		return nil, nil
	case someLost:
		errs = make([]error, len(batch))
		for i, it := range items {
			switch {
			case !slices.Contains(lost.Items, it):
			case lost.Reason != "":
				errs[i] = outbox.Skip(lost.Reason)
			default:
				errs[i] = outbox.Released(lost)
			}
		}
		return errs, nil
	case errors.Is(err, adapters.ErrRefused):
		return slices.Repeat([]error{err}, len(batch)), nil
	case !errors.Is(err, errRefused):
		return nil, err
	}
	for _, err := range errs {
		switch {
		case err == nil:
		case ctx.Err() != nil: // the error of one message must not end other messages
			return nil, outbox.Unavailable(fmt.Errorf("%w before it was found out which message is at fault: %w", context.Cause(ctx), err), 0)
		case outbox.KindOf(err) == outbox.KindUnavailable:
			return nil, err
		}
	}
	return errs, nil
}

// LostError says which messages are no longer ours: another owner has claimed or finished them.
type LostError struct {
	Items  []*Item
	Reason string // of skipping them; empty: their origin may bring them again, so nothing behind them may go first
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("%d messages belong to somebody else", len(e.Items))
}

// Is makes it an [adapters.ErrLost].
func (e *LostError) Is(target error) bool { return target == adapters.ErrLost }

var errGroupPaused = outbox.Released(errors.New("an operator has paused the group"))

// errRefused ends a transaction in which a destination has failed.
var errRefused = errors.New("the destination has refused messages")

// groupOf returns the group of a message; empty: none.
func groupOf(msg *message.Message) string { return itemOf(msg).key }
