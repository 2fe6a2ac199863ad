package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// anchorSQL returns the row at a position, whichever its slot, and whether the slot
// of the anchor has a younger row below it that the cursor covers.
const anchorSQL = `
SELECT r.slot, r.id, {created},
       EXISTS (SELECT 1 FROM {table} b WHERE b.slot = $2 AND b.position <= $1
               AND (b.position <= $4 OR pg_visible_in_snapshot(b.xid, $3::pg_snapshot)) AND b.created_at > $5)
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT o.slot, {id} AS id, o.created_at
    FROM pg_catalog.generate_series(0, 15) AS s(slot)
    JOIN {table} o ON o.slot = s.slot::smallint AND o.position = $1
    LIMIT 1
) r ON true`

// rowAt returns the anchor of the row at the cursor's position; zero: there is none.
func (s *Source) rowAt(ctx context.Context, q pg.Querier, c *adapters.Cursor) (a adapters.Anchor, below bool, err error) {
	var slot *int16
	var id *string
	var created *time.Time
	query := strings.NewReplacer("{table}", s.base.Quoted, "{id}", wire.CutName("o.id", pgtype.TextOID), "{created}", wire.Instant("r.created_at")).Replace(anchorSQL)
	err = q.QueryRow(ctx, query, c.Position, int16(c.Anchor.Slot), c.Snapshot, c.Base, time.UnixMicro(c.Anchor.Born)).Scan(&slot, &id, &created, &below)
	if err != nil || slot == nil {
		return a, below, err
	}
	row := adapters.Row{ID: *id, Slot: int(*slot)}
	if created != nil {
		row.CreatedAt = *created
	}
	_ = row.Limit() // a row that was read has its id cut likewise
	return row.Anchor(), below, nil
}

// anchored returns the anchor of the row at a cursor that has one.
func (s *Source) anchored(ctx context.Context, c *adapters.Cursor) (adapters.Anchor, bool, error) {
	if c.Anchor.IsZero() {
		return adapters.Anchor{}, false, nil
	}
	return s.rowAt(ctx, s.base.Pool, c)
}
