package relay

import (
	"context"
	"errors"
	"reflect"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// errEnded is the error of a reload that the end of the relay came before.
var errEnded = errors.New("the relay has ended")

// Reload applies another configuration: see package outrider for what it promises.
func (r *Relay) Reload(ctx context.Context, cfg *config.Config) error {
	if !r.reloading.TryLock() {
		return errors.New("another reload is in progress")
	}
	defer r.reloading.Unlock()
	err := r.reload(ctx, cfg)
	r.Reloaded(err)
	return err
}

func (r *Relay) reload(ctx context.Context, cfg *config.Config) error {
	if len(r.options.Destinations)+len(r.options.Subscribers) > 0 {
		return errors.New("a relay with a destination or source that the program supplied cannot be reloaded: make a new one")
	}
	select {
	case <-r.ended:
		return errEnded
	case <-r.ready:
	default:
		return errors.New("the relay has not started yet; try again when it is ready")
	}
	cfg, pending := r.atStart(cfg)
	err := r.apply(ctx, cfg)
	if err == nil {
		r.pending.Store(&pending)
		for _, section := range pending {
			r.log.Warn("reloading: the section " + section + " has changed, which takes effect at the next start of the process only")
		}
	}
	return err
}

// Pending returns the sections that the latest reload found changed, and that only a start applies.
func (r *Relay) Pending() []string {
	if p := r.pending.Load(); p != nil {
		return *p
	}
	return nil
}

// atStart returns a configuration with those sections that only a start applies as they are in effect, and the names of those
// that differ.
func (r *Relay) atStart(cfg *config.Config) (kept *config.Config, differ []string) {
	kept = new(*cfg)
	kept.Admin, kept.Log, kept.Telemetry = r.cfg.Admin, r.cfg.Log, r.cfg.Telemetry
	if !reflect.DeepEqual(cfg.Admin, kept.Admin) {
		differ = append(differ, "admin")
	}
	if cfg.Log != kept.Log {
		differ = append(differ, "log")
	}
	if !reflect.DeepEqual(cfg.Telemetry, kept.Telemetry) {
		differ = append(differ, "telemetry")
	}
	return kept, differ
}

// changeInPlace has the generation continue with a configuration that differs little, without a drain of all; done reports whether that
// is in effect.
func (r *Relay) changeInPlace(ctx context.Context, cfg *config.Config) (done bool, err error) {
	if _, little := cfg.Since(r.Config()); !little {
		return false, nil
	}
	select {
	case g := <-r.serving:
		if g == nil {
			return false, nil
		}
		return g.change(ctx, cfg)
	case <-r.ended:
		return false, errEnded
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// apply has a configuration take over from the one in effect.
func (r *Relay) apply(ctx context.Context, cfg *config.Config) error {
	if err := r.options.Check(cfg); err != nil {
		return notUsed(err)
	}
	r.warn(cfg)
	if done, err := r.changeInPlace(ctx, cfg); done || err != nil {
		return err
	}
	next, err := prepare(ctx, assembly.NewBuilder(cfg, r.options))
	if err != nil {
		return notUsed(err)
	}
	next.told = make(chan error, 1)
	nameRoutes(ctx, r.Config(), next.now())
	select {
	case r.changes <- next:
	case <-r.ended:
		return errors.Join(errEnded, next.now().parts.Close())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), next.now().parts.Close())
	}
	select {
	case err := <-next.told:
		return err
	case <-r.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}
