package lane

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/health"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/memory"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// Config of a [Route].
type Config struct {
	Name         string
	Match        func(*adapters.Row) bool
	Middleware   []message.HandlerMiddleware
	DeliverFirst bool
	Before       []func(*message.Message) // called for each attempt when delivering first
	Destination  adapters.Destination
	Poison       adapters.Destination // nil: dead messages are only parked
	PoisonName   string
	State        adapters.StateStore
	Order        adapters.OrderMode
	Window       int
	Attempts     int
	SendTimeout  time.Duration
	Progress     bool // a row of another system shows how far the route is, and why it does not move
	Partitions   int  // lanes of a source with partitions; 0: one for each slot
	Together     any  // routes with the same one share the permits for their requests; nil: the route has its own
}

// Shared has what the lanes of all routes of a process share.
type Shared struct {
	Logger   *slog.Logger
	Redact   func(address string) string // masks secrets
	Budget   *memory.Budget
	Settlers func(adapters.StateStore) *settling.Settler
	Patience time.Duration // for an answer of the state store

	places   atomic.Uint64 // given to messages that enter lanes
	together map[any]*handlers.Permits
	Busy     atomic.Int32 // lanes that have chains
}

// limiter bounds the requests of a route, and with Together those of several.
func (s *Shared) limiter(together any, o adapters.Ordering) *handlers.Limiter {
	shared := !o.Static && !o.Pooled
	if together == nil || o.Unit != adapters.UnitGroup {
		return handlers.NewLimiter(o.MaxRequests, shared)
	}
	if s.together == nil {
		s.together = map[any]*handlers.Permits{}
	}
	if s.together[together] == nil {
		s.together[together] = new(handlers.Permits)
	}
	return s.together[together].Limiter(o.MaxRequests, shared)
}

// Route has the lanes of a route, and what they share.
type Route struct {
	// PutBack marks slots whose source was put back: positions that were settled beyond their cursors may be given out again, to other rows.
	// The next route of the name has to know that, too.
	PutBack *[adapters.Slots]atomic.Bool

	Config
	shared  *Shared
	Feeder  Feeder
	Lease   Lease
	settler *settling.Settler

	Lanes    []*Lane
	Parts    atomic.Int32 // partitions that the source has, of at most so many lanes; 0: each lane has messages
	Health   *health.Addresses[*Item, *Charge]
	refusals health.Refusals
	paused   atomic.Pointer[PausedGroups] // nil: none is
	poison   *poison                      // nil: dead messages are only parked
	limiter  *handlers.Limiter
	Memory   memory.Account // of the memory
	panics   sync.Map       // places where supplied code has panicked, of which there are as many as lines that panic
	unasked  sync.Once      // a chain that ran after a delivery did not ask for its outcome
	stats    routeStats

	leastChains int            // chains that each of its lanes may run in any case
	unparking   logging.Outage // of reading parked messages
	failures    logging.FirstFailures
}

// NewRoute makes the lanes of a route. They need a feeder and a lease, see [Route.Connect].
func NewRoute(cfg Config, shared *Shared) *Route {
	o := cfg.Destination.Ordering()
	rt := &Route{PutBack: new([adapters.Slots]atomic.Bool), Config: cfg, shared: shared, settler: shared.Settlers(cfg.State), leastChains: leastChains(o),
		limiter: shared.limiter(cfg.Together, o)}
	rt.Health = health.New[*Item, *Charge](health.Config{Route: cfg.Name, Log: rt.Log, Redact: rt.redact, Opened: rt.Kick})
	rt.poison = newPoison(rt)
	rt.Memory.Budget = shared.Budget
	for i, slots := range rt.laneSlots() {
		rt.Lanes = append(rt.Lanes, newLane(rt, i, slots))
	}
	return rt
}

// Connect sets the feeder and the lease.
func (r *Route) Connect(f Feeder, l Lease) { r.Feeder, r.Lease = f, l }

// Log returns the route's logger.
func (r *Route) Log() *slog.Logger { return r.shared.Logger.With("route", r.Name) }

func (r *Route) redact(address string) string {
	if address == "" {
		return "(none)"
	}
	return r.shared.Redact(address)
}

// owned is the part of the route's lanes that is ours, above 0. A throttle calls it for every message.
func (r *Route) owned() float64 {
	ours := 0
	for _, l := range r.Lanes {
		if l.session.Load() != nil {
			ours++
		}
	}
	return float64(max(ours, 1)) / float64(cmp.Or(int(r.Parts.Load()), len(r.Lanes)))
}

// laneSlots returns the slots of each lane: one each, or all in one lane for order global.
func (r *Route) laneSlots() [][]int {
	if r.Order == adapters.OrderGlobal {
		all := make([]int, adapters.Slots)
		for i := range all {
			all[i] = i
		}
		return [][]int{all}
	}
	out := make([][]int, cmp.Or(r.Partitions, adapters.Slots))
	for i := range out {
		out[i] = []int{i}
	}
	return out
}

// Key returns the group under which a message is gated and parked.
func (r *Route) Key(group string) string {
	switch r.Order {
	case adapters.OrderNone:
		return ""
	case adapters.OrderGlobal:
		return GlobalKey
	default:
		return group
	}
}

// gateDestination is the destination of the gates. With order global one message is sent at a time: of a batch that fails in part, a
// destination keeps back only what is behind a failed message of the same group. A destination whose batches cannot fail in part gets
// small batches: all of one is attempted again if any message fails.
func (r *Route) gateDestination(d adapters.Destination) adapters.Destination {
	if r.Order == adapters.OrderGlobal {
		return inOrder{killable(d), &r.stats}
	}
	return killable(d)
}

// globalBatch bounds the batches of a route that keeps the order of all messages, also where the destination takes more.
const globalBatch = 1000

// inOrder is a destination with only such batches as cannot fail in part. It counts and times them.
type inOrder struct {
	adapters.Destination
	stats *routeStats
}

func (d inOrder) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	began := time.Now()
	errs := d.Destination.Deliver(ctx, address, batch)
	took := time.Since(began)
	d.stats.sending.Add(int64(took))
	d.stats.batches.add(took, 1)
	return errs
}

func (d inOrder) Ordering() adapters.Ordering {
	o := d.Destination.Ordering()
	if !o.Whole {
		o.MaxMessages = 1
	}
	o.MaxMessages = min(o.MaxMessages, globalBatch)
	return o
}

// GlobalKey is the one group of a route with order global.
const GlobalKey = "*"

// Sessions returns those that work the route's lanes now.
func (r *Route) Sessions() []*Session {
	out := make([]*Session, 0, len(r.Lanes))
	for _, l := range r.Lanes {
		if s := l.session.Load(); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// Kick has all gates of the route send what they may now.
func (r *Route) Kick() {
	for _, s := range r.Sessions() {
		s.gate.Kick()
	}
}

// allow implements [handlers.GateConfig].Allow.
func (r *Route) allow(address string, t *handlers.Ticket) handlers.Allowance {
	switch allowed, probe := r.Health.Allow(address, owner(t)); {
	case !allowed:
		return handlers.AllowNone
	case probe:
		return handlers.AllowOne
	}
	return handlers.AllowAll
}

// judge implements [handlers.GateConfig].Judge.
func (r *Route) judge(address string, tickets []*handlers.Ticket, began time.Time, errs []error) []error {
	if errs == nil && r.refusals.None() {
		return nil
	}
	identities := make([]string, len(tickets))
	for i, t := range tickets {
		identities[i] = owner(t).Identity()
	}
	return r.refusals.Judge(address, identities, began, errs)
}

// killable lets tests kill the process before and after its deliveries. Without a failpoint it returns the destination.
func killable(d adapters.Destination) adapters.Destination {
	if at, _ := failpoint.Armed(); at == "" {
		return d
	}
	return trapped{d}
}

// trapped is a destination with a failpoint on both sides.
type trapped struct{ adapters.Destination }

func (t trapped) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	failpoint.Hit(failpoint.BeforeSend)
	errs := t.Destination.Deliver(ctx, address, batch)
	failpoint.Hit(failpoint.AfterSend)
	return errs
}

const (
	// TotalChains is how many chains run at once in a process whose lanes all move. More than enough for large batches makes everything
	// slower: what a message needs (its stack above all) has left the processor's caches when its turn comes again; see
	// docs/experiments.md.
	TotalChains = 1024

	// LeastChains is what a lane may have, however many there are, above what fills
	// one batch where a batch is of one group and so of one lane.
	LeastChains = 64
)

// leastChains is how many chains each lane of a route may have in any case.
func leastChains(o adapters.Ordering) int {
	if o.Unit == adapters.UnitGroup && o.MaxMessages > 1 {
		return min(o.MaxMessages, TotalChains) + LeastChains
	}
	return LeastChains
}
