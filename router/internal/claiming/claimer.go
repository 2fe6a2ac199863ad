// Package claiming feeds lanes from a queue table whose rows are claimed: it claims, hands out and extends rows, and writes their results.
package claiming

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/memory"
	"github.com/outriderhq/outrider/router/internal/polling"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Limits bound what is claimed from a queue; the fields of a source's `claims`.
type Limits struct {
	InMemory int
	PerGroup int
	Timeout  time.Duration
	Recover  time.Duration
}

// Claimer claims rows of one queue for all routes that use it, and gives each to the first route that matches it.
type Claimer struct {
	Queue   adapters.Queue
	log     *slog.Logger
	budget  *memory.Budget
	drain   time.Duration  // for a claim, and for the last results
	poll    polling.Config // of the current poll
	Backoff *polling.Backoff
	claims  Limits
	routes  []*lane.Route
	ledger  *ledger
	Settler *settling.Settler // writes the results

	wake    chan struct{}
	starved atomic.Bool    // there was no room: wake when there is
	short   time.Time      // since when there has been little room; zero: there is enough
	rowCost float64        // running estimate of a row's memory
	batch   int            // rows of the next claim at most
	Outage  logging.Outage // of claims

	extending, recovering, locking logging.Outage
	recoverLimit                   settling.CallTimeout // of a try to put stuck rows back
	claimLimit                     settling.CallTimeout // of a claim

	eviction evictionState
	handing  handing
	hot      hotPath

	whole   time.Time // what was committed before then has to be seen before a long pause
	wanting wanting

	unmatched, lost, recovered atomic.Int64
}

// Config of a claimer.
type Config struct {
	Poll           polling.Config
	Claims         Limits
	Hot            Hot
	Budget         *memory.Budget
	Log            *slog.Logger
	Patience       time.Duration // for a claim, a write, and for putting stuck rows back
	SettleInterval time.Duration
	DrainTimeout   time.Duration // for a claim at most, and for the last results
}

// New returns the claimer of a queue; [Claimer.Add] gives it routes.
func New(queue adapters.Queue, cfg Config) *Claimer {
	c := &Claimer{Queue: queue, log: cfg.Log, budget: cfg.Budget, drain: cfg.DrainTimeout, poll: cfg.Poll, Backoff: polling.NewBackoff(cfg.Poll, queue), claims: cfg.Claims,
		wake: make(chan struct{}, 1), rowCost: 2 * lane.WaitingOverhead} // larger payloads are bounded by the request's Bytes
	c.recoverLimit.Usual, c.claimLimit.Usual = cfg.Patience, cfg.Patience
	c.hot.open(queue, cfg.Hot, cfg.Log)
	c.grow(0, smallClaim)
	c.Settler = settling.New(nil, cfg.Log, cfg.SettleInterval, cfg.Patience)
	c.Settler.Write, c.Settler.Target = c.write, "queue's table"
	c.ledger = newLedger(max(min(c.claims.InMemory/2, resultsAtOnce), 1), c.Settler.Note)
	c.ledger.dueThere = queue.KeepsDue()
	return c
}

// resultsAtOnce is how many results are written at once. With many more in one statement, claims would run out of room while it runs.
const resultsAtOnce = 2000

// Add has the claimer claim for a route.
func (c *Claimer) Add(rt *lane.Route) { c.routes = append(c.routes, rt) }

// First is the name of its first route, by which messages name the claimer.
func (c *Claimer) First() string { return c.routes[0].Name }

// Run polls until ctx ends.
func (c *Claimer) Run(ctx context.Context) {
	defer c.handing.rows.Wait()
	woken := c.Backoff.Begin()
	c.whole = time.Now()
	for ctx.Err() == nil {
		wake, fixed := c.begin(woken)
		c.serveHot()
		began, hurried := time.Now(), c.hot.before()
		got, err := c.claim(ctx)
		c.hot.after(hurried, got)
		var pause time.Duration
		switch {
		case err != nil:
			pause = c.Backoff.Failed()
		case fixed:
			pause = c.poll.Min - time.Since(began)
		case got.rows > 0:
			c.Backoff.Found()
			continue
		case got.full:
			pause = lane.EvictionPause
		default:
			pause = c.Backoff.Pause(ctx)
			if pause == 0 || c.Backoff.LooksOver(c.whole) { // the looks may have read on where a round was that began before the commit
				c.whole = time.Now()
			}
			if pause == 0 {
				continue
			}
		}
		more := false
		if err == nil && got.rows == 0 && !got.full {
			pause, more = c.continueSoon(pause, got.next)
		}
		if rang := c.wait(ctx, pause, wake); !rang || !more {
			c.whole = time.Now()
		}
	}
}

// begin takes over the settings of the poll that begins. Room does not hurry polls at a fixed interval.
func (c *Claimer) begin(woken bool) (wake <-chan struct{}, fixed bool) {
	poll, fresh := c.Backoff.Poll()
	if c.poll = poll; fresh {
		c.grow(0, smallClaim)
	}
	if poll.Fixed() && !woken {
		return nil, true
	}
	return c.wake, false
}

// wait waits, and reports whether the pause was over. Meanwhile it claims rows that were committed here.
func (c *Claimer) wait(ctx context.Context, pause time.Duration, wake <-chan struct{}) (rang bool) {
	wakes := c.Backoff.Wakes()
	over := time.Now().Add(pause)
	for {
		timer := signal.After(c.hot.within(time.Until(over)))
		select {
		case <-timer.C:
			rang = !c.hot.leftToClaims
		case <-c.hot.committed:
			timer.Stop()
			c.serveHot()
			continue
		case <-wake:
		case <-wakes:
			c.Backoff.Woken()
		case <-c.Backoff.Signal:
			c.Backoff.Found()
		case <-ctx.Done():
		}
		timer.Stop()
		return rang
	}
}

// outcome is the result of a claim.
type outcome struct {
	rows int       // that are on their way into lanes
	full bool      // nothing was asked for: there is no room, or no lane is ours
	next time.Time // when an exclusion ends; zero: unknown
}

// claim claims as many rows as there is room for and hands them out to the lanes. The statement is never cancelled: what it claimed
// would be stuck.
func (c *Claimer) claim(ctx context.Context) (outcome, error) {
	c.starved.Store(true)      // first: room that appears meanwhile wakes
	number := c.ledger.begin() // first, too: a lane that is given up waits for claims that may know it
	w := c.wanted()
	limit := c.limit(time.Now(), w.any)
	if limit == 0 {
		c.ledger.asked(false)
		return outcome{full: true}, nil
	}
	except := c.ledger.exclusions(time.Now(), c.claims.PerGroup)
	if except.ended { // no claim before this one could see it
		c.whole = time.Now()
	}
	c.starved.Store(w.spent || except.held) // rows that are excluded now may be claimed after a settle
	if len(except.groups)+len(except.rows) > maxExcluded {
		c.handOut(w, nil, number) // it brings nothing, so nothing is excluded for its sake
		c.starved.Store(true)
		return outcome{full: true}, nil
	}
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.drain)
	defer cancel()
	wants := c.wanting.number(w)
	var rows []*adapters.Row
	err := c.claimLimit.Call(claiming, func(ctx context.Context) (err error) {
		rows, err = c.Queue.Claim(ctx, adapters.ClaimRequest{
			Slots: w.slots, Terms: c.wanting.termsOf(w.slots), Limit: limit, PerGroup: c.claims.PerGroup, Except: except.groups, ExceptRows: except.rows,
			Match: w.match, Later: func(row *adapters.Row) bool { return w.route(row) >= 0 }, Wants: wants, Bytes: max(c.free()-int64(limit)*c.overhead(), 1),
		})
		return err
	})
	c.Outage.Report(c.log, slog.LevelError, err, "cannot claim rows from the queue's table, trying again",
		"rows of the queue's table can be claimed again")
	c.grow(len(rows), limit)
	routable := c.receive(w, rows)
	c.countUnmatched(w)
	c.handOut(w, routable, number)
	return outcome{rows: len(routable), next: except.next}, err
}

// maxExcluded bounds what is excluded from claims. With more, claims wait until some of it may be claimed again.
const maxExcluded = 1 << 16

// AddStats adds what the claimer knows of a route to its counters.
func (c *Claimer) AddStats(rt *lane.Route, s *adapters.RouteStats) {
	if created := c.ledger.oldest(rt); !created.IsZero() { // once for all lanes: it goes through all rows
		s.Oldest = max(s.Oldest, time.Since(created))
	}
	s.Queue = &adapters.QueueStats{Claimed: c.ledger.size(), Unmatched: c.unmatched.Load(), Lost: c.lost.Load(), Recovered: c.recovered.Load()}
	c.hot.addStats(s.Queue)
	s.StateError = cmp.Or(s.StateError, c.ledger.refusal())
}

// Flush writes the last results: afterwards nothing is marked as claimed by us. It tries again until drain ends.
func (c *Claimer) Flush(drain context.Context) error {
	if err := c.Settler.Finish(drain, c.drain); err != nil {
		return fmt.Errorf("the last results could not be written to the queue's table: %d rows stay marked as being processed "+
			"until they are taken for stuck (after %v), and may be delivered again: %w", c.ledger.size(), c.claims.Timeout, err)
	}
	return nil
}

// limit is how many rows may be claimed now. Little room is not worth a claim, unless there has been no more for a while.
func (c *Claimer) limit(now time.Time, open bool) int {
	held := c.ledger.size()
	if held >= c.claims.InMemory/2 || !open {
		c.evictBlocked(now, !open)
		held = c.ledger.size()
	}
	if !open {
		return 0
	}
	room := c.claims.InMemory - held
	switch {
	case room >= max(min(c.poll.Batch, c.claims.InMemory/4), 1):
		c.short = time.Time{}
	case c.short.IsZero():
		c.short = now
		return 0
	case now.Sub(c.short) < lane.EvictionPause:
		return 0
	}
	// An eighth is left to payloads that are larger than those of late.
	cost := max(c.rowCost, float64(c.overhead()))
	affordable := max(int(float64(c.free())*7/8/cost), 1)
	return max(min(room, c.batch, affordable), 0)
}

// overhead is the memory of a row without its payload, for the costliest route.
func (c *Claimer) overhead() (most int64) {
	for _, rt := range c.routes {
		most = max(most, rt.Overhead())
	}
	return most
}

// smallClaim is the size from which claims grow, where Poll.Batch allows that.
const smallClaim = 128

// grow doubles the next claim after one that was full, up to Poll.Batch. After one that brought a quarter the size stays: the limit of
// a table may have bounded it. Otherwise the next one is small: nothing is delivered while a claim runs. Polls at a fixed
// interval are as large as they may be.
func (c *Claimer) grow(rows, limit int) {
	switch {
	case c.poll.Fixed():
		c.batch = c.poll.Batch
	case rows >= limit:
		c.batch = min(2*c.batch, c.poll.Batch)
	case rows < limit/4:
		c.batch = min(max(c.poll.Batch/8, smallClaim), c.poll.Batch)
	}
}
