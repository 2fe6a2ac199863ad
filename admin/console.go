package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Relay is the process that a [Console] looks after.
type Relay struct {
	Config func() *config.Config        // the configuration at work
	Stats  func() []adapters.RouteStats // of this process
	Reload func(context.Context) error  // reads the configuration file again; nil: it cannot

	// Trace is what the process knows of an event, by its id and by the rows that it has in
	// tables, and the name of the instance; nil: nothing.
	Trace func(id string, at []adapters.RowPlace) (instance string, traces []adapters.Trace)

	Options assembly.Options
}

// Console is what the HTTP API and the pages of a running relay share: an [Operator] on
// the configuration at work, beside what the process itself knows. It has connections of
// its own, opened when they are first needed, so that a query of an operator never waits
// for the relay's, nor the relay for it.
type Console struct {
	relay   Relay
	history *History

	mu   sync.RWMutex // held for reading while op is used
	op   *Operator
	cfg  *config.Config // that op was opened for
	shut bool

	statusMu sync.Mutex // one looks at a time; others share what it finds
	status   *Snapshot
	samples  map[string]sample
	open     map[string]openTransactions // by source
}

// Snapshot is the state of all routes at a moment.
type Snapshot struct {
	At        time.Time
	Routes    []RouteStatus // worst first
	Instances []Member
	Rates     map[string]float64 // by route: messages a second that this instance delivered lately
	Stats     map[string]adapters.RouteStats

	// Problem is why the state store could not be read; then the routes are what the
	// process knows.
	Problem error
}

// CauseOf is why a route of the snapshot is in its state.
func (s *Snapshot) CauseOf(r *RouteStatus) Cause {
	c := r.Cause()
	if s.Problem != nil && c.Kind != CauseStopped {
		c = Cause{Kind: CauseState, Text: "the state store cannot be read: " + s.Problem.Error(), Why: s.Problem.Error(),
			Action: "make its database reachable; `outrider doctor` examines it"}
	}
	return c
}

// sample is a counter of deliveries at a time.
type sample struct {
	delivered int64
	at        time.Time
}

// openTransactions is what was found out about those of a source.
type openTransactions struct {
	at        time.Time
	text, fix string
}

const (
	snapshotAge     = time.Second      // how old an answer of Status may be
	transactionsAge = 30 * time.Second // how often a source is examined for long transactions
)

// NewConsole makes a console. Nothing is connected yet; close it afterwards.
func NewConsole(r Relay) *Console {
	r.Options.Subscribers = nil // the relay's own
	return &Console{relay: r, history: newHistory(r.Stats), samples: map[string]sample{}, open: map[string]openTransactions{}}
}

// errShut is the error of a console after Close.
var errShut = errors.New("the relay has ended")

// ErrUnavailable is why a console cannot answer: the configuration is not at work yet, or its
// state store cannot be reached.
var ErrUnavailable = errors.New("the state store is not available")

// Use calls f with the operator of the configuration at work.
func (c *Console) Use(ctx context.Context, f func(*Operator) error) error {
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
func (c *Console) held(f func(*Operator) error) error {
	defer c.mu.RUnlock()
	return f(c.op)
}

// renew opens the operator of a configuration in place of the former one.
func (c *Console) renew(ctx context.Context, cfg *config.Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.shut:
		return errShut
	case c.op != nil && c.cfg == cfg:
		return nil
	}
	var closed error
	if c.op != nil {
		closed = c.op.Close()
		c.op = nil
	}
	op, err := newOperator(ctx, assembly.NewBuilder(cfg, c.relay.Options))
	if err != nil {
		return errors.Join(ErrUnavailable, err, closed)
	}
	c.op, c.cfg = op, cfg
	return nil
}

// Close frees the connections when the requests in progress have ended.
func (c *Console) Close() error {
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

// Config is the configuration at work.
func (c *Console) Config() *config.Config { return c.relay.Config() }

// ErrNoReload is the error of [Console.Reload] where the program has no file to read.
var ErrNoReload = errors.New("this program cannot read its configuration again: give it outrider.WithReload")

// Reload reads the configuration again and puts it to work.
func (c *Console) Reload(ctx context.Context) error {
	if c.relay.Reload == nil {
		return ErrNoReload
	}
	return c.relay.Reload(ctx)
}

// Status is the state of all routes, at most a second old.
func (c *Console) Status(ctx context.Context) *Snapshot {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	if c.status != nil && time.Since(c.status.At) < snapshotAge {
		return c.status
	}
	stats := c.relay.Stats()
	running := map[string]Route{}
	for _, r := range routesOf(stats) {
		running[r.Route] = r
	}
	s := &Snapshot{Rates: map[string]float64{}, Stats: map[string]adapters.RouteStats{}}
	err := c.Use(ctx, func(op *Operator) (err error) {
		if s.Routes, s.Instances, err = op.Status(ctx, running, nil); err != nil {
			return err
		}
		c.lookForTransactions(ctx, op, s.Routes)
		return nil
	})
	if err != nil {
		s.Problem = err
		s.Routes = c.known(running)
	}
	now := time.Now()
	for _, st := range stats {
		s.Stats[st.Route] = st
		last, ok := c.samples[st.Route]
		if d := now.Sub(last.at); ok && d > 0 && st.Delivered >= last.delivered {
			s.Rates[st.Route] = float64(st.Delivered-last.delivered) / d.Seconds()
		}
		c.samples[st.Route] = sample{st.Delivered, now}
	}
	if ctx.Err() == nil { // a client that has gone may have left it unfinished
		s.At = now
		c.status = s
	}
	return s
}

// Changed has the next Status look again, because something was changed.
func (c *Console) Changed() {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	c.status = nil
}

// known are the routes as the process alone knows them.
func (c *Console) known(running map[string]Route) []RouteStatus {
	rows := summarise(c.relay.Config(), nil)
	for i := range rows {
		rows[i].Alive, rows[i].Owners = true, []string{}
		rows[i].addRunning(running[rows[i].Route])
	}
	judge(rows, nil)
	return rows
}

// lookForTransactions notes on routes what keeps rows of their sources from being seen.
func (c *Console) lookForTransactions(ctx context.Context, op *Operator, rows []RouteStatus) {
	from := map[string]string{}
	for _, r := range op.build.Config.Routes {
		from[r.Name] = r.From
	}
	for i := range rows {
		r := &rows[i]
		source := from[r.Route]
		if source == "" || r.SourceError != "" || r.State == StateStopped {
			continue
		}
		o, ok := c.open[source]
		if !ok || time.Since(o.at) > transactionsAge {
			o = op.longTransactions(ctx, r.Route)
			c.open[source] = o
		}
		r.LongTransaction, r.LongTransactionFix = o.text, o.fix
	}
}

// longTransactions asks a route's source for transactions that have been open for long.
func (op *Operator) longTransactions(ctx context.Context, route string) openTransactions {
	o := openTransactions{at: time.Now()}
	f, _, err := op.reading(ctx, route)
	if err != nil {
		return o
	}
	examiner, ok := f.Source.(adapters.OpenExaminer)
	if f.Queue != nil {
		examiner, ok = f.Queue.(adapters.OpenExaminer)
	}
	if !ok {
		return o
	}
	findings := examiner.ExamineOpen(ctx)
	if i := slices.IndexFunc(findings, func(f adapters.Finding) bool { return f.Level >= adapters.LevelWarning }); i >= 0 {
		o.text, o.fix = findings[i].Text, cmp.Or(findings[i].Fix, "end the transaction")
	}
	return o
}
