package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/outbox"
)

// write publishes items of both kinds from several transactions at a time until
// stop is called.
func (c *catalyst) write() (stop func()) { return c.writeEvery(10 * time.Millisecond) }

// writeEvery is write with a pause of each writer between its transactions.
func (c *catalyst) writeEvery(d time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				kind := outbox.FlowCatalystEvent
				if n%3 == 0 {
					kind = outbox.FlowCatalystDispatchJob
				}
				group := fmt.Sprint("g", rand.IntN(20))
				if group == "g0" {
					group = ""
				}
				// Not to be cancelled: a commit that is cut off may become one after the rows were counted.
				err := c.publish(context.WithoutCancel(ctx), kind, group, fmt.Sprint("w", i, "-", n), 1+rand.IntN(8))
				if err != nil && ctx.Err() == nil {
					c.t.Errorf("writer %d: %v", i, err)
					return
				}
				pause(ctx, d)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// stuckSoon recovers rows soon, so that a test need not wait for five minutes.
const stuckSoon = busy + ", claims: {timeout: 2s, recover: 1s}"

// TestG1_G2_FlowCatalystKillLoop kills the program while it delivers. What was
// claimed is recovered after the timeout and delivered, in order.
func TestG1_G2_FlowCatalystKillLoop(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, nil)
	to.killed = true
	config := c.config(to.url(), stuckSoon)
	stop := c.write()
	defer stop()
	fruitful := 0
	for range 6 {
		before := to.arrived()
		r := start(t, config)
		r.until("delivers", func() bool { return to.arrived() > before })
		pause(t.Context(), rand.N(400*time.Millisecond))
		r.kill()
		if c.count("status = 'PROCESSING'") > 0 {
			fruitful++
		}
	}
	stop()
	r := start(t, config)
	r.says("msg=ready")
	r.until("delivered and settled everything", func() bool { return c.count("status <> 'COMPLETED'") == 0 })
	r.stop()
	report := c.compare(to)
	t.Logf("6 kills, %d of them left claimed rows behind", fruitful)
	if fruitful == 0 {
		t.Error("no kill met claimed rows: the scenario is too easy")
	}
	if bound := 7 * 1000; report.Duplicates > bound { // in memory at most, for each kill
		t.Errorf("%d duplicates, want at most %d", report.Duplicates, bound)
	}
	if got, want := c.statuses(), c.completed(report.Committed); got != want {
		t.Errorf("the rows are %s, want %s", got, want)
	}
}

// TestG3_FlowCatalystStop stops the program with SIGTERM while it delivers:
// nothing is left claimed, and nothing is delivered twice.
func TestG3_FlowCatalystStop(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, nil)
	config := c.config(to.url(), busy)
	stop := c.write()
	defer stop()
	c.fill("backlog", 20, 50)
	for range 5 {
		before := to.arrived()
		r := start(t, config)
		r.until("delivers", func() bool { return to.arrived() > before+100 })
		r.stop()
		if n := c.count("status NOT IN ('PENDING', 'COMPLETED')"); n > 0 {
			t.Errorf("after SIGTERM the rows are %s", c.statuses())
		}
		if n := c.count("status = 'PENDING' AND (retry_count > 0 OR error_message IS NOT NULL)"); n > 0 {
			t.Errorf("%d rows went back with a trace", n)
		}
	}
	stop()
	r := start(t, config)
	r.until("delivered everything", func() bool { return c.count("status <> 'COMPLETED'") == 0 })
	r.stop()
	if report := c.compare(to); report.Duplicates > 0 {
		t.Errorf("duplicates without a fault: %v", report)
	}
}

// foreign is a processor with exactly the statements of FlowCatalyst's document.
type foreign struct {
	c     *catalyst
	mu    sync.Mutex
	taken []check.Delivery
}

const foreignClaim = `WITH selected AS (
    SELECT id FROM %[1]s WHERE status = 'PENDING' ORDER BY message_group, created_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE %[1]s t SET status = 'PROCESSING', processed_at = NOW() FROM selected s WHERE t.id = s.id RETURNING t.id, t.payload`

// work claims, "sends" and completes until the context ends.
func (f *foreign) work(ctx context.Context, table string) {
	for ctx.Err() == nil {
		rows, err := f.c.pool.Query(context.Background(), fmt.Sprintf(foreignClaim, table), 40)
		if err != nil {
			f.c.t.Error(err)
			return
		}
		type claimed struct{ ID, Payload string }
		batch, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claimed])
		if err != nil {
			f.c.t.Error(err)
			return
		}
		ids := []string{}
		f.mu.Lock()
		for _, row := range batch {
			var it item
			if err := json.Unmarshal([]byte(row.Payload), &it); err != nil {
				f.c.t.Error(err)
			}
			f.taken = append(f.taken, check.Delivery{ID: it.Ref})
			ids = append(ids, row.ID)
		}
		f.mu.Unlock()
		pause(ctx, rand.N(20*time.Millisecond))
		_, err = f.c.pool.Exec(context.Background(), "UPDATE "+table+" SET status = 'COMPLETED', processed_at = NOW() WHERE id = ANY($1)", ids)
		if err != nil {
			f.c.t.Error(err)
			return
		}
		pause(ctx, rand.N(30*time.Millisecond))
	}
}

// TestG1_FlowCatalystBesideAForeignProcessor runs with FlowCatalyst's own processor
// on the same table. Everything is delivered once, by one of the two, and we deliver
// the messages of a group in order.
func TestG1_FlowCatalystBesideAForeignProcessor(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, nil)
	f := &foreign{c: c}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, table := range []string{"outbox_events", "outbox_dispatch_jobs"} {
		wg.Go(func() { f.work(ctx, table) })
	}
	defer func() { cancel(); wg.Wait() }()
	stop := c.write()
	defer stop()
	r := start(t, c.config(to.url(), busy))
	r.until("delivers beside the other", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return to.arrived() > 1500 && len(f.taken) > 1500
	})
	stop()
	r.until("everything is delivered", func() bool { return c.count("status <> 'COMPLETED'") == 0 })
	cancel()
	wg.Wait()
	r.stop()

	theirs := map[string]bool{}
	for _, d := range f.taken {
		if theirs[d.ID] {
			t.Errorf("the other processor got %s twice: we put it back after it was claimed", d.ID)
		}
		theirs[d.ID] = true
	}
	var ours []check.Row
	all := c.rows()
	for _, row := range all {
		if !theirs[row.ID] {
			ours = append(ours, row)
		}
	}
	// What the other one delivered as well would be unknown to this comparison,
	// and so not clean.
	report := check.Compare(ours, to.all()...)
	t.Logf("%d items, %d by the other processor; ours: %v", len(all), len(theirs), report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("not clean: %v", report)
	}
	if got, want := c.statuses(), c.completed(len(all)); got != want {
		t.Errorf("the rows are %s, want %s", got, want)
	}
}
