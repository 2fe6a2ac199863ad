package retention

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Config says what one [Job] cleans.
type Config struct {
	// Source is the table's name in the configuration, for logs and metrics.
	Source string

	// Table is what is cleaned, State where the cursors of its routes are.
	Table outbox.Retainer
	State outbox.StateStore

	// Routes are those that the configuration has for the source, Others those
	// that it has for other sources.
	Routes, Others []string

	Retention outbox.Retention

	// Every is the pause between two passes, WarnAfter for how long a route may
	// keep what is old enough to go before the log tells. Both are required.
	Every, WarnAfter time.Duration

	Logger *slog.Logger // required
}

// Job cleans the table of one source.
type Job struct {
	Config
	log *slog.Logger

	mu      sync.Mutex
	stats   outbox.RetentionStats
	failing bool
	warned  map[string]time.Time // by what the log was told
	blocked time.Time            // since when partitions could not be dropped; zero: they can
}

// New returns a job. Nothing is connected yet; see [Job.Check].
func New(cfg Config) *Job {
	return &Job{Config: cfg, log: cfg.Logger.With("source", cfg.Source), warned: map[string]time.Time{},
		stats: outbox.RetentionStats{Source: cfg.Source}}
}

// Check verifies that the table can be cleaned.
func (j *Job) Check(ctx context.Context) error { return j.Table.CheckRetention(ctx, j.Retention) }

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
func (j *Job) Pass(ctx context.Context) (outbox.Retained, error) {
	var sum outbox.Retained
	for {
		began := time.Now()
		step, err := j.step(ctx)
		if err != nil && ctx.Err() != nil {
			return sum, err // asked to stop
		}
		j.note(step, err)
		step.Rows, step.Partitions = step.Rows+sum.Rows, step.Partitions+sum.Partitions
		sum = step
		if err != nil || step.Busy || !step.More || !wait(ctx, min(time.Since(began), time.Second)) {
			return sum, err
		}
	}
}

// step asks anew how far the routes are, so that one that was placed elsewhere
// meanwhile is heeded.
func (j *Job) step(ctx context.Context) (outbox.Retained, error) {
	routes, err := j.settled(ctx)
	if err != nil {
		return outbox.Retained{}, err
	}
	return j.Table.Retain(ctx, j.Retention, routes)
}

// settled returns the cursors of all routes that may still need rows of the table:
//   - the routes that are configured for it, also when they have never run;
//   - those that the state store remembers with this table, though nobody has them
//     configured: they hold it back until they are forgotten;
//   - those of which nobody knows what they read.
//
// A cursor that was never settled, or was taken in another cluster, covers nothing.
func (j *Job) settled(ctx context.Context) ([]outbox.RouteCursors, error) {
	table, err := j.Table.TableName(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := j.Table.Identity(ctx)
	if err != nil {
		return nil, err
	}
	lanes, err := j.State.Lanes(ctx)
	if err != nil {
		return nil, err
	}
	routes := make([]outbox.RouteCursors, 0, len(j.Routes))
	index := make(map[string]int, len(j.Routes))
	for i, name := range j.Routes {
		routes = append(routes, outbox.RouteCursors{Route: name})
		index[name] = i
	}
	for i := range lanes {
		l := &lanes[i]
		at, ok := index[l.Route]
		if !ok {
			if !j.concerns(l, table) {
				continue
			}
			at = len(routes)
			index[l.Route] = at
			routes = append(routes, outbox.RouteCursors{Route: l.Route})
		}
		if l.UpdatedAt.IsZero() || l.Cluster != cluster || l.Slot < 0 || l.Slot >= outbox.Slots {
			continue
		}
		routes[at].Cursors[l.Slot] = &l.Cursor
	}
	return routes, nil
}

// concerns tells whether a cursor of a route that is not configured for the
// source may be one of the table all the same.
func (j *Job) concerns(l *outbox.LaneStatus, table string) bool {
	return l.Source == table || l.Source == "" && !slices.Contains(j.Others, l.Route)
}

// note keeps what a step did and found.
func (j *Job) note(step outbox.Retained, err error) {
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
func (j *Job) Stats() outbox.RetentionStats {
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
			j.warn("route "+route, fmt.Sprintf("a route holds back the retention of the outbox: it has not settled rows that are old enough to go. "+
				"Resume it or mend what stops it, or `outrider route forget %s` if it is gone for good", route),
				"route", route, "for", since.Round(time.Second).String())
		}
	}
	if d := j.stats.DatedAhead; d.By > 0 {
		j.warn("dated ahead", "the oldest row of the outbox that is left is dated in the future, and stays until a row behind it is old enough: "+
			"correct the clock of what writes such rows; `"+d.Fix+"` dates this one anew",
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
