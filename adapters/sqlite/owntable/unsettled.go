package owntable

import (
	"context"
	"math"

	"github.com/outriderhq/outrider/adapters"
)

// unsettledRows bounds the rows that are read.
const unsettledRows = 2000

// Unsettled implements [adapters.OperatorSource]. The table has no slots, so rows are read from the lowest position
// on, for all lanes together. No row is ever late here.
func (s *Source) Unsettled(ctx context.Context, lanes []adapters.LaneStatus, after []int64, mark adapters.Cursor, most int) ([][]adapters.FoundRow, error) {
	out, err := s.unsettled(ctx, lanes, after, mark, most)
	if err != nil {
		return nil, s.wrap("look for rows that are not settled", err)
	}
	return out, nil
}

func (s *Source) unsettled(ctx context.Context, lanes []adapters.LaneStatus, after []int64, mark adapters.Cursor, most int) ([][]adapters.FoundRow, error) {
	out, lowest := make([][]adapters.FoundRow, len(lanes)), int64(math.MaxInt64)
	for i := range lanes {
		lowest = min(lowest, after[i])
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+foundColumns+` FROM `+s.shape.from+` WHERE position > ? AND position <= ? ORDER BY position LIMIT ?`, //nolint:gosec // G202: names from the table's description
		lowest, mark.Position, unsettledRows)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		f, err := scanFound(rows)
		if err != nil {
			return nil, err
		}
		for i := range lanes {
			l := &lanes[i]
			if l.Slot == f.Row.Slot && f.Row.Position > after[i] && len(out[i]) < most && !f.Settled(l.Cursor, l.Beyond) {
				out[i] = append(out[i], f)
			}
		}
	}
	return out, rows.Err()
}
