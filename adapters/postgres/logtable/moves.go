package logtable

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// logMovesSQL reads a range of rows, the newest first. Parameters: the range, limit.
const logMovesSQL = `SELECT 0, false, {columns} FROM {table} o WHERE o.{position} > $1 AND o.{position} <= $2 ORDER BY o.{position} DESC LIMIT $3`

// CountMoves implements [adapters.OperatorSource]. The table has no slots, so all rows
// between the cursors are read and, where rows may be passed that were
// committed late, those below too: payloads aside, the newest first, and at most
// twice as many as are counted. When that is not all, every count is above most.
func (s *Source) CountMoves(ctx context.Context, moves []adapters.CursorMove, most int, match func(*adapters.Row) bool) ([]adapters.MoveCount, error) {
	counts, err := s.countMoves(ctx, moves, most, match)
	return counts, s.explain("count the rows that are passed", err)
}

func (s *Source) countMoves(ctx context.Context, moves []adapters.CursorMove, most int, match func(*adapters.Row) bool) ([]adapters.MoveCount, error) {
	c, err := newMoveCounter(moves)
	if err != nil {
		return nil, err
	}
	if err := s.base.Pool.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&c.horizon); err != nil {
		return nil, err
	}
	d := &wire.Decoder{Table: s.base.Table, MaxRow: s.mapping.maxRow}
	looked, err := s.each(ctx, logMovesSQL, []any{c.low, c.high, 2 * most}, func(slot int, position int64, v [][]byte) bool {
		if match == nil || match(s.mapping.row(d, s.mapping.head(d, v), v)) {
			c.add(slot, position, v[resultOf(roleXID)])
		}
		return true
	})
	for i := range c.counts {
		switch {
		case looked < 2*most:
		case match != nil:
			c.counts[i].More = true
		default:
			c.counts[i] = adapters.MoveCount{Again: most + 1, Passed: most + 1, Late: most + 1}
		}
	}
	return c.counts, err
}

// moveCounter counts what moves change, one row after the other.
type moveCounter struct {
	moves     []countedMove
	bySlot    map[int]int
	counts    []adapters.MoveCount
	low, high int64 // rows above low, up to high, matter
	horizon   uint64
}

// countedMove is a move with its snapshots.
type countedMove struct {
	*adapters.CursorMove
	from, to reader.Cover
	window   reader.Snapshot // nothing is visible in it when no window is open
}

func newMoveCounter(moves []adapters.CursorMove) (*moveCounter, error) {
	c := &moveCounter{bySlot: map[int]int{}, counts: make([]adapters.MoveCount, len(moves)), low: math.MaxInt64, high: math.MinInt64}
	for i := range moves {
		m := countedMove{CursorMove: &moves[i]}
		var err error
		if m.from, err = reader.CoverOf(&m.From); err != nil {
			return nil, err
		}
		if m.to, err = reader.CoverOf(&m.To); err != nil {
			return nil, err
		}
		if m.From.Window != "" {
			if m.window, err = reader.ParseSnapshot(m.From.Window); err != nil {
				return nil, err
			}
		}
		c.moves, c.bySlot[m.Slot] = append(c.moves, m), i
		c.low, c.high = min(c.low, m.From.Position, m.To.Position), max(c.high, m.From.Position, m.To.Position)
		if m.From.Snapshot != m.To.Snapshot {
			c.low = math.MinInt64
		}
		for _, p := range m.Beyond {
			c.high = max(c.high, p)
		}
	}
	return c, nil
}

// add counts a row. One without transaction was there before the column was: it is
// never late.
func (c *moveCounter) add(slot int, position int64, xid []byte) {
	i, ok := c.bySlot[slot]
	if !ok {
		return
	}
	m := &c.moves[i]
	id := uint64(0)
	if xid != nil {
		id = binary.BigEndian.Uint64(xid)
	}
	exists := id < c.horizon
	settled := slices.Contains(m.Beyond, position) || position <= m.From.Position &&
		(!exists || m.from.Has(position, id) || position <= m.From.Paged && m.window.Visible(id))
	switch {
	case position > m.To.Position:
		if settled {
			c.counts[i].Again++
		}
	case settled || exists && !m.to.Has(position, id):
	case position > m.From.Position:
		c.counts[i].Passed++
	default:
		c.counts[i].Late++
	}
}

// countingSQL returns a statement for the types that the table has, with the
// columns of a read but payloads.
func (t *logTable) countingSQL(sql string) string {
	columns := make([]string, roles)
	for r := range roles {
		selected, none := t.selected(r)
		if r == rolePayload || r == roleBytes {
			selected = none
		}
		columns[r] = selected
	}
	names := t.sqlNames()
	names["columns"], names["id_type"] = strings.Join(columns, ", "), t.found[t.columns[roleID]].Plain
	return sqltext.Fill(sql, names)
}
