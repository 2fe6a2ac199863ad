package owntable

import (
	"strings"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// fetchSQL answers all reads in one round trip. {table} is replaced by
// [fetchStatement]. Parameters are arrays with one entry per read: slot, L, S, T
// (null: the statement's own snapshot), above, base, upto, limit (see plan); and
// two numbers, the lowest of above and the lowest L. These two say nothing that
// the arrays do not: in a table with partitions they let the server leave out,
// before it begins, those that no read has anything in.
//
// The first row carries the statement's own snapshot in the column id, so that
// cursors move on when there is nothing to read. The others are outbox rows with
// the number of their read, from 1, in the order of delivery.
//
// The plan, for each read in turn (LATERAL forces the nested loop, and with it
// the order of the result; Fetch checks it all the same):
//
//	late.positions      the lowest positions of late rows, up to the limit: top-N sort of
//	  (a) running in S    per transaction of S's list that is visible in T: a range of the index
//	                      (slot, xid, position), entered at the place already paged, index only.
//	                      The pair (xid, position) is compared as a row, because a condition
//	                      xid = x would let the planner walk the primary key in its stead.
//	  (b) newer than S    xids from S's xmax to T's xmax: a range of the same index; the position is a
//	                      condition on the index, so rows behind L are not visited in the table.
//	                      ORDER BY and OFFSET 0 keep it from becoming a walk along the primary key.
//	                      T's xmax also keeps out transaction ids that do not exist yet (restored
//	                      or written by hand), which would come back with every read.
//	rows                for each late position its row by the primary key (BETWEEN and ORDER BY: only
//	                    that index fits), then fresh rows by a range of the primary key, as many as
//	                    the limit leaves room for: none when the late rows have filled it.
//
// A fresh row is visible when T says so (which is cheapest to tell of what is older
// than T's xmin), when its transaction id does not exist yet or when it is not above
// the base.
//
// Columns are qualified throughout: an output column named like an input column
// changes what ORDER BY means.
const fetchSQL = `
WITH now AS MATERIALIZED (
    SELECT pg_current_snapshot() AS snap
), reads AS MATERIALIZED (
    SELECT r.read, r.slot, r.pos, r.snap, coalesce(r.target, now.snap) AS target,
           r.above, r.base, r.upto, r.lim,
           pg_snapshot_xmin(coalesce(r.target, now.snap)) AS seen, pg_snapshot_xmax(now.snap) AS horizon
    FROM now CROSS JOIN unnest($1::smallint[], $2::bigint[], $3::pg_snapshot[], $4::pg_snapshot[],
                               $5::bigint[], $6::bigint[], $7::bigint[], $8::int[])
         WITH ORDINALITY AS r(slot, pos, snap, target, above, base, upto, lim, read)
)
SELECT 0 AS read, false AS late, 0::bigint AS position, now.snap::text AS id,
       NULL AS type, NULL AS message_group, NULL AS aggregate_type, NULL AS aggregate_id, NULL AS tenant_id,
       NULL::json AS tags, NULL::json AS headers, NULL::json AS payload, NULL::bytea AS payload_bytes,
       NULL::timestamptz AS occurred_at, NULL::timestamptz AS created_at, NULL::bigint AS stored
FROM now
UNION ALL
SELECT r.read::int, rows.late, rows.position, rows.id,
       rows.type, rows.message_group, rows.aggregate_type, rows.aggregate_id, rows.tenant_id,
       rows.tags, rows.headers, rows.payload, rows.payload_bytes,
       rows.occurred_at, rows.created_at, rows.stored
FROM reads r
CROSS JOIN LATERAL (
    SELECT ARRAY (
        SELECT l.position
        FROM (
            SELECT a.position
            FROM pg_snapshot_xip(r.snap) AS x(xid)
            CROSS JOIN LATERAL (
                SELECT o.position
                FROM {table} o
                WHERE o.slot = r.slot
                  AND (o.xid, o.position) > (x.xid, r.above)
                  AND (o.xid, o.position) <= (x.xid, r.pos)
                  AND o.position > $9::bigint AND o.position <= r.pos
                ORDER BY o.slot, o.xid, o.position
                LIMIT r.lim
            ) a
            WHERE pg_visible_in_snapshot(x.xid, r.target)
            UNION ALL
            (
                SELECT o.position
                FROM {table} o
                WHERE o.slot = r.slot
                  AND o.xid >= pg_snapshot_xmax(r.snap) AND o.xid < pg_snapshot_xmax(r.target)
                  AND o.position > r.above AND o.position <= r.pos AND o.position > $9::bigint
                  AND pg_visible_in_snapshot(o.xid, r.target)
                ORDER BY o.slot, o.xid
                OFFSET 0
            )
        ) l
        ORDER BY l.position
        LIMIT r.lim
    ) AS positions
    OFFSET 0
) late
CROSS JOIN LATERAL (
    (
        SELECT true AS late, f.*
        FROM unnest(late.positions) AS p(position)
        CROSS JOIN LATERAL (
            SELECT {columns}
            FROM {table} o
            WHERE o.slot = r.slot AND o.position BETWEEN p.position AND p.position AND o.position > $9::bigint
            ORDER BY o.slot, o.position
            LIMIT 1
        ) f
    )
    UNION ALL
    (
        SELECT false, {columns}
        FROM {table} o
        WHERE o.slot = r.slot AND o.position > r.pos AND o.position <= r.upto AND o.position > $10::bigint
          AND (o.xid < r.seen OR pg_visible_in_snapshot(o.xid, r.target) OR o.xid >= r.horizon OR o.position <= r.base)
        ORDER BY o.slot, o.position
        LIMIT greatest(r.lim - cardinality(late.positions), 0)
    )
) rows`

// rangeScanSettings let the range scan of [rangeScanSQL] be read by a bitmap. Nothing else becomes
// one: all other parts have an order, which a bitmap would need a sort for.
const rangeScanSettings = "SET enable_bitmapscan = on"

// rangeScanSQL is added to [fetchSQL] for a fetch with a range scan. Further parameters are its
// slots, and the positions above and up to which it lies. Its rows carry -1 minus
// their slot for the number of their read, and have no order. Reads of a range scan have no
// target and above the base, so what is visible to the statement is visible to
// them; that a row's transaction is asked for at all is for the reason for which fresh
// rows are asked: see fetchSQL.
const rangeScanSQL = `
UNION ALL
SELECT (-1 - o.slot)::int, false, {columns}
FROM {table} o
WHERE o.slot = ANY ($11::smallint[]) AND o.position > $12::bigint AND o.position <= $13::bigint
  AND (o.xid < (SELECT pg_snapshot_xmin(now.snap) FROM now) OR pg_visible_in_snapshot(o.xid, (SELECT now.snap FROM now))
       OR o.xid >= (SELECT pg_snapshot_xmax(now.snap) FROM now))`

// fetchStatement returns the statement for a table, given by its quoted name.
func fetchStatement(table string, l limits) string { return forTable(fetchSQL, table, l) }

// rangeScanStatement returns the one for a fetch with a range scan.
func rangeScanStatement(table string, l limits) string {
	return forTable(fetchSQL+rangeScanSQL, table, l)
}

// forTable puts a table's quoted name and the columns of a fetch into a statement.
func forTable(sql, table string, l limits) string {
	names := make([]string, 0, len(fetchColumns)+1)
	for _, c := range fetchColumns {
		names = append(names, l.column(c))
	}
	names = append(names, l.stored())
	return sqltext.Fill(sql, sqltext.Names{"table": table, "columns": strings.Join(names, ", ")})
}
