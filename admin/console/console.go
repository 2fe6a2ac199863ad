package console

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Relay is the process that a [Console] looks after.
type Relay struct {
	Config   func() *config.Config        // the active configuration
	Stats    func() []adapters.RouteStats // of this process
	Instance func() string                // the name of the process among others; nil: it has none
	Reload   func(context.Context) error  // reads the configuration file again; nil: it cannot

	// Pending are the sections of the file that a reload has read and only the next start applies. nil: none are known.
	Pending func() []string

	// Probe tries an address of a route that is down at once, and reports whether it does. nil: it cannot.
	Probe func(route, address string) bool

	// Trace returns the knowledge of the process about an event, by its id and by the rows that it has in
	// tables, and the name of the instance; nil: nothing.
	Trace func(id string, at []adapters.RowPlace) (instance string, traces []adapters.Trace)

	Options assembly.Options
}

// Console is shared by the HTTP API and the pages of a running relay: an [operate.Operator] on
// the active configuration, and what the process itself knows. It has connections of
// its own, opened when they are first needed, so that a query of an operator never waits
// for the relay's, nor the relay for it.
type Console struct {
	relay   Relay
	watch   atomic.Pointer[watchdog] // nil: off
	history *History
	gauges  gauges

	mu   sync.RWMutex // held for reading while op is used
	op   *operate.Operator
	cfg  *config.Config // that op was opened for
	shut bool

	statusMu sync.Mutex
	status   *Snapshot
	stale    bool          // something was changed since status was begun
	building chan struct{} // closed when the snapshot under way is there; nil: none is
	builds   sync.WaitGroup
	changed  atomic.Bool // since the latest look

	snapshotMu sync.Mutex // held while a snapshot is made
	samples    operate.Samples
	sampled    *operate.Operator    // whose they are
	counted    map[string]delivered // by route

	examining sync.Mutex // held by the one that examines
	fetching  sync.Mutex // held while rows of a source are read
	searches  searches

	proving    sync.Mutex // held by the one that answers a challenge
	registered registrations
}

// delivered is a counter of deliveries at a time.
type delivered struct {
	n  int64
	at time.Time
}

const (
	snapshotAge = time.Second // how old an answer of Status may be
)

// NewConsole makes a console. Nothing is connected yet; close it afterwards.
func NewConsole(r Relay) *Console {
	r.Options.Subscribers = nil // the relay's own
	return &Console{relay: r, history: newHistory(r.Stats), counted: map[string]delivered{}}
}

// ErrEnded is the error of a console after Close.
var ErrEnded = errors.New("the relay has ended")

// ErrUnavailable is the error of a console whose configuration is not active yet, or whose
// state store cannot be reached.
var ErrUnavailable = errors.New("the state store is not available")

// Use calls f with the operator of the active configuration.
func (c *Console) Use(ctx context.Context, f func(*operate.Operator) error) error {
	for {
		cfg := c.relay.Config()
		c.mu.RLock()
		if c.op != nil && c.cfg == cfg && !c.shut {
			return c.held(f)
		}
		c.mu.RUnlock()
		if err := c.renew(ctx, cfg); err != nil {
			return err
		}
	}
}

// held calls f with the operator and gives the lock back.
func (c *Console) held(f func(*operate.Operator) error) error {
	defer c.mu.RUnlock()
	return f(c.op)
}

// renew opens the operator of a configuration in place of the former one.
func (c *Console) renew(ctx context.Context, cfg *config.Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.shut:
		return ErrEnded
	case c.op != nil && c.cfg == cfg:
		return nil
	}
	var closed error
	if c.op != nil {
		closed = c.op.Close()
		c.op = nil
	}
	op, err := operate.OperatorOf(ctx, assembly.NewBuilder(cfg, c.relay.Options))
	if err != nil {
		return errors.Join(ErrUnavailable, err, closed)
	}
	c.op, c.cfg = op, cfg
	return nil
}

// Close frees the connections when the requests in progress have ended.
func (c *Console) Close() error {
	defer c.builds.Wait() // they find that it is shut
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	if c.op == nil {
		return nil
	}
	op := c.op
	c.op = nil
	return op.Close()
}

// Config is the active configuration.
func (c *Console) Config() *config.Config { return c.relay.Config() }

// Pending are the sections of the configuration file that have changed and take effect at the next start of the process.
func (c *Console) Pending() []string {
	if c.relay.Pending == nil {
		return nil
	}
	return c.relay.Pending()
}

// ErrNoReload is the error of [Console.Reload] where the program has no file to read.
var ErrNoReload = errors.New("this program cannot read its configuration again: give it outrider.WithReload")

// reloadRecord bounds the time for the audit record of a reload.
const reloadRecord = 5 * time.Second

// Reload reads the configuration again and puts it to work. The audit log has a record of it.
func (c *Console) Reload(ctx context.Context, by string) error {
	if c.relay.Reload == nil {
		return ErrNoReload
	}
	if err := c.relay.Reload(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadRecord)
	defer cancel()
	err := c.Use(ctx, func(op *operate.Operator) error {
		return op.Record(ctx, by, "reload", len(c.relay.Config().Routes))
	})
	if err != nil { // the reload itself is done
		cmp.Or(c.relay.Options.Logger, slog.Default()).Error("a reload is not in the audit log", "by", by, "error", err)
	}
	return nil
}

// Status is the state of all routes. It is at most a second old, unless finding it out takes longer than
// 100 ms: then it is the one before, and a new one is being made. One that is [Snapshot.Old] is returned only if a
// new one takes longer than a second.
func (c *Console) Status(ctx context.Context) *Snapshot {
	c.statusMu.Lock()
	last := c.status
	if last != nil && !c.stale && time.Since(last.At) < snapshotAge {
		c.statusMu.Unlock()
		return last
	}
	done, stale := c.building, c.stale
	if done == nil {
		done = make(chan struct{})
		c.building, c.stale = done, false
		c.builds.Add(1)
		// It is for all who ask, so it does not end with one of them.
		go c.build(context.WithoutCancel(ctx), done)
	}
	c.statusMu.Unlock()
	timer := time.NewTimer(last.patience(stale))
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	if c.status == nil {
		return &Snapshot{At: time.Now(), Problem: errSlow, Routes: c.known(map[string]status.Route{}), Rates: map[string]float64{}, Stats: map[string]adapters.RouteStats{}}
	}
	return c.status
}

// statusLongest bounds the making of a snapshot.
const statusLongest = 20 * time.Second

var errSlow = errors.New("it has not answered yet")

// build makes a snapshot.
func (c *Console) build(ctx context.Context, done chan struct{}) {
	defer c.builds.Done()
	ctx, cancel := context.WithTimeout(ctx, statusLongest)
	defer cancel()
	c.snapshotMu.Lock()
	s := c.take(ctx)
	c.rate(s)
	c.snapshotMu.Unlock()
	c.statusMu.Lock()
	if c.building == done { // otherwise something was changed meanwhile
		c.status, c.building = s, nil
	}
	c.statusMu.Unlock()
	close(done)
}

// take makes a snapshot of all routes.
func (c *Console) take(ctx context.Context) *Snapshot {
	if c.changed.Swap(false) {
		c.samples.Changed()
	}
	begun, stats := time.Now(), c.relay.Stats()
	running := map[string]status.Route{}
	for _, r := range status.RoutesOf(stats) {
		running[r.Route] = r
	}
	s := &Snapshot{Rates: map[string]float64{}, Stats: map[string]adapters.RouteStats{}}
	err := c.Use(ctx, func(op *operate.Operator) (err error) {
		if c.sampled != op { // another configuration: the samples are of the former one
			c.sampled, c.samples = op, operate.Samples{}
		}
		if s.Routes, s.Instances, err = op.StatusWith(ctx, &c.samples, running, nil); err != nil {
			return err
		}
		s.Lanes = c.samples.Lanes
		slices.SortFunc(s.Lanes, func(a, b adapters.LaneStatus) int { // a database may sort names in another way
			return cmp.Or(strings.Compare(a.Route, b.Route), cmp.Compare(a.Slot, b.Slot))
		})
		if w := c.watch.Load(); w != nil {
			for i := range s.Routes {
				s.Routes[i].Overdue = w.overdue(s.Routes[i].Route)
			}
		}
		return nil
	})
	if err != nil {
		s.Problem = err
		s.Routes = c.known(running)
	}
	s.At = time.Now()
	s.Took = s.At.Sub(begun)
	for _, st := range stats {
		s.Stats[st.Route] = st
	}
	return s
}

// rate completes a snapshot for pages by what was delivered since the one before.
func (c *Console) rate(s *Snapshot) {
	for route, st := range s.Stats {
		last, ok := c.counted[route]
		if d := s.At.Sub(last.at); ok && d > 0 && st.Delivered >= last.n {
			s.Rates[route] = float64(st.Delivered-last.n) / d.Seconds()
		}
		c.counted[route] = delivered{st.Delivered, s.At}
	}
}

// Changed has the next Status look again, because something was changed.
func (c *Console) Changed() {
	c.changed.Store(true)
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	c.stale, c.building = true, nil // what is under way may have begun before
}

// known are the routes as the process alone knows them.
func (c *Console) known(running map[string]status.Route) []status.RouteStatus {
	rows := status.Summarise(c.relay.Config(), nil)
	for i := range rows {
		rows[i].Alive, rows[i].Owners = true, []string{}
		rows[i].AddRunning(running[rows[i].Route])
	}
	status.Judge(rows, nil)
	return rows
}
