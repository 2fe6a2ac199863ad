package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// cursorTransactor commits deliveries together with cursor and parking.
//
// The transaction is a settle of the lane: it writes what the settler would write now, and that the messages which it delivers are settled.
// While its outcome is not known the settler writes nothing of the lane, as during one of its own writes. From the commit on the messages are
// settled in memory too, before their chains return: a settle in between would undo the record.
type cursorTransactor struct {
	session *Session
	store   adapters.TxStateStore
}

var (
	errFenced  = errors.New("the lane is no longer ours")
	errStopped = errors.New("the lane is stopping")
)

func (t cursorTransactor) Database() string { return t.store.Database() }

func (t cursorTransactor) Transact(ctx context.Context, items []*Item, deliver func(context.Context, any) error) error {
	s := t.session
	var refused error // of deliver
	turn := false     // the settler writes nothing of the lane until it ends
	fenced, err := t.store.Transact(ctx, func(ctx context.Context, tx any) error {
		refused = deliver(ctx, tx)
		return refused
	}, func(ctx context.Context) ([]adapters.Settlement, error) {
		settlements, err := t.takeTurn(ctx, items)
		turn = err == nil
		return settlements, err
	})
	switch {
	case errors.Is(err, adapters.ErrUnknown): // the next owner will see; until then nothing is written
		s.Route.Lease.Lost(s)
		return outbox.Released(err)
	case turn:
		t.endTurn(items, err == nil && len(fenced) == 0)
	}
	if gone, ok := errors.AsType[*adapters.GoneError](err); ok && refused == nil {
		return lostOf(gone, items)
	}
	switch {
	case refused != nil:
		return refused
	case len(fenced) > 0:
		s.Route.Lease.Lost(s)
		return outbox.Released(errFenced)
	case errors.Is(err, errStopped), errors.Is(err, errFenced):
		return outbox.Released(err)
	case err != nil:
		return outbox.Unavailable(fmt.Errorf("the transaction that delivers and settles failed: %w", err), 0)
	}
	return nil
}

// takeTurn waits until nothing is being written of the lane, and returns what is to be written with the items settled. Then the settler
// waits for endTurn.
func (t cursorTransactor) takeTurn(ctx context.Context, items []*Item) ([]adapters.Settlement, error) {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.landed.Broadcast()
	})()
	for s.progress.flight != nil && !s.lost && ctx.Err() == nil {
		s.landed.Wait()
	}
	switch {
	case s.lost:
		return nil, errFenced
	case ctx.Err() != nil:
		return nil, errStopped
	}
	s.progress.turn = true
	return s.progress.settlements(settling.Concluded, items), nil
}

// endTurn takes the outcome of the transaction.
func (t cursorTransactor) endTurn(items []*Item, ok bool) {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		for _, it := range items {
			s.progress.commit(it)
		}
	}
	s.progress.turn = false
	settledLocked(s, ok)
}

// writeParked makes the rows of the parking durable before they are read back, including those that a transaction writes now.
func writeParked(s *Session) error {
	for {
		if err := s.Route.settler.Flush(s.ctx, settling.Concluded, s); err != nil {
			return err
		}
		s.mu.Lock()
		turn := s.progress.turn
		for s.progress.turn && !s.lost {
			s.landed.Wait()
		}
		s.mu.Unlock()
		if !turn {
			return nil
		}
	}
}

// lostOf are the items that an operator has removed.
func lostOf(gone *adapters.GoneError, items []*Item) error {
	e := &LostError{Reason: skippedByOperator}
	for _, it := range items {
		if it.stream == nil && slices.ContainsFunc(gone.Keys, func(k adapters.ParkedKey) bool { return k.Slot == it.slot && k.Seq == it.seq }) {
			e.Items = append(e.Items, it)
		}
	}
	return e
}
