package nats

import (
	"context"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// requests is how many messages of a wave that is sent one by one are under way, each of another group.
const requests = 256

// wave is a batch in flight. The messages themselves may go back to their lane before it has ended.
type wave struct {
	d       *Destination
	ctx     context.Context // of the caller
	limited context.Context // ends as well after the timeout, and with the connection
	js      jetstream.JetStream
	subject string
	msgs    []*natsgo.Msg // by index in the batch; nil: not sent
	groups  []string
	errs    []error
}

// Deliver implements [adapters.Destination]. It returns within [Config.Timeout], and at once when ctx is done: what was in flight has
// then an unknown outcome.
func (d *Destination) Deliver(ctx context.Context, subject string, batch []*message.Message) []error {
	if len(batch) == 0 {
		return nil
	}
	w := &wave{d: d, ctx: ctx, subject: subject, msgs: make([]*natsgo.Msg, len(batch)), groups: make([]string, len(batch)), errs: make([]error, len(batch))}
	w.encode(batch)
	w.send()
	if !slices.ContainsFunc(w.errs, func(err error) bool { return err != nil }) {
		return nil
	}
	broker.ChargeHeads(w.errs, func(i int) string { return w.groups[i] })
	return w.errs
}

// encode makes the messages, and refuses those that cannot be sent with what is behind them.
func (w *wave) encode(batch []*message.Message) {
	var held broker.Groups
	var scratch []format.Header
	for i, msg := range batch {
		w.groups[i] = broker.GroupOf(msg)
		if held.Has(w.groups[i]) {
			w.errs[i] = broker.ErrBehind
			continue
		}
		w.msgs[i], scratch, w.errs[i] = w.d.encode(w.subject, msg, scratch)
		if w.errs[i] != nil {
			held.Hold(w.groups[i])
		}
	}
}

func (w *wave) send() {
	timed, stop := context.WithTimeout(w.ctx, w.d.cfg.Timeout)
	defer stop()
	limited, cancel := context.WithCancelCause(timed)
	defer cancel(nil)
	w.limited = limited
	if w.ctx.Err() != nil {
		w.failAll(w.ctx.Err())
		return
	}
	js, session, err := w.d.link.get()
	if err != nil {
		w.failAll(err)
		return
	}
	defer context.AfterFunc(session, func() { cancel(context.Cause(session)) })()
	w.js = js
	to, err := w.d.streams.of(limited, w.d, js, w.subject)
	if err != nil {
		w.failAll(err)
		return
	}
	left := w.left()
	if !to.atomic || len(left) <= 1 {
		w.singly(left)
		return
	}
	switch err := w.batch(left); {
	case err == nil:
	case refused(err):
		w.singly(left)
	default:
		w.failAll(err)
	}
}

// left returns the indices of the messages to send.
func (w *wave) left() []int {
	var left []int
	for i, msg := range w.msgs {
		if msg != nil {
			left = append(left, i)
		}
	}
	return left
}

// batch sends the messages as one: all of them are stored, or none is.
func (w *wave) batch(left []int) error {
	select {
	case w.d.slots <- struct{}{}:
		defer func() { <-w.d.slots }()
	case <-w.limited.Done():
		return w.limited.Err()
	}
	msgs := make([]*natsgo.Msg, len(left))
	for k, i := range left {
		msgs[k] = w.msgs[i]
	}
	_, err := jetstreamext.PublishMsgBatch(w.limited, w.js, msgs, jetstreamext.BatchFlowControl{}) // no waiting for the first one: the last says all
	return err
}

// singly sends each message when the one before it in its group is stored, groups at the same time.
func (w *wave) singly(left []int) {
	var all errgroup.Group
	all.SetLimit(requests)
	for _, chain := range w.chains(left) {
		all.Go(func() error {
			for k, i := range chain {
				if err := w.one(w.msgs[i]); err != nil {
					w.failChain(chain[k:], err)
					return nil
				}
			}
			return nil
		})
	}
	_ = all.Wait() // there is none: each message has its own
}

// chains returns the indices of each group, in order; a message without a group has one to itself.
func (w *wave) chains(left []int) [][]int {
	var chains [][]int
	of := map[string]int{}
	for _, i := range left {
		k, ok := of[w.groups[i]]
		if !ok || w.groups[i] == "" {
			k = len(chains)
			of[w.groups[i]] = k
			chains = append(chains, nil)
		}
		chains[k] = append(chains[k], i)
	}
	return chains
}

func (w *wave) one(msg *natsgo.Msg) error {
	for _, header := range []string{jetstreamext.BatchIDHeader, jetstreamext.BatchSeqHeader, jetstreamext.BatchCommitHeader} {
		delete(msg.Header, header)
	}
	msg.Reply = ""
	ack, err := w.js.PublishMsg(w.limited, msg)
	if err == nil && ack.Duplicate {
		w.d.duplicates.Add(1)
	}
	return err
}

// failChain gives a message of a group its error, and those behind it theirs.
func (w *wave) failChain(chain []int, err error) {
	err = w.undelivered(w.msgs[chain[0]], err)
	for k, i := range chain {
		w.errs[i] = err
		if k > 0 && outbox.KindOf(err) != outbox.KindUnavailable {
			w.errs[i] = broker.ErrBehind
		}
	}
}

// failAll gives every message that has no error yet the same one.
func (w *wave) failAll(err error) {
	err = w.undelivered(nil, err)
	for i := range w.errs {
		if w.errs[i] == nil {
			w.errs[i] = err
		}
	}
}
