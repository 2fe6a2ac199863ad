package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// stressWriters commit rows of groups in versions that count up by one. They
// hold transactions open, some of them with an id before the first row, and
// roll one in ten back.
type stressWriters struct {
	e         *testEnv
	write     func(ctx context.Context, tx pgx.Tx, group int) error
	enough    func() bool // they go on until it holds, for a minute at most. Default: it does
	committed atomic.Int64
}

func (w *stressWriters) run(ctx context.Context, writers, transactions int) error {
	group, ctx := errgroup.WithContext(ctx)
	patience := time.Now().Add(time.Minute)
	for i := range writers {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for n := 0; n < transactions || w.enough != nil && !w.enough() && time.Now().Before(patience); n++ {
				if err := w.transaction(ctx, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// transaction writes rows of up to three groups, more of one now and then, so
// that late rows of one slot fill pages.
func (w *stressWriters) transaction(ctx context.Context, r *rand.Rand) error {
	tx, err := w.e.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if r.IntN(3) == 0 {
		if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
			return err
		}
		keepOpen(r, 40)
	}
	count := int64(0)
	first := r.IntN(60)
	for group := first; group <= first+r.IntN(3); group++ {
		rows := 1
		if r.IntN(4) == 0 {
			rows = 8
		}
		for range rows {
			if err := w.write(ctx, tx, group); err != nil {
				return err
			}
			count++
		}
		if r.IntN(4) == 0 {
			keepOpen(r, 30)
		}
	}
	if r.IntN(10) == 0 {
		return nil
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.committed.Add(count)
	return nil
}

// rest gives the writers a moment after a read that found nothing, as a relay
// does: a reader that asks without a pause takes the processor from them.
func rest(rows []*outbox.Row) {
	if len(rows) == 0 {
		<-time.After(time.Millisecond)
	}
}

// keepOpen keeps a transaction open for a while: it is the load, nothing waits for it.
func keepOpen(r *rand.Rand, ms int) { time.Sleep(time.Duration(r.IntN(ms)) * time.Millisecond) }

// stressChecker judges deliveries.
type stressChecker struct {
	seen     map[int64]bool
	versions map[string]int

	rows, late, inversions, duplicates int
}

func newStressChecker() *stressChecker {
	return &stressChecker{seen: map[int64]bool{}, versions: map[string]int{}}
}

func (c *stressChecker) deliver(row *outbox.Row) {
	var version int
	_, _ = fmt.Sscanf(string(row.Payload), `"%d"`, &version)
	if c.seen[row.Position] {
		c.duplicates++
	}
	if version != c.versions[row.Group]+1 {
		c.inversions++
	}
	if row.Late {
		c.late++
	}
	c.seen[row.Position] = true
	c.versions[row.Group] = version
	c.rows++
}

func (c *stressChecker) verdict(t *testing.T, who string, committed int64) {
	t.Helper()
	t.Logf("%s: committed=%d rows=%d late=%d duplicates=%d inversions=%d", who, committed, c.rows, c.late, c.duplicates, c.inversions)
	if lost := int(committed) - len(c.seen); lost != 0 || c.duplicates != 0 || c.inversions != 0 {
		t.Errorf("%s: lost %d, duplicates %d, inversions %d; want none", who, lost, c.duplicates, c.inversions)
	}
	if c.late == 0 {
		t.Errorf("%s: no row was late, so the test has shown nothing", who)
	}
}

func stressCursor(t *testing.T, writers *stressWriters, tail *lanes) {
	t.Helper()
	e, done := writers.e, make(chan struct{})
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = writers.run(e.ctx, 12, testenv.Size(40, 400)); close(done) })
	defer wg.Wait()

	r, check := rand.New(rand.NewPCG(2, 3)), newStressChecker()
	restarts, inWindow := 0, 0
	for idle := 0; idle < 2; {
		over := ended(done)
		before := tail.from
		rows, drained, err := tail.next(e.ctx, nil)
		must(t, err)
		rest(rows)
		if r.IntN(10) == 0 && len(rows) > 0 {
			restarts++
			rows = settleSome(r, tail, before, rows)
		}
		for _, row := range rows {
			check.deliver(row)
		}
		for _, c := range &tail.from {
			if c.Window != "" {
				inWindow++
			}
		}
		if idle++; !over || !drained || len(rows) > 0 {
			idle = 0
		}
	}
	must(t, failed)
	check.verdict(t, "tail", writers.committed.Load())
	t.Logf("restarts %d, reads that left a window open %d", restarts, inWindow)
	if restarts == 0 || inWindow == 0 {
		t.Error("no restarts or no windows, so the test has shown nothing")
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// settleSome keeps a random part of each slot's rows, and sets the slot's
// cursor behind the last one kept.
func settleSome(r *rand.Rand, l *lanes, before [outbox.Slots]outbox.Cursor, rows []*outbox.Row) (kept []*outbox.Row) {
	l.from = before
	var stopped [outbox.Slots]bool
	for _, row := range rows {
		if stopped[row.Slot] = stopped[row.Slot] || r.IntN(3) == 0; stopped[row.Slot] {
			continue
		}
		l.from[row.Slot] = row.After()
		kept = append(kept, row)
	}
	return kept
}

func stressBound(t *testing.T, writers *stressWriters, src outbox.Source) {
	t.Helper()
	e, done := writers.e, make(chan struct{})
	tail, lagging := e.lanes(src, outbox.StartBeginning, 40), e.lanes(src, outbox.StartBeginning, 3)
	lagging.from = tail.from
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = writers.run(e.ctx, 12, testenv.Size(30, 300)); close(done) })
	defer wg.Wait()

	first, second := newStressChecker(), newStressChecker()
	r := rand.New(rand.NewPCG(4, 5))
	for idle := 0; idle < 2; {
		over := ended(done)
		rows, drained, err := tail.next(e.ctx, nil)
		must(t, err)
		rest(rows)
		for _, row := range rows {
			first.deliver(row)
		}
		if idle++; !over || !drained || len(rows) > 0 {
			idle = 0
		}
		if drained && (idle > 0 || r.IntN(4) == 0) {
			reached := catchUp(t, r, lagging, tail.from, second, idle > 0)
			if reached && len(second.seen) != len(first.seen) {
				t.Fatalf("caught up having seen %d rows, the tail has seen %d", len(second.seen), len(first.seen))
			}
		}
	}
	must(t, failed)
	first.verdict(t, "tail", writers.committed.Load())
	second.verdict(t, "lagging", writers.committed.Load())
}

// catchUp reads up to a bound, with restarts. Unless it must reach the bound it
// may give up on the way, so that the next bound finds an older window open.
func catchUp(t *testing.T, r *rand.Rand, l *lanes, until [outbox.Slots]outbox.Cursor, check *stressChecker, insist bool) (reached bool) {
	t.Helper()
	for drained := false; !drained; {
		if !insist && r.IntN(4) == 0 {
			return false
		}
		before := l.from
		rows, all, err := l.next(context.Background(), &until)
		must(t, err)
		if drained = all; r.IntN(10) == 0 {
			rows, drained = settleSome(r, l, before, rows), false
		}
		for _, row := range rows {
			check.deliver(row)
		}
	}
	if l.from != until {
		t.Fatalf("a drained bounded read ended at %v, want the bound %v", l.from, until)
	}
	return true
}
