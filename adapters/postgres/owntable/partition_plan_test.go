package owntable

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// TestG8_PlansWithPartitions: with 50 partitions of retained rows a read at the
// end of the table visits those that rows can be in, and no more pages than a few
// per slot, with stale statistics and with fresh ones.
func TestG8_PlansWithPartitions(t *testing.T) {
	t.Parallel()
	const rows, size = 100_000, 2000
	e := newSourceEnv(t)
	e.Exec("DROP TABLE outrider_outbox")
	_, err := InitPartitioned(e.Ctx, e.Pool, "", size)
	pgtest.Must(t, err)
	for low := 4 * size; low < rows+2*size; low += size {
		e.Exec(fmt.Sprintf("CREATE UNLOGGED TABLE outrider_outbox_p%[1]d PARTITION OF outrider_outbox FOR VALUES FROM (%[1]d) TO (%[2]d)", low, low+size))
	}
	idle := e.Lanes(e.src, adapters.StartEnd, 10)
	idle.Drain(t) // plans while the table is empty
	e.Exec(`INSERT INTO outrider_outbox (id, type, message_group, payload)
		SELECT i::text, 't', 'g' || i % 1000, '{}' FROM generate_series(1, $1::bigint) AS i`, rows)
	_, err = e.src.Retain(e.Ctx, adapters.Retention{Mode: adapters.RetainPartitions, Keep: 1000 * time.Hour, PartitionRows: 1}, nil) // finds the floor
	pgtest.Must(t, err)
	checkPartitionPlans(t, e, "planned when empty")
	e.src.base.Mu.Lock()
	e.src.base.Discard(e.src.base.Conn)
	e.src.base.Conn = nil
	e.src.base.Mu.Unlock()
	checkPartitionPlans(t, e, "stale statistics")
	e.Exec("ANALYZE outrider_outbox")
	checkPartitionPlans(t, e, "fresh statistics")
}

func checkPartitionPlans(t *testing.T, e *sourceEnv, state string) {
	t.Helper()
	end, err := e.src.Start(e.Ctx, adapters.Start{Kind: adapters.StartEnd})
	pgtest.Must(t, err)
	now, err := reader.ParseSnapshot(end.Snapshot)
	pgtest.Must(t, err)
	// Twenty transactions that were running and have ended since.
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = strconv.FormatUint(now.Xmax+uint64(i), 10)
	}
	running := fmt.Sprintf("%d:%d:%s", now.Xmax, now.Xmax+20, strings.Join(ids, ","))
	for _, c := range []struct {
		what             string
		from             adapters.Cursor
		scans, rows, buf int
	}{
		{"idle", end, 4 * 3, 0, 40 * adapters.Slots},
		{"idle, transactions run", adapters.Cursor{Position: end.Position, Snapshot: running}, 4 * 3, 0, 60 * adapters.Slots},
		{"fresh, near the end", adapters.Cursor{Position: end.Position - 500, Snapshot: end.Snapshot}, 4 * 4, 10 * adapters.Slots, 45 * adapters.Slots},
		{"far behind", adapters.Cursor{Position: 100, Snapshot: end.Snapshot}, math.MaxInt, 60 * 10 * adapters.Slots, 60 * 5 * adapters.Slots},
	} {
		root := explainReads(t, e.src, c.from, 10)
		scans, rows := 0, 0.0
		root.Walk(func(n *pgtest.PlanNode) {
			switch n.Type {
			case "Index Scan", "Index Only Scan":
				scans++
				rows += (n.Rows + n.Removed) * n.Loops
			case "Seq Scan", "Bitmap Heap Scan", "Bitmap Index Scan", "Hash Join", "Merge Join", "Gather":
				t.Errorf("%s, %s: the plan has a %s", state, c.what, n.Type)
			}
		})
		buffers := root.Hit + root.Read
		t.Logf("%s, %s: %d scans, %.0f rows, %d buffers", state, c.what, scans, rows, buffers)
		if scans > c.scans || int(rows) > c.rows || buffers > c.buf {
			t.Errorf("%s, %s: %d scans, %.0f rows and %d buffers, want at most %d, %d and %d", state, c.what,
				scans, rows, buffers, c.scans, c.rows, c.buf)
		}
	}
}
