package owntable

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// CountMoves implements [adapters.OperatorSource]. No row is ever late here. The table
// has no slots, so all rows between the cursors are read, without payloads.
func (s *Source) CountMoves(ctx context.Context, moves []adapters.CursorMove, most int, match func(*adapters.Row) bool) ([]adapters.MoveCount, error) {
	counts, err := s.countMoves(ctx, moves, most, match)
	if err != nil {
		return nil, s.wrap("count the rows that are passed", err)
	}
	return counts, nil
}

func (s *Source) countMoves(ctx context.Context, moves []adapters.CursorMove, most int, match func(*adapters.Row) bool) ([]adapters.MoveCount, error) {
	counts, bySlot := make([]adapters.MoveCount, len(moves)), map[int]int{}
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range moves {
		m := &moves[i]
		bySlot[m.Slot] = i
		low, high = min(low, m.From.Position, m.To.Position), max(high, m.From.Position, m.To.Position)
		for _, p := range m.Beyond {
			high = max(high, p)
		}
	}
	query := sqltext.Fill(`SELECT position, coalesce(message_group, ''), id, coalesce(type, ''), coalesce(aggregate_type, ''), coalesce(tenant_id, ''), coalesce(tags, '')
FROM {table} WHERE position > ? AND position <= ? ORDER BY position`, sqltext.Names{"table": s.shape.from})
	rows, err := s.db.QueryContext(ctx, query, low, high)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var position int64
		var tags string
		var r adapters.Row
		if err := rows.Scan(&position, &r.Group, &r.ID, &r.Type, &r.AggregateType, &r.Tenant, &tags); err != nil {
			return nil, err
		}
		i, ok := bySlot[adapters.SlotOf(r.Group, r.ID)]
		if !ok {
			continue
		}
		_ = json.Unmarshal([]byte(tags), &r.Tags) // what is no object of strings has no tags that match
		if match == nil || match(&r) {
			addMoved(&counts[i], &moves[i], position, most)
		}
	}
	return counts, rows.Err()
}

// addMoved counts a row of a lane that is moved.
func addMoved(c *adapters.MoveCount, m *adapters.CursorMove, position int64, most int) {
	beyond := slices.Contains(m.Beyond, position)
	switch {
	case position > m.To.Position && (position <= m.From.Position || beyond):
		c.Again = min(c.Again, most) + 1
	case position > m.From.Position && position <= m.To.Position && !beyond:
		c.Passed = min(c.Passed, most) + 1
	}
}
