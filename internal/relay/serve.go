package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/internal/assembly"
)

// serve runs a generation until ctx ends, it fails, or another one is to take over,
// which it returns.
func (r *Relay) serve(ctx context.Context, g *generation) (next *generation, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- g.run(running) }()
	r.generation.Store(g)
	var atWork *generation // nil: it still starts
	for ready := g.router.Ready(); ; {
		select {
		case <-ready:
			ready, atWork = nil, g
			r.started(g)
		case err := <-done:
			if ctx.Err() == nil && g.before != nil {
				return r.goBack(ctx, g, err)
			}
			return nil, r.atEnd(ctx, g, err)
		case <-ctx.Done():
			r.state.Store(int32(draining))
			r.log.Info("stopping: finishing messages in flight", "at_most", g.now().Config.DrainTimeout.String())
			err := <-done
			err = r.atEnd(ctx, g, err)
			if err == nil {
				r.log.Info("stopped: all results are written down")
			}
			return nil, err
		case <-r.pulse:
		case r.serving <- atWork:
		case next := <-r.changes:
			next.before = cmp.Or(g.before, g.now().Config) // the one in effect: not g, while that still starts
			r.state.Store(int32(changing))
			r.log.Info("reloading: finishing messages in flight", "at_most", g.now().Config.DrainTimeout.String())
			stop()
			if err := <-done; err != nil {
				r.log.Warn("reloading: the drain was not clean, so messages may be delivered again", "error", err)
			}
			return next, nil
		}
	}
}

// atEnd is the error of a relay whose latest generation ended with err. Where the relay was
// asked to end while that generation of a reload still started, nothing was in flight: the
// generation before it has drained.
func (r *Relay) atEnd(ctx context.Context, g *generation, err error) error {
	if err == nil || ctx.Err() == nil || g.told == nil {
		return err
	}
	select {
	case <-g.router.Ready():
		return err
	default:
		r.log.Warn("stopping: the configuration of the reload had not started", "error", err)
		return nil
	}
}

// started notes that a generation delivers, or stands by.
func (r *Relay) started(g *generation) {
	r.state.Store(int32(running))
	r.readyOnce.Do(func() { close(r.ready) })
	g.before = nil
	if g.told != nil {
		g.told <- g.outcome
	}
}

// goBack prepares the configuration that was in effect before one that cannot
// start. When that cannot be used either, the relay ends.
func (r *Relay) goBack(ctx context.Context, failed *generation, cause error) (*generation, error) {
	r.log.Warn("reloading: the new configuration could not start; going back to the old one", "error", cause)
	g, err := prepare(ctx, assembly.NewBuilder(failed.before, r.options))
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr // asked to end: that it could not be prepared is no error
		}
		return nil, errors.Join(cause, err)
	}
	g.told, g.outcome = failed.told, notUsed(cause)
	return g, nil
}

func notUsed(err error) error {
	return fmt.Errorf("the new configuration cannot be used, the old one is at work: %w", err)
}
