package kafka

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
)

// maxBisections bounds how often one Deliver sends parts of a rejected batch
// again. Finding one bad record among 2000 takes about 20; what is undecided
// after the last comes back released and is bisected by the next Deliver.
const maxBisections = 64

// bisection sorts out what failed in a wave: which records the broker rejects,
// which it cannot take now, and which were only beside them.
type bisection struct {
	d       *Destination
	w       *wave
	c       *client
	ctx     context.Context // the caller's
	limited context.Context // with the destination's timeout

	stack    [][]suspect // what to send again, the last one first
	stop     bool        // something else than a rejection failed
	found    bool        // a culprit was found
	tooLarge bool        // a batch of several was too large
}

// suspect is a record of a rejected batch.
type suspect struct {
	index     int
	partition int32
	err       error
}

// sendFirst sends the first record alone, to a topic that is new to the client,
// and takes it out of what is pending. It returns false when nothing else can be
// sent.
func (b *bisection) sendFirst() bool {
	first := b.w.pending[:1]
	b.w.pending = b.w.pending[1:]
	b.send(first)
	b.split(b.sort(first))
	if b.stop {
		b.release()
		b.failRest(b.w.errs[first[0]])
		return false
	}
	b.c.known[b.w.topic] = true
	b.w.pending = slices.DeleteFunc(b.w.pending, b.behind)
	return true
}

// failRest ends a wave of which only the first record was tried. An error that keeps the
// topic from being written to is the error of all; any other one is the first one's.
func (b *bisection) failRest(err error) {
	if outbox.KindOf(err) != outbox.KindUnavailable {
		err = broker.ErrBehind
	}
	for _, i := range b.w.pending {
		b.w.fail(i, err)
	}
}

// behind gives a message back that follows a failed one of its group.
func (b *bisection) behind(i int) bool {
	held := b.w.held.Has(b.w.group(i))
	if held {
		b.w.fail(i, broker.ErrBehind)
	}
	return held
}

// run sorts out what failed when everything pending was sent at once.
func (b *bisection) run() {
	suspects := b.sort(b.w.pending)
	for len(suspects) > 0 { // the last partition first
		from := len(suspects) - 1
		for from > 0 && suspects[from-1].partition == suspects[from].partition {
			from--
		}
		b.split(suspects[from:])
		suspects = suspects[:from]
	}
	for n := 0; len(b.stack) > 0; n++ {
		if b.stop || n == maxBisections {
			b.release()
			break
		}
		b.next()
	}
	if b.tooLarge && !b.found {
		b.d.warnTooLarge(b.w.topic)
	}
	b.w.chargeHeads()
}

// next sends the part on top of the stack.
func (b *bisection) next() {
	part := b.stack[len(b.stack)-1]
	b.stack = b.stack[:len(b.stack)-1]
	indices := make([]int, 0, len(part))
	for _, p := range part {
		if !b.behind(p.index) {
			indices = append(indices, p.index)
		}
	}
	if len(indices) == 0 {
		return
	}
	b.send(indices)
	if len(b.w.failed) > 0 {
		b.split(b.sort(indices))
	}
}

// split takes records that were rejected together. One is the culprit, as the
// client held no other; of more, each half is sent again. The left one goes
// first, so that order is kept.
func (b *bisection) split(part []suspect) {
	switch len(part) {
	case 0:
	case 1:
		b.found = true
		i := part[0].index
		err := b.w.rejection(i, part[0].err)
		b.stop = b.stop || outbox.KindOf(err) == outbox.KindUnavailable
		b.w.fail(i, err)
		b.w.held.Hold(b.w.group(i))
	default:
		b.tooLarge = b.tooLarge || isTooLarge(part[0].err)
		b.stack = append(b.stack, part[len(part)/2:], part[:len(part)/2])
	}
}

// release gives what is left on the stack back.
func (b *bisection) release() {
	for _, part := range b.stack {
		for _, p := range part {
			b.w.fail(p.index, errUndecided)
		}
	}
	b.stack = nil
}

// sort gives what failed for other reasons than a rejection its error, and
// returns the rest by partition and in the order of the batch.
func (b *bisection) sort(sent []int) []suspect {
	index := make(map[*kgo.Record]int, len(sent))
	for _, i := range sent {
		index[&b.w.recs[i]] = i
	}
	var suspects []suspect
	var last, cause error
	for _, f := range b.w.failed {
		i := index[f.rec]
		if b.w.isRejection(f.err) {
			part := suspect{i, f.rec.Partition, f.err}
			if b.c.transactional != "" { // all partitions failed together
				part.partition = 0
			}
			suspects = append(suspects, part)
			continue
		}
		b.stop = true
		if cause == nil || !errors.Is(f.err, last) { // thousands of records share one error
			last, cause = f.err, b.d.cause(b, f.err)
		}
		b.w.fail(i, cause)
		b.w.held.Hold(b.w.group(i))
	}
	slices.SortFunc(suspects, func(x, y suspect) int {
		return cmp.Or(cmp.Compare(x.partition, y.partition), cmp.Compare(x.index, y.index))
	})
	if b.c.spent && len(suspects) > 0 { // no client to bisect with
		b.stop = true
		b.stack = append(b.stack, suspects)
		return nil
	}
	return suspects
}
