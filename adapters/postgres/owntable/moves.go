package owntable

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
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
SELECT (m.n - 1)::int, k.kind, k.type, k.aggregate_type, k.tenant_id, k.tags, count(*)::int
FROM moves m
CROSS JOIN LATERAL (
    (
        SELECT 0 AS kind, {matched} FROM {table} o
        WHERE o.slot = m.slot AND o.position > m.to_pos AND o.position <= m.pos
          AND (o.position <= m.base OR o.xid >= m.horizon OR pg_visible_in_snapshot(o.xid, m.snap)
               OR o.position <= m.paged AND pg_visible_in_snapshot(o.xid, m.win) OR o.position = ANY (m.beyond))
        ORDER BY o.slot, o.position LIMIT $10
    ) UNION ALL (
        SELECT 0, {matched} FROM unnest(m.beyond) AS b(position) JOIN {table} o ON o.slot = m.slot AND o.position = b.position
        WHERE b.position > greatest(m.pos, m.to_pos)
    ) UNION ALL (
        SELECT 1, {matched} FROM {table} o
        WHERE o.slot = m.slot AND o.position > m.pos AND o.position <= m.to_pos
          AND (o.position <= m.base OR o.xid >= m.horizon OR pg_visible_in_snapshot(o.xid, m.to_snap))
          AND o.position <> ALL (m.beyond)
        ORDER BY o.slot, o.position LIMIT $10
    ) UNION ALL (
        SELECT 2, l.type, l.aggregate_type, l.tenant_id, l.tags FROM (
            SELECT a.*
            FROM pg_snapshot_xip(m.snap) AS x(xid)
            CROSS JOIN LATERAL (
                SELECT o.position, o.xid, {matched} FROM {table} o
                WHERE o.slot = m.slot AND (o.xid, o.position) > (x.xid, m.base) AND (o.xid, o.position) <= (x.xid, least(m.pos, m.to_pos))
                ORDER BY o.slot, o.xid, o.position LIMIT $10
            ) a
            UNION ALL
            (
                SELECT o.position, o.xid, {matched} FROM {table} o
                WHERE o.slot = m.slot AND o.xid >= pg_snapshot_xmax(m.snap) AND o.xid < m.horizon
                  AND o.position > m.base AND o.position <= least(m.pos, m.to_pos)
                ORDER BY o.slot, o.xid OFFSET 0
            )
        ) l
        WHERE pg_visible_in_snapshot(l.xid, m.to_snap) AND l.position <> ALL (m.beyond)
          AND NOT coalesce(l.position <= m.paged AND pg_visible_in_snapshot(l.xid, m.win), false)
        LIMIT $10
    )
) k
GROUP BY 1, 2, 3, 4, 5, 6`

// The columns of {matched}: what routes match by, or nothing, so that no row of the table is read for it.
const (
	matchedColumns = `o.type AS type, coalesce(o.aggregate_type, '') AS aggregate_type, coalesce(o.tenant_id, '') AS tenant_id,
            CASE WHEN octet_length(o.tags::text) <= 1048576 THEN o.tags::text END AS tags`
	matchedNothing = `'' AS type, '' AS aggregate_type, '' AS tenant_id, NULL::text AS tags`
)

// CountMoves implements [adapters.OperatorSource].
func (s *Source) CountMoves(ctx context.Context, moves []adapters.CursorMove, most int, match func(*adapters.Row) bool) (counts []adapters.MoveCount, err error) {
	n := len(moves)
	slots, bases, paged := make([]int16, n), make([]int64, n), make([]int64, n)
	from, to := make([]int64, n), make([]int64, n)
	snaps, targets, beyond := make([]string, n), make([]string, n), make([]string, n)
	windows := make([]*string, n)
	for i := range moves {
		m := &moves[i]
		slots[i], from[i], snaps[i], bases[i] = int16(m.Slot), m.From.Position, m.From.Snapshot, m.From.Floor()
		to[i], targets[i], beyond[i] = m.To.Position, m.To.Snapshot, wire.Numbers(m.Beyond)
		if m.From.Window != "" {
			windows[i], paged[i] = &m.From.Window, m.From.Paged
		}
	}
	columns := matchedNothing
	if match != nil {
		columns = matchedColumns
	}
	sql := sqltext.Fill(countMovesSQL, sqltext.Names{"table": s.base.Quoted, "matched": columns})
	c := moveCounts{make([]adapters.MoveCount, n), most, match}
	err = s.base.Count(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, slots, from, snaps, windows, paged, bases, beyond, to, targets, most+1)
		if err != nil {
			return err
		}
		return c.add(rows)
	})
	return c.counts, s.base.Explain("count the rows that are passed", err)
}

// moveCounts are counts by move, from groups of rows that match alike.
type moveCounts struct {
	counts []adapters.MoveCount
	most   int
	match  func(*adapters.Row) bool
}

func (c *moveCounts) add(rows pgx.Rows) error {
	var move, kind, n int
	var r adapters.Row
	var tags *string
	looked := map[[2]int]int{}
	_, err := pgx.ForEachRow(rows, []any{&move, &kind, &r.Type, &r.AggregateType, &r.Tenant, &tags, &n}, func() error {
		looked[[2]int{move, kind}] += n
		r.Tags = nil
		if tags != nil {
			_ = json.Unmarshal([]byte(*tags), &r.Tags) // what is no object of strings has no tags that match
		}
		if c.match == nil || c.match(&r) {
			*[]*int{&c.counts[move].Again, &c.counts[move].Passed, &c.counts[move].Late}[kind] += n
		}
		return nil
	})
	for at, n := range looked {
		c.counts[at[0]].More = c.counts[at[0]].More || c.match != nil && n > c.most
	}
	return err
}
