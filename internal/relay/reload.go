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

// repolling asks the running generation to continue with a configuration that differs in
// nothing but how sources are polled.
type repolling struct {
	cfg  *config.Config
	done chan bool // takes whether it does; has room
}

// repoll puts a configuration to work without a drain, if that can be; done reports
// whether it is in effect. Which generation that is up to is known where one follows the
// other: see [Relay.serve].
func (r *Relay) repoll(ctx context.Context, cfg *config.Config) (done bool, err error) {
	if _, only := cfg.OnlyPolls(r.generation.Load().current()); !only {
		return false, nil
	}
	ask := repolling{cfg, make(chan bool, 1)}
	select {
	case r.repolls <- ask:
		return <-ask.done, nil
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
	if done, err := r.repoll(ctx, cfg); done || err != nil {
		return err
	}
	next, err := prepare(ctx, assembly.NewBuilder(cfg, r.options))
	if err != nil {
		return notUsed(err)
	}
	next.told = make(chan error, 1)
	r.nameRoutes(ctx, r.generation.Load().current(), next)
	select {
	case r.changes <- next:
	case <-r.ended:
		return errors.Join(errEnded, next.parts.Close())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), next.parts.Close())
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
