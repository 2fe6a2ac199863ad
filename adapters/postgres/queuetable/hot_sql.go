package queuetable

import (
	"fmt"
	"math"
	"strings"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// hotText is what an INSERT is completed with.
type hotText struct {
	head, tail string
	statements map[string]string // by INSERT
	backlog    string            // counts what waits, up to a limit; "": no group is looked at
	explain    string            // shows how a session reads a group
}

// hotColumns are the first columns that the statement returns; those of headers follow.
const (
	hotCreated = iota
	hotKey
	hotTID
	hotType
	hotPayload
	hotAggregateType
	hotAggregateID
	hotTenant
	hotHeaders
	hotStored
	hotGroup
	hotSure // the transaction, if it is
	hotWaiting
	hotExtra
)

// hot is what makes a statement of an INSERT: the row as a look reads it, whether it is certain that it becomes visible with its
// transaction, and what waits in its group. One snapshot shows the latter, without the rows of the INSERT itself.
//
// It is certain in the table that the queue reads, at READ COMMITTED, where the snapshot is newer than the writer's turn in the
// group, and outside of savepoints, which can be rolled back alone: a row of one has an xmin of its own.
func (q *queueSQL) hot(table uint32, database string) hotText {
	sure := fmt.Sprintf("t.hot_table = %d::oid AND pg_catalog.current_database() = %s", table, pg.Literal(database)) +
		" AND pg_catalog.current_setting('transaction_isolation') = 'read committed'" +
		" AND t.hot_xmin = pg_catalog.pg_current_xact_id()::xid AND {status} IN ({waiting})"
	if q.layout.Columns.NextAttempt != "" {
		sure += " AND coalesce({next_attempt} <= pg_catalog.clock_timestamp(), true)"
	}
	waiting := "SELECT NULL::text AS before"
	group := "NULL::text"
	if q.layout.Columns.Group != "" {
		group = "{group}"
		waiting = fmt.Sprintf(`SELECT pg_catalog.json_agg(w.id)::text AS before FROM (
    SELECT {key}::text AS id FROM {t} t
    WHERE {status} IN ({waiting}) AND {group} <= p.hot_group AND ({group}, {created}) >= (p.hot_group, '-infinity')
    ORDER BY {group}, {created}, {key} LIMIT %d
) w`, hotBefore+1)
	}
	var extra strings.Builder
	for i := range q.layout.Headers {
		fmt.Fprintf(&extra, ", p.header%d", i+1)
	}
	text := hotText{
		head: "WITH published AS (\n",
		tail: q.fill(fmt.Sprintf(`
RETURNING *, ctid AS hot_tid, tableoid AS hot_table, xmin AS hot_xmin
)
SELECT coalesce(%s, '%d'), p.id, p.tid::text, p.type, p.payload, p.aggregate_type,
    p.aggregate_id, p.tenant, p.headers, p.stored::text, %s, CASE WHEN p.hot_sure THEN pg_catalog.pg_current_xact_id()::text END, b.before%s
FROM (SELECT %s, %s AS hot_group, %s AS hot_sure FROM published t) p
CROSS JOIN LATERAL (%s) b
ORDER BY p.created, p.key`, wire.Ordinary("p.created", fmt.Sprintf("((extract(epoch FROM p.created) * 1000000)::bigint - %d)::text", wire.PostgresEpoch)), int64(math.MaxInt64), q.groupName("p.hot_group"), extra.String(), q.rowColumns("NULL::text", "false", "0::float8", "t.hot_tid"), group, sure, waiting)),
		statements: map[string]string{},
	}
	if q.layout.Columns.Group != "" {
		text.backlog = q.fill(fmt.Sprintf("SELECT count(*) FROM (SELECT FROM {t} t WHERE {status} IN ({waiting}) LIMIT %d) w", hotBacklog))
		text.explain = q.fill("EXPLAIN (FORMAT JSON) WITH p AS MATERIALIZED (SELECT NULL::text AS hot_group)\nSELECT b.before FROM p CROSS JOIN LATERAL (" + waiting + ") b")
	}
	return text
}
