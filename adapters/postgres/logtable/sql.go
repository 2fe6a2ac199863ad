package logtable

import (
	"maps"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// logSQL answers all reads of a [Source] in one round trip; logPlan says
// what it is asked for, and the settings of the connection pin its plan. Parameters are two sets
// of arrays. For each cohort: L, S, T (null: the statement's own snapshot),
// above, limit. For each segment: low, high, limit.
//
// The first row carries the statement's own snapshot in the column id. The
// others are rows of the table with the number of their cohort (late ones) or
// segment (fresh ones), from 1, in the order of position.
//
// The plan is that of fetchSQL without slots, and the same holds for it:
//
//	late.positions  the lowest late positions of a cohort, up to its limit: a top-N sort of
//	  (a)             per transaction of S's list that is visible in T a range of the index (xid, position)
//	  (b)             from S's xmax to T's a range of the same index, with the position as a condition on
//	                  the index. ORDER BY and OFFSET 0 keep it from becoming a walk along the position.
//	rows            each late position's row by the index on the position
//	segments        a range of the index on the position, up to the limit: fresh rows with their
//	                transaction, for who may see them is decided by each read's T, in Go.
//
// A row without transaction (it was there before the column was) is never late.
const logSQL = `
WITH now AS MATERIALIZED (
    SELECT pg_current_snapshot() AS snap
), cohorts AS MATERIALIZED (
    SELECT c.part, c.pos, c.snap, c.target, c.above, c.lim,
           {lowest} AS lowest, {highest} AS highest
    FROM (
        SELECT p.part, p.pos, p.snap, coalesce(p.target, now.snap) AS target, p.above, p.lim
        FROM now CROSS JOIN unnest($1::bigint[], $2::pg_snapshot[], $3::pg_snapshot[], $4::bigint[], $5::int[])
             WITH ORDINALITY AS p(pos, snap, target, above, lim, part)
    ) c
)
SELECT 0 AS part, false AS late, {first}
FROM now
UNION ALL
SELECT c.part::int, true, f.*
FROM cohorts c
CROSS JOIN LATERAL (
    SELECT ARRAY (
        SELECT l.position
        FROM (
            SELECT a.position
            FROM pg_snapshot_xip(c.snap) AS x(xid)
            CROSS JOIN LATERAL (
                SELECT o.{position} AS position
                FROM {table} o
                WHERE (o.{xid}, o.{position}) > ({running}, c.above)
                  AND (o.{xid}, o.{position}) <= ({running}, c.pos)
                ORDER BY o.{xid}, o.{position}
                LIMIT c.lim
            ) a
            WHERE pg_visible_in_snapshot(x.xid, c.target)
            UNION ALL
            (
                SELECT o.{position}
                FROM {table} o
                WHERE o.{xid} >= c.lowest AND o.{xid} < c.highest
                  AND o.{position} > c.above AND o.{position} <= c.pos
                  AND pg_visible_in_snapshot({written}, c.target)
                ORDER BY o.{xid}
                OFFSET 0
            )
        ) l
        ORDER BY l.position
        LIMIT c.lim
    ) AS positions
    OFFSET 0
) late
CROSS JOIN LATERAL unnest(late.positions) AS p(position)
CROSS JOIN LATERAL (
    SELECT {columns}
    FROM {table} o
    WHERE o.{position} BETWEEN p.position AND p.position
    ORDER BY o.{position}
    LIMIT 1
) f
UNION ALL
SELECT s.part::int, false, f.*
FROM unnest($6::bigint[], $7::bigint[], $8::int[]) WITH ORDINALITY AS s(low, high, lim, part)
CROSS JOIN LATERAL (
    SELECT {columns}
    FROM {table} o
    WHERE o.{position} > s.low AND o.{position} <= s.high
    ORDER BY o.{position}
    LIMIT s.lim
) f`

// fetchSQL returns the statement for the types that the table has.
func (t *logTable) fetchSQL() string {
	// Transaction ids are compared as what the column is, or no index serves.
	asColumn := func(xid string) string { return xid }
	written := "o." + t.quoted(roleXID)
	if t.typeOf(roleXID) == pgtype.Int8OID {
		asColumn = func(xid string) string { return xid + "::text::bigint" }
		written += "::text::xid8"
	}
	var first, columns []string
	for r := range roles {
		column, null := t.selected(r)
		if r == roleID {
			null = "now.snap::text"
		}
		if r == roleXID {
			columns, first = append(columns, t.stored()), append(first, "NULL::bigint")
		}
		columns, first = append(columns, column), append(first, null)
	}
	names := t.sqlNames()
	maps.Copy(names, sqltext.Names{"lowest": asColumn("pg_snapshot_xmax(c.snap)"), "highest": asColumn("pg_snapshot_xmax(c.target)"),
		"running": asColumn("x.xid"), "written": written, "first": strings.Join(first, ", "), "columns": strings.Join(columns, ", ")})
	return sqltext.Fill(logSQL, names)
}
