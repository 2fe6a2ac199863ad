// Package claiming feeds lanes from a queue table whose rows are claimed: it claims,
// hands out, extends, and writes what became of the rows.
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

// Claimer claims rows of one queue for all routes that use it, and gives each to
// the first route that matches it.
type Claimer struct {
	Queue   adapters.Queue
	log     *slog.Logger
	budget  *memory.Budget
	drain   time.Duration  // for a claim, and for the last results
	poll    polling.Config // of the poll under way
	Backoff *polling.Backoff
	claims  Limits
	routes  []*lane.Route
	ledger  *ledger
	Settler *settling.Settler // writes what became of the rows

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

	whole   time.Time // what was committed before is to be looked at before a long pause
	wanting wanting

	unmatched, lost, recovered atomic.Int64
}

// Config is what a claimer needs beside its queue.
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
	if keeper, ok := queue.(adapters.DueKeeper); ok {
		c.ledger.dueThere = keeper.KeepsDue()
	}
	return c
}

// resultsAtOnce is how many results of claimed rows are written at once. With many
// more in one statement claims would run out of room while it lasts.
const resultsAtOnce = 2000

// Add has the claimer claim for a route.
func (c *Claimer) Add(rt *lane.Route) { c.routes = append(c.routes, rt) }

// First is the name of its first route, which stands for all in messages.
func (c *Claimer) First() string { return c.routes[0].Name }

// Run polls until ctx ends.
func (c *Claimer) Run(ctx context.Context) {
	defer c.handing.rows.Wait()
	wakes := c.Backoff.Begin()
	c.whole = time.Now()
	for ctx.Err() == nil {
		wake, fixed := c.begin(wakes)
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
			if pause = c.Backoff.Pause(ctx); pause == 0 {
				c.whole = time.Now()
				continue
			}
			if !got.next.IsZero() {
				pause = min(pause, max(time.Until(got.next), c.poll.Min))
			}
		}
		more := false
		if err == nil && got.rows == 0 && !got.full {
			pause, more = c.lookOn(pause)
		}
		if rang := c.wait(ctx, pause, wake, wakes); !rang || !more {
			c.whole = time.Now()
		}
	}
}

// begin takes over the settings of the poll that begins. Polls at a fixed interval are
// not hurried by room.
func (c *Claimer) begin(wakes <-chan struct{}) (wake <-chan struct{}, fixed bool) {
	poll, fresh := c.Backoff.Poll()
	if c.poll = poll; fresh {
		c.grow(0, smallClaim)
	}
	if poll.Fixed() && wakes == nil {
		return nil, true
	}
	return c.wake, false
}

// wait waits, and reports whether it did so until the pause was over. Rows that were committed here are claimed meanwhile.
func (c *Claimer) wait(ctx context.Context, pause time.Duration, wake, wakes <-chan struct{}) (rang bool) {
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

// outcome is what a claim came to.
type outcome struct {
	rows int       // that are on their way into lanes
	full bool      // nothing was asked for: there is no room, or no lane is ours
	next time.Time // when something that was left out may be claimed; zero: unknown
}

// claim claims what there is room for and hands it out to the lanes. The statement
// is not cancelled on the way: what it claimed would be stuck.
func (c *Claimer) claim(ctx context.Context) (outcome, error) {
	c.starved.Store(true)      // before looking: room that appears meanwhile wakes
	number := c.ledger.begin() // before looking, too: a lane that is given up waits for claims that may know it
	w := c.wanted()
	limit := c.limit(time.Now(), w.any)
	if limit == 0 {
		c.ledger.asked(false)
		return outcome{full: true}, nil
	}
	except := c.ledger.except(time.Now(), c.claims.PerGroup)
	c.starved.Store(w.spent || except.held) // what is left out now may be claimed after a settle
	if len(except.groups)+len(except.rows) > maxExcept {
		c.handOut(w, nil, number) // it brings nothing, so nothing is left out for its sake
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
	placings := c.receive(w, rows)
	c.countUnmatched(w)
	c.handOut(w, placings, number)
	return outcome{rows: len(placings), next: except.next}, err
}

// maxExcept bounds what is left out of claims. With more than that, claims wait
// until some of it may be claimed again.
const maxExcept = 1 << 16

// AddStats adds what the claimer knows of a route to its counters.
func (c *Claimer) AddStats(rt *lane.Route, s *adapters.RouteStats) {
	if created := c.ledger.oldest(rt); !created.IsZero() { // once for all lanes: it goes through all rows
		s.Oldest = max(s.Oldest, time.Since(created))
	}
	s.Queue = &adapters.QueueStats{Claimed: c.ledger.size(), Unmatched: c.unmatched.Load(), Lost: c.lost.Load(), Recovered: c.recovered.Load()}
	c.hot.addStats(s.Queue)
	s.StateError = cmp.Or(s.StateError, c.ledger.refusal())
}

// wanted is which rows find a lane, as of the beginning of a claim. A route
// whose lane is not ours or whose memory is spent is closed for as long as the
// claim takes, and a group that is paused stays so: were it opened on the way, rows
// could overtake others that were refused before.
//
// The rows of a claim belong to the sessions of its beginning. A later one of the same lane may have begun after
// another instance had it, and a queue whose tables have no claims may have looked before that.
type wanted struct {
	routes    []*lane.Route
	sessions  [][adapters.Slots]*lane.Session // of lanes that are ours, by route
	open      [][adapters.Slots]bool          // by route
	any       bool                            // there is an open one
	paused    []*lane.PausedGroups            // by route
	slots     []int                           // of lanes that are ours, of any route
	spent     bool                            // a route is closed for want of memory
	unmatched int64
}

func (c *Claimer) wanted() *wanted {
	w := &wanted{routes: c.routes, open: make([][adapters.Slots]bool, len(c.routes))}
	w.sessions, _ = c.sessions()
	var own [adapters.Slots]bool
	for i, rt := range c.routes {
		w.paused = append(w.paused, rt.Paused())
		spent := rt.Share.Spent(int64(c.rowCost))
		w.spent = w.spent || spent
		for slot, s := range w.sessions[i] {
			if s != nil {
				own[slot], w.open[i][slot] = true, !spent
				w.any = w.any || !spent
			}
		}
	}
	for slot, ours := range own {
		if ours {
			w.slots = append(w.slots, slot)
		}
	}
	return w
}

// sessions are those that work now, by route. A row claimed for a lane that is stopping would only go back.
func (c *Claimer) sessions() (out [][adapters.Slots]*lane.Session, works bool) {
	out = make([][adapters.Slots]*lane.Session, len(c.routes))
	for i, rt := range c.routes {
		for slot, l := range rt.Lanes {
			if s := l.Session(); s != nil && s.Context().Err() == nil {
				out[i][slot], works = s, true
			}
		}
	}
	return out, works
}

// route is the index of the first route that matches; -1: none.
func (w *wanted) route(row *adapters.Row) int {
	for i, rt := range w.routes {
		if rt.Match(row) {
			return i
		}
	}
	return -1
}

func (w *wanted) match(row *adapters.Row) bool {
	i := w.route(row)
	if i < 0 {
		w.unmatched++
		return false
	}
	return w.open[i][adapters.SlotOf(row.Group, row.ID)] && !w.paused[i].Has(row.Group)
}

// Flush writes the last results: afterwards nothing is marked as claimed by us.
// A database that is away for a moment is tried again until drain ends.
func (c *Claimer) Flush(drain context.Context) error {
	if err := c.Settler.Finish(drain, c.drain); err != nil {
		return fmt.Errorf("the last results could not be written to the queue's table: %d rows stay marked as being processed "+
			"until they are taken for stuck (after %v), and may be delivered again: %w", c.ledger.size(), c.claims.Timeout, err)
	}
	return nil
}
