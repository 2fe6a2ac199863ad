package logtable

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// rowAt reads the row as a fetch does, on a connection of its own.
func (s *Source) rowAt(ctx context.Context, q pg.Querier, c *adapters.Cursor) (a adapters.Anchor, newest int64, err error) {
	const all = "9223372036854775806:9223372036854775806:" // a snapshot in which everything is visible: no row is late
	reads := make([]adapters.Read, adapters.Slots)         // it may be of any slot
	for slot := range reads {
		reads[slot] = adapters.Read{Slot: slot, From: adapters.Cursor{Position: c.Position - 1, Snapshot: all}, Limit: 1}
	}
	l, err := planLog(reads, firstRowBytes)
	if err != nil {
		return a, 0, err
	}
	size := float64(firstRowBytes) // a fetch may run at the same time
	f := s.newFetch(l, len(reads), &wire.Decoder{Table: s.base.Table, MaxRow: s.mapping.maxRow}, &size)
	r, err := s.base.Open(ctx)
	if err != nil {
		return a, 0, err
	}
	defer s.base.Discard(r)
	if _, err := r.Stream(ctx, r.Fetch, l.params(), f.row); err != nil {
		return a, 0, err
	}
	for _, rows := range f.rows {
		if len(rows) > 0 && rows[0].Position == c.Position {
			return rows[0].Anchor(), 0, nil
		}
	}
	// The user may have deleted that row and no other, so rows below it prove nothing,
	// unless they are newer than all that was read.
	if c.Anchor.Born == 0 || s.mapping.columns[roleCreatedAt] == "" {
		return a, 0, nil
	}
	t, err := s.mapping.sound(ctx, q)
	if err != nil {
		return a, 0, err
	}
	names := t.sqlNames()
	names["time"], _ = t.selected(roleCreatedAt)
	var at *time.Time
	if err = q.QueryRow(ctx, sqltext.Fill("SELECT max({time}) FROM {table} o WHERE o.{position} <= $1::bigint", names), c.Position).Scan(&at); err == nil && at != nil {
		newest = at.UnixMicro()
	}
	return a, newest, err
}
