package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// Offsets of a partition count its records, except in compacted topics and behind transactions, where they count more than there are. What
// operators see is counted by offsets: a count by reading would transfer the records.

// Backlog implements [adapters.OperatorSource].
func (s *Source) Backlog(ctx context.Context, spans []adapters.Span, most int) (b adapters.Backlog, err error) {
	each, err := s.Backlogs(ctx, spans, most)
	for _, one := range each {
		b.Add(one)
	}
	if b.Rows > most {
		b.Rows, b.More = most, true
	}
	return b, err
}

// Backlogs implements [adapters.LaneBacklogger].
func (s *Source) Backlogs(ctx context.Context, spans []adapters.Span, most int) ([]adapters.Backlog, error) {
	b, err := s.limits(ctx, true)
	if err != nil {
		return nil, err
	}
	out := make([]adapters.Backlog, len(spans))
	for i, sp := range spans {
		last := b.end[sp.Slot] - 1
		if sp.Upto > 0 {
			last = min(last, sp.Upto)
		}
		n := max(last-max(sp.After, b.first[sp.Slot]-1), 0)
		out[i] = adapters.Backlog{Rows: int(min(n, int64(most))), More: n > int64(most)}
	}
	return out, nil
}

// CountMoves implements [adapters.OperatorSource]. What a route matches is not counted.
func (s *Source) CountMoves(ctx context.Context, moves []adapters.CursorMove, most int, _ func(*adapters.Row) bool) ([]adapters.MoveCount, error) {
	b, err := s.limits(ctx, true)
	if err != nil {
		return nil, err
	}
	out := make([]adapters.MoveCount, len(moves))
	for i, m := range moves {
		within := func(p int64) int64 { return min(max(p, b.first[m.Slot]-1), b.end[m.Slot]-1) }
		from, to := within(m.From.Position), within(m.To.Position)
		out[i].Passed = int(min(max(to-from, 0), int64(most)))
		out[i].Again = int(min(max(from-to, 0), int64(most)))
		out[i].More = max(to-from, from-to) > int64(most)
	}
	return out, nil
}

// Unsettled implements [adapters.OperatorSource]: records between a lane's cursor and the end that the lane has not settled. They are not read,
// so they have no more than their place.
func (s *Source) Unsettled(ctx context.Context, lanes []adapters.LaneStatus, after []int64, _ adapters.Cursor, most int) ([][]adapters.FoundRow, error) {
	b, err := s.limits(ctx, true)
	if err != nil {
		return nil, err
	}
	out := make([][]adapters.FoundRow, len(lanes))
	for i, l := range lanes {
		for p := max(after[i], l.Cursor.Position, b.first[l.Slot]-1) + 1; p < b.end[l.Slot] && len(out[i]) < most; p++ {
			if !slices.Contains(l.Beyond, p) {
				out[i] = append(out[i], s.found(l.Slot, p))
			}
		}
	}
	return out, nil
}

func (s *Source) found(slot int, position int64) adapters.FoundRow {
	return adapters.FoundRow{Row: adapters.Row{ID: fmt.Sprintf("%s/%d/%d", s.cfg.Topic, slot, position), Type: s.cfg.Topic, Slot: slot, Position: position},
		Settled: func(c adapters.Cursor, beyond []int64) bool {
			return position <= c.Position || slices.Contains(beyond, position)
		}}
}

// Find implements [adapters.OperatorSource]. A topic has no index of ids; one of the form topic/partition/offset names its place.
func (s *Source) Find(ctx context.Context, id string, _ int) (adapters.Found, error) {
	out := adapters.Found{Searched: "records by topic/partition/offset; a topic has no index of other ids"}
	b, err := s.limits(ctx, true)
	if err != nil {
		return out, err
	}
	for slot, end := range b.end {
		var position int64
		if n, _ := fmt.Sscanf(id, fmt.Sprintf("%s/%d/%%d", s.cfg.Topic, slot), &position); n == 1 && position >= b.first[slot] && position < end {
			out.Rows = append(out.Rows, s.found(slot, position))
		}
	}
	return out, nil
}

// Examine implements [adapters.Examiner].
func (s *Source) Examine(ctx context.Context) []adapters.Finding {
	const subject = "topic and consumer group"
	if err := s.Check(ctx); err != nil {
		return adapters.FindingsOf(subject, err)
	}
	return []adapters.Finding{{Level: adapters.LevelOK, Subject: subject, Text: fmt.Sprintf("topic %s can be read, and no other program is in group %s", s.cfg.Topic, s.cfg.Group)}}
}
