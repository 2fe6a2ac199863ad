package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

var _ adapters.MoveCounter = (*Source)(nil)

// CountMoves implements [adapters.MoveCounter]. No row is ever late here. The table
// has no slots, so all rows between the cursors are looked at, payloads aside.
func (s *Source) CountMoves(ctx context.Context, moves []adapters.CursorMove, most int) ([]adapters.MoveCount, error) {
	counts, err := s.countMoves(ctx, moves, most)
	if err != nil {
		return nil, s.wrap("count the rows that are passed", err)
	}
	return counts, nil
}

func (s *Source) countMoves(ctx context.Context, moves []adapters.CursorMove, most int) ([]adapters.MoveCount, error) {
	counts, bySlot := make([]adapters.MoveCount, len(moves)), map[int]int{}
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range moves {
		m := &moves[i]
		bySlot[m.Slot] = i
		low, high = min(low, m.From.Position, m.To.Position), max(high, m.From.Position, m.To.Position)
		for _, p := range m.Beyond {
			if p > max(m.From.Position, m.To.Position) {
				counts[i].Again++
			}
		}
	}
	//nolint:gosec // G201: the names are quoted
	query := fmt.Sprintf(`SELECT position, coalesce(message_group, ''), id FROM %s WHERE position > ? AND position <= ? ORDER BY position`, s.shape.from)
	rows, err := s.db.QueryContext(ctx, query, low, high)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var position int64
		var group, id string
		if err := rows.Scan(&position, &group, &id); err != nil {
			return nil, err
		}
		i, ok := bySlot[adapters.SlotOf(group, id)]
		if !ok {
			continue
		}
		m, c := &moves[i], &counts[i]
		again := position > m.To.Position && position <= m.From.Position
		passed := position > m.From.Position && position <= m.To.Position && !slices.Contains(m.Beyond, position)
		switch {
		case again && c.Again <= most:
			c.Again++
		case passed && c.Passed <= most:
			c.Passed++
		}
	}
	return counts, rows.Err()
}
