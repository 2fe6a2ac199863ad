package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// Defaults of a [Config].
const (
	DefaultMemory         = 64 << 20
	DefaultLease          = 10 * time.Second
	DefaultSettleInterval = 20 * time.Millisecond
	DefaultDrainTimeout   = 30 * time.Second
)

// Config is what the routes of a process share.
type Config struct {
	// Instance names this process among others. Default: host name and a ULID.
	Instance string

	// Memory bounds the messages on their way, in bytes. Default 64 MiB.
	Memory int64

	// Lease is how long lanes stay ours without a sign of life. Default 10 s.
	Lease time.Duration

	// SettleInterval is how long progress gathers before it is written.
	// Default 20 ms.
	SettleInterval time.Duration

	// DrainTimeout bounds the wait for what is under way on shutdown. Default 30 s.
	DrainTimeout time.Duration

	// Logger defaults to slog.Default().
	Logger *slog.Logger

	// Redact masks secrets in an address before it is logged or shown.
	// nil: addresses are shown as they are.
	Redact func(address string) string
}

func (c *Config) setDefaults() {
	if c.Instance == "" {
		host, _ := os.Hostname() // a ULID alone does
		c.Instance = host + "-" + ulid.Make().String()
	}
	if c.Memory <= 0 {
		c.Memory = DefaultMemory
	}
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	if c.SettleInterval <= 0 {
		c.SettleInterval = DefaultSettleInterval
	}
	if c.DrainTimeout <= 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Redact == nil {
		c.Redact = func(address string) string { return address }
	}
}

// Router runs routes. Make one with [New], call [Router.Run] once.
type Router struct {
	cfg       Config
	log       *slog.Logger
	routes    []*route
	readers   []*reader
	listeners []*listener
	claimers  []*claimer
	settlers  map[outbox.StateStore]*settler
	keepers   []*keeper
	budget    budget
	pace      pace
	places    atomic.Uint64 // given to messages that entered lanes
	ready     chan struct{}
}

// New checks the routes and wires them; nothing runs and nothing is connected.
func New(cfg Config, routes []Route) (*Router, error) {
	cfg.setDefaults()
	r := &Router{cfg: cfg, log: cfg.Logger, settlers: map[outbox.StateStore]*settler{}, ready: make(chan struct{})}
	r.budget = budget{limit: cfg.Memory, wake: r.hungry}
	if len(routes) == 0 {
		return nil, errors.New("there is no route: nothing would be delivered")
	}
	names := map[string]bool{}
	var errs []error
	for _, def := range routes {
		if names[def.Name] {
			errs = append(errs, fmt.Errorf("route %q is defined twice", def.Name))
		}
		names[def.Name] = true
		def.setDefaults()
		if err := def.validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		r.add(def)
	}
	return r, errors.Join(errs...)
}

func (r *Router) add(def Route) {
	o := def.Destination.Ordering()
	if o.MaxRequests <= 0 {
		o.MaxRequests = outbox.DefaultMaxRequests
	}
	rt := &route{Route: def, router: r, limiter: handlers.NewLimiter(o.MaxRequests, !o.Static && !o.Pooled)}
	rt.health = newHealth(rt)
	rt.poison = newPoison(rt)
	rt.share.budget = &r.budget
	for i, slots := range rt.laneSlots() {
		rt.lanes = append(rt.lanes, newLane(rt, i, slots))
	}
	r.routes = append(r.routes, rt)
	rt.keeper = r.keeperOf(def.State)
	rt.keeper.routes = append(rt.keeper.routes, rt)
	if def.Subscriber != nil {
		rt.listener = &listener{route: rt, wake: make(chan struct{}, 1)}
		r.listeners = append(r.listeners, rt.listener)
		return
	}
	if def.Queue != nil {
		rt.claimer = r.claimerOf(def)
		rt.claimer.routes = append(rt.claimer.routes, rt)
		return
	}
	rt.reader = r.readerOf(def)
	rt.reader.routes = append(rt.reader.routes, rt)
}

func (r *Router) keeperOf(store outbox.StateStore) *keeper {
	for _, k := range r.keepers {
		if k.store == store {
			return k
		}
	}
	k := newKeeper(r, store)
	r.keepers = append(r.keepers, k)
	s := newSettler(store, r.log, r.cfg.SettleInterval)
	s.sessions, s.lost = k.sessions, k.lose
	r.settlers[store] = s
	return k
}

func (r *Router) readerOf(def Route) *reader {
	for _, rd := range r.readers {
		if rd.source == def.Source {
			return rd
		}
	}
	rd := newReader(r, def.Source, def.Poll)
	r.readers = append(r.readers, rd)
	return rd
}

// Ready is closed when the lanes are ours or another instance works them.
func (r *Router) Ready() <-chan struct{} { return r.ready }

// Run delivers until ctx ends, then drains: it stops reading, finishes what is
// being sent, settles, and releases the lanes. It returns an error when the
// routes cannot start or cannot go on; nil after a clean drain.
func (r *Router) Run(ctx context.Context) error {
	joined := 0
	defer func() {
		for _, k := range r.keepers[:joined] {
			k.leave()
		}
	}()
	for _, k := range r.keepers {
		if err := k.join(ctx); err != nil {
			return err
		}
		joined++
	}
	wm, wmDone, err := r.startWatermill()
	if err != nil {
		return err
	}
	err = r.work(ctx)
	for _, rt := range r.routes {
		for _, l := range rt.lanes {
			close(l.out)
		}
	}
	return errors.Join(err, wm.Close(), <-wmDone)
}

// work runs the parts until ctx ends or one fails, and drains.
func (r *Router) work(ctx context.Context) error {
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	settling, stopSettling := context.WithCancel(context.Background())
	defer stopSettling()
	// Subscriptions last until everything is settled: acks that come after a
	// subscription has ended are lost.
	listening, stopListening := context.WithCancel(context.Background())
	defer stopListening()
	var readers, settlers sync.WaitGroup
	failed := make(chan error, 2*len(r.keepers)+len(r.listeners))
	for _, s := range r.settlers {
		settlers.Go(func() { s.run(settling) })
	}
	for _, k := range r.keepers {
		settlers.Go(func() { k.keepLease(settling) })
	}
	ready := true
	for _, k := range r.keepers {
		if err := k.acquireAll(reading); err != nil {
			failed <- err
			ready = false
		}
		readers.Go(func() {
			if err := k.acquireLanes(reading); err != nil {
				failed <- err
			}
		})
	}
	for _, rd := range r.readers {
		readers.Go(func() { rd.run(reading) })
	}
	for _, c := range r.claimers {
		settlers.Go(func() { c.settler.run(settling) })
		settlers.Go(func() { c.maintain(settling) })
		readers.Go(func() { c.run(reading) })
	}
	for _, l := range r.listeners {
		readers.Go(func() {
			if err := l.run(reading, listening); err != nil {
				failed <- err
			}
		})
	}
	if ready {
		close(r.ready)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopReading()
	readers.Wait()
	err = errors.Join(err, r.drain())
	stopSettling()
	settlers.Wait()
	return err
}

// drain ends all sessions and writes what they concluded.
func (r *Router) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.DrainTimeout)
	defer cancel()
	sessions := map[*keeper][]*session{}
	var ending sync.WaitGroup
	for _, k := range r.keepers {
		sessions[k] = k.drain()
		for _, s := range sessions[k] {
			ending.Go(func() { s.stop(ctx) })
		}
	}
	ending.Wait()
	var errs []error
	for _, k := range r.keepers {
		k.wg.Wait()
		flushing, cancel := context.WithTimeout(context.Background(), r.cfg.DrainTimeout)
		if err := r.settlers[k.store].flush(flushing, everything); err != nil {
			errs = append(errs, fmt.Errorf("the last progress could not be written, so messages may be delivered again: %w", err))
		}
		cancel()
	}
	for _, c := range r.claimers {
		errs = append(errs, c.flush())
	}
	for _, rt := range r.routes {
		rt.health.close()
	}
	return errors.Join(errs...)
}

// startWatermill builds Watermill's router with a handler per lane.
func (r *Router) startWatermill() (*message.Router, <-chan error, error) {
	wm, err := message.NewRouter(message.RouterConfig{CloseTimeout: 5 * time.Second}, watermill.NopLogger{})
	if err != nil {
		return nil, nil, err
	}
	lanes := map[string]*lane{}
	wm.AddSubscriberDecorators(func(s message.Subscriber) (message.Subscriber, error) {
		return primed{s, lanes}, nil
	})
	for _, rt := range r.routes {
		for _, l := range rt.lanes {
			lanes[l.name] = l
			h := wm.AddConsumerHandler(l.name, l.name, l, l.handle)
			h.AddMiddleware(l.settle)
			h.AddMiddleware(rt.Middleware...)
		}
	}
	done := make(chan error, 1)
	go func() { done <- wm.Run(context.Background()) }()
	select {
	case <-wm.Running():
		return wm, done, nil
	case err := <-done:
		return nil, nil, fmt.Errorf("start the Watermill router: %w", err)
	}
}

// hungry tells all that read that there may be room again.
func (r *Router) hungry() {
	for _, rd := range r.readers {
		rd.hungry()
	}
	for _, c := range r.claimers {
		c.hungry()
	}
}

func (r *Router) redact(address string) string {
	if address == "" {
		return "(none)"
	}
	return r.cfg.Redact(address)
}
