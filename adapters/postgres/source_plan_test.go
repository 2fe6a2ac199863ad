package postgres

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// explainReads runs reads of all slots from one cursor, on the source's own
// connection and prepared statement.
func explainReads(t *testing.T, src *Source, from outbox.Cursor, limit int) *planNode {
	t.Helper()
	r, err := src.connected(t.Context(), nil)
	must(t, err)
	reads := make([]outbox.Read, outbox.Slots)
	for i := range reads {
		reads[i] = outbox.Read{Slot: i, From: from, Limit: limit}
	}
	plans, err := src.planReads(reads)
	must(t, err)
	return explainStatement(t, r.conn, "outrider_fetch", fetchParams(plans))
}

// checkPlan asserts what must hold whatever the statistics are, and that the
// reads cost no more than they should. Rows are those that scans visited.
func checkPlan(t *testing.T, what string, root *planNode, primary, second string, maxRows, maxBuffers int) {
	t.Helper()
	checkScans(t, what, root, primary, second, maxRows, maxBuffers, func(n *planNode) {
		if !strings.Contains(n.Cond, "slot") || !strings.Contains(n.Cond, "position") {
			t.Errorf("%s: %s is entered by %q, without slot or position", what, n.Index, n.Cond)
		}
	})
}

// TestG8_PlansWithAMillionRetainedRows: all branches of the fetch keep to their
// indexes with rows of one transaction and of many, with statistics of the
// empty table and with fresh ones.
func TestG8_PlansWithAMillionRetainedRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		xid  string
		rows int
	}{
		"bulk":     {"pg_current_xact_id()", testenv.Size(variantRows, planRows)},
		"trickled": {imitatedXID + "::text::xid8", planRows},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newSourceEnv(t)
			e.exec("ALTER TABLE outrider_outbox SET UNLOGGED")
			e.exec("ALTER TABLE outrider_outbox SET (autovacuum_enabled = off)")
			e.exec("ANALYZE outrider_outbox")
			idle := e.lanes(e.src, outbox.StartEnd, 10)
			idle.all(t) // plans while the table is empty
			e.exec(`INSERT INTO outrider_outbox (xid, id, type, message_group, payload)
				SELECT `+c.xid+`, i::text, 't', 'g' || i % 1000, '{}' FROM generate_series(1, $1::bigint) AS i`, c.rows)
			checkPlans(t, e, c.rows, name+", planned when empty")
			e.src.drop()
			checkPlans(t, e, c.rows, name+", stale statistics")
			e.exec("ANALYZE outrider_outbox")
			checkPlans(t, e, c.rows, name+", fresh statistics")
			_, err := e.src.bandOf(e.ctx, e.src.conn)
			must(t, err)
			_, err = e.src.conn.conn.Exec(e.ctx, "DISCARD PLANS") // they were made when no bitmap was allowed
			must(t, err)
			checkPlans(t, e, c.rows, name+", on a connection that reads bands")
		})
	}
}

func checkPlans(t *testing.T, e *sourceEnv, rows int, state string) {
	t.Helper()
	const primary, second, limit = "outrider_outbox_pkey", "outrider_outbox_slot_xid_position_idx", 10
	end, err := e.src.Start(e.ctx, outbox.Start{Kind: outbox.StartEnd})
	must(t, err)
	now, err := parseSnapshot(end.Snapshot)
	must(t, err)
	var xid uint64
	must(t, e.pool.QueryRow(e.ctx, "SELECT xid::text::bigint FROM outrider_outbox WHERE id = $1", strconv.Itoa(rows/2)).Scan(&xid))
	running := fmt.Sprintf("%d:%d:%d", xid, now.xmax, xid)
	// A read looks in each slot for rows of every transaction that its cursor's
	// snapshot saw running: here those are of other tests on the server.
	others := 4 * outbox.Slots * len(now.xip)
	for _, c := range []struct {
		what          string
		from          outbox.Cursor
		rows, buffers int
	}{
		{"idle", end, 0, 20*outbox.Slots + others},
		{"fresh", outbox.Cursor{Snapshot: end.Snapshot}, limit * outbox.Slots, 30*outbox.Slots + others},
		{"late, was running", outbox.Cursor{Position: math.MaxInt64, Snapshot: running}, 3 * limit * outbox.Slots, 100 * outbox.Slots},
		{"late, was running, paged", outbox.Cursor{Position: math.MaxInt64, Snapshot: running, Window: end.Snapshot, Paged: int64(rows) - 1000}, 3 * limit * outbox.Slots, 100 * outbox.Slots},
		{"late, was not known", outbox.Cursor{Position: math.MaxInt64, Snapshot: fmt.Sprintf("%d:%d:", xid, xid), Window: end.Snapshot, Paged: int64(rows) - 1000}, 2000 + 3*limit*outbox.Slots, rows / 20},
		{"far behind", outbox.Cursor{Position: 100, Snapshot: "3:3:"}, 300 + 2*limit*outbox.Slots, rows / 20},
	} {
		root := explainReads(t, e.src, c.from, limit)
		checkPlan(t, state+": "+c.what, root, primary, second, c.rows, c.buffers)
	}
}
