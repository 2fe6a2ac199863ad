package owntable

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/internal/testenv"
)

// explainReads runs reads of all slots from one cursor, on the source's own
// connection and prepared statement.
func explainReads(t *testing.T, src *Source, from adapters.Cursor, limit int) *pgtest.PlanNode {
	t.Helper()
	r, err := src.base.Connected(t.Context(), nil)
	pgtest.Must(t, err)
	reads := make([]adapters.Read, adapters.Slots)
	for i := range reads {
		reads[i] = adapters.Read{Slot: i, From: from, Limit: limit}
	}
	plans, err := src.planReads(reads)
	pgtest.Must(t, err)
	return pgtest.ExplainStatement(t, r.Conn, "outrider_fetch", fetchParams(plans))
}

// explainOne runs the read of a slot alone.
func explainOne(t *testing.T, src *Source, from adapters.Cursor, limit int) *pgtest.PlanNode {
	t.Helper()
	r, err := src.base.Connected(t.Context(), nil)
	pgtest.Must(t, err)
	src.fetchOneStatement(t, r)
	plans, err := src.planReads([]adapters.Read{{Slot: 3, From: from, Limit: limit}})
	pgtest.Must(t, err)
	return pgtest.ExplainStatement(t, r.Conn, "outrider_fetch_one", fetchOneParams(&plans[0]))
}

// checkPlan asserts what must hold whatever the statistics are, and that the
// reads cost no more than they should. Rows are those that scans visited.
func checkPlan(t *testing.T, what string, root *pgtest.PlanNode, primary, second string, maxRows, maxBuffers int) {
	t.Helper()
	pgtest.CheckScans(t, what, root, primary, second, maxRows, maxBuffers, entered(t, what))
}

// entered checks that an index is entered by slot and position.
func entered(t *testing.T, what string) func(*pgtest.PlanNode) {
	return func(n *pgtest.PlanNode) {
		if !strings.Contains(n.Cond, "slot") || !strings.Contains(n.Cond, "position") {
			t.Errorf("%s: %s is entered by %q, without slot or position", what, n.Index, n.Cond)
		}
	}
}

// TestG8_PlansWithManyRetainedRows: all branches of the fetch keep to their
// indexes with rows of one transaction and of many, with statistics of the
// empty table and with fresh ones.
func TestG8_PlansWithManyRetainedRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		xid  string
		rows int
	}{
		"bulk":     {"pg_current_xact_id()", testenv.Size(pgtest.VariantRows, pgtest.PlanRows)},
		"trickled": {pgtest.ImitatedXID + "::text::xid8", testenv.Size(pgtest.VariantRows, pgtest.PlanRows)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newSourceEnv(t)
			e.Exec("ALTER TABLE outrider_outbox SET UNLOGGED")
			e.Exec("ALTER TABLE outrider_outbox SET (autovacuum_enabled = off)")
			e.Exec("ANALYZE outrider_outbox")
			idle := e.Lanes(e.src, adapters.StartEnd, 10)
			idle.All(t) // plans while the table is empty
			e.Exec(`INSERT INTO outrider_outbox (xid, id, type, message_group, payload)
				SELECT `+c.xid+`, i::text, 't', 'g' || i % 1000, '{}' FROM generate_series(1, $1::bigint) AS i`, c.rows)
			checkPlans(t, e, c.rows, name+", planned when empty")
			e.src.base.Drop()
			checkPlans(t, e, c.rows, name+", stale statistics")
			e.Exec("ANALYZE outrider_outbox")
			checkPlans(t, e, c.rows, name+", fresh statistics")
			_, err := e.src.rangeScanOf(e.Ctx, e.src.base.Conn)
			pgtest.Must(t, err)
			_, err = e.src.base.Conn.Conn.Exec(e.Ctx, "DISCARD PLANS") // they were made when no bitmap was allowed
			pgtest.Must(t, err)
			checkPlans(t, e, c.rows, name+", on a connection that reads by range scans")
		})
	}
}

func checkPlans(t *testing.T, e *sourceEnv, rows int, state string) {
	t.Helper()
	const primary, second, limit = "outrider_outbox_pkey", "outrider_outbox_slot_xid_position_idx", 10
	end, err := e.src.Start(e.Ctx, adapters.Start{Kind: adapters.StartEnd})
	pgtest.Must(t, err)
	now, err := reader.ParseSnapshot(end.Snapshot)
	pgtest.Must(t, err)
	var xid uint64
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT xid::text::bigint FROM outrider_outbox WHERE id = $1", strconv.Itoa(rows/2)).Scan(&xid))
	running := fmt.Sprintf("%d:%d:%d", xid, now.Xmax, xid)
	// A read looks in each slot for rows of every transaction that its cursor's
	// snapshot saw running: here those are of other tests on the server.
	others := 4 * adapters.Slots * len(now.Xip)
	for _, c := range []struct {
		what          string
		from          adapters.Cursor
		rows, buffers int
	}{
		{"idle", end, 0, 20*adapters.Slots + others},
		{"fresh", adapters.Cursor{Snapshot: end.Snapshot}, limit * adapters.Slots, 30*adapters.Slots + others},
		{"late, was running", adapters.Cursor{Position: math.MaxInt64, Snapshot: running}, 3 * limit * adapters.Slots, 100 * adapters.Slots},
		{"late, was running, paged", adapters.Cursor{Position: math.MaxInt64, Snapshot: running, Window: end.Snapshot, Paged: int64(rows) - 1000}, 3 * limit * adapters.Slots, 100 * adapters.Slots},
		{"late, was not known", adapters.Cursor{Position: math.MaxInt64, Snapshot: fmt.Sprintf("%d:%d:", xid, xid), Window: end.Snapshot, Paged: int64(rows) - 1000}, 2000 + 3*limit*adapters.Slots, rows / 20},
		{"far behind", adapters.Cursor{Position: 100, Snapshot: "3:3:"}, 300 + 2*limit*adapters.Slots, rows / 20},
	} {
		root := explainReads(t, e.src, c.from, limit)
		checkPlan(t, state+": "+c.what, root, primary, second, c.rows, c.buffers)
		if c.from.Window == "" {
			pgtest.CheckShape(t, state+": "+c.what+", alone", explainOne(t, e.src, c.from, limit),
				map[string]int{"Index Scan " + primary: 1, "Index Only Scan " + second: 2}, 0, limit+2, 40+others, entered(t, c.what))
		}
	}
}
