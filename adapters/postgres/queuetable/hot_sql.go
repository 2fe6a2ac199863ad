package queuetable

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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

// The statement of the hot path runs in the application's session, whose settings are the application's. Where the planner's statistics are
// from a time when all rows were done, it takes what waits for next to nothing, and reads all of it in place of the group's range. So claims,
// and INSERTs while no claim runs, check once a second whether more than that waits, and how the planner would read a group;
// while it would read everything, the hot path rests.
// No shape of the query prevents this: the indexes by group and by age have the same rows.

const (
	// hotBacklog is how many rows may wait that an INSERT of the hot path reads for want of a better plan.
	hotBacklog = 1000

	// hotGuardPause is the least time between two such looks.
	hotGuardPause = time.Second
)

// asByDefault gives the settings that decide about a plan their values of the server, the database and the role.
var asByDefault = "SET LOCAL max_parallel_workers_per_gather TO DEFAULT; SET LOCAL " + strings.Join(pinnedPlans, " TO DEFAULT; SET LOCAL ") + " TO DEFAULT"

// guardDue reports whether the hot path is to be guarded now, which the caller then does. It has the queue's lock.
func (h *hotRows) guardDue() bool {
	if h.done == nil || h.text.backlog == "" || h.looking || time.Since(h.guarded) < hotGuardPause {
		return false
	}
	h.looking, h.guarded = true, time.Now()
	return true
}

// guardBesideClaims guards the hot path if that is due. The caller has claiming.
func (q *Queue) guardBesideClaims(ctx context.Context) {
	q.mu.Lock()
	due := q.hot.guardDue()
	q.mu.Unlock()
	if due {
		q.guardHot(ctx)
	}
}

// guardHot has the hot path rest while its statements would read a backlog.
func (q *Queue) guardHot(ctx context.Context) {
	q.mu.Lock()
	h := &q.hot
	text, rested := h.text, h.rests
	q.mu.Unlock()
	rests, err := q.hotReadsBacklog(ctx, &text)
	rests = rests || err != nil
	q.mu.Lock()
	h.looking, h.rests = false, rests
	q.mu.Unlock()
	switch {
	case err != nil && !rested && ctx.Err() == nil:
		q.log.WarnContext(ctx, "the hot path rests until its cost is known: committed rows are left to polls", "error", err)
	case rests && !rested:
		q.log.WarnContext(ctx, "the hot path rests, because the statistics of the table are older than what waits in it, so that each INSERT would read all of it: "+
			"committed rows are left to polls until autovacuum, or you, run ANALYZE", "table", q.tables[0].name)
	case rested && !rests:
		q.log.InfoContext(ctx, "the hot path works again", "table", q.tables[0].name)
	}
}

// hotReadsBacklog reports whether many rows wait and the look at a group, as the application's session plans it, reads all of them.
func (q *Queue) hotReadsBacklog(ctx context.Context, text *hotText) (reads bool, err error) {
	var waiting int
	if err := q.pool.QueryRow(ctx, text.backlog).Scan(&waiting); err != nil || waiting < hotBacklog {
		return false, err
	}
	err = pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, asByDefault); err != nil {
			return err
		}
		var plan []byte
		if err := tx.QueryRow(ctx, text.explain).Scan(&plan); err != nil {
			return err
		}
		reads = strings.Contains(string(plan), `"Sort Key"`) // only the index by group has the order
		return nil
	})
	return reads, err
}
