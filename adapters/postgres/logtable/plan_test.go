package logtable

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/internal/testenv"
)

// explainLogReads runs reads of all slots from one cursor, or from one for each
// slot, on the source's own connection and prepared statement.
func explainLogReads(t *testing.T, src *Source, limit int, from ...adapters.Cursor) *pgtest.PlanNode {
	t.Helper()
	r, err := src.base.Connected(t.Context(), nil)
	pgtest.Must(t, err)
	reads := make([]adapters.Read, adapters.Slots)
	for i := range reads {
		reads[i] = adapters.Read{Slot: i, From: from[i%len(from)], Limit: limit}
	}
	l, err := planLog(reads, firstRowBytes)
	pgtest.Must(t, err)
	return pgtest.ExplainStatement(t, r.Conn, "outrider_fetch", l.params())
}

// logSlack is for the dead index entries that transactions of other tests on the
// server leave, of which an idle read with stale statistics once met thirty: a
// few pages more, and far fewer than the table has.
const logSlack = 100

// checkLogPlan asserts what must hold whatever the statistics are.
func checkLogPlan(t *testing.T, what string, root *pgtest.PlanNode, position, xid string, maxRows, maxBuffers int) {
	t.Helper()
	pgtest.CheckScans(t, what, root, position, xid, maxRows, maxBuffers+logSlack, func(n *pgtest.PlanNode) {
		if n.Cond == "" {
			t.Errorf("%s: %s is walked from its beginning", what, n.Index)
		}
	})
}

// planEnv makes a table to plan for. Crablet's has all the indexes that its own migration creates, and no more.
func planEnv(t *testing.T, name string) *logEnv {
	t.Helper()
	if name != "crablet" {
		return newLogEnv(t, name)
	}
	e := &logEnv{Env: pgtest.New(t), cfg: Config{Layout: Layout(name), Table: "events"}}
	e.Exec(`CREATE TABLE events (type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_events_transaction_position_btree ON events (transaction_id, position);
CREATE INDEX idx_events_tags ON events USING GIN (tags);
CREATE INDEX idx_events_type ON events (type);
CREATE INDEX idx_events_type_position ON events (type, position);
CREATE INDEX idx_events_type_tags_gin ON events (type, tags)`)
	e.log = e.open()
	pgtest.Must(t, e.log.Check(e.Ctx))
	return e
}

// TestG8_LogPlansWithAMillionRetainedRows: all branches keep to their indexes on
// a stock Watermill table, on one with transaction ids in a bigint and on Crablet's, with
// statistics of the empty table and with fresh ones.
func TestG8_LogPlansWithAMillionRetainedRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table, position, xid string
		rows                 int
		fill                 string
	}{
		"watermill": {
			"watermill_orders", "watermill_orders_outrider_offset_idx", "watermill_orders_pkey", testenv.Size(pgtest.VariantRows, pgtest.PlanRows),
			`INSERT INTO watermill_orders (uuid, payload, metadata, transaction_id)
				SELECT i, '{}', json_build_object('customer', 'g' || i % 1000), {xid}::text::xid8 FROM generate_series(1, $1::bigint) AS i`,
		},
		"custom": {
			`"Shop"."Event Log"`, "Event Log_pkey", "Event Log_outrider_tx_No_idx", testenv.Size(pgtest.VariantRows, pgtest.PlanRows),
			`INSERT INTO "Shop"."Event Log" ("customer""s", body, tx)
				SELECT i % 1000, '{}', {xid}::text::bigint FROM generate_series(1, $1::bigint) AS i`,
		},
		"crablet": {
			"events", "events_pkey", "idx_events_transaction_position_btree", testenv.Size(pgtest.VariantRows, pgtest.PlanRows),
			`INSERT INTO events (type, tags, data, transaction_id)
				SELECT 'Moved', '{wallet_id=1}', '{}', {xid}::text::xid8 FROM generate_series(1, $1::bigint) AS i`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := planEnv(t, name)
			e.Exec("ALTER TABLE " + c.table + " SET UNLOGGED")
			e.Exec("ALTER TABLE " + c.table + " SET (autovacuum_enabled = off)")
			e.Exec("ANALYZE " + c.table)
			e.Lanes(e.log, adapters.StartEnd, 10).All(t) // plans while the table is empty
			e.Exec(strings.ReplaceAll(c.fill, "{xid}", pgtest.ImitatedXID), c.rows)
			check := func(state string) { checkLogPlans(t, e, c.rows, name+", "+state, c.position, c.xid) }
			check("planned when empty")
			e.log.base.Drop()
			check("stale statistics")
			e.Exec("ANALYZE " + c.table)
			check("fresh statistics")
		})
	}
}

func checkLogPlans(t *testing.T, e *logEnv, rows int, state, position, xid string) {
	t.Helper()
	const limit = 10
	end, err := e.log.Start(e.Ctx, adapters.Start{Kind: adapters.StartEnd})
	pgtest.Must(t, err)
	now, err := reader.ParseSnapshot(end.Snapshot)
	pgtest.Must(t, err)
	middle := now.Xmax / 2
	running := fmt.Sprintf("%d:%d:%d", middle, now.Xmax, middle)
	spread := make([]adapters.Cursor, adapters.Slots) // lanes at different places, all far apart
	for i := range spread {
		spread[i] = adapters.Cursor{Position: int64(i*rows) / adapters.Slots, Snapshot: end.Snapshot}
	}
	perXID := rows/int(now.Xmax) + 1
	for _, c := range []struct {
		what          string
		from          []adapters.Cursor
		rows, buffers int
	}{
		{"idle", []adapters.Cursor{end}, 0, 20},
		{"fresh", []adapters.Cursor{{Snapshot: end.Snapshot}}, limit * adapters.Slots, 40},
		{"far apart", spread, 2*adapters.Slots*limit*adapters.Slots + limit*adapters.Slots, 6000},
		{"late, was running", []adapters.Cursor{{Position: math.MaxInt64, Snapshot: running}}, perXID + 2*limit*adapters.Slots, 1000},
		{"late, was running, paged", []adapters.Cursor{{Position: math.MaxInt64, Snapshot: running, Window: end.Snapshot, Paged: int64(rows)/2 - 1000}},
			perXID + 2*limit*adapters.Slots, 1000},
		{"far behind", []adapters.Cursor{{Position: 100, Snapshot: "3:3:"}}, 300 + 2*limit*adapters.Slots, rows / 20},
	} {
		root := explainLogReads(t, e.log, limit, c.from...)
		checkLogPlan(t, state+": "+c.what, root, position, xid, c.rows, c.buffers)
	}
}
