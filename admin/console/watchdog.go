package console

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/config"
)

// watchdog finds rows that a route should have settled and has not. It trusts no other part of the relay: that a row is overdue is decided by tables
// alone, with statements that reading and claiming do not use. What this process and the state store say serves to name the cause.
//
// A row counts from the time at which the watchdog itself has seen that it is visible. So neither the time of its creation matters nor how
// long its transaction was open.
type watchdog struct {
	limit time.Duration
	log   *slog.Logger

	instance string // of this process; empty: it has no name

	op      *operate.Operator // that what follows is of
	sources map[string]*watchedSource
	lanes   map[adapters.LaneRef]*watchedLane
	pauses  map[pausedGroup]bool      // at the last check
	paused  map[pausedGroup]time.Time // until when routes and groups were paused, as far as is known
	told    map[string]time.Time      // when a route was logged

	mu    sync.Mutex
	found map[string]*status.Overdue // by route
}

// watchedSource is the watchdog's memory of a source.
type watchedSource struct {
	ends    []pastEnd
	waiting map[adapters.DeadKey]seenRow // of a queue
	after   adapters.DeadKey             // rows up to there are of no route
	refused string                       // why it is not watched, as it was logged
}

// pastEnd is where a table ended at a time.
type pastEnd struct {
	at     time.Time
	cursor adapters.Cursor
	parts  map[int]int64 // of a topic: by partition
}

// seenRow is a version of a row that waits, and when it was first seen.
type seenRow struct {
	version string
	at      time.Time
}

// watchedLane is the watchdog's memory of a lane.
type watchedLane struct {
	since  time.Time // since when it has to settle: it was seen first, resumed, or put back
	moved  time.Time // when its cursor was last seen to have moved
	cursor adapters.Cursor
	passed int64 // rows up to there, above the cursor, are not wanted by the route
}

const (
	overdueMost   = 200              // rows of a lane
	watchedRows   = 500              // rows that wait in a queue
	watchedChecks = 20               // of them that are read one by one in a check
	watchedRetry  = time.Hour        // how long a failed row may wait where its table has no column for when it is due
	watchShare    = 100              // the watchdog rests for so many times as long as a check took,
	watchRest     = 10               // and for so many limits at most
	watchLog      = time.Minute      // how often a route is logged
	watchPatience = 20 * time.Second // of a check
	chunkLanes    = 512              // lanes in a statement
)

func newWatchdog(limit time.Duration, log *slog.Logger) *watchdog {
	return &watchdog{limit: limit, log: log, paused: map[pausedGroup]time.Time{}, told: map[string]time.Time{}}
}

// overdue is the finding of the last check about a route.
func (w *watchdog) overdue(route string) *status.Overdue {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found[route]
}

// run checks until ctx ends.
func (w *watchdog) run(ctx context.Context, c *Console) {
	pause := w.limit / 2
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		w.check(ctx, c, begun)
		pause = w.rest(time.Since(begun))
	}
}

// rest is how long the watchdog rests after a check. One that got no answer from a database took long without having been work: that
// must not blind the watchdog for long.
func (w *watchdog) rest(took time.Duration) time.Duration {
	return max(w.limit/2, min(watchShare*took, watchRest*w.limit))
}

// pausedGroup is a group of a route that an operator paused; without a name it is the route.
type pausedGroup struct{ route, group string }

// notePauses notes what is paused now. What was paused at the check before may have been until now.
func (w *watchdog) notePauses(pauses map[pausedGroup]bool, now time.Time) {
	maps.DeleteFunc(w.paused, func(_ pausedGroup, until time.Time) bool { return now.Sub(until) >= w.limit })
	for _, of := range []map[pausedGroup]bool{w.pauses, pauses} {
		for p := range of {
			w.paused[p] = now
		}
	}
	w.pauses = pauses
}

// pausedLately reports whether a route or a group is paused, or was less than the limit ago. Of a route's pause that begins and ends between two
// checks the relay says so.
func (w *watchdog) pausedLately(route, group string, now time.Time) bool {
	return now.Sub(w.paused[pausedGroup{route, group}]) < w.limit
}

// check checks once. A source or a state store that does not answer is reported elsewhere; what was found before stays.
func (w *watchdog) check(ctx context.Context, c *Console, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	down, pauses := map[string]bool{}, map[pausedGroup]bool{}
	for _, s := range c.relay.Stats() {
		down[s.Route] = len(s.Down) > 0
		if of := (pausedGroup{route: s.Route}); s.Paused != nil {
			pauses[of] = true
		} else if s.Resumed.After(w.paused[of]) {
			w.paused[of] = s.Resumed
		}
	}
	_ = c.Use(ctx, func(op *operate.Operator) error { // without an operator nothing can be asked
		if c.relay.Instance != nil {
			w.instance = c.relay.Instance()
		}
		if w.op != op {
			w.op, w.sources, w.lanes = op, map[string]*watchedSource{}, map[adapters.LaneRef]*watchedLane{}
		}
		return w.checkSources(ctx, op, down, pauses, now)
	})
}

// checkSources checks the sources of an operator.
func (w *watchdog) checkSources(ctx context.Context, op *operate.Operator, down map[string]bool, pauses map[pausedGroup]bool, now time.Time) error {
	lanes, err := op.Cursors(ctx, nil)
	if err != nil {
		return err
	}
	written, err := op.Pauses(ctx)
	if err != nil {
		return err
	}
	for _, p := range written {
		if p.OfRoute() || p.Group != "" {
			pauses[pausedGroup{p.Route, p.Group}] = true
		} else {
			down[p.Route] = true
		}
	}
	w.notePauses(pauses, now)
	instances, err := op.Instances(ctx)
	if err != nil {
		return err
	}
	standby := map[string]bool{} // another process may have the lead, which the state store does not know
	for _, i := range instances {
		for _, r := range i.Routes {
			standby[r.Route] = standby[r.Route] || i.Alive && r.Waits != ""
		}
	}
	byRoute := map[string][]adapters.LaneStatus{}
	for _, l := range lanes {
		byRoute[l.Route] = append(byRoute[l.Route], l)
	}
	routes := map[string][]config.Route{}
	var names []string
	for _, r := range op.Builder().Config.Routes {
		if routes[r.From] == nil {
			names = append(names, r.From)
		}
		routes[r.From] = append(routes[r.From], r)
	}
	found := map[string]*status.Overdue{}
	for _, name := range names {
		b := beat{watchdog: w, op: op, source: name, routes: routes[name], lanes: byRoute, standby: standby, down: down, now: now, found: found}
		if err := b.check(ctx); err != nil && ctx.Err() == nil {
			b.keep(err)
		}
	}
	w.tell(found, now)
	return nil
}

// tell remembers what was found, and logs it: once, and then every minute.
func (w *watchdog) tell(found map[string]*status.Overdue, now time.Time) {
	w.mu.Lock()
	w.found = found
	w.mu.Unlock()
	for route := range w.told {
		if found[route] == nil {
			delete(w.told, route)
			w.log.Info("watchdog: the route has settled what was overdue", "route", route)
		}
	}
	for route, o := range found {
		if last, ok := w.told[route]; ok && now.Sub(last) < watchLog {
			continue
		}
		w.told[route] = now
		level, text := slog.LevelWarn, "watchdog: rows are not settled although they have been visible for longer than the limit"
		switch o.Cause {
		case status.CauseBehind:
			level = slog.LevelInfo
		case status.CauseStuck:
			level, text = slog.LevelError, text+", and nothing explains it"
		default:
		}
		w.log.Log(context.Background(), level, text, "route", route, "rows", o.Rows, "more", o.More, "lanes", o.Lanes, "first", o.ID, "at", o.Where,
			"since", o.Since, "cause", string(o.Cause), "limit", w.limit)
	}
}
