package owntable

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// wentBack is the error for a file that was put back to an earlier state.
func (s *Source) wentBack(reason string) error {
	fix := "`outrider rebase` repositions it"
	if !s.shape.dated() {
		fix = "`outrider seek` repositions it, since no column says which rows are new"
	}
	return fmt.Errorf("%s: %w; it was replaced by an older copy, emptied with its counter, or lost its last commits with the power; %s",
		reason, adapters.ErrWentBack, fix)
}

// shorter is the error for a table that has not come as far as a cursor.
func (s *Source) shorter(position, newest int64) error {
	return s.wentBack(fmt.Sprintf("the cursor stands at position %d, the table has come to %d only", position, newest))
}

// unmovedSQL asks what [Source.unmoved] compares, without payloads.
func unmovedSQL(from string) string {
	return `SELECT coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = ?), 0), r.position IS NOT NULL,
    ` + lite.Bounded("r.message_group") + `, ` + lite.Bounded("r.id") + `, ` + lite.Bounded("r.created_at") + `
FROM (SELECT 1) LEFT JOIN ` + from + ` r ON r.position = ?`
}

// unmoved looks, after the scans of a Fetch, whether the table was put back under
// them, such as by DELETE of all rows and of the counter in sqlite_sequence: what is
// written then comes at positions that count as delivered. The counter has fallen
// behind the furthest cursor, or another row is at its position. The latter goes
// by the time of creation only: a payload may be changed once it was delivered.
func (s *Source) unmoved(ctx context.Context, all []*pending) error {
	var c adapters.Cursor
	for _, p := range all {
		if from := p.read.From; from.Position > c.Position || from.Position == c.Position && c.Anchor.IsZero() {
			c = from
		}
	}
	if c.Position <= 0 {
		return nil
	}
	var newest int64
	var there bool
	var r record
	err := s.db.QueryRowContext(ctx, s.unmovedQuery, s.table, c.Position).Scan(&newest, &there, &r.group, &r.id, &r.createdAt)
	switch {
	case err != nil:
		return err
	case newest < c.Position:
		return s.shorter(c.Position, newest)
	case !there || c.Anchor.Born == 0 || !s.shape.dated():
		return nil
	}
	row := adapters.Row{ID: r.id.String, Slot: r.slot()}
	if row.CreatedAt, err = lite.Instant("created_at", r.createdAt); err == nil && !row.CreatedAt.IsZero() && row.Anchor().Matches(c.Anchor) {
		return nil
	}
	return s.anotherRow(c.Position)
}

func (s *Source) anotherRow(position int64) error {
	return s.wentBack(fmt.Sprintf("another row is at position %d than when the cursor came there", position))
}

// checkAnchor verifies that the row at the cursor's position is the one that was read
// there. A row that is gone was removed, unless a row of its slot is before it that was created after all that had
// been read when the cursor came there.
func (s *Source) checkAnchor(ctx context.Context, c adapters.Cursor) error {
	if c.Anchor.IsZero() {
		return nil
	}
	there, err := s.rowAt(ctx, c.Position)
	if err != nil {
		return err
	}
	if !there.IsZero() {
		if there.Matches(c.Anchor) {
			return nil
		}
		return s.anotherRow(c.Position)
	}
	if c.Anchor.Newest == 0 || !s.shape.dated() {
		return nil // it may have been deleted alone
	}
	below, err := s.newerBelow(ctx, c)
	if err == nil && below {
		err = s.wentBack(fmt.Sprintf("the row at position %d, at which the cursor stands, is not there, though rows before it are", c.Position))
	}
	return err
}

// Anchored implements [adapters.Source]. What the cursor covers was not read with an eye to when it was created, so
// nothing that was created until now proves anything from now on.
func (s *Source) Anchored(ctx context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	if c.Anchor.Newest != 0 {
		return c, nil
	}
	now := time.Now().UnixMicro()
	s.looked.Store(now)
	if !c.Anchor.IsZero() {
		c.Anchor = c.Anchor.Seen(now)
		return c, nil
	}
	var err error
	if c.Anchor, err = s.rowAt(ctx, c.Position); err != nil {
		err = s.wrap("look up the row at the cursor", err)
	}
	return c, err
}

// rowAt returns the anchor of the row at a position; zero: there is none.
func (s *Source) rowAt(ctx context.Context, position int64) (a adapters.Anchor, err error) {
	rows, err := s.db.QueryContext(ctx, s.query, position-1, 1)
	if err != nil {
		return a, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
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

// newerBelow reports whether the slot of a cursor's anchor has a row below it that
// was created after all that had been read.
func (s *Source) newerBelow(ctx context.Context, c adapters.Cursor) (bool, error) {
	//nolint:gosec // G201: the names are quoted
	rows, err := s.db.QueryContext(ctx, `SELECT coalesce(message_group, ''), coalesce(id, '') FROM `+s.shape.from+`
WHERE position <= ? AND round(unixepoch(created_at, 'subsec') * 1000) > ?`, c.Position, (c.Anchor.Newest+999)/1000) // the query rounds
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var group, id string
		if err := rows.Scan(&group, &id); err != nil {
			return false, err
		}
		if adapters.SlotOf(group, id) == c.Anchor.Slot {
			return true, nil
		}
	}
	return false, rows.Err()
}
