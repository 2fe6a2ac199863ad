package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// CheckAnchor verifies that the row at the cursor's position is the one that was read
// there. A row that is gone was removed, unless there is a row below it that was created after all
// that had been read when the cursor came there: then the position was given out again, to a
// transaction that was rolled back.
func (r *Reader) CheckAnchor(ctx context.Context, q pg.Querier, c *adapters.Cursor) error {
	if c.Anchor.IsZero() {
		return nil
	}
	there, newest, err := r.kind.RowAt(ctx, q, c)
	switch {
	case err != nil:
		return err
	case there.IsZero() && c.Anchor.Newest != 0 && newest > c.Anchor.Newest:
		return r.wentBack(fmt.Sprintf("the row at position %d, at which the cursor stands, is not there, though rows before it are", c.Position))
	case !there.IsZero() && !there.Matches(c.Anchor):
		return r.wentBack(fmt.Sprintf("another row is at position %d than when the cursor came there", c.Position))
	}
	return nil
}

// Anchored implements [adapters.Source]. What the cursor covers was not read with an eye to when it was created, so
// nothing that was created until now proves anything from now on.
func (r *Reader) Anchored(ctx context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	if c.Anchor.Newest != 0 || c.Snapshot == "" {
		return c, nil
	}
	now := time.Now().UnixMicro()
	r.newest.Store(now)
	if !c.Anchor.IsZero() {
		c.Anchor = c.Anchor.Seen(now)
		return c, nil
	}
	var err error
	c.Anchor, _, err = r.kind.RowAt(ctx, r.Pool, &c)
	return c, r.kind.Explain("look up the row at the cursor", err)
}

// AnchorAt returns the anchor of the row at a cursor that has one; zero: there is no such row.
func (r *Reader) AnchorAt(ctx context.Context, c *adapters.Cursor) (a adapters.Anchor, err error) {
	if !c.Anchor.IsZero() {
		a, _, err = r.kind.RowAt(ctx, r.Pool, c)
	}
	return a, err
}
