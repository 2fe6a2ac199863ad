package logtable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// The prefixes of the names of watermill-sql's tables.
const (
	watermillPrefix = "watermill_"
	offsetsPrefix   = "watermill_offsets_"
)

// offsetsSQL turns what a consumer group has acknowledged into a cursor. The
// Subscriber goes by (transaction, offset) and reads only below the oldest running
// transaction, so when it has acknowledged (x, o), it has had all transactions
// before x, and of x the rows up to o. With s = x+1 where x has no row above o,
// and otherwise s = x, the cursor's snapshot is s:s: and its position the highest of a
// transaction before s: what is below and not in the snapshot is late, what is above
// fresh, and nothing is lost. Of a transaction that was acknowledged in part, all rows
// come again.
//
// Parameter: the consumer group.
const offsetsSQL = `
SELECT coalesce((SELECT max(o."offset") FROM {table} o WHERE o.transaction_id < g.upto), 0), g.upto::text
FROM (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM {table} o WHERE o.transaction_id = a.xid AND o."offset" > a.acked) OR a.xid = '0'::xid8
                THEN greatest(a.xid::text::numeric, 1)
                ELSE a.xid::text::numeric + 1 END::text::xid8 AS upto
    FROM (SELECT last_processed_transaction_id AS xid, coalesce(offset_acked, 0) AS acked FROM {offsets} WHERE consumer_group = $1) a
) g`

// offsetsBeside is the usual table of offsets.
func (m *mapping) offsetsBeside() pgx.Identifier {
	return pg.Beside(m.table, offsetsPrefix+strings.TrimPrefix(m.table[len(m.table)-1], watermillPrefix))
}

// startAtOffsets is the cursor behind what watermill-sql's Subscriber has acknowledged.
func (s *Source) startAtOffsets(ctx context.Context) (c adapters.Cursor, err error) {
	if s.mapping.preset == nil || s.mapping.preset.TopicPrefix != watermillPrefix {
		return c, adapters.NoStart("only a table of layout watermill has offsets")
	}
	if err := s.base.Find(ctx); err != nil {
		return c, err
	}
	offsets := s.mapping.offsets
	if offsets != nil {
		if offsets, err = pg.LocateTable(ctx, s.base.Pool, offsets); err != nil {
			return c, err
		}
	} else {
		offsets = s.mapping.offsetsBeside()
	}
	sql := sqltext.Fill(offsetsSQL, sqltext.Names{"table": s.mapping.table.Sanitize(), "offsets": offsets.Sanitize()})
	var upto string
	err = s.base.Pool.QueryRow(ctx, sql, s.mapping.group).Scan(&c.Position, &upto)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, adapters.NoStart(fmt.Sprintf("%s has no consumer group %q: name the one of your Subscriber as consumer_group", offsets.Sanitize(), s.mapping.group))
	}
	c.Snapshot = upto + ":" + upto + ":"
	return c, err
}
