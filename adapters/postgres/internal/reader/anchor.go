package reader

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// CheckAnchor verifies that the row at the cursor's position is the one that was read
// there. A row that is gone was removed by retention, unless younger rows of its slot
// are below it: then the position was given out again, to a transaction that was rolled
// back. (Rows below that were committed late can outlast it, but are older.)
func (r *Reader) CheckAnchor(ctx context.Context, q pg.Querier, c *adapters.Cursor) error {
	if c.Anchor.IsZero() {
		return nil
	}
	there, below, err := r.kind.RowAt(ctx, q, c)
	switch {
	case err != nil:
		return err
	case there.IsZero() && below:
		return r.wentBack(fmt.Sprintf("the row at position %d, at which the cursor stands, is not there, though rows before it are", c.Position))
	case !there.IsZero() && !there.Matches(c.Anchor):
		return r.wentBack(fmt.Sprintf("another row is at position %d than when the cursor came there", c.Position))
	}
	return nil
}

// Anchored implements [adapters.Anchorer].
func (r *Reader) Anchored(ctx context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	if !c.Anchor.IsZero() || c.Snapshot == "" {
		return c, nil
	}
	var err error
	c.Anchor, _, err = r.kind.RowAt(ctx, r.Pool, &c)
	return c, r.kind.Explain("look up the row at the cursor", err)
}
