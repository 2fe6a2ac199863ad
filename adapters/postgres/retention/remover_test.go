package retention_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/retention"
)

// everything removes whatever is covered.
var everything = adapters.Retention{Mode: adapters.RetainRows, Batch: 64}

// retain takes steps until there is no more to do, and returns what they did in
// all, and what the last of them found.
func (e *sourceEnv) retain(src *owntable.Source, r adapters.Retention, routes ...adapters.RouteCursors) adapters.Retained {
	e.T.Helper()
	src.Rewind()
	var sum adapters.Retained
	for {
		step, err := src.Retain(e.Ctx, r, routes)
		pgtest.Must(e.T, err)
		step.Rows, step.Partitions = step.Rows+sum.Rows, step.Partitions+sum.Partitions
		if sum = step; !sum.More {
			return sum
		}
	}
}

// left returns the payloads of the rows that are in the table, by position.
func (e *sourceEnv) left() []string {
	e.T.Helper()
	rows, err := e.Pool.Query(e.Ctx, "SELECT payload #>> '{}' FROM outrider_outbox ORDER BY position")
	pgtest.Must(e.T, err)
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[string])
	pgtest.Must(e.T, err)
	return payloads
}

func (e *sourceEnv) wantLeft(want ...string) {
	e.T.Helper()
	if got := e.left(); !slices.Equal(got, want) {
		e.T.Errorf("left are %v, want %v", got, want)
	}
}

// A row that was committed behind the cursor has not been delivered, although
// its position is below.
func TestG1_RetentionLeavesLateRows(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	late := e.Begin()
	insert(t, late, "g", "late")
	insert(t, e.Pool, "g", "early")
	tail := e.Lanes(e.src, adapters.StartBeginning, 10)
	tail.Drain(t)
	insert(t, e.Pool, "g", "new")
	pgtest.Must(t, late.Commit(e.Ctx))
	if did := e.retain(e.src, everything, tail.Settled("r")); did.Rows != 1 {
		t.Errorf("removed %d rows, want the one that was delivered", did.Rows)
	}
	e.wantLeft("late", "new")
	if got := tail.Drain(t); !slices.Equal(got, []string{"late", "new"}) {
		t.Errorf("delivered afterwards: %v", got)
	}
	e.retain(e.src, everything, tail.Settled("r"))
	e.wantLeft()
}

func TestG1_RetentionWaitsForTheSlowestRoute(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	slow := e.Lanes(e.src, adapters.StartBeginning, 10)
	for i := range 20 {
		insert(t, e.Pool, fmt.Sprint("g", i), "old")
	}
	slow.Drain(t)
	fast := e.Lanes(e.src, adapters.StartBeginning, 10)
	for i := range 20 {
		insert(t, e.Pool, fmt.Sprint("g", i), "new")
	}
	fast.Drain(t)
	e.Exec("UPDATE outrider_outbox SET created_at = created_at - interval '1 hour'")
	r := everything
	r.Keep = time.Minute
	did := e.retain(e.src, r, unanchored(fast.Settled("fast")), unanchored(slow.Settled("slow")))
	if did.Rows != 20 || len(e.left()) != 20 {
		t.Errorf("removed %d, left %v", did.Rows, e.left())
	}
	if held := did.Held["slow"]; held < 58*time.Minute || held > 2*time.Hour || len(did.Held) != 1 {
		t.Errorf("held back by %v, want by slow for about 59 minutes", did.Held)
	}
	if did.Oldest < time.Hour || did.Oldest > 2*time.Hour {
		t.Errorf("the oldest row is %v old", did.Oldest)
	}
	if did = e.retain(e.src, r, unanchored(fast.Settled("fast")), adapters.RouteCursors{Route: "never settled"}); did.Rows != 0 || did.Held["never settled"] == 0 {
		t.Errorf("beside a route without cursors: %+v", did)
	}
	if did = e.retain(e.src, r); did.Rows != 0 {
		t.Errorf("without any route %d rows were removed", did.Rows)
	}
	slow.Drain(t)
	did = e.retain(e.src, r, unanchored(fast.Settled("fast")), unanchored(slow.Settled("slow")))
	if did.Rows != 20 || did.Held != nil || did.Oldest != 0 {
		t.Errorf("after the slow one has caught up: %+v", did)
	}
}

// unanchored are cursors of rows that a test has made older, which rows never are
// changed to be.
func unanchored(r adapters.RouteCursors) adapters.RouteCursors {
	for slot, c := range r.Cursors {
		if c != nil {
			plain := *c
			plain.Anchor = adapters.Anchor{}
			r.Cursors[slot] = &plain
		}
	}
	return r
}

func TestRetentionKeepsYoungRowsAndDryRunsKeepAll(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	for i := range 6 {
		insert(t, e.Pool, "g", strconv.Itoa(i))
	}
	e.Exec("UPDATE outrider_outbox SET created_at = now() - interval '2 hours' WHERE payload #>> '{}' < '3'")
	tail := e.Lanes(e.src, adapters.StartBeginning, 10)
	tail.Drain(t)
	r := everything
	r.Keep, r.DryRun = time.Hour, true
	if did := e.retain(e.src, r, tail.Settled("r")); did.Rows != 3 {
		t.Errorf("a dry run counts %d rows, want 3", did.Rows)
	}
	e.wantLeft("0", "1", "2", "3", "4", "5")
	r.DryRun = false
	e.retain(e.src, r, tail.Settled("r"))
	e.wantLeft("3", "4", "5")
}

// TestG1_RetentionAgainstTheModel compares what goes with what the covers say,
// for rows and cursors of all kinds.
func TestG1_RetentionAgainstTheModel(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	random := rand.New(rand.NewPCG(7, 7))
	type row struct {
		slot     int
		position int64
		xid      uint64
	}
	for round := range 12 {
		e.Exec("TRUNCATE outrider_outbox")
		e.Exec(`INSERT INTO outrider_outbox (xid, type, message_group, payload)
			SELECT (10 + floor(random() * 30))::text::xid8, 't', 'g' || i, '1' FROM generate_series(1, 300) AS i`)
		rows, err := e.Pool.Query(e.Ctx, "SELECT slot, position, xid::text::bigint FROM outrider_outbox ORDER BY position")
		pgtest.Must(t, err)
		all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (x row, err error) {
			err = r.Scan(&x.slot, &x.position, &x.xid)
			return x, err
		})
		pgtest.Must(t, err)
		routes := make([]adapters.RouteCursors, 1+random.IntN(3))
		for i := range routes {
			for slot := range routes[i].Cursors {
				if random.IntN(20) == 0 {
					continue
				}
				snap := reader.Snapshot{Xmax: 10 + uint64(random.IntN(35))}
				for xid := uint64(10); xid < snap.Xmax; xid++ {
					if random.IntN(8) == 0 {
						snap.Xip = append(snap.Xip, xid)
					}
				}
				routes[i].Cursors[slot] = &adapters.Cursor{Snapshot: snap.Text(),
					Position: all[random.IntN(len(all))].position, Base: all[0].position + int64(random.IntN(60)) - 30}
			}
		}
		covers, err := retention.Covers(routes)
		pgtest.Must(t, err)
		var want []int64
		for _, r := range all {
			if !covers[r.slot].Has(r.position, r.xid) {
				want = append(want, r.position)
			}
		}
		e.retain(e.src, everything, routes...)
		rows, err = e.Pool.Query(e.Ctx, "SELECT position FROM outrider_outbox ORDER BY position")
		pgtest.Must(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		pgtest.Must(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: left are %v, the model says %v", round, got, want)
		}
	}
}

// A cursor that is ahead of the database says that it was restored: positions
// below it are drawn a second time, and those rows are delivered to nobody yet.
func TestG1_RetentionStopsWhereTheDatabaseIsBehind(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	tail := e.Lanes(e.src, adapters.StartBeginning, 10)
	ahead := tail.Settled("restored")
	ahead.Cursors[5].Position = 2
	for range 2 { // also when the database has caught up
		insert(t, e.Pool, "g", "x")
		_, err := e.src.Retain(e.Ctx, everything, []adapters.RouteCursors{ahead, tail.Settled("r")})
		pgtest.WantError(t, err, "behind the cursor of route \"restored\"", "outrider rebase restored")
	}
	ahead.Cursors[5].Position = 1
	if _, err := e.src.Retain(e.Ctx, everything, []adapters.RouteCursors{ahead}); err != nil {
		t.Errorf("after it was placed anew: %v", err)
	}
	newer := tail.Settled("newer")
	newer.Cursors[5].Snapshot = "900000000:900000000:"
	_, err := e.src.Retain(e.Ctx, everything, []adapters.RouteCursors{newer})
	pgtest.WantError(t, err, "behind the cursor of route \"newer\"")
}

func TestRetentionSaysWhatItMayNot(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	role, as := e.Role()
	e.Exec("GRANT SELECT ON outrider_outbox, outrider_outbox_position_seq TO " + role)
	src := e.source(as)
	pgtest.Must(t, src.Check(e.Ctx))
	pgtest.WantError(t, src.CheckRetention(e.Ctx, everything), "GRANT DELETE ON \"public\".\"outrider_outbox\" TO")
	parts := adapters.Retention{Mode: adapters.RetainPartitions}
	pgtest.WantError(t, src.CheckRetention(e.Ctx, parts), "it has no partitions")
	pgtest.WantError(t, src.CheckRetention(e.Ctx, adapters.Retention{Mode: "burn"}), "neither delete nor partitions")
	e.Exec("GRANT DELETE ON outrider_outbox TO " + role)
	pgtest.Must(t, src.CheckRetention(e.Ctx, everything))

	e.Exec("DROP TABLE outrider_outbox")
	_, err := owntable.InitPartitioned(e.Ctx, e.Pool, "", 100)
	pgtest.Must(t, err)
	pgtest.WantError(t, src.CheckRetention(e.Ctx, parts), `GRANT "postgres" TO`, "or connect as the owner")
	pgtest.Must(t, e.src.CheckRetention(e.Ctx, parts))
	pgtest.Must(t, e.src.CheckRetention(e.Ctx, everything))
}
