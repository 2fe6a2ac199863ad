package postgres

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// lanes is a reader of all slots: one cursor for each.
type lanes struct {
	src   outbox.Source
	from  [outbox.Slots]outbox.Cursor
	limit int
	ahead func() int64 // how far reads are to come, from the furthest behind; nil: no further than their limits
}

func (e *testEnv) lanes(src outbox.Source, kind outbox.StartKind, limit int) *lanes {
	e.t.Helper()
	c, err := src.Start(e.ctx, outbox.Start{Kind: kind})
	must(e.t, err)
	l := &lanes{src: src, limit: limit}
	for i := range l.from {
		l.from[i] = c
	}
	return l
}

// reads asks for all slots; until is nil or has a bound for each.
func (l *lanes) reads(until *[outbox.Slots]outbox.Cursor) []outbox.Read {
	reads := make([]outbox.Read, outbox.Slots)
	reach := int64(0)
	if l.ahead != nil {
		if n := l.ahead(); n > 0 {
			reach = slices.MinFunc(l.from[:], func(a, b outbox.Cursor) int { return cmp.Compare(a.Position, b.Position) }).Position + n
		}
	}
	for i := range reads {
		reads[i] = outbox.Read{Slot: i, From: l.from[i], Limit: l.limit, Reach: reach}
		if until != nil {
			reads[i].Until = &until[i]
		}
	}
	return reads
}

// next fetches once and moves all cursors on. drained: nothing is left anywhere.
func (l *lanes) next(ctx context.Context, until *[outbox.Slots]outbox.Cursor) (rows []*outbox.Row, drained bool, err error) {
	results, err := l.src.Fetch(ctx, l.reads(until), func(_ int, row *outbox.Row) bool {
		rows = append(rows, row)
		return true
	})
	if err != nil {
		return nil, false, err
	}
	drained = true
	for i, r := range results {
		l.from[i] = r.Next
		drained = drained && r.Drained
	}
	return rows, drained, nil
}

// all fetches until nothing is left.
func (l *lanes) all(t testing.TB) (rows []*outbox.Row) {
	t.Helper()
	for {
		more, drained, err := l.next(context.Background(), nil)
		must(t, err)
		rows = append(rows, more...)
		if drained {
			return rows
		}
	}
}
