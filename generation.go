package outrider

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/router"
)

// generation is one configuration at work. A relay has one after the other.
type generation struct {
	*assembly.Builder
	parts  *assembly.Parts
	router *router.Router
	jobs   []func(context.Context) // beside the routes

	repolled atomic.Pointer[Config] // at work in place of Builder's; nil: that one is, see current

	before  *Config    // of a reload, until this has started: what was at work, to go back to when this cannot start
	told    chan error // of a reload: takes the outcome, once it is known
	outcome error      // reported once this has started
}

// prepare builds and checks everything that a generation needs; nothing is read,
// sent or taken from others yet.
func prepare(ctx context.Context, b *assembly.Builder) (*generation, error) {
	p, err := b.Build(ctx)
	if err != nil {
		return nil, err
	}
	s := &generation{Builder: b, parts: p}
	config := b.RouterConfig().WithDefaults()
	progress := admin.NewProgressJob(b, p, config.Instance, func(store adapters.StateStore) { s.router.Notice(store) })
	if progress != nil {
		config.Before = progress.Before
		s.jobs = append(s.jobs, progress.Run)
	}
	if s.router, err = router.New(config, p.Routes); err == nil {
		var jobs []func(context.Context)
		jobs, err = b.Jobs(ctx, p)
		s.jobs = append(s.jobs, jobs...)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	s.jobs = append(s.jobs, admin.NewOperationsJob(b, p, s.router.Instance()).Run)
	if job := admin.NewStatisticsJob(b.Config, s.router.Stats, b.Options.Logger); job != nil {
		s.jobs = append(s.jobs, job.Run)
	}
	return s, nil
}

// run works until ctx ends, drains, and closes everything.
func (s *generation) run(ctx context.Context) error {
	var asked atomic.Int64 // when the end was asked for, in nanoseconds; 0: it was not
	defer context.AfterFunc(ctx, func() { asked.Store(time.Now().UnixNano()) })()
	cleaning, stop := context.WithCancel(ctx)
	var jobs sync.WaitGroup
	for _, run := range s.jobs {
		jobs.Go(func() {
			select {
			case <-s.router.Ready(): // the state tables are there
				run(cleaning)
			case <-cleaning.Done():
			}
		})
	}
	err := s.router.Run(ctx)
	stop()
	jobs.Wait()
	limit := s.Config.DrainTimeout.Std()
	if at := asked.Load(); at != 0 {
		limit -= time.Since(time.Unix(0, at))
	}
	return errors.Join(err, s.parts.CloseWithin(limit))
}

// serve runs a generation until ctx ends, it fails, or another one is to take over,
// which it returns.
func (o *Outrider) serve(ctx context.Context, s *generation) (next *generation, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.run(running) }()
	o.generation.Store(s)
	for ready := s.router.Ready(); ; {
		select {
		case <-ready:
			ready = nil
			o.started(s)
		case err := <-done:
			if ctx.Err() == nil && s.before != nil {
				return o.goBack(ctx, s, err)
			}
			return nil, o.atEnd(ctx, s, err)
		case <-ctx.Done():
			o.state.Store(int32(draining))
			o.log.Info("stopping: finishing messages in flight", "at_most", s.Config.DrainTimeout.String())
			err := <-done
			err = o.atEnd(ctx, s, err)
			if err == nil {
				o.log.Info("stopped: all results are written down")
			}
			return nil, err
		case ask := <-o.repolls:
			ask.done <- ready == nil && s.repoll(ask.cfg)
		case next := <-o.changes:
			next.before = cmp.Or(s.before, s.current()) // what is at work: not s, while that still starts
			o.state.Store(int32(changing))
			o.log.Info("reloading: finishing messages in flight", "at_most", s.Config.DrainTimeout.String())
			stop()
			if err := <-done; err != nil {
				o.log.Warn("reloading: the drain was not clean, so messages may be delivered again", "error", err)
			}
			return next, nil
		}
	}
}

// atEnd is the error of a relay whose latest generation ended with err. Where the relay was
// asked to end while that generation of a reload still started, nothing was in flight: the
// generation before it has drained.
func (o *Outrider) atEnd(ctx context.Context, s *generation, err error) error {
	if err == nil || ctx.Err() == nil || s.told == nil {
		return err
	}
	select {
	case <-s.router.Ready():
		return err
	default:
		o.log.Warn("stopping: the configuration of the reload had not started", "error", err)
		return nil
	}
}

// started notes that a generation delivers, or stands by.
func (o *Outrider) started(s *generation) {
	o.state.Store(int32(running))
	o.readyMu.Do(func() { close(o.ready) })
	s.before = nil
	if s.told != nil {
		s.told <- s.outcome
	}
}

// goBack prepares the configuration that was at work before one that cannot
// start. When that cannot be used either, the relay ends.
func (o *Outrider) goBack(ctx context.Context, failed *generation, cause error) (*generation, error) {
	o.log.Warn("reloading: the new configuration could not start; going back to the old one", "error", cause)
	s, err := prepare(ctx, assembly.NewBuilder(failed.before, o.options))
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr // asked to end: that it could not be prepared is no error
		}
		return nil, errors.Join(cause, err)
	}
	s.told, s.outcome = failed.told, notUsed(cause)
	return s, nil
}
