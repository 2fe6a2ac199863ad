package retention_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/retention"
)

// wholePartitions drops whatever is covered.
var wholePartitions = adapters.Retention{Mode: adapters.RetainPartitions, Batch: 64, PartitionRows: 10}

// newPartitionedEnv is newSourceEnv with a table in partitions.
func newPartitionedEnv(t testing.TB, rows int64) *sourceEnv {
	t.Helper()
	e := newSourceEnv(t)
	e.Exec("DROP TABLE outrider_outbox")
	_, err := owntable.InitPartitioned(e.Ctx, e.Pool, "", rows)
	pgtest.Must(t, err)
	return e
}

// lows returns where the table's partitions begin.
func (e *sourceEnv) lows() []int64 {
	e.T.Helper()
	lows, rest, err := retention.Lows(e.Ctx, e.Pool, "outrider_outbox")
	pgtest.Must(e.T, err)
	if !rest {
		e.T.Error("there is no default partition")
	}
	return lows
}

func (e *sourceEnv) wantLows(want ...int64) {
	e.T.Helper()
	if got := e.lows(); !slices.Equal(got, want) {
		e.T.Errorf("partitions begin at %v, want %v", got, want)
	}
}

// stray counts the rows of the default partition.
func (e *sourceEnv) stray() (n int) {
	e.T.Helper()
	pgtest.Must(e.T, e.Pool.QueryRow(e.Ctx, "SELECT count(*) FROM outrider_outbox_rest").Scan(&n))
	return n
}

func TestInitMakesPartitionsOnce(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	pgtest.Must(t, e.src.Check(e.Ctx))
	e.wantLows(0, 10, 20, 30)
	e.Exec("DROP TABLE outrider_outbox_p0")
	did, err := owntable.InitPartitioned(e.Ctx, e.Pool, "", 10)
	if err != nil || strings.Join(did, "; ") != `table "public"."outrider_outbox" exists; index "public"."outrider_outbox_slot_xid_position_idx" exists` {
		t.Errorf("again: %v, %v", did, err)
	}
	e.wantLows(10, 20, 30)
	_, err = owntable.Init(e.Ctx, e.Pool, "plain")
	pgtest.Must(t, err)
	_, err = owntable.InitPartitioned(e.Ctx, e.Pool, "plain", 10)
	pgtest.WantError(t, err, "exists without partitions")

	e.Exec("CREATE SCHEMA other")
	e.Exec(owntable.InitPartitionedSQL("other.events", 1000))
	_, err = owntable.InitPartitioned(e.Ctx, e.Pool, "other.events", 1000)
	pgtest.Must(t, err)
	var n int
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT count(*) FROM pg_partition_tree('other.events') WHERE isleaf").Scan(&n))
	if n != 5 {
		t.Errorf("the printed SQL makes %d partitions, want 5", n)
	}
}

// Positions are always ahead of need, and making partitions makes nobody wait: a
// transaction that has written stays open all the while.
func TestPartitionsAreMadeAheadBesideOpenTransactions(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	open := e.Begin()
	insert(t, open, "g", "open")
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	for i := range 100 {
		insert(t, e.Pool, fmt.Sprint("g", i), "x")
		if i%5 == 0 {
			step, err := e.src.Retain(e.Ctx, wholePartitions, []adapters.RouteCursors{tail.Settled("r")})
			pgtest.Must(t, err)
			if step.Stray != 0 || step.Ahead < 3*10 {
				t.Fatalf("after %d rows: %+v", i, step)
			}
			insert(t, open, "g", "open")
		}
	}
	pgtest.Must(t, open.Commit(e.Ctx))
	if got := len(tail.Drain(t)); got != 121 {
		t.Errorf("%d rows were read", got)
	}
}

func TestG1_PartitionsGoOnlyWhenCovered(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	late := e.Begin()
	insert(t, late, "g", "late") // position 1
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	for i := range 28 { // up to position 29
		insert(t, e.Pool, fmt.Sprint("g", i), "x")
	}
	slow := tail.Settled("slow")
	tail.Drain(t)
	if did := e.retain(e.src, wholePartitions, tail.Settled("r"), slow); did.Partitions != 0 || did.Held["slow"] == 0 || did.Held["r"] != 0 {
		t.Errorf("held back by %v, dropped %d", did.Held, did.Partitions)
	}
	e.wantLows(0, 10, 20, 30, 40, 50, 60)

	// The first partition is covered as far as anybody can see, and so is the
	// second; of the third the positions have not all been drawn.
	did := e.retain(e.src, wholePartitions, tail.Settled("r"))
	if did.Waiting != 2 || did.InTheWay == "" || did.Partitions != 0 {
		t.Errorf("beside a transaction that may have rows in it: %+v", did)
	}
	pgtest.Must(t, late.Commit(e.Ctx))
	if did = e.retain(e.src, wholePartitions, tail.Settled("r")); did.Partitions != 1 || did.Held["r"] == 0 {
		t.Errorf("after the late commit: %+v", did)
	}
	e.wantLows(0, 20, 30, 40, 50, 60)
	if got := tail.Drain(t); !slices.Equal(got, []string{"late"}) {
		t.Errorf("delivered %v, want the late row", got)
	}
	if did = e.retain(e.src, wholePartitions, tail.Settled("r")); did.Partitions != 1 || did.Held != nil {
		t.Errorf("after the late row was delivered: %+v", did)
	}
	e.wantLows(20, 30, 40, 50, 60)
	e.retain(e.src, everything, tail.Settled("r")) // rows can go one by one as well
	e.wantLeft()
}

// A row that becomes visible between the look at a partition and its lock is
// found under the lock.
func TestG1_PartitionsAreLookedAtAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	late := e.Begin()
	insert(t, late, "g", "late")
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	for i := range 15 {
		insert(t, e.Pool, fmt.Sprint("g", i), "x")
	}
	tail.Drain(t)
	dropped, err := e.src.DropFirst(e.Ctx, wholePartitions, []adapters.RouteCursors{tail.Settled("r")}, 16, func(free int) {
		if free != 1 {
			t.Fatal("the partition does not look as if it could go, so the test shows nothing")
		}
		pgtest.Must(t, late.Commit(e.Ctx))
	})
	pgtest.Must(t, err)
	if dropped > 0 {
		t.Error("a partition was dropped with a row that was not delivered")
	}
	if got := tail.Drain(t); !slices.Equal(got, []string{"late"}) {
		t.Errorf("delivered %v, want the late row", got)
	}
}

// While no retention runs, rows run past the last partition: they are published
// and read all the same, and partitions are made again behind them.
func TestRowsWithoutAPartitionAreKeptAndRemovedOneByOne(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	for i := range 100 {
		insert(t, e.Pool, fmt.Sprint("g", i), "x")
	}
	if e.stray() == 0 {
		t.Fatal("no row is in the default partition, so the test shows nothing")
	}
	before := tail.Settled("r")
	if step, err := e.src.Retain(e.Ctx, wholePartitions, []adapters.RouteCursors{before}); err != nil || step.Stray != 61 {
		t.Errorf("%+v, %v; want 61 rows without a partition", step, err)
	}
	e.wantLows(0, 10, 20, 30, 101, 111, 121, 131)
	if got := len(tail.Drain(t)); got != 100 {
		t.Errorf("%d rows were read", got)
	}
	for i := range 40 {
		insert(t, e.Pool, fmt.Sprint("g", i), "x")
	}
	did := e.retain(e.src, wholePartitions, tail.Settled("r"))
	if did.Partitions != 4 || did.Rows != 61 {
		t.Errorf("removed %d partitions and %d rows, want 4 and 61", did.Partitions, did.Rows)
	}
	if got := len(tail.Drain(t)); got != 40 {
		t.Errorf("%d more rows were read, want 40", got)
	}
	e.retain(e.src, wholePartitions, tail.Settled("r"))
	if e.stray() != 0 {
		t.Errorf("%d rows are left in the default partition", e.stray())
	}
}

// The floor rises behind the transactions that write, not beyond them, and spares
// reads the old partitions.
func TestFloorWaitsForWriters(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	sink := func() int64 {
		floor, err := e.src.Sink(e.Ctx)
		pgtest.Must(t, err)
		return floor
	}
	insert(t, e.Pool, "g", "x")
	if got := sink(); got != 1 {
		t.Errorf("without writers the floor is %d, want 1", got)
	}
	first := e.Begin()
	insert(t, first, "g", "late") // 2
	insert(t, e.Pool, "g", "x")   // 3
	if got := sink() + sink(); got != 2 {
		t.Errorf("beside a writer the floor rose to %d", got)
	}
	second := e.Begin()
	insert(t, second, "g", "late") // 4
	tail.Drain(t)
	pgtest.Must(t, first.Commit(e.Ctx))
	insert(t, e.Pool, "g", "x") // 5
	if got := sink(); got != 3 {
		t.Errorf("when the writers of then have ended the floor is %d, want 3", got)
	}
	if got := tail.Drain(t); !slices.Equal(got, []string{"late", "x"}) {
		t.Errorf("a cursor from before the floor reads %v", got)
	}
	pgtest.Must(t, second.Commit(e.Ctx))
	if got := tail.Drain(t); !slices.Equal(got, []string{"late"}) {
		t.Errorf("a late row above the floor: %v", got)
	}
}

// TestG1_TwoInstancesRemoveTogether: two processes run retention on one table as
// fast as they can.
func TestG1_TwoInstancesRemoveTogether(t *testing.T) {
	t.Parallel()
	large := wholePartitions
	large.PartitionRows = 100
	for _, r := range []adapters.Retention{everything, large} {
		t.Run(string(r.Mode), func(t *testing.T) {
			t.Parallel()
			e := newPartitionedEnv(t, 100)
			tail := e.Lanes(e.src, adapters.StartBeginning, 1000)
			routes := make(chan []adapters.RouteCursors, 2)
			failed := make(chan error, 2)
			for range 2 {
				src := e.source(e.URL)
				go func() { failed <- retainAlways(e.Ctx, src, r, routes) }()
			}
			delivered := 0
			for i := range 400 {
				insert(t, e.Pool, fmt.Sprint("g", i), "x")
				if i%20 == 19 {
					delivered += len(tail.Drain(t))
					routes <- []adapters.RouteCursors{tail.Settled("r")}
				}
			}
			close(routes)
			for range 2 {
				pgtest.Must(t, <-failed)
			}
			if delivered != 400 {
				t.Errorf("%d rows were delivered, want 400", delivered)
			}
			e.retain(e.src, r, tail.Settled("r"))
			if left := len(e.left()); r.Mode == adapters.RetainRows && left > 0 || left > 200 {
				t.Errorf("%d rows are left", left)
			}
		})
	}
}

// retainAlways takes steps for all the cursors that come.
func retainAlways(ctx context.Context, src *owntable.Source, r adapters.Retention, routes <-chan []adapters.RouteCursors) error {
	for settled := range routes {
		for range 3 {
			if _, err := src.Retain(ctx, r, settled); err != nil {
				return err
			}
		}
	}
	return nil
}

// While somebody writes, nothing is attached where his statement may come to: a row
// has a home in the default partition, and must not lose it. A statement that is
// slow, and draws its positions up to the end of the last partition and past it, ends
// well; so does a pass that wants to make partitions meanwhile.
func TestG1_AttachingFailsNoInsert(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10_000)
	r := wholePartitions
	r.PartitionRows = 10_000
	e.Exec("SELECT setval(pg_get_serial_sequence('outrider_outbox', 'position'), 39994)")
	// The statement has begun, and drawn some of its positions, when it comes to the lock.
	e.Exec(`CREATE FUNCTION slow(n int) RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN IF n = 4 THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN 'x'; END $$`)
	gate, err := e.Pool.Acquire(e.Ctx)
	pgtest.Must(t, err)
	defer gate.Release()
	_, err = gate.Exec(e.Ctx, "SELECT pg_advisory_lock(4711)")
	pgtest.Must(t, err)
	inserted := make(chan error, 1)
	go func() {
		_, err := e.Pool.Exec(e.Ctx, "INSERT INTO outrider_outbox (type, payload) SELECT slow(i), '{}' FROM generate_series(1, 20) i")
		inserted <- err
	}()
	for waits := false; !waits; {
		pgtest.Must(t, e.Pool.QueryRow(e.Ctx, `SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waits))
	}
	_, err = e.src.Retain(e.Ctx, r, nil)
	pgtest.Must(t, err)
	_, err = gate.Exec(e.Ctx, "SELECT pg_advisory_unlock(4711)")
	pgtest.Must(t, err)
	if err := <-inserted; err != nil {
		t.Errorf("a statement failed because a partition was attached: %v", err)
	}
	// Now that nobody writes, the next one begins right behind the last position.
	_, err = e.src.Retain(e.Ctx, r, nil)
	pgtest.Must(t, err)
	insert(t, e.Pool, "g", "x")
	if n := e.stray(); n != 15 {
		t.Errorf("%d rows are in the default partition, want those 15 that were written while there was no other", n)
	}
}

// While transactions of 300 ms continue without a gap, partitions are dropped, within a
// number of tries in which it would not happen by chance. Publishers are then left alone
// for a while.
func TestG1_PartitionsGoUnderOrdinaryLoad(t *testing.T) {
	t.Parallel()
	const writers, tries = 8, 30
	e := newPartitionedEnv(t, 10)
	cfg := e.Pool.Config()
	cfg.MaxConns = writers
	pool, err := pgxpool.NewWithConfig(e.Ctx, cfg)
	pgtest.Must(t, err)
	defer pool.Close()
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	for i := range 35 {
		insert(t, e.Pool, fmt.Sprint("g", i), "x")
	}
	tail.Drain(t)
	ctx, cancel := context.WithCancel(e.Ctx)
	var writing, started sync.WaitGroup
	started.Add(writers)
	for range writers {
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := pool.Exec(e.Ctx, "BEGIN; INSERT INTO outrider_outbox (type, payload) VALUES ('t', '1'); SELECT pg_sleep(0.3); COMMIT",
					pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Error(err)
				}
				if n == 0 {
					started.Done()
				}
			}
		})
	}
	started.Wait()
	routes := []adapters.RouteCursors{tail.Settled("r")}
	var step adapters.Retained
	for i := 0; i < tries && step.Partitions == 0; i++ {
		e.src.Rewind() // a test has no publishers to spare
		step, err = e.src.Retain(e.Ctx, wholePartitions, routes)
		pgtest.Must(t, err)
	}
	if step.Partitions != 3 {
		t.Errorf("beside ordinary transactions: %+v, want 3 partitions dropped", step)
	}
	if time.Until(e.src.Unlocked()) <= 0 {
		t.Error("publishers may be made to wait again at once")
	}
	cancel()
	writing.Wait()
}
