package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outriderhq/outrider/adapters"
)

// bounds are the offsets of the partitions: the first that is left, and the one behind the last that a reader of committed records sees.
type bounds struct {
	at         time.Time
	first, end map[int]int64
}

// boundsAge is how long bounds are used: hundreds of lanes are acquired at once.
const boundsAge = time.Second

// limits asks for the bounds; fresh: those of a moment ago do not do.
func (s *Source) limits(ctx context.Context, fresh bool) (bounds, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh && time.Since(s.bounds.at) < boundsAge {
		return s.bounds, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	first, err := s.admin.ListStartOffsets(ctx, s.cfg.Topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return bounds{}, s.wrap(err)
	}
	end, err := s.admin.ListCommittedOffsets(ctx, s.cfg.Topic)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return bounds{}, s.wrap(err)
	}
	s.bounds = bounds{at: time.Now(), first: offsetsOf(first[s.cfg.Topic]), end: offsetsOf(end[s.cfg.Topic])}
	return s.bounds, nil
}

func offsetsOf(listed map[int32]kadm.ListedOffset) map[int]int64 {
	out := make(map[int]int64, len(listed))
	for p, o := range listed {
		out[int(p)] = o.Offset
	}
	return out
}

// committed returns what the group has committed, by partition.
func (s *Source) committed(ctx context.Context) (map[int]kadm.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	var offsets kadm.OffsetResponses
	err := patiently(ctx, func() (err error) {
		if offsets, err = s.admin.FetchOffsets(ctx, s.cfg.Group); err == nil {
			err = offsets.Error()
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, s.wrap(err)
	}
	out := map[int]kadm.Offset{}
	for p, o := range offsets[s.cfg.Topic] {
		if o.At >= 0 {
			out[int(p)] = o.Offset
		}
	}
	return out, nil
}

// coordinatorPause is the pause between questions to a coordinator.
const coordinatorPause = 200 * time.Millisecond

// patiently asks the coordinator of a group again while there is none: a cluster makes it for its first group, and chooses another one after a
// failover.
func patiently(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.CoordinatorLoadInProgress) && !errors.Is(err, kerr.NotCoordinator) {
			return err
		}
		select {
		case <-time.After(coordinatorPause):
		case <-ctx.Done():
			return err
		}
	}
}

// Start implements [adapters.Source]. It is that of the longest partition, see [Source.StartIn].
func (s *Source) Start(ctx context.Context, at adapters.Start) (adapters.Cursor, error) {
	starts, err := s.Starts(ctx, at)
	c := adapters.Cursor{Position: -1}
	for _, position := range starts {
		c.Position = max(c.Position, position)
	}
	return c, err
}

// Starts implements [adapters.PartitionedSource]. The beginning is an offset, too: what is removed after that is missed.
func (s *Source) Starts(ctx context.Context, at adapters.Start) (map[int]int64, error) {
	b, err := s.limits(ctx, at.Kind == adapters.StartEnd)
	if err != nil {
		return nil, err
	}
	out := make(map[int]int64, len(b.end))
	switch at.Kind {
	case adapters.StartEnd:
		for p, end := range b.end {
			out[p] = end - 1
		}
		return out, nil
	case adapters.StartTime:
		ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
		defer cancel()
		listed, err := s.admin.ListOffsetsAfterMilli(ctx, at.Time.UnixMilli(), s.cfg.Topic)
		if err == nil {
			err = listed.Error()
		}
		for p, offset := range offsetsOf(listed[s.cfg.Topic]) {
			out[p] = offset - 1
		}
		return out, s.wrap(err)
	case adapters.StartBeginning:
	case adapters.StartOffsets:
		return nil, adapters.NoStart("a topic begins at the offsets of its own group")
	}
	for p, first := range b.first {
		out[p] = first - 1
	}
	return out, nil
}

// StartIn implements [adapters.PartitionedSource]. A partition begins where the group has committed, for another program may have read it before.
// Where the group has committed nothing at all, the starts of all partitions are committed together: a partition that has none after that was
// added later, and begins with the first record that is left.
func (s *Source) StartIn(ctx context.Context, slot int, at adapters.Start) (adapters.Cursor, error) {
	committed, err := s.committed(ctx)
	if err != nil {
		return adapters.Cursor{}, err
	}
	if o, ok := committed[slot]; ok {
		c := adapters.Cursor{Position: o.At - 1}
		return c, s.ValidateIn(ctx, slot, c) // the records may be gone
	}
	if len(committed) > 0 {
		at = adapters.Start{Kind: adapters.StartBeginning}
	}
	starts, err := s.Starts(ctx, at)
	if err != nil {
		return adapters.Cursor{}, err
	}
	if len(committed) == 0 {
		if err := s.group.commit(ctx, s.cfg.Topic, starts); err != nil {
			return adapters.Cursor{}, s.wrap(fmt.Errorf("commit where the group begins: %w", err))
		}
	}
	position, ok := starts[slot]
	if !ok { // it was added a moment ago
		position = -1
	}
	return adapters.Cursor{Position: position}, nil
}

// gone is the error for a cursor that names records which are not there.
type gone string

func (g gone) Error() string { return string(g) }

// Is has it count as [adapters.ErrWentBack]: no retry brings the records back.
func (g gone) Is(target error) bool { return target == adapters.ErrWentBack }

// Validate implements [adapters.Source]. Which partition a cursor is of is known to [Source.ValidateIn].
func (s *Source) Validate(context.Context, adapters.Cursor) error { return nil }

// ValidateIn implements [adapters.PartitionedSource].
func (s *Source) ValidateIn(ctx context.Context, slot int, c adapters.Cursor) error {
	next := c.Position + 1
	b, err := s.limits(ctx, false)
	if err == nil && next > b.end[slot] {
		b, err = s.limits(ctx, true) // it has grown since
	}
	if err != nil {
		return err
	}
	first, ok := b.first[slot]
	switch {
	case !ok:
		return gone(fmt.Sprintf("topic %s has no partition %d any more", s.cfg.Topic, slot))
	case next > b.end[slot]:
		return gone(fmt.Sprintf("partition %d of topic %s was truncated: it ends at offset %d, and offsets below %d were delivered", slot, s.cfg.Topic, b.end[slot], next))
	case next < first:
		return gone(fmt.Sprintf("offsets %d to %d of partition %d of topic %s were removed before they were delivered: see the topic's retention", next, first-1, slot, s.cfg.Topic))
	}
	s.compare(ctx, slot, next)
	return nil
}

// compare logs an offset that another program has committed: the state store says where a lane continues.
func (s *Source) compare(ctx context.Context, slot int, next int64) {
	committed, err := s.committed(ctx)
	o, ok := committed[slot]
	if err != nil || !ok || o.Metadata == mark || o.At == next {
		return
	}
	text := fmt.Sprint(slot, o.At)
	s.mu.Lock()
	known := s.warned[text]
	s.warned[text] = true
	s.mu.Unlock()
	if !known {
		s.cfg.Logger.Warn("another program has committed an offset of the group; the state store's is used. To move it, use outrider seek",
			"group", s.cfg.Group, "topic", s.cfg.Topic, "partition", slot, "committed", o.At, "used", next)
	}
}

// Anchored implements [adapters.Source]: a topic has an id, so its cursors need no anchor.
func (s *Source) Anchored(_ context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	return c, nil
}
