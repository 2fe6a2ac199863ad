// Package relay runs configurations: one generation after the other, each until the relay ends, until it fails, or until a reload replaces
// it. What programs see of it is package outrider.
package relay

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/router"
)

// Relay delivers what its configurations say. Make one with [New].
type Relay struct {
	cfg        *config.Config // the first
	options    assembly.Options
	log        *slog.Logger
	generation atomic.Pointer[generation] // the latest
	state      atomic.Int32               // a phase
	ready      chan struct{}              // closed when the first generation delivers, or stands by
	readyOnce  sync.Once
	ended      chan struct{} // closed by End

	pending   atomic.Pointer[[]string] // sections that a reload found changed, and that only a start applies
	changes   chan *generation         // generations that are to take over
	serving   chan *generation         // gives the one that is at work, nil while it still starts; see serve
	pulse     chan struct{}            // taken by the main loop, see Alive
	reloading sync.Mutex               // held by a Reload
	reloads   reloads
}

// phase is the state of a relay that /readyz reports.
type phase int32

const (
	starting phase = iota
	running
	draining
	changing
)

// New returns a relay that begins with a configuration. Nothing is connected yet.
func New(cfg *config.Config, o assembly.Options) *Relay {
	r := &Relay{cfg: cfg, options: o, log: o.Logger, ready: make(chan struct{}), ended: make(chan struct{}),
		changes: make(chan *generation), serving: make(chan *generation), pulse: make(chan struct{})}
	r.Reloaded(nil)
	return r
}

// End has a pending [Relay.Reload], and all later ones, return an error. Nothing else may be called after it than what only reads.
func (r *Relay) End() { close(r.ended) }

// Ready returns a channel that is closed when the relay delivers, or stands by for another instance.
func (r *Relay) Ready() <-chan struct{} { return r.ready }

// Router returns the router of the latest generation; nil before there is one.
func (r *Relay) Router() *router.Router {
	if g := r.generation.Load(); g != nil {
		return g.router
	}
	return nil
}

// Config returns the configuration in effect: the first one before Run.
func (r *Relay) Config() *config.Config {
	if g := r.generation.Load(); g != nil {
		return g.now().Config
	}
	return r.cfg
}

// Wake has new rows of a source read at once. It has no effect on a source that does not exist.
func (r *Relay) Wake(source string) {
	g := r.generation.Load()
	if g == nil {
		return
	}
	if f := g.now().parts.Feeds[source]; f.Source != nil {
		g.router.Wake(f.Source)
	} else if f.Queue != nil {
		g.router.Wake(f.Queue)
	}
}

// NotReady says why the relay is not ready; empty when it is.
func (r *Relay) NotReady() string {
	switch phase(r.state.Load()) {
	case running:
		return strings.Join(r.generation.Load().router.Problems(), "\n")
	case draining:
		return "draining: the process is stopping"
	case changing:
		return "reloading: one configuration drains, then the next one takes over"
	default:
		return "starting: sources and destinations are being checked"
	}
}

// Alive reports whether the main loop answers before ctx ends. It does not while one configuration drains and the next one starts, so that
// counts as alive, also if it begins while Alive waits.
func (r *Relay) Alive(ctx context.Context) bool {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for phase(r.state.Load()) == running {
		select {
		case r.pulse <- struct{}{}:
			return true
		case <-r.ended:
			return true
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// warn logs what the configuration's author should know, such as a connection
// that is not encrypted.
func (r *Relay) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings {
		r.log.Warn("configuration: " + w.Error())
	}
}

// Run connects, checks sources and destinations, and delivers until ctx ends, and then drains. A start during which a connection is cut
// is tried again for some seconds. It is called once, and [Relay.End] after it.
func (r *Relay) Run(ctx context.Context) error {
	r.warn(r.cfg)
	err := r.work(ctx)
	for attempts := 0; r.startsAgain(ctx, attempts, err); attempts++ {
		err = r.work(ctx)
	}
	return err
}

// work runs one generation after the other until ctx ends or one of them fails.
func (r *Relay) work(ctx context.Context) error {
	next, err := prepare(ctx, assembly.NewBuilder(r.cfg, r.options))
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // asked to stop before it began: nothing is in flight
	}
	for next != nil && err == nil {
		next, err = r.serve(ctx, next)
	}
	return err
}

// How often a start is tried again, and the first pause before that; each is twice as long as the one before: together 3 s.
const (
	startsMost = 6
	startPause = 50 * time.Millisecond
)

// startsAgain reports whether a start that failed is to be tried again, after a pause: when a connection was cut. A relay that has
// started rides such errors out by itself. A part that the program supplied was closed with the start.
func (r *Relay) startsAgain(ctx context.Context, attempts int, err error) bool {
	select {
	case <-r.ready:
		return false
	default:
	}
	if ctx.Err() != nil || attempts == startsMost || len(r.options.Destinations)+len(r.options.Subscribers) > 0 || !assembly.WasCut(err) {
		return false
	}
	pause := startPause << attempts
	r.log.Warn("a connection was cut during the start, which is tried again", "in", pause.String(), "error", err)
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	return true
}
