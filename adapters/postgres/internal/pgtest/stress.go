package pgtest

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

	"github.com/outriderhq/outrider/adapters"
)

// StressWriters commit rows of groups in versions that count up by one. They
// hold transactions open, some of them with an id before the first row, and
// roll one in ten back.
type StressWriters struct {
	E         *Env
	Write     func(ctx context.Context, tx pgx.Tx, group int) error
	Enough    func() bool // they continue until it holds, for a minute at most. Default: it does
	Committed atomic.Int64
}

// Run has so many writers commit so many transactions each.
func (w *StressWriters) Run(ctx context.Context, writers, transactions int) error {
	group, ctx := errgroup.WithContext(ctx)
	patience := time.Now().Add(time.Minute)
	for i := range writers {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for n := 0; n < transactions || w.Enough != nil && !w.Enough() && time.Now().Before(patience); n++ {
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
func (w *StressWriters) transaction(ctx context.Context, r *rand.Rand) error {
	tx, err := w.E.Pool.Begin(ctx)
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
			if err := w.Write(ctx, tx, group); err != nil {
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
	w.Committed.Add(count)
	return nil
}

// Rest gives the writers a moment after a read that found nothing, as a relay
// does: a reader that asks without a pause takes the processor from them.
func Rest(rows []*adapters.Row) {
	if len(rows) == 0 {
		<-time.After(time.Millisecond)
	}
}

// keepOpen keeps a transaction open for a while: it is the load, nothing waits for it.
func keepOpen(r *rand.Rand, ms int) { time.Sleep(time.Duration(r.IntN(ms)) * time.Millisecond) }

// StressChecker judges deliveries.
type StressChecker struct {
	seen     map[int64]bool
	versions map[string]int

	rows, inversions, duplicates int
	late                         atomic.Int64
}

// NewStressChecker returns one that has seen nothing.
func NewStressChecker() *StressChecker {
	return &StressChecker{seen: map[int64]bool{}, versions: map[string]int{}}
}

// Deliver judges one row.
func (c *StressChecker) Deliver(row *adapters.Row) {
	var version int
	_, _ = fmt.Sscanf(string(row.Payload), `"%d"`, &version)
	if c.seen[row.Position] {
		c.duplicates++
	}
	if version != c.versions[row.Group]+1 {
		c.inversions++
	}
	if row.Late {
		c.late.Add(1)
	}
	c.seen[row.Position] = true
	c.versions[row.Group] = version
	c.rows++
}

// Verdict fails the test if a row was lost, came twice or out of order.
func (c *StressChecker) Verdict(t *testing.T, who string, committed int64) {
	t.Helper()
	t.Logf("%s: committed=%d rows=%d late=%d duplicates=%d inversions=%d", who, committed, c.rows, c.late.Load(), c.duplicates, c.inversions)
	if lost := int(committed) - len(c.seen); lost != 0 || c.duplicates != 0 || c.inversions != 0 {
		t.Errorf("%s: lost %d, duplicates %d, inversions %d; want none", who, lost, c.duplicates, c.inversions)
	}
	if c.late.Load() == 0 {
		t.Errorf("%s: no row was late, so the test has shown nothing", who)
	}
}

// StressCursor reads beside writers, and forgets now and then what it has read.
func StressCursor(t *testing.T, writers *StressWriters, tail *Lanes) {
	t.Helper()
	e, done := writers.E, make(chan struct{})
	r, check := rand.New(rand.NewPCG(2, 3)), NewStressChecker()
	var restarts, inWindow atomic.Int64
	writers.Enough = func() bool { return restarts.Load() > 0 && inWindow.Load() > 0 && check.late.Load() > 0 }
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = writers.Run(e.Ctx, 12, testenv.Size(40, 400)); close(done) })
	defer wg.Wait()

	for idle := 0; idle < 2; {
		over := Ended(done)
		before := tail.From
		rows, drained, err := tail.Next(e.Ctx, nil)
		Must(t, err)
		Rest(rows)
		if r.IntN(10) == 0 && len(rows) > 0 {
			restarts.Add(1)
			rows, drained = SettleSome(r, tail, before, rows), false
		}
		for _, row := range rows {
			check.Deliver(row)
		}
		for _, c := range &tail.From {
			if c.Window != "" {
				inWindow.Add(1)
			}
		}
		if idle++; !over || !drained || len(rows) > 0 {
			idle = 0
		}
	}
	Must(t, failed)
	check.Verdict(t, "tail", writers.Committed.Load())
	t.Logf("restarts %d, reads that left a window open %d", restarts.Load(), inWindow.Load())
	if restarts.Load() == 0 || inWindow.Load() == 0 {
		t.Error("no restarts or no windows, so the test has shown nothing")
	}
}

// Ended reports whether a channel is closed.
func Ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// SettleSome keeps a random part of each slot's rows, and sets the slot's
// cursor behind the last one kept.
func SettleSome(r *rand.Rand, l *Lanes, before [adapters.Slots]adapters.Cursor, rows []*adapters.Row) (kept []*adapters.Row) {
	l.From = before
	var stopped [adapters.Slots]bool
	for _, row := range rows {
		if stopped[row.Slot] = stopped[row.Slot] || r.IntN(3) == 0; stopped[row.Slot] {
			continue
		}
		l.From[row.Slot] = row.After()
		kept = append(kept, row)
	}
	return kept
}

// StressBound lets a second reader fall behind and catch up, again and again.
func StressBound(t *testing.T, writers *StressWriters, src adapters.Source) {
	t.Helper()
	e, done := writers.E, make(chan struct{})
	tail, lagging := e.Lanes(src, adapters.StartBeginning, 40), e.Lanes(src, adapters.StartBeginning, 3)
	lagging.From = tail.From
	first, second := NewStressChecker(), NewStressChecker()
	writers.Enough = func() bool { return first.late.Load() > 0 && second.late.Load() > 0 }
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { failed = writers.Run(e.Ctx, 12, testenv.Size(30, 300)); close(done) })
	defer wg.Wait()

	r := rand.New(rand.NewPCG(4, 5))
	for idle := 0; idle < 2; {
		over := Ended(done)
		rows, drained, err := tail.Next(e.Ctx, nil)
		Must(t, err)
		Rest(rows)
		for _, row := range rows {
			first.Deliver(row)
		}
		if idle++; !over || !drained || len(rows) > 0 {
			idle = 0
		}
		if drained && (idle > 0 || r.IntN(4) == 0) {
			reached := catchUp(t, r, lagging, tail.From, second, idle > 0)
			if reached && len(second.seen) != len(first.seen) {
				t.Fatalf("caught up having seen %d rows, the tail has seen %d", len(second.seen), len(first.seen))
			}
		}
	}
	Must(t, failed)
	first.Verdict(t, "tail", writers.Committed.Load())
	second.Verdict(t, "lagging", writers.Committed.Load())
}

// catchUp reads up to a bound, with restarts. Unless it must reach the bound it
// may give up on the way, so that the next bound finds an older window open.
func catchUp(t *testing.T, r *rand.Rand, l *Lanes, until [adapters.Slots]adapters.Cursor, check *StressChecker, insist bool) (reached bool) {
	t.Helper()
	for drained := false; !drained; {
		if !insist && r.IntN(4) == 0 {
			return false
		}
		before := l.From
		rows, all, err := l.Next(context.Background(), &until)
		Must(t, err)
		if drained = all; r.IntN(10) == 0 {
			rows, drained = SettleSome(r, l, before, rows), false
		}
		for _, row := range rows {
			check.Deliver(row)
		}
	}
	if l.From != until {
		t.Fatalf("a drained bounded read ended at %v, want the bound %v", l.From, until)
	}
	return true
}
