package retention_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/testenv"
)

// TestG1_RetentionUnderStress runs retention as fast as it can, with nothing kept,
// beside writers whose transactions commit out of order, a reader that settles
// some of what it got and resumes there, and a route that lags behind. Every
// committed row must come to both, once and in order.
func TestG1_RetentionUnderStress(t *testing.T) {
	t.Parallel()
	for _, r := range []adapters.Retention{
		{Mode: adapters.RetainRows, Batch: 160},
		{Mode: adapters.RetainPartitions, Batch: 160, PartitionRows: 1000},
	} {
		t.Run(string(r.Mode), func(t *testing.T) {
			t.Parallel()
			e := newSourceEnv(t)
			if r.Mode == adapters.RetainPartitions {
				e = newPartitionedEnv(t, r.PartitionRows)
			}
			e.Exec("CREATE TABLE last_version (message_group text PRIMARY KEY, version int NOT NULL)")
			stressRetention(t, e, r)
		})
	}
}

// writeCounted writes the next version of a group, whose last one is kept beside
// the outbox because its rows go. The counter's row is the group's lock.
func writeCounted(ctx context.Context, tx pgx.Tx, group int) error {
	_, err := tx.Exec(ctx, `
WITH next AS (
    INSERT INTO last_version AS l VALUES ($1, 1)
    ON CONFLICT (message_group) DO UPDATE SET version = l.version + 1 RETURNING version
)
INSERT INTO outrider_outbox (type, message_group, payload) SELECT 't', $1, to_json(version::text) FROM next`,
		fmt.Sprint("g", group))
	return err
}

// progressBoard is where the readers say how far they have settled.
type progressBoard struct {
	mu      sync.Mutex
	routes  [2]adapters.RouteCursors
	ended   bool
	removed atomic.Bool    // something was
	late    [2]atomic.Bool // a route was given a late row
}

func (b *progressBoard) settle(i int, l *pgtest.Lanes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes[i] = l.Settled(fmt.Sprint("route ", i))
}

// shown reports whether what the test is about has happened.
func (b *progressBoard) shown() bool {
	return b.removed.Load() && b.late[0].Load() && b.late[1].Load()
}

func (b *progressBoard) look() ([]adapters.RouteCursors, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return []adapters.RouteCursors{b.routes[0], b.routes[1]}, b.ended
}

func stressRetention(t *testing.T, e *sourceEnv, r adapters.Retention) {
	t.Helper()
	second := e.source(e.URL)
	tails := [2]*pgtest.Lanes{e.Lanes(e.src, adapters.StartBeginning, 3), e.Lanes(second, adapters.StartBeginning, 40)}
	board := &progressBoard{}
	for i, tail := range tails {
		board.settle(i, tail)
	}
	var failed, removing error
	var removed adapters.Retained
	writers, done := &pgtest.StressWriters{E: e.Env, Write: writeCounted, Enough: board.shown}, make(chan struct{})
	var writing, retention sync.WaitGroup
	writing.Go(func() { failed = writers.Run(e.Ctx, 12, testenv.Brief(25, 60)); close(done) })
	retention.Go(func() { removed, removing = retainUntilEnd(e.Ctx, [2]*owntable.Source{e.src, second}, r, board) })
	random, lags := rand.New(rand.NewPCG(8, 9)), true
	checks := [2]*pgtest.StressChecker{pgtest.NewStressChecker(), pgtest.NewStressChecker()}
	for idle := 0; idle < 2; {
		idle++
		over := pgtest.Ended(done)
		for i, tail := range tails {
			if i == 1 && !over {
				if lags = lags != (random.IntN(20) == 0); lags { // and catches up from time to time: only then rows are late for it
					continue
				}
			}
			before := tail.From
			rows, drained, err := tail.Next(e.Ctx, nil)
			pgtest.Must(t, err)
			if random.IntN(10) == 0 {
				rows, drained = pgtest.SettleSome(random, tail, before, rows), false
			}
			for _, row := range rows {
				checks[i].Deliver(row)
				if row.Late {
					board.late[i].Store(true)
				}
			}
			board.settle(i, tail)
			if !over || !drained || len(rows) > 0 {
				idle = 0
			}
		}
	}
	writing.Wait()
	board.mu.Lock()
	board.ended = true
	board.mu.Unlock()
	retention.Wait()
	pgtest.Must(t, failed)
	pgtest.Must(t, removing)
	for i := range checks {
		checks[i].Verdict(t, fmt.Sprint("route ", i), writers.Committed.Load())
	}
	var most, left int
	if r.Mode == adapters.RetainPartitions {
		most = 2 * int(r.PartitionRows)
	}
	// Autovacuum may be at work in a partition, which is left for later then.
	for end := time.Now().Add(time.Minute); ; {
		e.src.Rewind()
		e.retain(e.src, r, tails[0].Settled("0"), tails[1].Settled("1"))
		if left = len(e.left()); left <= most || time.Now().After(end) {
			break
		}
	}
	t.Logf("removed while they wrote: %d rows, %d partitions; left at the end: %d rows", removed.Rows, removed.Partitions, left)
	if removed.Rows == 0 && removed.Partitions == 0 {
		t.Error("nothing was removed while they wrote, so the test has shown nothing")
	}
	if left > most {
		t.Errorf("%d rows are left, want at most %d", left, most)
	}
}

// retainUntilEnd takes steps by two sources in turn, beginning at the first row
// each time, until the board says that it is over.
func retainUntilEnd(ctx context.Context, sources [2]*owntable.Source, r adapters.Retention, board *progressBoard) (sum adapters.Retained, err error) {
	for i := 0; ; i++ {
		routes, over := board.look()
		if over {
			return sum, nil
		}
		src := sources[i%2]
		src.Rewind()
		step, err := src.Retain(ctx, r, routes)
		if err != nil {
			return sum, err
		}
		sum.Rows, sum.Partitions = sum.Rows+step.Rows, sum.Partitions+step.Partitions
		if sum.Rows > 0 || sum.Partitions > 0 {
			board.removed.Store(true)
		}
	}
}
