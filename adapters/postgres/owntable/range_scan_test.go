package owntable

import (
	"math/rand/v2"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// fill writes rows with the positions 1 to n, in the order of their pages or in
// another one, as concurrent writers and freed space leave them.
func (e *sourceEnv) fill(n, payload int, order string) {
	e.T.Helper()
	e.Exec(`INSERT INTO outrider_outbox (position, type, message_group, payload_bytes) OVERRIDING SYSTEM VALUE
		SELECT p, 't', 'g' || p % 100, convert_to(repeat('x', $2), 'UTF8') FROM generate_series(1, $1::bigint) AS p ORDER BY `+order, n, payload)
	e.Exec(`SELECT setval(pg_get_serial_sequence('outrider_outbox', 'position'), $1)`, n)
}

// TestG2_ARangeScanIsSorted: rows of a range scan come in the order of their pages, and are
// delivered in that of their positions, each once, whatever limits cut off.
func TestG2_ARangeScanIsSorted(t *testing.T) {
	t.Parallel()
	const rows = 3000
	e := newSourceEnv(t)
	e.fill(rows, 10, "hashint8(p)")
	for _, limit := range []int{7, 50, 1000} {
		l, r := e.Lanes(e.src, adapters.StartBeginning, limit), rand.New(rand.NewPCG(1, uint64(limit)))
		l.Ahead = func() int64 { return 1 + r.Int64N(int64(20*limit)) }
		var last [adapters.Slots]int64
		taken := 0
		for fetches := 0; taken < rows; fetches++ {
			if fetches > rows {
				t.Fatalf("limit %d: %d of %d rows after %d fetches", limit, taken, rows, fetches)
			}
			got, _, err := l.Next(e.Ctx, nil)
			pgtest.Must(t, err)
			for _, row := range got {
				if row.Position <= last[row.Slot] {
					t.Fatalf("limit %d: slot %d: position %d after %d", limit, row.Slot, row.Position, last[row.Slot])
				}
				last[row.Slot] = row.Position
			}
			taken += len(got)
		}
		if taken != rows {
			t.Errorf("limit %d: %d rows were delivered, of %d", limit, taken, rows)
		}
		for slot, c := range l.From {
			if c.Position > rows {
				t.Errorf("limit %d: the cursor of slot %d is at position %d; the last row is at %d", limit, slot, c.Position, rows)
			}
		}
		l.Ahead = nil // a read that comes to a place is never drained
		pgtest.WantPayloads(t, l.All(t))
	}
	if e.src.rangeScan == nil {
		t.Error("no range scan was read")
	}
}

// TestG1_ARangeScanThatIsTooLargeLosesNothing: a range scan of more than what may be kept is
// given up, with the connection, and its rows come slot by slot.
func TestG1_ARangeScanThatIsTooLargeLosesNothing(t *testing.T) {
	t.Parallel()
	const rows = 40
	e := newSourceEnv(t)
	e.fill(rows, rangeScanBytes/8, "p")
	l := e.Lanes(e.src, adapters.StartBeginning, rows)
	l.Ahead = func() int64 { return rows }
	none, _, err := l.Next(e.Ctx, nil)
	pgtest.Must(t, err)
	if len(none) != 0 || e.src.rangeScanPause == 0 || e.src.base.Conn != nil {
		t.Fatalf("%d rows came with a range scan of %d MiB, no range scan for %d fetches", len(none), rows, e.src.rangeScanPause)
	}
	l.Ahead = nil
	seen := map[int64]bool{}
	for _, row := range l.All(t) {
		seen[row.Position] = true
	}
	if len(seen) != rows {
		t.Errorf("%d of %d rows came", len(seen), rows)
	}
}

// TestG8_ARangeScanVisitsPagesOnce: with fresh statistics a range scan of rows of all slots
// visits little more than the pages that they are on.
func TestG8_ARangeScanVisitsPagesOnce(t *testing.T) {
	t.Parallel()
	const rows, low, width = 50_000, 20_000, 4000
	e := newSourceEnv(t)
	e.Exec("ALTER TABLE outrider_outbox SET (autovacuum_enabled = off)")
	e.fill(rows, 200, "p")
	e.Exec("VACUUM ANALYZE outrider_outbox")
	var pages int
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT count(DISTINCT (ctid::text::point)[0]) FROM outrider_outbox WHERE position > $1 AND position <= $2",
		low, low+width).Scan(&pages))
	l := e.Lanes(e.src, adapters.StartEnd, width)
	for i := range l.From {
		l.From[i].Position = low
	}
	l.Ahead = func() int64 { return width }
	got, _, err := l.Next(e.Ctx, nil)
	pgtest.Must(t, err)
	if len(got) != width {
		t.Fatalf("a range scan of %d positions had %d rows", width, len(got))
	}
	for i := range l.From {
		l.From[i].Position = low
	}
	reads := l.Reads(nil)
	plans, err := e.src.planReads(reads)
	pgtest.Must(t, err)
	root := pgtest.ExplainStatement(t, e.src.base.Conn.Conn, "outrider_fetch_range", e.src.planRangeScan(reads, plans).params(plans))
	bitmaps := 0
	root.Walk(func(n *pgtest.PlanNode) {
		if n.Type == "Bitmap Heap Scan" {
			bitmaps++
		}
	})
	now, err := reader.ParseSnapshot(l.From[0].Snapshot)
	pgtest.Must(t, err)
	// Beside the pages: three descents of an index for each slot and one more for each
	// transaction of another test that was running, and the bitmap's way through the
	// primary key.
	most := pages + adapters.Slots*(4*(3+len(now.Xip))+3+width/adapters.Slots/100)
	if buffers := root.Hit + root.Read; bitmaps != 1 || buffers > most {
		t.Errorf("%d bitmap scans and %d buffers for %d rows on %d pages; want 1 and at most %d", bitmaps, buffers, width, pages, most)
	} else {
		t.Logf("%d buffers for %d rows on %d pages", buffers, width, pages)
	}
}
