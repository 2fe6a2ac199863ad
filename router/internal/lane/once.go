package lane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// once is a session's destination if the receiver's transactions keep notes of what they deliver. State store and receiver are two systems:
// what a receiver has committed may not be settled yet when a session dies. The next session learns it from the notes.
type once struct {
	adapters.OnceDestination
	session *Session
}

// Ordering implements [adapters.Destination].
func (o once) Ordering() adapters.Ordering {
	ordering := o.OnceDestination.Ordering()
	ordering.MaxMessages = min(ordering.MaxMessages, onceBatch)
	return ordering
}

// Deliver implements [adapters.Destination].
func (o once) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	n := &notes{session: o.session, address: address, items: make([]*Item, len(batch))}
	for i, msg := range batch {
		n.items[i] = itemOf(msg)
	}
	if err := n.makeRoom(ctx); err != nil {
		return slices.Repeat([]error{outbox.Released(fmt.Errorf("what was delivered before cannot be settled: %w", err))}, len(batch))
	}
	return o.DeliverOnce(ctx, address, batch, n)
}

// notes implements [adapters.Notes] for a batch.
type notes struct {
	session *Session
	address string
	items   []*Item
}

// makeRoom settles until the note has room for the batch. The generation has to be durable too: by another one the note would be void.
func (n *notes) makeRoom(ctx context.Context) error {
	s := n.session
	for {
		s.mu.Lock()
		l := s.progress.ledger
		l.prune()
		_, durable := l.generation()
		ready := durable && l.own(n.address)+len(n.items) <= ownMost
		s.mu.Unlock()
		if ready {
			return nil
		}
		if err := s.Route.settler.Flush(ctx, settling.Concluded, s); err != nil {
			return err
		}
		signal.Sleep(time.Millisecond, ctx.Done()) // chains of delivered messages have to return before they can be settled
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Read implements [adapters.Notes].
func (n *notes) Read(of map[string]string) {
	s := n.session
	s.mu.Lock()
	known := s.progress.ledger.take(of)
	s.mu.Unlock()
	if known > 0 {
		s.Route.Log().Info("messages of the lane were delivered and perhaps not settled; they are not sent again", "lane", s.Lane.Name, "messages", known)
	}
}

// Delivered implements [adapters.Notes].
func (n *notes) Delivered(i int) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	return n.session.progress.ledger.meet(n.items[i])
}

// Write implements [adapters.Notes].
func (n *notes) Write(indices []int) string {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	l := n.session.progress.ledger
	l.prune()
	clear(l.sent) // of a transaction that was aborted
	for _, i := range indices {
		l.begin(n.address, n.items[i])
	}
	return l.note(n.address)
}

// Committed implements [adapters.Notes].
func (n *notes) Committed() {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	n.session.progress.ledger.commit()
}
