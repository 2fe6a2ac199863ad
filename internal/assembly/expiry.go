package assembly

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router"
)

const (
	// expiryEvery is the pause between two searches for dead messages that are too old.
	expiryEvery = time.Hour

	// expirySpread spreads the first searches of instances that start together: the
	// first one removes everything, and the rest find nothing.
	expirySpread = time.Minute

	// expiryBy is the author in the audit log.
	expiryBy = "outrider run (parked: keep)"
)

// expiry removes dead messages of the configured routes that have been parked for
// longer than is wanted, by the operators' purge: in steps, each audited, and never
// one that something waits behind. Instances may do so at the same time.
type expiry struct {
	keep    time.Duration
	routes  []router.Route
	log     *slog.Logger
	removed *prometheus.CounterVec
}

// expiry returns the job, nil when dead messages are kept.
func (b *Builder) expiry(routes []router.Route) (*expiry, error) {
	if b.Config.Parked == nil {
		return nil, nil
	}
	e := &expiry{keep: b.Config.Parked.Keep.Std(), log: b.log, removed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "outrider_parked_expired_total", Help: "Dead messages that were removed because they were older than parked.keep."}, []string{"route"})}
	for _, r := range routes {
		if r.State != nil {
			e.routes = append(e.routes, r)
			e.removed.WithLabelValues(r.Name)
		}
	}
	return e, b.Metrics.Register(e.removed)
}

// run expires messages every hour until ctx ends.
func (e *expiry) run(ctx context.Context) {
	for pause := rand.N(expirySpread); ; pause = expiryEvery { //nolint:gosec // spreads load, guards nothing
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		for i := range e.routes {
			if err := e.expire(ctx, &e.routes[i], time.Now().Add(-e.keep)); err != nil && ctx.Err() == nil {
				e.log.WarnContext(ctx, "removing old dead messages failed; it is tried again", "route", e.routes[i].Name,
					"again_in", expiryEvery.String(), "error", err)
			}
		}
	}
}

// expire removes messages that were parked before a time. It counts first, so that a run with
// nothing to do is not audited, and rests between two steps for as long as one takes.
func (e *expiry) expire(ctx context.Context, r *router.Route, before time.Time) error {
	c := adapters.ParkedCommand{Action: adapters.ParkedPurge, By: expiryBy,
		Filter: adapters.ParkedFilter{Route: r.Name, Status: adapters.ParkedDead, Before: before}}
	counts, err := r.State.CountParked(ctx, c)
	if err != nil || len(counts) == 0 {
		return err
	}
	removed := 0
	for step := (adapters.ParkedStep{More: true}); step.More; {
		began := time.Now()
		// Never cut off: whether the step counts must be known.
		if step, err = r.State.ChangeParked(context.WithoutCancel(ctx), c); err != nil {
			return err
		}
		removed, c.Filter.After = removed+step.Changed, step.Last
		e.removed.WithLabelValues(r.Name).Add(float64(step.Changed))
		select {
		case <-time.After(min(time.Since(began), time.Second)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.log.InfoContext(ctx, "removed old dead messages", "route", r.Name, "messages", removed, "older_than", e.keep.String())
	return nil
}
