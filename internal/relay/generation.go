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

// generation runs one configuration after a drain of the one before, and then those that differ little from it: its router and its jobs. It does
// not know the relay.
type generation struct {
	router *router.Router
	work   atomic.Pointer[work]
	jobs   []func(context.Context) // beside the routes, whatever changes

	changing sync.Mutex      // held while the work changes, and when it ends
	running  context.Context //nolint:containedctx // of jobs: until the routes drain
	working  *jobs           // of the work

	before  *config.Config // of a reload, until this has started: the one before, to go back to when this cannot start
	told    chan error     // of a reload: takes the outcome, once it is known
	outcome error          // reported once this has started
}

// work is what a generation does now: a configuration, its parts, and what runs beside its routes.
type work struct {
	*assembly.Builder
	parts *assembly.Parts
	jobs  []func(context.Context)
}

// now is what the generation does. Its configuration is that in effect.
func (g *generation) now() *work { return g.work.Load() }

// prepare builds and checks everything that a generation needs; nothing is read,
// sent or taken from others yet.
func prepare(ctx context.Context, b *assembly.Builder) (*generation, error) {
	p, err := b.Build(ctx)
	if err != nil {
		return nil, err
	}
	g := &generation{}
	settings := b.RouterConfig().WithDefaults()
	settings.Settled = p.Settled()
	progress := operate.NewProgressJob(b, p, settings.Instance, func(store adapters.StateStore) { g.router.Notice(store) })
	if progress != nil {
		settings.Before = progress.Before
		g.jobs = append(g.jobs, progress.Run)
	}
	var w *work
	if g.router, err = router.New(settings, p.Routes); err == nil {
		w, err = g.plan(ctx, b, p)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	g.work.Store(w)
	if job := console.NewStatisticsJob(b.Config, g.router.Stats, b.Options.Logger); job != nil {
		g.jobs = append(g.jobs, job.Run)
	}
	return g, nil
}

// plan makes work of parts.
func (g *generation) plan(ctx context.Context, b *assembly.Builder, p *assembly.Parts) (*work, error) {
	jobs, err := b.Jobs(ctx, p)
	return &work{b, p, append(jobs, operate.NewOperationsJob(b, p, g.router.Instance()).Run)}, err
}

// run works until ctx ends, drains, and closes everything.
func (g *generation) run(ctx context.Context) error {
	var asked atomic.Int64 // when the end was asked for, in nanoseconds; 0: it was not
	defer context.AfterFunc(ctx, func() { asked.Store(time.Now().UnixNano()) })()
	running, stop := context.WithCancel(ctx)
	defer stop()
	g.changing.Lock()
	g.running, g.working = running, g.begin(running, g.now().jobs)
	g.changing.Unlock()
	others := g.begin(running, g.jobs)
	err := g.router.Run(ctx)
	others.end()
	g.changing.Lock()
	defer g.changing.Unlock()
	g.working.end()
	limit := g.now().Config.DrainTimeout.Std()
	if at := asked.Load(); at != 0 {
		limit -= time.Since(time.Unix(0, at))
	}
	return errors.Join(err, g.now().parts.CloseWithin(limit))
}

// jobs are running.
type jobs struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// begin runs jobs once the routes are at work: the state tables are there then.
func (g *generation) begin(ctx context.Context, all []func(context.Context)) *jobs {
	ctx, stop := context.WithCancel(ctx)
	j := &jobs{stop: stop}
	for _, run := range all {
		j.running.Go(func() {
			select {
			case <-g.router.Ready():
				run(ctx)
			case <-ctx.Done():
			}
		})
	}
	return j
}

func (j *jobs) end() {
	j.stop()
	j.running.Wait()
}
