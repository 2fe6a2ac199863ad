package owntable

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// anchorSQL returns the row at a position, whichever its slot; where there is none when the newest row of the anchor's
// slot was created that the cursor covers.
const anchorSQL = `
SELECT r.slot, r.id, r.created_at, CASE WHEN r.slot IS NULL THEN
       (SELECT max({covered}) FROM {table} b WHERE b.slot = $2 AND b.position <= $1
        AND (b.position <= $4 OR pg_visible_in_snapshot(b.xid, $3::pg_snapshot))) END
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT o.slot, {id} AS id, {created} AS created_at
    FROM pg_catalog.generate_series(0, 15) AS s(slot)
    JOIN {table} o ON o.slot = s.slot::smallint AND o.position = $1
    ORDER BY s.slot = $2 DESC
    LIMIT 1
) r ON true`

// rowAt returns the anchor of the row at the cursor's position; zero: there is none.
func (s *Source) rowAt(ctx context.Context, q pg.Querier, c *adapters.Cursor) (a adapters.Anchor, newest int64, err error) {
	var slot *int16
	var id *string
	var created, covered *time.Time
	query := sqltext.Fill(anchorSQL, sqltext.Names{"table": s.base.Quoted, "id": wire.CutName("o.id", pgtype.TextOID),
		"created": wire.Instant("o.created_at"), "covered": wire.Instant("b.created_at")})
	err = q.QueryRow(ctx, query, c.Position, int16(c.Anchor.Slot), c.Snapshot, c.Floor()).Scan(&slot, &id, &created, &covered)
	if covered != nil {
		newest = covered.UnixMicro()
	}
	if err != nil || slot == nil {
		return a, newest, err
	}
	row := adapters.Row{ID: *id, Slot: int(*slot)}
	if created != nil {
		row.CreatedAt = *created
	}
	_ = row.Limit() // a row that was read has its id cut likewise
	return row.Anchor(), newest, nil
}
