package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Deliver implements [adapters.Destination]. It returns within [Config.Timeout], and at once when ctx is done: messages in flight
// have an unknown outcome then.
func (d *Destination) Deliver(ctx context.Context, key string, batch []*message.Message) []error {
	if len(batch) == 0 {
		return nil
	}
	limited, stop := context.WithTimeout(ctx, d.cfg.Timeout)
	defer stop()
	w := &wave{d: d, ctx: ctx, limited: limited, key: key, perGroup: d.cfg.PerGroup}
	w.encode(batch)
	for round := w.next(); len(round) > 0; round = w.next() {
		w.send(round)
	}
	if w.errs != nil {
		broker.ChargeHeads(w.errs, func(i int) string { return w.msgs[i].group })
	}
	return w.errs
}

// wave is a batch on its way, in one or more rounds.
type wave struct {
	d            *Destination
	ctx, limited context.Context
	key          string
	perGroup     int  // messages of a group in a round
	single       bool // the server refused one of several messages: each is sent alone

	msgs    []outgoing
	pending []int   // indices without an outcome
	errs    []error // nil while nothing failed
	held    broker.Groups
}

// outgoing is a message as it is sent.
type outgoing struct {
	id, group string
	size      int // of the properties, as a frame
	rabbit.Publishing
}

// encode makes the messages, and refuses those that AMQP cannot carry.
func (w *wave) encode(batch []*message.Message) {
	w.msgs = make([]outgoing, len(batch))
	w.pending = make([]int, 0, len(batch))
	var scratch []format.Header
	for i, msg := range batch {
		m := &w.msgs[i]
		m.id, m.group = msg.UUID, broker.GroupOf(msg)
		if w.held.Has(m.group) {
			w.fail(i, broker.ErrBehind)
			continue
		}
		var err error
		if scratch, err = w.d.headers(scratch[:0], msg); err == nil {
			err = m.encode(msg, scratch)
		}
		if err != nil {
			w.fail(i, err)
			continue
		}
		w.pending = append(w.pending, i)
	}
	w.held.Reset() // what is before the failures goes
}

// framing is what surrounds headers, message id and content type in a frame of properties.
const framing = 64

// encode fills in one message. It shares the payload with msg.
func (m *outgoing) encode(msg *message.Message, headers []format.Header) error {
	m.Publishing = rabbit.Publishing{MessageId: msg.UUID, DeliveryMode: rabbit.Persistent, Body: adapters.PayloadOf(msg), Headers: make(rabbit.Table, len(headers))}
	m.size = framing + len(msg.UUID)
	for _, h := range headers {
		m.size += len(h.Key) + len(h.Value) + 6
		if len(h.Key) > longestName {
			return outbox.Permanent(fmt.Errorf("message %s has a header name of %d bytes, and AMQP allows %d: shorten it", m.id, len(h.Key), longestName))
		}
		if h.Key == contentType && len(h.Value) <= longestName {
			m.ContentType = h.Value
			continue
		}
		m.Headers[h.Key] = h.Value
	}
	if len(m.id) > longestName {
		return outbox.Permanent(fmt.Errorf("message id of %d bytes: AMQP allows %d", len(m.id), longestName))
	}
	return nil
}

// contentType is a header of format cloudevents, which AMQP has a property for.
const contentType = "content-type"

// next returns the messages of the next round: so many of each group, and none behind one that failed.
func (w *wave) next() (round []int) {
	var later []int
	taken := map[string]int{}
	for _, i := range w.pending {
		group := w.msgs[i].group
		switch {
		case w.held.Has(group):
			w.fail(i, broker.ErrBehind)
		case w.single && len(round) > 0, group != "" && taken[group] == w.perGroup:
			later = append(later, i)
		default:
			taken[group]++
			round = append(round, i)
		}
	}
	w.pending = later
	return round
}

func (w *wave) fail(i int, err error) {
	if w.errs == nil {
		w.errs = make([]error, len(w.msgs))
	}
	w.errs[i] = err
	w.held.Hold(w.msgs[i].group)
}

// end gives all messages without an outcome the same error.
func (w *wave) end(round []int, err error) {
	for _, i := range round {
		w.fail(i, err)
	}
	for _, i := range w.pending {
		w.fail(i, err)
	}
	w.pending = nil
}

// send publishes a round on a channel of its own, and waits for the confirms.
func (w *wave) send(round []int) {
	c, err := w.d.pool.get(w.limited)
	if err != nil {
		w.end(round, w.unsent(err))
		return
	}
	round = w.fitting(round, c.link.conn.Config.FrameSize)
	f := flight{w: w, c: c, round: round, returned: map[string]string{}}
	if err := f.fly(); err != nil {
		w.d.pool.discard(c)
		f.settle(w.unanswered(err))
		return
	}
	w.d.pool.put(c)
	f.settle(nil)
}

// fitting refuses the messages whose properties are larger than a frame: a server ends the connection of all lanes for one.
func (w *wave) fitting(round []int, frame int) []int {
	fit := round[:0]
	for _, i := range round {
		switch m := &w.msgs[i]; {
		case w.held.Has(m.group):
			w.fail(i, broker.ErrBehind)
		case frame > 0 && m.size > frame:
			w.fail(i, outbox.Permanent(fmt.Errorf("message %s has headers of %d bytes, and the broker allows %d: shorten them, or raise its frame_max", m.id, m.size, frame)))
		default:
			fit = append(fit, i)
		}
	}
	return fit
}

// flight is a round that is being sent.
type flight struct {
	w        *wave
	c        *channel
	round    []int
	confirms []*rabbit.DeferredConfirmation // of the first messages of the round: those that were sent
	returned map[string]string              // why a message, by its id, has no queue
	over     atomic.Bool                    // nothing more is to be sent
}

// fly publishes everything, and returns when all that was sent is confirmed or the channel has ended. An error: it is not waited for any longer.
func (f *flight) fly() error {
	blocked, err := f.c.link.state()
	if err != nil {
		return err
	}
	sent := make(chan []*rabbit.DeferredConfirmation, 1)
	go func() { sent <- f.publish() }() // it may have to wait for the server
	if err := f.wait(blocked, nil, sent); err != nil {
		f.over.Store(true)
		return err
	}
	for _, confirm := range f.confirms {
		if err := f.wait(blocked, confirm.Done(), nil); err != nil {
			return err
		}
	}
	for { // a return comes before its confirm, and may still be in the buffer
		select {
		case r, ok := <-f.c.returns:
			if !ok {
				return nil
			}
			f.returned[r.MessageId] = r.ReplyText
		default:
			return nil
		}
	}
}

// publish sends the messages, up to the first that the client cannot send.
func (f *flight) publish() []*rabbit.DeferredConfirmation {
	confirms := make([]*rabbit.DeferredConfirmation, 0, len(f.round))
	for _, i := range f.round {
		if f.over.Load() {
			break
		}
		confirm, err := f.c.PublishWithDeferredConfirm(f.w.d.cfg.Exchange, f.w.key, true, false, f.w.msgs[i].Publishing)
		if err != nil {
			break // the channel says why
		}
		confirms = append(confirms, confirm)
	}
	return confirms
}

// wait waits for one thing and takes the returns meanwhile: the client would read no confirm behind one that is not taken.
func (f *flight) wait(blocked, done <-chan struct{}, sent <-chan []*rabbit.DeferredConfirmation) error {
	returns := f.c.returns
	for {
		select {
		case <-done:
			return nil
		case f.confirms = <-sent:
			return nil
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			f.returned[r.MessageId] = r.ReplyText
		case <-blocked:
			_, err := f.c.link.state()
			return err
		case <-f.w.limited.Done():
			return f.w.limited.Err()
		}
	}
}

// settle records the outcomes. lost is the error of what was not waited for; nil: all is known, or the channel ended.
func (f *flight) settle(lost error) {
	closed := f.c.IsClosed()
	if lost == nil && closed {
		lost = f.w.ended(f.c, len(f.round))
	}
	var again []int
	for n, i := range f.round {
		acked := n < len(f.confirms) && f.confirms[n].Acked()
		why, unroutable := f.returned[f.w.msgs[i].id]
		switch {
		case acked && !unroutable:
		case unroutable:
			f.w.fail(i, f.w.unroutable(why))
		case errors.Is(lost, errRefused):
			again = append(again, i)
		case lost != nil:
			f.w.fail(i, lost)
		default:
			f.w.fail(i, outbox.Transient(fmt.Errorf("amqp: the broker did not take message %s (basic.nack): its queue is full or failed", f.w.msgs[i].id), 0))
		}
	}
	switch {
	case again != nil:
		f.w.single, f.w.pending = true, append(again, f.w.pending...)
	case lost != nil && outbox.KindOf(lost) != outbox.KindPermanent:
		f.w.end(nil, lost)
	}
}
