package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// wholePartitions drops whatever is covered.
var wholePartitions = outbox.Retention{Mode: outbox.RetainPartitions, Batch: 64, PartitionRows: 10}

// newPartitionedEnv is newSourceEnv with a table in partitions.
func newPartitionedEnv(t testing.TB, rows int64) *sourceEnv {
	t.Helper()
	e := newSourceEnv(t)
	e.exec("DROP TABLE outrider_outbox")
	_, err := InitPartitioned(e.ctx, e.pool, "", rows)
	must(t, err)
	return e
}

// lows returns where the table's partitions begin.
func (e *sourceEnv) lows() (lows []int64) {
	e.t.Helper()
	all, err := listPartitions(e.ctx, e.pool, "outrider_outbox")
	must(e.t, err)
	if all.rest == nil {
		e.t.Error("there is no default partition")
	}
	for _, p := range all.ranges {
		lows = append(lows, p.low)
	}
	return lows
}

func (e *sourceEnv) wantLows(want ...int64) {
	e.t.Helper()
	if got := e.lows(); !slices.Equal(got, want) {
		e.t.Errorf("partitions begin at %v, want %v", got, want)
	}
}

// stray counts the rows of the default partition.
func (e *sourceEnv) stray() (n int) {
	e.t.Helper()
	must(e.t, e.pool.QueryRow(e.ctx, "SELECT count(*) FROM outrider_outbox_rest").Scan(&n))
	return n
}

func TestInitMakesPartitionsOnce(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	must(t, e.src.Check(e.ctx))
	e.wantLows(0, 10, 20, 30)
	e.exec("DROP TABLE outrider_outbox_p0")
	did, err := InitPartitioned(e.ctx, e.pool, "", 10)
	if err != nil || strings.Join(did, "; ") != `table "outrider_outbox" exists; index "outrider_outbox_slot_xid_position_idx" exists` {
		t.Errorf("again: %v, %v", did, err)
	}
	e.wantLows(10, 20, 30)
	_, err = Init(e.ctx, e.pool, "plain")
	must(t, err)
	_, err = InitPartitioned(e.ctx, e.pool, "plain", 10)
	wantProblem(t, err, "exists without partitions")

	e.exec("CREATE SCHEMA other")
	e.exec(InitPartitionedSQL("other.events", 1000))
	_, err = InitPartitioned(e.ctx, e.pool, "other.events", 1000)
	must(t, err)
	var n int
	must(t, e.pool.QueryRow(e.ctx, "SELECT count(*) FROM pg_partition_tree('other.events') WHERE isleaf").Scan(&n))
	if n != 5 {
		t.Errorf("the printed SQL makes %d partitions, want 5", n)
	}
}

// Positions are always ahead of need, and making partitions makes nobody wait: a
// transaction that has written stays open all the while.
func TestPartitionsAreMadeAheadBesideOpenTransactions(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	open := e.begin()
	insert(t, open, "g", "open")
	tail := e.lanes(e.src, outbox.StartBeginning, 100)
	for i := range 100 {
		insert(t, e.pool, fmt.Sprint("g", i), "x")
		if i%5 == 0 {
			step, err := e.src.Retain(e.ctx, wholePartitions, []outbox.RouteCursors{tail.settled("r")})
			must(t, err)
			if step.Stray != 0 || step.Ahead < 3*10 {
				t.Fatalf("after %d rows: %+v", i, step)
			}
			insert(t, open, "g", "open")
		}
	}
	must(t, open.Commit(e.ctx))
	if got := len(tail.drain(t)); got != 121 {
		t.Errorf("%d rows were read", got)
	}
}

func TestG1_PartitionsGoOnlyWhenCovered(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	late := e.begin()
	insert(t, late, "g", "late") // position 1
	tail := e.lanes(e.src, outbox.StartBeginning, 100)
	for i := range 28 { // up to position 29
		insert(t, e.pool, fmt.Sprint("g", i), "x")
	}
	slow := tail.settled("slow")
	tail.drain(t)
	if did := e.retain(e.src, wholePartitions, tail.settled("r"), slow); did.Partitions != 0 || did.Held["slow"] == 0 || did.Held["r"] != 0 {
		t.Errorf("held back by %v, dropped %d", did.Held, did.Partitions)
	}
	e.wantLows(0, 10, 20, 30, 40, 50, 60)

	// The first partition is covered as far as anybody can see, and so is the
	// second; of the third the positions have not all been drawn.
	did := e.retain(e.src, wholePartitions, tail.settled("r"))
	if !did.Busy || did.Partitions != 0 {
		t.Errorf("beside a transaction that may have rows in it: %+v", did)
	}
	must(t, late.Commit(e.ctx))
	if did = e.retain(e.src, wholePartitions, tail.settled("r")); did.Partitions != 1 || did.Held["r"] == 0 {
		t.Errorf("after the late commit: %+v", did)
	}
	e.wantLows(0, 20, 30, 40, 50, 60)
	if got := tail.drain(t); !slices.Equal(got, []string{"late"}) {
		t.Errorf("delivered %v, want the late row", got)
	}
	if did = e.retain(e.src, wholePartitions, tail.settled("r")); did.Partitions != 1 || did.Held != nil {
		t.Errorf("after the late row was delivered: %+v", did)
	}
	e.wantLows(20, 30, 40, 50, 60)
	e.retain(e.src, everything, tail.settled("r")) // rows can go one by one as well
	e.wantLeft()
}

// A row that becomes visible between the look at a partition and its lock is
// found under the lock.
func TestG1_PartitionsAreLookedAtAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	late := e.begin()
	insert(t, late, "g", "late")
	tail := e.lanes(e.src, outbox.StartBeginning, 100)
	for i := range 15 {
		insert(t, e.pool, fmt.Sprint("g", i), "x")
	}
	tail.drain(t)
	routes := []outbox.RouteCursors{tail.settled("r")}
	covers, err := meetAll(routes)
	must(t, err)
	p := pass{s: e.src, Retention: wholePartitions, routes: routes, covers: covers}
	all, err := listPartitions(e.ctx, e.pool, "outrider_outbox")
	must(t, err)
	first := all.ranges[0]
	may, young, err := p.mayGo(e.ctx, first)
	if must(t, err); !may || young {
		t.Fatal("the partition does not look as if it could go, so the test shows nothing")
	}
	must(t, late.Commit(e.ctx))
	dropped, err := p.drop(e.ctx, first)
	if must(t, err); dropped {
		t.Error("a partition was dropped with a row that nobody has delivered")
	}
	if got := tail.drain(t); !slices.Equal(got, []string{"late"}) {
		t.Errorf("delivered %v, want the late row", got)
	}
}

// While no retention runs, rows run past the last partition: they are published
// and read all the same, and partitions are made again behind them.
func TestRowsWithoutAPartitionAreKeptAndRemovedOneByOne(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	tail := e.lanes(e.src, outbox.StartBeginning, 100)
	for i := range 100 {
		insert(t, e.pool, fmt.Sprint("g", i), "x")
	}
	if e.stray() == 0 {
		t.Fatal("no row is in the default partition, so the test shows nothing")
	}
	before := tail.settled("r")
	if step, err := e.src.Retain(e.ctx, wholePartitions, []outbox.RouteCursors{before}); err != nil || step.Stray != 61 {
		t.Errorf("%+v, %v; want 61 rows without a partition", step, err)
	}
	e.wantLows(0, 10, 20, 30, 130)
	if got := len(tail.drain(t)); got != 100 {
		t.Errorf("%d rows were read", got)
	}
	for i := range 40 {
		insert(t, e.pool, fmt.Sprint("g", i), "x")
	}
	did := e.retain(e.src, wholePartitions, tail.settled("r"))
	if did.Partitions != 4 || did.Rows != 61 {
		t.Errorf("removed %d partitions and %d rows, want 4 and 61", did.Partitions, did.Rows)
	}
	if got := len(tail.drain(t)); got != 40 {
		t.Errorf("%d more rows were read, want 40", got)
	}
	e.retain(e.src, wholePartitions, tail.settled("r"))
	if e.stray() != 0 {
		t.Errorf("%d rows are left in the default partition", e.stray())
	}
}

// The floor rises behind the transactions that write, not beyond them, and spares
// reads the old partitions.
func TestFloorWaitsForWriters(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	tail := e.lanes(e.src, outbox.StartBeginning, 100)
	sink := func() int64 {
		must(t, (&pass{s: e.src}).sink(e.ctx))
		if f := e.src.floor.Load(); f != nil {
			return f.position
		}
		return 0
	}
	insert(t, e.pool, "g", "x")
	if got := sink(); got != 1 {
		t.Errorf("without writers the floor is %d, want 1", got)
	}
	first := e.begin()
	insert(t, first, "g", "late") // 2
	insert(t, e.pool, "g", "x")   // 3
	if got := sink() + sink(); got != 2 {
		t.Errorf("beside a writer the floor rose to %d", got)
	}
	second := e.begin()
	insert(t, second, "g", "late") // 4
	tail.drain(t)
	must(t, first.Commit(e.ctx))
	insert(t, e.pool, "g", "x") // 5
	if got := sink(); got != 3 {
		t.Errorf("when the writers of then have ended the floor is %d, want 3", got)
	}
	if got := tail.drain(t); !slices.Equal(got, []string{"late", "x"}) {
		t.Errorf("a cursor from before the floor reads %v", got)
	}
	must(t, second.Commit(e.ctx))
	if got := tail.drain(t); !slices.Equal(got, []string{"late"}) {
		t.Errorf("a late row above the floor: %v", got)
	}
}

// TestG1_TwoInstancesRemoveTogether: two processes run retention on one table as
// fast as they can.
func TestG1_TwoInstancesRemoveTogether(t *testing.T) {
	t.Parallel()
	large := wholePartitions
	large.PartitionRows = 100
	for _, r := range []outbox.Retention{everything, large} {
		t.Run(string(r.Mode), func(t *testing.T) {
			t.Parallel()
			e := newPartitionedEnv(t, 100)
			tail := e.lanes(e.src, outbox.StartBeginning, 1000)
			routes := make(chan []outbox.RouteCursors, 2)
			failed := make(chan error, 2)
			for range 2 {
				src := e.source(e.url, "")
				go func() { failed <- retainAlways(e.ctx, src, r, routes) }()
			}
			delivered := 0
			for i := range 400 {
				insert(t, e.pool, fmt.Sprint("g", i), "x")
				if i%20 == 19 {
					delivered += len(tail.drain(t))
					routes <- []outbox.RouteCursors{tail.settled("r")}
				}
			}
			close(routes)
			for range 2 {
				must(t, <-failed)
			}
			if delivered != 400 {
				t.Errorf("%d rows were delivered, want 400", delivered)
			}
			e.retain(e.src, r, tail.settled("r"))
			if left := len(e.left()); r.Mode == outbox.RetainRows && left > 0 || left > 200 {
				t.Errorf("%d rows are left", left)
			}
		})
	}
}

// retainAlways takes steps for all the cursors that come.
func retainAlways(ctx context.Context, src *Source, r outbox.Retention, routes <-chan []outbox.RouteCursors) error {
	for settled := range routes {
		for range 3 {
			if _, err := src.Retain(ctx, r, settled); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestMissingPartitions(t *testing.T) {
	t.Parallel()
	parts := func(bounds ...int64) (p partitions) {
		for _, low := range bounds {
			p.ranges = append(p.ranges, partition{low: low, high: low + 10})
		}
		return p
	}
	for name, tt := range map[string]struct {
		have partitions
		last int64
		want [][2]int64
	}{
		"new":                    {parts(), 0, [][2]int64{{0, 10}, {10, 20}, {20, 30}, {30, 40}}},
		"enough":                 {parts(0, 10, 20, 30), 0, nil},
		"one more":               {parts(0, 10, 20, 30), 1, [][2]int64{{40, 50}}},
		"all dropped":            {parts(), 57, [][2]int64{{80, 90}, {90, 100}}},
		"run past":               {parts(0, 10), 25, [][2]int64{{50, 60}, {60, 70}}},
		"at the very end":        {parts(0, 10), 20, [][2]int64{{50, 60}}},
		"at the last position":   {parts(10, 20), 29, [][2]int64{{30, 40}, {40, 50}, {50, 60}, {60, 70}}},
		"others before the last": {parts(0, 30), 12, [][2]int64{{40, 50}, {50, 60}}},
	} {
		if got := tt.have.missing(tt.last, 10); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
