package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// countMovesSQL counts what moves of cursors change, at most $10 rows of a kind
// and move. Parameters are arrays with one entry per move: slot, L, S, W (null: no
// window is open), paged, base and the positions settled behind L; then L and S of
// the new cursor.
//
// The late rows are found as in fetchSQL: by the list of S, and from its xmax.
// Rows whose transaction ids do not exist yet are never late, and always visible
// as fresh rows.
const countMovesSQL = `
WITH now AS MATERIALIZED (
    SELECT pg_snapshot_xmax(pg_current_snapshot()) AS horizon
), moves AS MATERIALIZED (
    SELECT m.*, m.beyond_text::bigint[] AS beyond, now.horizon
    FROM now CROSS JOIN unnest($1::smallint[], $2::bigint[], $3::pg_snapshot[], $4::pg_snapshot[], $5::bigint[], $6::bigint[], $7::text[],
                               $8::bigint[], $9::pg_snapshot[])
         WITH ORDINALITY AS m(slot, pos, snap, win, paged, base, beyond_text, to_pos, to_snap, n)
)
SELECT again.n + (SELECT count(*) FROM unnest(m.beyond) AS b(position) WHERE b.position > greatest(m.pos, m.to_pos)), passed.n, late.n
FROM moves m
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM {table} o
        WHERE o.slot = m.slot AND o.position > m.to_pos AND o.position <= m.pos
          AND (o.position <= m.base OR o.xid >= m.horizon OR pg_visible_in_snapshot(o.xid, m.snap)
               OR o.position <= m.paged AND pg_visible_in_snapshot(o.xid, m.win) OR o.position = ANY (m.beyond))
        ORDER BY o.slot, o.position LIMIT $10
    ) x
) again
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM {table} o
        WHERE o.slot = m.slot AND o.position > m.pos AND o.position <= m.to_pos
          AND (o.position <= m.base OR o.xid >= m.horizon OR pg_visible_in_snapshot(o.xid, m.to_snap))
          AND o.position <> ALL (m.beyond)
        ORDER BY o.slot, o.position LIMIT $10
    ) x
) passed
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT FROM (
            SELECT a.position, a.xid
            FROM pg_snapshot_xip(m.snap) AS x(xid)
            CROSS JOIN LATERAL (
                SELECT o.position, o.xid FROM {table} o
                WHERE o.slot = m.slot AND (o.xid, o.position) > (x.xid, m.base) AND (o.xid, o.position) <= (x.xid, least(m.pos, m.to_pos))
                ORDER BY o.slot, o.xid, o.position LIMIT $10
            ) a
            UNION ALL
            (
                SELECT o.position, o.xid FROM {table} o
                WHERE o.slot = m.slot AND o.xid >= pg_snapshot_xmax(m.snap) AND o.xid < m.horizon
                  AND o.position > m.base AND o.position <= least(m.pos, m.to_pos)
                ORDER BY o.slot, o.xid OFFSET 0
            )
        ) l
        WHERE pg_visible_in_snapshot(l.xid, m.to_snap) AND l.position <> ALL (m.beyond)
          AND NOT coalesce(l.position <= m.paged AND pg_visible_in_snapshot(l.xid, m.win), false)
        LIMIT $10
    ) x
) late
ORDER BY m.n`

var (
	_ outbox.MoveCounter = (*Source)(nil)
	_ outbox.MoveCounter = (*LogSource)(nil)
)

// CountMoves implements [outbox.MoveCounter].
func (s *Source) CountMoves(ctx context.Context, moves []outbox.CursorMove, most int) (counts []outbox.MoveCount, err error) {
	n := len(moves)
	slots, bases, paged := make([]int16, n), make([]int64, n), make([]int64, n)
	from, to := make([]int64, n), make([]int64, n)
	snaps, targets, beyond := make([]string, n), make([]string, n), make([]string, n)
	windows := make([]*string, n)
	for i := range moves {
		m := &moves[i]
		slots[i], from[i], snaps[i], bases[i] = int16(m.Slot), m.From.Position, m.From.Snapshot, m.From.Base
		to[i], targets[i], beyond[i] = m.To.Position, m.To.Snapshot, arrayLiteral(m.Beyond)
		if m.From.Window != "" {
			windows[i], paged[i] = &m.From.Window, m.From.Paged
		}
	}
	if err := s.find(ctx); err != nil {
		return nil, explain(s.table, "count the rows that are passed", err)
	}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, backlogSettings); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, inTable(countMovesSQL, s.layout.table), slots, from, snaps, windows, paged, bases, beyond, to, targets, most+1)
		if err != nil {
			return err
		}
		counts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[outbox.MoveCount])
		return err
	})
	return counts, explain(s.table, "count the rows that are passed", err)
}

// logMovesSQL reads a range of rows, the newest first. Parameters: the range, limit.
const logMovesSQL = `SELECT 0, false, {columns} FROM {table} o WHERE o.{position} > $1 AND o.{position} <= $2 ORDER BY o.{position} DESC LIMIT $3`

// CountMoves implements [outbox.MoveCounter]. The table has no slots, so all rows
// between the cursors are looked at and, where rows may be passed that were
// committed late, those below too: payloads aside, the newest first, and at most
// twice as many as are counted. When that is not all, every count is above most.
func (s *LogSource) CountMoves(ctx context.Context, moves []outbox.CursorMove, most int) ([]outbox.MoveCount, error) {
	counts, err := s.countMoves(ctx, moves, most)
	return counts, s.explain("count the rows that are passed", err)
}

func (s *LogSource) countMoves(ctx context.Context, moves []outbox.CursorMove, most int) ([]outbox.MoveCount, error) {
	c, err := newMoveCounter(moves)
	if err == nil {
		err = s.src.find(ctx)
	}
	if err != nil {
		return nil, err
	}
	err = pgx.BeginTxFunc(ctx, s.src.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, backlogSettings); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&c.horizon); err != nil {
			return err
		}
		t, _, err := s.mapping.look(ctx, tx)
		if err != nil {
			return err
		}
		if err := t.problems(); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, t.countingSQL(logMovesSQL), rawResults, c.low, c.high, 2*most)
		if err != nil {
			return err
		}
		defer rows.Close()
		d := &decoder{table: s.src.table, maxRow: s.mapping.maxRow}
		looked := 0
		for rows.Next() {
			looked++
			v := rows.RawValues()
			c.add(s.mapping.head(d, v).slot, int64FromBinary(v[fetchPosition]), v[resultOf(roleXID)])
		}
		if looked == 2*most {
			for i := range c.counts {
				c.counts[i] = outbox.MoveCount{Again: most + 1, Passed: most + 1, Late: most + 1}
			}
		}
		return rows.Err()
	})
	return c.counts, err
}

// moveCounter counts what moves change, one row after the other.
type moveCounter struct {
	moves     []countedMove
	bySlot    map[int]int
	counts    []outbox.MoveCount
	low, high int64 // rows above low, up to high, matter
	horizon   uint64
}

// countedMove is a move with its snapshots.
type countedMove struct {
	*outbox.CursorMove
	from, to cover
	window   snapshot // nothing is visible in it when no window is open
}

func newMoveCounter(moves []outbox.CursorMove) (*moveCounter, error) {
	c := &moveCounter{bySlot: map[int]int{}, counts: make([]outbox.MoveCount, len(moves)), low: math.MaxInt64, high: math.MinInt64}
	for i := range moves {
		m := countedMove{CursorMove: &moves[i]}
		var err error
		if m.from, err = coverOf(&m.From); err != nil {
			return nil, err
		}
		if m.to, err = coverOf(&m.To); err != nil {
			return nil, err
		}
		if m.From.Window != "" {
			if m.window, err = parseSnapshot(m.From.Window); err != nil {
				return nil, err
			}
		}
		c.moves, c.bySlot[m.Slot] = append(c.moves, m), i
		c.low, c.high = min(c.low, m.From.Position, m.To.Position), max(c.high, m.From.Position, m.To.Position)
		if m.From.Snapshot != m.To.Snapshot {
			c.low = math.MinInt64
		}
		for _, p := range m.Beyond {
			if p > max(m.From.Position, m.To.Position) {
				c.counts[i].Again++
			}
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
		(!exists || m.from.has(position, id) || position <= m.From.Paged && m.window.visible(id))
	switch {
	case position > m.To.Position:
		if settled && position <= m.From.Position {
			c.counts[i].Again++
		}
	case settled || exists && !m.to.has(position, id):
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
	return strings.NewReplacer("{table}", t.table.Sanitize(), "{position}", t.quoted(rolePosition),
		"{columns}", strings.Join(columns, ", ")).Replace(sql)
}
