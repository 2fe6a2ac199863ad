package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/router"
)

// generation runs one configuration: its parts, their router and the jobs. It does not know the relay.
type generation struct {
	*assembly.Builder
	parts  *assembly.Parts
	router *router.Router
	jobs   []func(context.Context) // beside the routes

	repolled atomic.Pointer[config.Config] // in effect in place of the Builder's; see current

	before  *config.Config // of a reload, until this has started: the one before, to go back to when this cannot start
	told    chan error     // of a reload: takes the outcome, once it is known
	outcome error          // reported once this has started
}

// prepare builds and checks everything that a generation needs; nothing is read,
// sent or taken from others yet.
func prepare(ctx context.Context, b *assembly.Builder) (*generation, error) {
	p, err := b.Build(ctx)
	if err != nil {
		return nil, err
	}
	g := &generation{Builder: b, parts: p}
	settings := b.RouterConfig().WithDefaults()
	settings.Settled = p.Settled()
	progress := operate.NewProgressJob(b, p, settings.Instance, func(store adapters.StateStore) { g.router.Notice(store) })
	if progress != nil {
		settings.Before = progress.Before
		g.jobs = append(g.jobs, progress.Run)
	}
	if g.router, err = router.New(settings, p.Routes); err == nil {
		var jobs []func(context.Context)
		jobs, err = b.Jobs(ctx, p)
		g.jobs = append(g.jobs, jobs...)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	g.jobs = append(g.jobs, operate.NewOperationsJob(b, p, g.router.Instance()).Run)
	if job := console.NewStatisticsJob(b.Config, g.router.Stats, b.Options.Logger); job != nil {
		g.jobs = append(g.jobs, job.Run)
	}
	return g, nil
}

// run works until ctx ends, drains, and closes everything.
func (g *generation) run(ctx context.Context) error {
	var asked atomic.Int64 // when the end was asked for, in nanoseconds; 0: it was not
	defer context.AfterFunc(ctx, func() { asked.Store(time.Now().UnixNano()) })()
	cleaning, stop := context.WithCancel(ctx)
	var jobs sync.WaitGroup
	for _, run := range g.jobs {
		jobs.Go(func() {
			select {
			case <-g.router.Ready(): // the state tables are there
				run(cleaning)
			case <-cleaning.Done():
			}
		})
	}
	err := g.router.Run(ctx)
	stop()
	jobs.Wait()
	limit := g.Config.DrainTimeout.Std()
	if at := asked.Load(); at != 0 {
		limit -= time.Since(time.Unix(0, at))
	}
	return errors.Join(err, g.parts.CloseWithin(limit))
}

// repoll continues with a configuration that only polls in another way than the one at
// work; otherwise it changes nothing and returns false. Sessions, claims and
// connections stay as they are. It is called by who serves the generation.
func (g *generation) repoll(cfg *config.Config) bool {
	polls, only := cfg.OnlyPolls(g.current())
	for name := range polls {
		feed := g.parts.Feeds[name] // of a source that no route reads: an empty one
		only = only && feed.Repollable()
	}
	if !only {
		return false
	}
	for _, name := range assembly.SortedNames(polls) {
		feed := g.parts.Feeds[name]
		feed.Repoll(g.router, polls[name])
		g.Options.Logger.Info("reloading: only poll of the source has changed; the new settings apply from the next poll, without a drain or a new connection",
			"source", name, "batch", polls[name].Batch, "min", polls[name].Min.String(), "max", polls[name].Max.String())
	}
	g.repolled.Store(cfg)
	return true
}

// current is the configuration that the generation works by.
func (g *generation) current() *config.Config {
	if cfg := g.repolled.Load(); cfg != nil {
		return cfg
	}
	return g.Config
}
