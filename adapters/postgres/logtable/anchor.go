package logtable

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// rowAt reads the row as a fetch does, on a connection of its own.
func (s *Source) rowAt(ctx context.Context, q pg.Querier, c *adapters.Cursor) (a adapters.Anchor, below bool, err error) {
	const nothing = "1:1:"                         // a snapshot in which nothing is visible
	reads := make([]adapters.Read, adapters.Slots) // it may be of any slot
	for slot := range reads {
		reads[slot] = adapters.Read{Slot: slot, From: adapters.Cursor{Position: c.Position - 1, Snapshot: nothing, Base: c.Position - 1}, Limit: 1}
	}
	l, err := planLog(reads, firstRowBytes)
	if err != nil {
		return a, false, err
	}
	size := float64(firstRowBytes) // a fetch may run beside it
	f := s.newFetch(l, len(reads), &wire.Decoder{Table: s.base.Table, MaxRow: s.mapping.maxRow}, &size)
	r, err := s.base.Open(ctx)
	if err != nil {
		return a, false, err
	}
	defer s.base.Discard(r)
	if _, err := r.Stream(ctx, r.Fetch, l.params(), f.row); err != nil {
		return a, false, err
	}
	for _, rows := range f.rows {
		if len(rows) > 0 && rows[0].Position == c.Position {
			return rows[0].Anchor(), true, nil
		}
	}
	// The user may have deleted that row and no other, so rows below it prove nothing,
	// unless they are younger.
	if c.Anchor.Born == 0 || s.mapping.columns[roleCreatedAt] == "" {
		return a, false, nil
	}
	const younger = "SELECT EXISTS (SELECT 1 FROM {table} o WHERE o.{position} <= $1 AND o.{created} > $2)"
	err = q.QueryRow(ctx, s.mapping.replace(younger), c.Position, time.UnixMicro(c.Anchor.Born).UTC()).Scan(&below)
	return a, below, err
}
