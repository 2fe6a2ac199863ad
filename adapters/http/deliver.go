package http

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// maxSearches bounds the requests that one Deliver spends on finding the
// messages that an answer is about. Finding one among 100 takes about 13; what
// is undecided after the last comes back released.
const maxSearches = 40

var (
	errBehind    = outbox.Released(errors.New("held back: an earlier message of its group was not delivered"))
	errUndecided = outbox.Released(errors.New("held back: the receiver refused the batch, and which message it meant is not known yet"))
)

// item is a message as an element of a request.
type item struct {
	index int
	msg   *message.Message
	body  []byte
}

// delivery is one call of Deliver.
type delivery struct {
	d       *Destination
	address string
	batch   []*message.Message
	errs    []error
	held    map[string]struct{} // groups that nothing more may be sent of
}

// Deliver implements [adapters.Destination].
func (d *Destination) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	v := &delivery{d: d, address: address, batch: batch}
	items := v.encode()
	if len(items) == 0 {
		return v.errs
	}
	stack := [][]item{items}
	for n := 0; len(stack) > 0; n++ {
		if n > maxSearches {
			v.release(stack)
			break
		}
		part := v.sendable(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		if len(part) == 0 {
			continue
		}
		results, err := d.post(ctx, address, part)
		switch {
		case err == nil:
			v.fails(part, results)
		case !d.splits(err, part):
			v.failPart(part, err)
			if outbox.KindOf(err) != outbox.KindPermanent { // others would meet the same
				v.release(stack)
				return v.errs
			}
		default: // the left half goes first, so that order is kept
			stack = append(stack, part[len(part)/2:], part[:len(part)/2])
		}
	}
	return v.errs
}

// fails gives messages the errors that the receiver has for each; nil: it took all.
func (d *delivery) fails(part []item, results []error) {
	for i, err := range results {
		if err != nil {
			d.fail(part[i].index, err)
			d.hold(part[i].msg)
		}
	}
}

// splits reports whether an error is about one of several messages.
func (d *Destination) splits(err error, part []item) bool {
	return outbox.KindOf(err) == outbox.KindPermanent && len(part) > 1 && !d.cfg.Whole
}

// encode makes the items and refuses the messages that cannot become one.
func (d *delivery) encode() []item {
	items := make([]item, 0, len(d.batch))
	broken := false
	for i, msg := range d.batch {
		if d.holds(msg) || broken && d.d.cfg.Whole {
			d.fail(i, errBehind)
			continue
		}
		body, err := d.d.encode(msg)
		if err != nil {
			d.fail(i, err)
			d.hold(msg)
			broken = true
			continue
		}
		items = append(items, item{i, msg, body})
	}
	return items
}

// encode returns a message as an element of an array, or as the body of its request.
func (d *Destination) encode(msg *message.Message) ([]byte, error) {
	switch d.cfg.Format {
	case format.CloudEvents:
		return format.AppendCloudEvent(nil, d.cfg.CloudEventsSource, msg)
	case format.Watermill:
		return adapters.PayloadOf(msg), nil
	default:
		return format.JSON(msg)
	}
}

// sendable leaves out the messages behind one that failed.
func (d *delivery) sendable(part []item) []item {
	if d.held == nil {
		return part
	}
	var rest []item
	for _, it := range part {
		if d.holds(it.msg) {
			d.fail(it.index, errBehind)
			continue
		}
		rest = append(rest, it)
	}
	return rest
}

// failPart gives an error to a request's messages. One that costs an attempt is
// for the first message of each group: what follows it is held back.
func (d *delivery) failPart(part []item, err error) {
	kind := outbox.KindOf(err)
	costs := (kind == outbox.KindTransient || kind == outbox.KindPermanent) && !d.whole(err)
	for _, it := range part {
		if costs && d.holds(it.msg) {
			d.fail(it.index, errBehind)
			continue
		}
		d.fail(it.index, err)
		d.hold(it.msg)
	}
}

// whole reports whether an error is an answer that counts for all messages.
func (d *delivery) whole(err error) bool {
	return d.d.cfg.Whole && (outbox.KindOf(err) == outbox.KindPermanent || outbox.AnsweredBy(err))
}

func (d *delivery) release(stack [][]item) {
	for _, part := range stack {
		for _, it := range part {
			d.fail(it.index, errUndecided)
		}
	}
}

func (d *delivery) fail(i int, err error) {
	if d.errs == nil {
		d.errs = make([]error, len(d.batch))
	}
	d.errs[i] = err
}

func (d *delivery) hold(msg *message.Message) {
	group := msg.Metadata[outbox.MetaGroup]
	if group == "" {
		return
	}
	if d.held == nil {
		d.held = make(map[string]struct{})
	}
	d.held[group] = struct{}{}
}

func (d *delivery) holds(msg *message.Message) bool {
	group := msg.Metadata[outbox.MetaGroup]
	if d.held == nil || group == "" {
		return false
	}
	_, ok := d.held[group]
	return ok
}
