package kafka

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

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
func (s *bisection) sendFirst() bool {
	first := s.w.pending[:1]
	s.w.pending = s.w.pending[1:]
	s.send(first)
	s.split(s.sort(first))
	if s.stop {
		s.release()
		s.failRest(s.w.errs[first[0]])
		return false
	}
	s.c.known[s.w.topic] = true
	s.w.pending = slices.DeleteFunc(s.w.pending, s.behind)
	return true
}

// failRest ends a wave of which only the first record was tried. What keeps the
// topic from being written to is the error of all; anything else is the first one's.
func (s *bisection) failRest(err error) {
	if outbox.KindOf(err) != outbox.KindUnavailable {
		err = errBehind
	}
	for _, i := range s.w.pending {
		s.w.fail(i, err)
	}
}

// behind gives a message back that stands behind a failed one of its group.
func (s *bisection) behind(i int) bool {
	held := s.w.holds(s.w.group(i))
	if held {
		s.w.fail(i, errBehind)
	}
	return held
}

// run sorts out what failed when everything pending was sent at once.
func (s *bisection) run() {
	suspects := s.sort(s.w.pending)
	for len(suspects) > 0 { // the last partition first
		from := len(suspects) - 1
		for from > 0 && suspects[from-1].partition == suspects[from].partition {
			from--
		}
		s.split(suspects[from:])
		suspects = suspects[:from]
	}
	for n := 0; len(s.stack) > 0; n++ {
		if s.stop || n == maxBisections {
			s.release()
			break
		}
		s.next()
	}
	if s.tooLarge && !s.found {
		s.d.warnTooLarge(s.w.topic)
	}
	s.w.chargeHeads()
}

// next sends the part on top of the stack.
func (s *bisection) next() {
	part := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	indices := make([]int, 0, len(part))
	for _, p := range part {
		if !s.behind(p.index) {
			indices = append(indices, p.index)
		}
	}
	if len(indices) == 0 {
		return
	}
	s.send(indices)
	if len(s.w.failed) > 0 {
		s.split(s.sort(indices))
	}
}

// split takes records that were rejected together. One is the culprit, as the
// client held no other; of more, each half is sent again. The left one goes
// first, so that order is kept.
func (s *bisection) split(part []suspect) {
	switch len(part) {
	case 0:
	case 1:
		s.found = true
		i := part[0].index
		s.w.fail(i, rejection(s.w.topic, s.w.names[i].id, part[0].err))
		s.w.hold(s.w.group(i))
	default:
		s.tooLarge = s.tooLarge || isTooLarge(part[0].err)
		s.stack = append(s.stack, part[len(part)/2:], part[:len(part)/2])
	}
}

// release gives what is left on the stack back.
func (s *bisection) release() {
	for _, part := range s.stack {
		for _, p := range part {
			s.w.fail(p.index, errUndecided)
		}
	}
	s.stack = nil
}

// sort gives what failed for other reasons than a rejection its error, and
// returns the rest by partition and in the order of the batch.
func (s *bisection) sort(sent []int) []suspect {
	index := make(map[*kgo.Record]int, len(sent))
	for _, i := range sent {
		index[&s.w.recs[i]] = i
	}
	var suspects []suspect
	var last, cause error
	for _, f := range s.w.failed {
		i := index[f.rec]
		if isRejection(f.err) {
			part := suspect{i, f.rec.Partition, f.err}
			if s.c.transactional != "" { // all partitions failed together
				part.partition = 0
			}
			suspects = append(suspects, part)
			continue
		}
		s.stop = true
		if cause == nil || !errors.Is(f.err, last) { // thousands of records share one error
			last, cause = f.err, s.d.cause(s, f.err)
		}
		s.w.fail(i, cause)
		s.w.hold(s.w.group(i))
	}
	slices.SortFunc(suspects, func(a, b suspect) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.index, b.index))
	})
	if s.c.spent && len(suspects) > 0 { // no client to bisect with
		s.stop = true
		s.stack = append(s.stack, suspects)
		return nil
	}
	return suspects
}
