package owntable

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// findNewest is how many of the newest rows of each slot are read where no index finds
// ids.
const findNewest = 1000

// foundColumns are the columns that a search returns.
var foundColumns = `o.slot, o.position, o.xid::text::bigint, o.id, o.type, coalesce(o.message_group, ''), coalesce(o.aggregate_type, ''),
    coalesce(o.aggregate_id, ''), coalesce(o.tenant_id, ''), CASE WHEN octet_length(o.tags::text) <= 1048576 THEN o.tags::text END, ` + wire.Instant("o.created_at")

var (
	// findSQL looks by an index on the id. Parameters: id, limit.
	findSQL = `SELECT ` + foundColumns + ` FROM {table} o WHERE o.id = $1 ORDER BY o.slot, o.position DESC LIMIT $2`

	// findNewestSQL reads the newest rows of each slot. Parameters: id, limit, rows of each slot.
	findNewestSQL = `
SELECT ` + foundColumns + `
FROM generate_series(0, 15) AS s(slot)
CROSS JOIN LATERAL (
    SELECT * FROM {table} o WHERE o.slot = s.slot::smallint ORDER BY o.slot DESC, o.position DESC LIMIT $3
) o
WHERE o.id = $1
LIMIT $2`
)

// Find implements [adapters.OperatorSource].
func (s *Source) Find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	err = s.base.Count(ctx, func(tx pgx.Tx) error {
		indexes, err := pg.TableIndexes(ctx, tx, s.base.Quoted)
		if err != nil {
			return err
		}
		sql, args := findSQL, []any{id, most}
		if !slices.ContainsFunc(indexes, func(i pg.TableIndex) bool {
			return i.Predicate == "" && len(i.Columns) > 0 && i.Columns[0] == "id"
		}) {
			sql, args = findNewestSQL, append(args, findNewest)
			found.Searched = fmt.Sprintf("no index finds ids, so only the newest %d rows of each slot were looked at", findNewest)
			found.Fix = s.layout.createIDIndex()
		}
		rows, err := tx.Query(ctx, sqltext.Fill(sql, sqltext.Names{"table": s.base.Quoted}), args...)
		if err != nil {
			return err
		}
		found.Rows, err = pgx.CollectRows(rows, scanFound)
		return err
	})
	return found, s.base.Explain("look for an event", err)
}

// createIDIndex returns the statement for an index by which [Source.Find] finds every row.
func (l layout) createIDIndex() string {
	index := pgx.Identifier{pg.DerivedName(l.name, "_id_idx")}.Sanitize()
	if l.partitionRows > 0 { // of which none can be made concurrently
		return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (id)", index, l.table)
	}
	return fmt.Sprintf("CREATE INDEX CONCURRENTLY IF NOT EXISTS %s ON %s (id)", index, l.table)
}

func scanFound(row pgx.CollectableRow) (f adapters.FoundRow, err error) {
	r := &f.Row
	var xid int64
	var tags *string
	var created *time.Time
	if err := row.Scan(&r.Slot, &r.Position, &xid, &r.ID, &r.Type, &r.Group, &r.AggregateType, &r.AggregateID, &r.Tenant, &tags, &created); err != nil {
		return f, err
	}
	if created != nil {
		r.CreatedAt = *created
	}
	if tags != nil {
		_ = json.Unmarshal([]byte(*tags), &r.Tags) // what is no object of strings has no tags that match
	}
	f.Settled = reader.SettledRow(r.Position, uint64(xid))
	return f, nil
}
