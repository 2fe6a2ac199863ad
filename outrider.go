package outrider

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin"
	"github.com/outriderhq/outrider/admin/api"
	"github.com/outriderhq/outrider/admin/web"
	"github.com/outriderhq/outrider/compat/crablet/publishers"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/failpoint"
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
	cfg        *Config // what it began with
	options    assembly.Options
	log        *slog.Logger
	admin      *admin.Server
	console    *admin.Console             // what the admin API works on
	generation atomic.Pointer[generation] // the latest
	begun      atomic.Bool                // Run was called
	state      atomic.Int32               // a phase
	ready      chan struct{}
	readyMu    sync.Once

	pending   atomic.Pointer[[]string] // sections that a reload found changed, and that only a start applies
	changes   chan *generation         // generations that are to take over
	repolls   chan repolling           // see repoll
	ended     chan struct{}            // closed when Run has returned
	reloading sync.Mutex               // held by a Reload
}

// phase is the state of a relay that /readyz reports.
type phase int32

const (
	starting phase = iota
	running
	draining
	changing
)

// New checks that the options fit the configuration. Nothing is connected yet.
func New(cfg *Config, opts ...Option) (*Outrider, error) {
	if cfg.Partial {
		return nil, errors.New("the configuration was loaded for its state only, and its destinations have errors: load it with LoadConfig")
	}
	o := assembly.OptionsOf(opts)
	if err := o.Check(cfg); err != nil {
		return nil, err
	}
	relay := &Outrider{cfg: cfg, options: o, log: o.Logger, ready: make(chan struct{}),
		changes: make(chan *generation), repolls: make(chan repolling), ended: make(chan struct{})}
	relay.console = relay.newConsole()
	return relay, nil
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
	defer close(o.ended)
	if at, err := failpoint.Armed(); err != nil {
		return err
	} else if at != "" {
		o.log.Warn("this process will kill itself: "+failpoint.Env+" is set, which is for tests", "at", string(at))
	}
	o.warn(o.cfg)
	defer func() { err = errors.Join(err, o.console.Close()) }()
	defer o.record(ctx)()
	if o.cfg.Admin.Enabled() {
		if err := o.startAdmin(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.admin.Close()) }()
	}
	err = o.work(ctx)
	for tries := 0; o.startsAgain(ctx, tries, err); tries++ {
		err = o.work(ctx)
	}
	return err
}

// work runs one generation after the other until ctx ends or one of them fails.
func (o *Outrider) work(ctx context.Context) error {
	next, err := prepare(ctx, assembly.NewBuilder(o.cfg, o.options))
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // asked to stop before it began: nothing is in flight
	}
	for next != nil && err == nil {
		next, err = o.serve(ctx, next)
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
func (o *Outrider) startsAgain(ctx context.Context, tries int, err error) bool {
	select {
	case <-o.ready:
		return false
	default:
	}
	if ctx.Err() != nil || tries == startsMost || len(o.options.Destinations)+len(o.options.Subscribers) > 0 || !assembly.WasCut(err) {
		return false
	}
	pause := startPause << tries
	o.log.Warn("a connection was cut during the start, which is tried again", "in", pause.String(), "error", err)
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	return true
}

// record has the console keep its history until the returned function is called.
func (o *Outrider) record(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.console.Record(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// warn logs what the configuration's author should know, such as a connection
// that is not encrypted.
func (o *Outrider) warn(cfg *Config) {
	for _, w := range cfg.Warnings {
		o.log.Warn("configuration: " + w.Error())
	}
}

// Ready returns a channel that is closed when the relay delivers, or stands by
// for another instance.
func (o *Outrider) Ready() <-chan struct{} { return o.ready }

// Stats returns the counters of all routes since Run began or the latest
// [Outrider.Reload], nil before.
func (o *Outrider) Stats() []adapters.RouteStats {
	if s := o.generation.Load(); s != nil {
		return s.router.Stats()
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

// Wake makes the relay read new rows of a source at once, instead of after its
// next pause. Call it after the commit if the relay is embedded in the process
// that publishes. It does not block, and calls in quick succession count as one.
// It has no effect if another instance owns the message's lane, the relay does
// not run, or the source does not exist.
func (o *Outrider) Wake(source string) {
	work := o.generation.Load()
	if work == nil {
		return
	}
	if f := work.parts.Feeds[source]; f.Source != nil {
		work.router.Wake(f.Source)
	} else if f.Queue != nil {
		work.router.Wake(f.Queue)
	}
}

// startAdmin serves health and metrics from the beginning, so that a start that
// hangs can be seen.
func (o *Outrider) startAdmin() error {
	s, err := admin.Listen(o.adminConfig())
	if err != nil {
		return err
	}
	o.admin = s
	return nil
}

// newConsole makes what the admin API works on.
func (o *Outrider) newConsole() *admin.Console {
	r := admin.Relay{Stats: o.Stats, Options: o.options, Config: func() *Config {
		if s := o.generation.Load(); s != nil {
			return s.current()
		}
		return o.cfg
	}}
	r.Instance = func() string {
		if s := o.generation.Load(); s != nil {
			return s.router.Instance()
		}
		return o.options.Instance
	}
	r.Trace = func(id string, at []adapters.RowPlace) (string, []adapters.Trace) {
		if s := o.generation.Load(); s != nil {
			return s.router.Trace(id, at)
		}
		return "", nil
	}
	r.Pending = func() []string {
		if p := o.pending.Load(); p != nil {
			return *p
		}
		return nil
	}
	r.Probe = func(route, address string) bool {
		s := o.generation.Load()
		return s != nil && s.router.ProbeNow(route, address)
	}
	if read := o.options.Reread; read != nil {
		r.Reload = func(ctx context.Context) error {
			cfg, err := read()
			if err != nil {
				return err
			}
			return o.Reload(ctx, cfg)
		}
	}
	return admin.NewConsole(r)
}

// Handler returns the admin server's handler, to be mounted in a server of the
// program's own, for example under /outrider/ with [http.StripPrefix]: health
// (/livez, /readyz), /routes, /metrics, the API below /api/v1/ and the dashboard at /. It asks for the configured tokens; without
// any, put the program's own authentication before it. It may be served before Run
// begins.
func (o *Outrider) Handler() http.Handler { return admin.Handler(o.adminConfig()) }

func (o *Outrider) adminConfig() admin.Config {
	return admin.Config{
		Listen: o.cfg.Admin.Listen, Tokens: assembly.Reveal(o.cfg.Admin.Tokens), Hosts: o.cfg.Admin.Hosts, Logger: o.log,
		OperateTokens: assembly.Reveal(o.cfg.Admin.OperateTokens), AdminTokens: assembly.Reveal(o.cfg.Admin.AdminTokens),
		Anonymous: admin.ParseRole(o.cfg.Admin.Anonymous), Identity: admin.IdentityOf(o.cfg.Admin),
		API: api.New(o.console), Outbox: publishers.New(o.console), Pages: web.New(o.console),
		Stats: o.Stats, Ready: o.readiness, Prove: o.console.Prove, Metrics: shownMetrics{o},
	}
}

// readiness says why the relay is not ready, or nothing when it is.
func (o *Outrider) readiness() string {
	switch phase(o.state.Load()) {
	case running:
		return strings.Join(o.generation.Load().router.Problems(), "\n")
	case draining:
		return "draining: the process is stopping"
	case changing:
		return "reloading: one configuration drains, then the next one takes over"
	default:
		return "starting: sources and destinations are being checked"
	}
}
