package retention

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Config says what one [Job] cleans.
type Config struct {
	// Source is the table's name in the configuration, for logs and metrics.
	Source string

	// Table is what is cleaned, State where the cursors of its routes are.
	Table adapters.Retainer
	State adapters.OperatorStore

	// Queue is what is cleaned in place of a Table: no cursor matters then.
	Queue adapters.OperatorQueue

	// Routes are those that the configuration has for the source, Others those
	// that it has for other sources, with these; nil: it is no log table. One of them
	// may read the same table.
	Routes []string
	Others map[string]adapters.Source

	Retention adapters.Retention

	// Every is the pause between two passes, WarnAfter for how long a route may
	// keep what is old enough to go before the log warns. Both are required.
	Every, WarnAfter time.Duration

	Logger *slog.Logger // required
}

// Job cleans the table of one source.
type Job struct {
	Config
	log *slog.Logger

	known map[adapters.Source]adapters.Table // what other sources read; only Pass uses it

	mu      sync.Mutex
	live    map[string]string // by route that is not configured: the instance that works it
	stats   adapters.RetentionStats
	failing bool
	warned  map[string]time.Time // when the log last warned, by subject
	blocked time.Time            // since when partitions could not be dropped; zero: they can
}

// New returns a job. Nothing is connected yet; see [Job.Check].
func New(cfg Config) *Job {
	return &Job{Config: cfg, log: cfg.Logger.With("source", cfg.Source), warned: map[string]time.Time{},
		known: map[adapters.Source]adapters.Table{}, stats: adapters.RetentionStats{Source: cfg.Source}}
}

// Check verifies that the table can be cleaned.
func (j *Job) Check(ctx context.Context) error {
	if j.Queue != nil {
		return j.Queue.CheckRetention(ctx, j.Retention)
	}
	return j.Table.CheckRetention(ctx, j.Retention)
}

// Run makes a pass, and another one after each pause, until ctx ends.
func (j *Job) Run(ctx context.Context) {
	for {
		_, err := j.Pass(ctx)
		if ctx.Err() != nil {
			return
		}
		j.report(err)
		if !wait(ctx, j.Every) {
			return
		}
	}
}

// Pass removes all that can go now and returns what was removed and what the
// last step found. Between two steps it rests for as long as the last one took,
// so that removing takes at most half of a connection's time.
func (j *Job) Pass(ctx context.Context) (adapters.Retained, error) {
	var sum adapters.Retained
	for {
		began := time.Now()
		step, err := j.step(ctx)
		if err != nil && ctx.Err() != nil {
			return sum, err // asked to stop
		}
		j.note(step, err)
		step.Rows, step.Partitions = step.Rows+sum.Rows, step.Partitions+sum.Partitions
		sum = step
		rest := min(time.Since(began), time.Second)
		if j.Retention.DryRun {
			rest = 0
		}
		if err != nil || step.Busy || !step.More || !wait(ctx, rest) {
			return sum, err
		}
	}
}

// step reads again how far the routes are, so that one that was placed elsewhere
// meanwhile is heeded.
func (j *Job) step(ctx context.Context) (adapters.Retained, error) {
	if j.Queue != nil {
		return j.Queue.RetainDelivered(ctx, j.Retention)
	}
	routes, err := j.settled(ctx)
	if err != nil {
		return adapters.Retained{}, err
	}
	return j.Table.Retain(ctx, j.Retention, routes)
}

// settled returns the cursors of all routes that may still need rows of the table:
//   - the routes that are configured for it, through whichever source, also when they
//     have never run;
//   - those that the state store remembers with this table, though no configuration has them
//     configured: they hold it back until they are forgotten;
//   - those whose cursors are of a cluster from which another one was rebased to this
//     table: they are to be rebased, too;
//   - those of which it is not known what they read.
//
// A cursor that was never settled, or belongs to another table, covers nothing.
func (j *Job) settled(ctx context.Context) ([]adapters.RouteCursors, error) {
	table, err := j.Table.Table(ctx)
	if err != nil {
		return nil, err
	}
	configured, others, err := j.readers(ctx, table)
	if err != nil {
		return nil, err
	}
	lanes, err := j.State.Cursors(ctx, nil) // what is parked need not be counted
	if err != nil {
		return nil, err
	}
	former := map[string]bool{}
	for i := range lanes {
		if l := &lanes[i]; l.Former != "" && l.Table.Equals(table) {
			former[l.Former] = true
		}
	}
	routes := make([]adapters.RouteCursors, 0, len(configured))
	index := make(map[string]int, len(configured))
	add := func(route string) int {
		at, ok := index[route]
		if !ok {
			at = len(routes)
			index[route] = at
			routes = append(routes, adapters.RouteCursors{Route: route})
		}
		return at
	}
	for _, name := range configured {
		add(name)
	}
	live := map[string]string{}
	for i := range lanes {
		l := &lanes[i]
		concerned := l.Table.Equals(table) || l.Table.Name == table.Name && former[l.Table.Cluster] ||
			l.Table.Name == "" && !others[l.Route]
		if !concerned && !slices.Contains(configured, l.Route) {
			continue
		}
		at := add(l.Route)
		if l.Alive && !slices.Contains(configured, l.Route) {
			live[l.Route] = l.Owner
		}
		if l.UpdatedAt.IsZero() || !l.Table.Is(table) || l.Table.Regrouped(table) || l.Slot < 0 || l.Slot >= adapters.Slots {
			continue
		}
		routes[at].Cursors[l.Slot] = &l.Cursor
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live = live
	return routes, nil
}

// readers returns the routes that the configuration has for the table, and those
// that it has for another one.
func (j *Job) readers(ctx context.Context, table adapters.Table) (configured []string, others map[string]bool, err error) {
	configured, others = slices.Clone(j.Routes), map[string]bool{}
	asked := map[adapters.Source]adapters.Table{}
	for route, src := range j.Others {
		if src == nil {
			others[route] = true
			continue
		}
		t, ok := asked[src]
		if !ok {
			var err error
			if t, err = src.Table(ctx); err == nil {
				j.known[src] = t
			} else if t, ok = j.known[src]; !ok {
				return nil, nil, fmt.Errorf("which table route %s reads cannot be asked, it may be this one: %w", route, err)
			}
			asked[src] = t
		}
		if t.Equals(table) {
			configured = append(configured, route)
		} else {
			others[route] = true
		}
	}
	return configured, others, nil
}

// note keeps what a step did and found.
func (j *Job) note(step adapters.Retained, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.Retention.DryRun {
		j.stats.Rows += step.Rows
		j.stats.Partitions += int64(step.Partitions)
	}
	switch {
	case err != nil:
		j.stats.Errors++
	case !step.Busy && !step.More: // otherwise it has not looked at everything
		j.stats.Oldest, j.stats.Held, j.stats.Stray, j.stats.Ahead = step.Oldest, step.Held, step.Stray, step.Ahead
		j.stats.DatedAhead, j.stats.Waiting, j.stats.InTheWay = step.DatedAhead, step.Waiting, step.InTheWay
	}
	switch {
	case step.Partitions > 0 || step.Waiting == 0:
		j.blocked = time.Time{}
	case j.blocked.IsZero():
		j.blocked = time.Now()
	}
}

// Stats returns what was removed so far, and what the last pass found.
func (j *Job) Stats() adapters.RetentionStats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

// report logs the beginning and the end of failing, and what keeps rows for long.
func (j *Job) report(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err != nil && !j.failing:
		j.log.Error("retention fails; rows stay until it succeeds", "error", err)
	case err == nil && j.failing:
		j.log.Info("retention succeeds again")
	}
	j.failing = err != nil
	for route, since := range j.stats.Held {
		if since > j.WarnAfter {
			j.warn("route "+route, "a route holds back the retention of the outbox: it has not settled rows that are old enough to go. "+j.remedy(route),
				"route", route, "for", since.Round(time.Second).String())
		}
	}
	if d := j.stats.DatedAhead; d.By > 0 {
		j.warn("dated ahead", "the oldest row of the outbox that is left is dated in the future, and stays until a row behind it is old enough: "+
			"correct the clock of the application that writes such rows; `"+d.Fix+"` corrects the date of this row",
			"slot", d.Slot, "position", d.Position, "ahead", d.By.Round(time.Second).String())
	}
	if !j.blocked.IsZero() && time.Since(j.blocked) > j.WarnAfter {
		j.warn("waiting", "partitions of the outbox that no route needs cannot be dropped, because of transactions that use the table: end them, or keep them short",
			"partitions", j.stats.Waiting, "for", time.Since(j.blocked).Round(time.Second).String(), "cause", j.stats.InTheWay)
	}
	if j.stats.Stray > 0 {
		j.warn("stray", "the outbox has rows in its default partition: they were published faster than retention could make partitions, or while none ran",
			"rows", j.stats.Stray)
	}
}

// remedy is what to do about a route that holds rows back. Call with the mutex held.
func (j *Job) remedy(route string) string {
	_, elsewhere := j.Others[route]
	switch owner := j.live[route]; {
	case slices.Contains(j.Routes, route) || elsewhere:
		return "Resume it or mend what stops it"
	case owner != "":
		return fmt.Sprintf("Instance %s works it, with another configuration: resume it or mend what stops it there", owner)
	}
	return fmt.Sprintf("No configuration that runs has it: run it, or `outrider route forget %s` if it is gone for good", route)
}

// warn logs a warning, and the same one again after WarnAfter only.
func (j *Job) warn(what, text string, args ...any) {
	if time.Since(j.warned[what]) < j.WarnAfter {
		return
	}
	j.warned[what] = time.Now()
	j.log.Warn(text, args...)
}

// wait waits for d; it is false when ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
