package handlers

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Offered is a message that waits for its turn without a chain that waits for its outcome.
type Offered struct {
	Ticket  *Ticket
	Message *message.Message

	address string
	err     error // why it has none
}

// Ended is the outcome of an offered message: the error that [Gate.Handle] would have returned.
type Ended struct {
	Ticket  *Ticket
	Message *message.Message
	Err     error
}

// Offer has messages wait for their turn, as [Gate.Handle] does, and returns at once. Their outcomes are reported to [GateConfig].Ended.
func (g *Gate) Offer(batch []Offered) {
	for i := range batch {
		o := &batch[i]
		o.address, o.err = g.Address(o.Message)
	}
	g.mu.Lock()
	defer g.unlock()
	for _, o := range batch {
		switch refused, err := g.refuses(o.Ticket); {
		case o.err != nil:
			g.ended = append(g.ended, Ended{o.Ticket, o.Message, o.err})
		case refused:
			g.ended = append(g.ended, Ended{o.Ticket, o.Message, err})
		default:
			g.arrive(o.Ticket, o.Message, o.address)
		}
	}
}

// Address returns where the destination sends a message. A message without an
// address is never sent; a panic of the destination is an error like another.
func (g *Gate) Address(msg *message.Message) (address string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = adapters.Recovered("the destination", r)
		}
	}()
	if address, err = g.cfg.Destination.Address(msg); err != nil {
		return "", outbox.Permanent(fmt.Errorf("address of message %s: %w", msg.UUID, err))
	}
	return address, nil
}

// wake ends the wait of a ticket: its chain gets the error, or it is kept for unlock to report. Call with the mutex held.
func (g *Gate) wake(t *Ticket, err error) {
	w, msg := t.wait, t.msg
	t.wait, t.msg = nil, nil
	if w != nil {
		w <- err
		return
	}
	g.ended = append(g.ended, Ended{t, msg, err})
}

// unlock frees the mutex and reports the outcomes of offered messages on another goroutine: the caller may hold locks.
func (g *Gate) unlock() {
	ended := g.ended
	g.ended = nil
	g.mu.Unlock()
	if len(ended) > 0 {
		go g.cfg.Ended(ended)
	}
}

// Reserve marks a message as being sent outside of the gate, to the poison destination: it keeps its place in the group until
// [Gate.Return], as if it were in a batch. It returns false for one that is being sent, or is gone.
func (g *Gate) Reserve(t *Ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.state != away {
		return false
	}
	t.state, t.since = sending, g.clock()
	g.reserved[t] = struct{}{}
	return true
}

// Return ends what [Gate.Reserve] began.
func (g *Gate) Return(t *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.reserved, t)
	if t.state == sending {
		t.state = away
	}
}

// Context ends with [Gate.Abort].
func (g *Gate) Context() context.Context { return g.ctx }
