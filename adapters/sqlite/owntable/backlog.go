package owntable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

var _ adapters.Rebaser = (*Source)(nil)

// Backlog implements [adapters.OperatorSource]. The table has no slots, so rows are
// read from the lowest of the spans' beginnings, without payloads.
func (s *Source) Backlog(ctx context.Context, spans []adapters.Span, most int) (adapters.Backlog, error) {
	b, err := s.backlog(ctx, spans, most)
	if err != nil {
		return b, s.wrap("count rows", err)
	}
	return b, nil
}

func (s *Source) backlog(ctx context.Context, spans []adapters.Span, most int) (b adapters.Backlog, err error) {
	bySlot := map[int]adapters.Span{}
	lowest := int64(math.MaxInt64)
	for _, sp := range spans {
		bySlot[sp.Slot] = sp
		lowest = min(lowest, sp.After)
	}
	query := sqltext.Fill(`SELECT position, coalesce(message_group, ''), id,
    cast(coalesce(unixepoch(created_at, 'subsec') * 1000, 0) AS INTEGER)
FROM {table} WHERE position > ? ORDER BY position`, sqltext.Names{"table": s.shape.from})
	rows, err := s.db.QueryContext(ctx, query, lowest)
	if err != nil {
		return b, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var position, created int64
		var group, id string
		if err := rows.Scan(&position, &group, &id, &created); err != nil {
			return b, err
		}
		sp, ok := bySlot[adapters.SlotOf(group, id)]
		if !ok || position <= sp.After || sp.Upto > 0 && position > sp.Upto {
			continue
		}
		if b.Rows == most {
			b.More = true
			break
		}
		if b.Rows++; b.Oldest.IsZero() && created > 0 {
			b.Oldest = time.UnixMilli(created)
		}
	}
	return b, rows.Err()
}

// rebaseSkew is how far the clocks of the state store and of whoever wrote the
// rows may be apart.
const rebaseSkew = 10 * time.Second

// CanRebase reports whether it is known which rows are new: see [adapters.RebaserOf].
func (s *Source) CanRebase() bool { return s.shape.dated() }

// Rebase implements [adapters.Rebaser]. A file that was replaced by an older copy
// gives out positions a second time; rows that were created after the cursor was
// last settled are not delivered, so the cursor is before the first of them.
func (s *Source) Rebase(ctx context.Context, lanes []adapters.LaneStatus) (map[int]adapters.Cursor, error) {
	if !s.shape.dated() {
		return nil, s.wrap("rebase", errors.New("no column says when a row was created, so new rows cannot be recognised; place the route with `outrider seek`"))
	}
	var newest int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?`, s.table).Scan(&newest)
	if err != nil {
		return nil, s.wrap("rebase", err)
	}
	beginning, err := s.beginning(ctx)
	if err != nil {
		return nil, s.wrap("rebase", err)
	}
	out := make(map[int]adapters.Cursor, len(lanes))
	for _, l := range lanes {
		since, same := l.UpdatedAt, true
		if err := s.checkAnchor(ctx, l.Cursor); errors.Is(err, adapters.ErrWentBack) {
			same = false // rows behind the last common one are new, and younger than the one that was at the cursor
			if born := time.UnixMicro(l.Cursor.Anchor.Born); l.Cursor.Anchor.Born != 0 && born.Before(since) {
				since = born
			}
		} else if err != nil {
			return nil, s.wrap(fmt.Sprintf("rebase slot %d", l.Slot), err)
		}
		var first sql.NullInt64 // positions can be 0 and less
		err := s.db.QueryRowContext(ctx, `SELECT min(position) FROM `+s.shape.from+`
WHERE position <= ? AND unixepoch(created_at, 'subsec') * 1000 > ?`,
			l.Cursor.Position, since.Add(-rebaseSkew).UnixMilli()).Scan(&first)
		if err != nil {
			return nil, s.wrap(fmt.Sprintf("rebase slot %d", l.Slot), err)
		}
		position := min(l.Cursor.Position, newest)
		if first.Valid {
			position = min(position, first.Int64-1)
		}
		if l.UpdatedAt.IsZero() || !same && !first.Valid { // times of creation show nothing here
			position = beginning
		}
		out[l.Slot] = adapters.Cursor{Position: position}
	}
	return out, nil
}
