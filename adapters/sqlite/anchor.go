package sqlite

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/outbox"
)

// wentBack is the error for a file that was put back to an earlier state.
func wentBack(reason string) error {
	return fmt.Errorf("%s: %w; it was replaced by an older copy, emptied with its counter, or lost its last commits with the power; "+
		"`outrider rebase` places it anew", reason, outbox.ErrWentBack)
}

// checkAnchor verifies that the row at the cursor's position is the one that was read
// there. A row that is gone was removed, with those before it.
func (s *Source) checkAnchor(ctx context.Context, c outbox.Cursor) error {
	if c.Anchor.IsZero() {
		return nil
	}
	there, err := s.rowAt(ctx, c.Position)
	if err != nil {
		return err
	}
	if there == c.Anchor {
		return nil
	}
	if !there.IsZero() {
		return wentBack(fmt.Sprintf("another row is at position %d than when the cursor came there", c.Position))
	}
	below, err := s.slotBelow(ctx, c)
	if err == nil && below {
		err = wentBack(fmt.Sprintf("the row at position %d, at which the cursor stands, is not there, though rows before it are", c.Position))
	}
	return err
}

// rowAt returns the anchor of the row at a position; zero: there is none.
func (s *Source) rowAt(ctx context.Context, position int64) (a outbox.Anchor, err error) {
	rows, err := s.db.QueryContext(ctx, s.query, position-1, 1)
	if err != nil {
		return a, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	r := record{mapped: s.shape.columns != nil, maxRow: s.maxRow}
	if rows.Next() {
		if err := r.scan(rows); err != nil {
			return a, err
		}
		if r.position == position {
			a = r.decode(r.slot()).Anchor()
		}
	}
	return a, rows.Err()
}

// slotBelow reports whether the slot of a cursor's anchor has a row at or below it.
func (s *Source) slotBelow(ctx context.Context, c outbox.Cursor) (bool, error) {
	//nolint:gosec // G201: the names are quoted
	rows, err := s.db.QueryContext(ctx, `SELECT coalesce(message_group, ''), coalesce(id, '') FROM `+s.shape.from+` WHERE position <= ?`, c.Position)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Err tells
	for rows.Next() {
		var group, id string
		if err := rows.Scan(&group, &id); err != nil {
			return false, err
		}
		if outbox.SlotOf(group, id) == c.Anchor.Slot {
			return true, nil
		}
	}
	return false, rows.Err()
}
