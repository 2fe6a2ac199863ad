package owntable

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// unsettledSQL finds rows that the snapshot $10 shows and that lanes have not settled. It asks PostgreSQL
// itself what is visible, where reading takes late rows from the list of a snapshot. Parameters are arrays with one entry per lane:
// slot, L, S, W (null: no window is open), paged, base, positions settled behind L, and the position from which to look;
// then the position and the snapshot of the mark, and limits of rows and of entries of the index that are searched for late rows.
var unsettledSQL = `
WITH lanes AS MATERIALIZED (
    SELECT m.*, m.beyond_text::bigint[] AS beyond
    FROM unnest($1::smallint[], $2::bigint[], $3::pg_snapshot[], $4::pg_snapshot[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
         WITH ORDINALITY AS m(slot, pos, snap, win, paged, base, beyond_text, after, n)
)
SELECT m.n, ` + foundColumns + `
FROM lanes m
CROSS JOIN LATERAL (
    (
        SELECT * FROM {table} o
        WHERE o.slot = m.slot AND o.position > m.after AND o.position <= $9
          AND pg_visible_in_snapshot(o.xid, $10::pg_snapshot) AND o.position <> ALL (m.beyond)
        ORDER BY o.slot, o.position LIMIT $11
    )
    UNION ALL
    (
        SELECT * FROM (
            SELECT * FROM {table} o
            WHERE o.slot = m.slot AND o.xid >= pg_snapshot_xmin(m.snap) AND o.xid < pg_snapshot_xmax($10::pg_snapshot)
            ORDER BY o.slot, o.xid, o.position LIMIT $12
        ) o
        WHERE o.position <= m.pos AND o.position > m.base
          AND NOT pg_visible_in_snapshot(o.xid, m.snap) AND pg_visible_in_snapshot(o.xid, $10::pg_snapshot)
          AND NOT coalesce(o.position <= m.paged AND pg_visible_in_snapshot(o.xid, m.win), false)
          AND o.position <> ALL (m.beyond)
        LIMIT $11
    )
) o
ORDER BY m.n`

// unsettledLate is how many entries of the index are searched for late rows of a lane.
const unsettledLate = 1000

// Unsettled implements [adapters.OperatorSource].
func (s *Source) Unsettled(ctx context.Context, lanes []adapters.LaneStatus, after []int64, mark adapters.Cursor, most int) ([][]adapters.FoundRow, error) {
	n := len(lanes)
	slots, positions, paged, bases := make([]int16, n), make([]int64, n), make([]int64, n), make([]int64, n)
	snaps, windows, beyond := make([]string, n), make([]*string, n), make([]string, n)
	for i := range lanes {
		c := &lanes[i].Cursor
		slots[i], positions[i], bases[i], snaps[i], beyond[i] = int16(lanes[i].Slot), c.Position, c.Floor(), c.Snapshot, wire.Numbers(lanes[i].Beyond)
		if c.Window != "" {
			windows[i], paged[i] = &c.Window, c.Paged
		}
	}
	out := make([][]adapters.FoundRow, n)
	err := s.base.Count(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqltext.Fill(unsettledSQL, sqltext.Names{"table": s.base.Quoted}), slots, positions, snaps, windows, paged, bases, beyond, after,
			mark.Position, mark.Snapshot, most, unsettledLate)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var lane int
			f, err := scanFound(prefixed{rows, &lane})
			if err != nil {
				return err
			}
			out[lane-1] = append(out[lane-1], f)
		}
		return rows.Err()
	})
	return out, s.base.Explain("look for rows that are not settled", err)
}

// prefixed scans the first column into a place of its own.
type prefixed struct {
	pgx.Rows
	first *int
}

// Scan implements pgx.CollectableRow.
func (p prefixed) Scan(dest ...any) error { return p.Rows.Scan(append([]any{p.first}, dest...)...) }
