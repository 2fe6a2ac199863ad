package pgtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// Lanes is a reader of all slots: one cursor for each.
type Lanes struct {
	Src   adapters.Source
	From  [adapters.Slots]adapters.Cursor
	Limit int
	Ahead func() int64 // how far reads are to come, from the furthest behind; nil: no further than their limits
}

// Lanes returns a reader of all slots from a place on, which takes so many rows of each.
func (e *Env) Lanes(src adapters.Source, kind adapters.StartKind, limit int) *Lanes {
	e.T.Helper()
	c, err := src.Start(e.Ctx, adapters.Start{Kind: kind})
	Must(e.T, err)
	l := &Lanes{Src: src, Limit: limit}
	for i := range l.From {
		l.From[i] = c
	}
	return l
}

// Reads asks for all slots; until is nil or has a bound for each.
func (l *Lanes) Reads(until *[adapters.Slots]adapters.Cursor) []adapters.Read {
	reads := make([]adapters.Read, adapters.Slots)
	aligned := int64(0)
	if l.Ahead != nil {
		if n := l.Ahead(); n > 0 {
			aligned = slices.MinFunc(l.From[:], func(a, b adapters.Cursor) int { return cmp.Compare(a.Position, b.Position) }).Position + n
		}
	}
	for i := range reads {
		reads[i] = adapters.Read{Slot: i, From: l.From[i], Limit: l.Limit, AlignedTo: aligned}
		if until != nil {
			reads[i].Until = &until[i]
		}
	}
	return reads
}

// Next fetches once and moves all cursors on. drained: nothing is left anywhere.
func (l *Lanes) Next(ctx context.Context, until *[adapters.Slots]adapters.Cursor) (rows []*adapters.Row, drained bool, err error) {
	results, err := l.Src.Fetch(ctx, l.Reads(until), func(_ int, row *adapters.Row) bool {
		rows = append(rows, row)
		return true
	})
	if err != nil {
		return nil, false, err
	}
	drained = true
	for i, r := range results {
		l.From[i] = r.Next
		drained = drained && r.Drained
	}
	return rows, drained, nil
}

// All fetches until nothing is left.
func (l *Lanes) All(t testing.TB) (rows []*adapters.Row) {
	t.Helper()
	for {
		more, drained, err := l.Next(context.Background(), nil)
		Must(t, err)
		rows = append(rows, more...)
		if drained {
			return rows
		}
	}
}

// Settled are the cursors of a reader that has settled all that it read.
func (l *Lanes) Settled(route string) adapters.RouteCursors {
	from := l.From
	c := adapters.RouteCursors{Route: route}
	for i := range from {
		c.Cursors[i] = &from[i]
	}
	return c
}

// Drain reads until nothing is left and returns the payloads in order.
func (l *Lanes) Drain(t testing.TB) (payloads []string) {
	t.Helper()
	for drained := false; !drained; {
		var rows []*adapters.Row
		var err error
		rows, drained, err = l.Next(t.Context(), nil)
		Must(t, err)
		for _, r := range rows {
			payloads = append(payloads, strings.Trim(string(r.Payload), `"`))
		}
	}
	return payloads
}
