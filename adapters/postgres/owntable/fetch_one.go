package owntable

import (
	"context"
	"strconv"

	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// fetchOneSQL answers a single read up to now that has no late rows, in half of the time of [fetchSQL]: what is read right after a commit of
// this process. Its parameters are slot, L, S, above, base and limit, see [fetchSQL], whose conditions and fences it has.
//
// In the first row late says whether rows may be late, regardless of whether their transactions are visible: then the rest counts
// for nothing, and [fetchSQL] is asked.
const fetchOneSQL = `
SELECT 0 AS read,
       EXISTS (
           SELECT FROM {table} o
           WHERE o.slot = $1::smallint AND o.xid >= pg_snapshot_xmax($3::pg_snapshot) AND o.position > $4::bigint AND o.position <= $2::bigint
           ORDER BY o.slot, o.xid
           OFFSET 0
       ) OR EXISTS (
           SELECT FROM pg_snapshot_xip($3::pg_snapshot) AS x(xid)
           CROSS JOIN LATERAL (
               SELECT FROM {table} o
               WHERE o.slot = $1::smallint AND (o.xid, o.position) > (x.xid, $4::bigint) AND (o.xid, o.position) <= (x.xid, $2::bigint)
                 AND o.position > $4::bigint AND o.position <= $2::bigint
               ORDER BY o.slot, o.xid, o.position
               LIMIT 1
           ) a
           OFFSET 0
       ) AS late,
       0::bigint AS position, pg_current_snapshot()::text AS id,
       NULL AS type, NULL AS message_group, NULL AS aggregate_type, NULL AS aggregate_id, NULL AS tenant_id,
       NULL::json AS tags, NULL::json AS headers, NULL::json AS payload, NULL::bytea AS payload_bytes,
       NULL::timestamptz AS occurred_at, NULL::timestamptz AS created_at, NULL::bigint AS stored
UNION ALL
(
    SELECT 1, false, {columns}
    FROM {table} o
    WHERE o.slot = $1::smallint AND o.position > $2::bigint
      AND (o.xid < pg_snapshot_xmin(pg_current_snapshot()) OR pg_visible_in_snapshot(o.xid, pg_current_snapshot())
           OR o.xid >= pg_snapshot_xmax(pg_current_snapshot()) OR o.position <= $5::bigint)
    ORDER BY o.slot, o.position
    LIMIT $6::int
)`

// fitsOne reports whether [fetchOneSQL] may answer the reads.
func fitsOne(plans []reader.Plan) bool { return len(plans) == 1 && plans[0].Target == "" }

// runOne does what run does, for a single read.
func (f *fetch) runOne(ctx context.Context, r *reader.Conn) (complete bool, err error) {
	s, late := f.source, false
	if s.fetchOne == nil {
		if s.fetchOne, err = r.Prepare(ctx, "outrider_fetch_one", forTable(fetchOneSQL, s.base.Quoted, s.limits)); err != nil {
			return false, err
		}
	}
	complete, err = r.Stream(ctx, s.fetchOne, fetchOneParams(&f.plans[0]), func(values [][]byte) (more bool, err error) {
		if wire.Int32FromBinary(values[reader.FetchRead]) == 0 {
			late = values[reader.FetchLate][0] != 0
		}
		if late {
			return true, nil
		}
		return f.row(values)
	})
	if !late || err != nil || !complete {
		return complete, err
	}
	return r.Stream(ctx, r.Fetch, fetchParams(f.plans), f.row)
}

// fetchOneParams are the statement's parameters, in PostgreSQL's text form.
func fetchOneParams(p *reader.Plan) [][]byte {
	number := func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
	return [][]byte{number(int64(p.Slot)), number(p.Position), []byte(p.Snapshot), number(p.Above), number(p.Base), number(int64(p.Limit))}
}
