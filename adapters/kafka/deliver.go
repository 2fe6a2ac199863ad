package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
)

var errUndecided = outbox.Released(errors.New("held back: Kafka rejected the batch, and which record it meant is not known yet"))

// Deliver implements [adapters.Destination]. It returns within
// [Config.Timeout], and at once when ctx is done: what was in flight has then
// an unknown outcome.
func (d *Destination) Deliver(ctx context.Context, topic string, batch []*message.Message) []error {
	if len(batch) == 0 {
		return nil
	}
	return d.deliverLarge(ctx, topic, batch, d.join(topic, &delivery{ctx: ctx, batch: batch, done: make(chan struct{})}))
}

// clients gives a client for one wave: the pool or a lane's fenced producer.
type clients interface {
	get(ctx context.Context) (*client, error)
	put(c *client)
}

// deliver sends one wave.
func (d *Destination) deliver(ctx context.Context, from clients, topic string, batch []*message.Message) []error {
	return d.send(ctx, from, d.newWave(topic, batch))
}

// newWave returns a wave of the messages, which it does not read any more: what
// their senders do with them from here on is no concern of the wave's.
func (d *Destination) newWave(topic string, batch []*message.Message) *wave {
	w, ok := d.waves.Get().(*wave)
	if !ok {
		w = newWave(d)
	}
	w.encode(topic, batch)
	return w
}

// send sends a wave, which is gone then.
func (d *Destination) send(ctx context.Context, from clients, w *wave) []error {
	timed, stop := context.WithTimeout(ctx, d.cfg.Timeout)
	defer stop()
	limited, cancel := context.WithCancelCause(timed)
	defer cancel(nil)
	defer func() {
		w.reset()
		d.waves.Put(w)
	}()
	if len(w.pending) == 0 {
		return w.errs
	}
	c, err := from.get(limited)
	if err != nil {
		w.failAll(d.noClient(ctx, err))
		return w.errs
	}
	defer from.put(c)
	if w.notes != nil {
		if err := c.recall(limited, w); err != nil {
			w.failAll(unavailable(w.topic, notNoted(c.transactional, w.topic, c.watch.explain(err))))
			return w.errs
		}
		if w.pending = slices.DeleteFunc(w.pending, w.notes.Delivered); len(w.pending) == 0 {
			return w.errs
		}
	}

	s := bisection{d: d, w: w, c: c, ctx: ctx, limited: limited}
	defer d.waiting.over(w.topic, func() { d.cfg.Logger.Info("kafka: the records that were waited for have an outcome", "topic", w.topic) })
	defer c.watch.guard(s.lost(cancel))()
	if !c.known[w.topic] && !s.sendFirst() || len(w.pending) == 0 {
		return w.errs
	}
	s.send(w.pending)
	if len(w.failed) > 0 {
		s.run()
	}
	return w.errs
}

// failAll gives every message that has no error yet the same one.
func (w *wave) failAll(err error) {
	for i := range w.recs {
		if w.errs == nil || w.errs[i] == nil {
			w.fail(i, err)
		}
	}
	w.chargeHeads()
}

// chargeHeads is [broker.ChargeHeads] for the wave's messages.
func (w *wave) chargeHeads() { broker.ChargeHeads(w.errs, w.group) }
