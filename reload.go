package outrider

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/internal/assembly"
)

// errEnded is the error of a reload that the end of the relay came before.
var errEnded = errors.New("the relay has ended")

// Reload applies another configuration in this process. First it is checked as at a
// start, while the relay continues: it is refused for what a start is refused for, such as a database
// that cannot be reached, and a destination that does not answer is only logged. Then the relay drains,
// and the new configuration continues where the old one stopped; nothing is delivered
// twice. Reload returns when the new configuration delivers. Where only the section
// poll of sources has changed, nothing is drained or connected anew: the sources are
// polled by the new settings from their next poll on. After an error the old one is
// at work, in the rare case that the new one could not start after all: again.
//
// The admin server continues meanwhile; /readyz says not ready during the change,
// and counters begin at 0 again. The sections admin and log stay as they were at the
// start of the process; a change of them is logged, and applied by the next start. A part that was supplied with [WithDestination],
// [WithBatchDestination] or [WithSource] is closed with the configuration that
// used it, so such a relay cannot be reloaded.
func (o *Outrider) Reload(ctx context.Context, cfg *Config) error {
	if !o.reloading.TryLock() {
		return errors.New("another reload is in progress")
	}
	defer o.reloading.Unlock()
	if len(o.options.Destinations)+len(o.options.Subscribers) > 0 {
		return errors.New("a relay with a destination or source that the program supplied cannot be reloaded: make a new one")
	}
	select {
	case <-o.ended:
		return errEnded
	case <-o.ready:
	default:
		return errors.New("the relay has not started yet; try again when it is ready")
	}
	cfg, pending := o.atStart(cfg)
	err := o.apply(ctx, cfg)
	if err == nil {
		o.pending.Store(&pending)
		for _, section := range pending {
			o.log.Warn("reloading: the section " + section + " has changed, which takes effect at the next start of the process only")
		}
	}
	return err
}

// atStart returns a configuration with those sections that only a start applies as they are at work, and the names of those
// that differ.
func (o *Outrider) atStart(cfg *Config) (kept *Config, differ []string) {
	kept = new(*cfg)
	kept.Admin, kept.Log = o.cfg.Admin, o.cfg.Log
	if !reflect.DeepEqual(cfg.Admin, kept.Admin) {
		differ = append(differ, "admin")
	}
	if cfg.Log != kept.Log {
		differ = append(differ, "log")
	}
	return kept, differ
}

// apply has a configuration take over from the one at work.
func (o *Outrider) apply(ctx context.Context, cfg *Config) error {
	if err := o.options.Check(cfg); err != nil {
		return notUsed(err)
	}
	o.warn(cfg)
	if done, err := o.repoll(ctx, cfg); done || err != nil {
		return err
	}
	next, err := prepare(ctx, assembly.NewBuilder(cfg, o.options))
	if err != nil {
		return notUsed(err)
	}
	next.told = make(chan error, 1)
	o.nameRoutes(ctx, o.generation.Load().current(), next)
	select {
	case o.changes <- next:
	case <-o.ended:
		return errors.Join(errEnded, next.parts.Close())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), next.parts.Close())
	}
	select {
	case err := <-next.told:
		return err
	case <-o.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

func notUsed(err error) error {
	return fmt.Errorf("the new configuration cannot be used, the old one is at work: %w", err)
}

// shownMetrics are those of the generation that is at work.
type shownMetrics struct{ o *Outrider }

// Describe implements prometheus.Collector: which metrics there are depends on
// the configuration.
func (shownMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m shownMetrics) Collect(out chan<- prometheus.Metric) {
	if s := m.o.generation.Load(); s != nil {
		s.Metrics.Collect(out)
	}
	m.o.console.Collect(out)
}
