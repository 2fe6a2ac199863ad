package outrider

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/relay"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// ErrCutOff is what [Outrider.Run] returns, by errors.Is, when `drain_timeout` was
// over before everything in flight had ended. The error names routes and lanes,
// and how many messages were in flight: whether those arrived is not known, and
// they may be delivered again. Everything else is finished and written down,
// unless the error says otherwise as well.
var ErrCutOff = router.ErrCutOff

// Outrider is a relay. Make one with [New] and run it once.
type Outrider struct {
	cfg     *Config // the first
	options assembly.Options
	log     *slog.Logger
	relay   *relay.Relay
	admin   *server.Server
	probes  *server.Server
	console *console.Console // the console of the admin server
	begun   atomic.Bool      // Run was called
}

// New checks that the options fit the configuration. Nothing is connected yet.
func New(cfg *Config, opts ...Option) (*Outrider, error) {
	if cfg.Partial {
		return nil, errors.New("the configuration was loaded for its state only, and its destinations have errors: load it with LoadConfig")
	}
	o := assembly.OptionsOf(opts)
	if err := o.Check(cfg); err != nil {
		return nil, err
	}
	out := &Outrider{cfg: cfg, options: o, log: o.Logger, relay: relay.New(cfg, o)}
	out.console = out.newConsole()
	return out, nil
}

// Run connects, checks sources and destinations, and delivers until ctx ends. A start during which
// a connection is cut is tried again for some seconds; any other problem of a start is returned at once. At the end
// it drains: reading stops, messages in flight are finished and settled, and the
// lanes are released. It returns nil after a clean drain, and [ErrCutOff] after one
// that did not end in time. Closing parts at the end may take the rest of the drain
// timeout, or a second; an error names the parts that were not closed in that time.
// A relay runs once: another Run returns an error and changes nothing.
func (o *Outrider) Run(ctx context.Context) (err error) {
	if !o.begun.CompareAndSwap(false, true) {
		return errors.New("this relay runs already, or has run: make another one with outrider.New")
	}
	defer o.relay.End()
	if at, err := failpoint.Armed(); err != nil {
		return err
	} else if at != "" {
		o.log.Warn("this process will kill itself: "+failpoint.Env+" is set, which is for tests", "at", string(at))
	}
	defer func() { err = errors.Join(err, o.console.Close()) }()
	defer o.record(ctx)()
	defer func() { err = errors.Join(err, o.closeAdmin()) }()
	if err := o.startAdmin(); err != nil {
		return err
	}
	stop, err := o.pushMetrics(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return o.relay.Run(ctx)
}

// Ready returns a channel that is closed when the relay delivers, or stands by
// for another instance.
func (o *Outrider) Ready() <-chan struct{} { return o.relay.Ready() }

// Alive reports whether the relay's main loop answers before ctx ends. It says nothing about databases and destinations: a relay that waits
// for them is alive. A start, a reload and a drain count as alive; they have limits of their own.
func (o *Outrider) Alive(ctx context.Context) bool { return o.relay.Alive(ctx) }

// Stats returns the counters of all routes since Run began or the latest
// [Outrider.Reload], nil before.
func (o *Outrider) Stats() []adapters.RouteStats {
	if r := o.relay.Router(); r != nil {
		return r.Stats()
	}
	return nil
}

// AdminAddress returns the address of the admin server after Run has started
// it; empty if there is none.
func (o *Outrider) AdminAddress() string {
	if o.admin == nil {
		return ""
	}
	return o.admin.Addr()
}

// ProbesAddress returns the address that answers nothing but probes, after Run has started it; empty if there is none.
func (o *Outrider) ProbesAddress() string {
	if o.probes == nil {
		return ""
	}
	return o.probes.Addr()
}

// Wake makes the relay read new rows of a source at once, instead of after its
// next pause. Call it after the commit if the relay is embedded in the process
// that publishes. It does not block, and calls in quick succession count as one.
// It has no effect if another instance owns the message's lane, the relay does
// not run, or the source does not exist.
func (o *Outrider) Wake(source string) { o.relay.Wake(source) }

// Reload applies another configuration in this process. First it is checked as at a
// start, while the relay continues: it is refused for what a start is refused for, such as a database
// that cannot be reached, and a destination that does not answer is only logged. Then the relay drains,
// and the new configuration continues where the old one stopped; nothing is delivered
// twice. Reload returns when the new configuration delivers. After an error the old one is
// at work, in the rare case that the new one could not start after all: again.
//
// Where only routes of append-only tables and their destinations have changed, only those routes are drained; the others, their connections and
// counters stay. Where only the section poll of sources has changed, nothing is drained or connected anew: the sources are polled by the new
// settings from their next poll on.
//
// The admin server continues meanwhile; /readyz says not ready while all is drained,
// and counters begin at 0 again. The sections admin, log and telemetry stay as they were at the
// start of the process; a change of them is logged, and applied by the next start. A part that was supplied with [WithDestination],
// [WithBatchDestination] or [WithSource] is closed with the configuration that
// used it, so such a relay cannot be reloaded.
func (o *Outrider) Reload(ctx context.Context, cfg *Config) error { return o.relay.Reload(ctx, cfg) }

// Reread reads the configuration with the function of [WithReload]; [Outrider.Reload] applies it. An error counts as a reload that failed, in the
// metric outrider_config_last_reload_successful.
func (o *Outrider) Reread() (*Config, error) {
	if o.options.Reread == nil {
		return nil, console.ErrNoReload
	}
	cfg, err := o.options.Reread()
	if err != nil {
		o.relay.Reloaded(err)
	}
	return cfg, err
}

// HotPath returns the hot path of a source, which delivers messages of this process right after their commit, for
// [outbox.ClientConfig].Hot. The source is one of the configuration, with the layout outrider or
// outbox-framework. In MariaDB, MySQL and SQLite the relay reads the table right after each commit. In PostgreSQL:
//
// Messages are delivered from memory if the INSERT has shown that nothing of their group can be before them. Otherwise, with layout outrider, the
// relay reads the slots that the transaction wrote to, by a short statement and without waiting for its next poll.
//
// Polling continues beside it, and finds the other messages: those of other processes, and after a crash; those of lanes that other
// instances own; those without room in memory. Order and guarantees are the same either way.
//
// HotPath may be called before [Outrider.Run]; its result stays valid after a
// reload.
func (o *Outrider) HotPath(source string) (outbox.HotPath, error) { return o.relay.HotPath(source) }
