package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/middleware"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/ownership"
)

// Defaults of a [Route].
const (
	DefaultWindow      = 1024
	DefaultSendTimeout = 30 * time.Second
)

// Route says what is read, what happens to it, and where it goes.
type Route struct {
	// Name is part of lane names, metrics and state rows. Required, unique.
	Name string

	// Source is read by cursor; or rows are claimed from Queue; or Subscriber is listened to. Exactly one. Routes with the same Source
	// value share one reader, routes with the same Queue one claimer: a row of a queue goes to the first of them that matches.
	Source     adapters.Source
	Queue      adapters.Queue
	Subscriber message.Subscriber
	Topic      string // for Subscriber
	MaxRow     int64  // largest payload of a message from Subscriber, in bytes; 0: adapters.DefaultMaxRow

	// Poll says how often Source or Queue is read when nothing comes. Routes that share it share the first one's.
	Poll Poll

	// Claims bounds what is claimed from Queue. Shared like Poll.
	Claims Claims

	// Hot has rows of Queue, an [adapters.HotQueue], delivered from memory that this process has committed and announced
	// ([Router.Announce]). Shared like Poll. The zero value: none are.
	Hot Hot

	// Together counts the requests of all routes of the Queue that say so together: as many at
	// a time as the destination with the most allows (adapters.Ordering.MaxRequests).
	Together bool

	// Match selects rows; others are passed over. nil: all. It must be pure.
	Match func(*adapters.Row) bool

	// Middleware is the stack, outermost first. It is called for each lane. [Route.Use]
	// sets it, with DeliverFirst and SendTimeout, from layers that say what they need.
	Middleware []message.HandlerMiddleware

	// DeliverFirst says that all middleware of the stack only uses what its handler returned, see [middleware.Layer]. Then a message is
	// delivered first, as the source has it, and runs through the stack after that; the handler returns the outcome. That saves what
	// waiting in a chain costs, about 40% of the processor time. SendTimeout takes the place of [middleware.Timeout]. Implied by a stack
	// without middleware.
	DeliverFirst bool

	// Destination is closed by its creator, not by the router.
	Destination adapters.Destination

	// Poison takes a copy of every dead message, with the reason, before the message counts as dead: only when it has confirmed is the
	// message parked as such. nil: dead messages are parked alone. Like Destination it is closed by its creator. PoisonName is what logs
	// and errors call it.
	Poison     adapters.Destination
	PoisonName string

	// State keeps cursors and parked messages. Required.
	State adapters.StateStore

	// Leader names the source of a route whose source has one instance at a time: all routes with the same Leader are owned by the same
	// one. Empty: the lanes are spread over all instances, those of a Queue too.
	Leader string

	// LeaderLock is a lock that has to be held to work the routes of the Leader.
	// It is released at the end, and closed by its creator. nil: none.
	LeaderLock adapters.LeaderLock

	// Order defaults to adapters.OrderGroup.
	Order adapters.OrderMode

	// Start is where the route begins when it has no cursor yet. Default: the beginning.
	Start adapters.Start

	// Pace says how often the route looks for messages in Source, at the polls of Source: Batch means nothing.
	// The zero value: at each of them.
	Pace Poll

	// Progress says that State keeps a row of another system for the route, see [adapters.ProgressStore]: then every failed
	// attempt is written down.
	Progress bool

	// Window bounds the messages of one lane that are not durably settled. Default 1024. Those of a queue are bounded by Claims instead.
	Window int

	// Attempts is how often a message may fail before it is dead, as the retry middleware counts: the router needs it for messages whose
	// failures were charged to their address. Default [middleware.DefaultAttempts].
	Attempts int

	// SendTimeout bounds deliveries that no timeout middleware limits. Default 30 s.
	SendTimeout time.Duration

	before []func(*message.Message) // by Use
}

// Use gives the route its layers, outermost first, in place of Middleware. If all of them only use results, DeliverFirst is set, and
// SendTimeout if one is a [middleware.Timeout].
func (r *Route) Use(layers ...middleware.Layer) {
	c := middleware.NewChain(layers...)
	r.Middleware, r.DeliverFirst, r.before = c.Middleware, c.DeliverFirst, c.Before
	if c.Limit > 0 {
		r.SendTimeout = c.Limit
	}
}

// Poll says how often a source is read. Rows seen: again at once. None: after Min for After reads, then times Factor up to Max.
type Poll struct {
	Batch  int           // rows per poll at most; default 5000
	Min    time.Duration // default 1 ms
	After  int           // default 3
	Factor float64       // default 2
	Max    time.Duration // default 1 s
}

// WithDefaults replaces zero and wrong values by the defaults.
func (p Poll) WithDefaults() Poll {
	p.Batch = positive(p.Batch, 5000)
	p.Min = positive(p.Min, time.Millisecond)
	p.After = positive(p.After, 3)
	if p.Factor < 1 {
		p.Factor = 2
	}
	p.Max = positive(p.Max, time.Second)
	return p
}

// Hot bounds what is delivered from memory.
type Hot struct {
	// Capacity is how many committed rows may wait for their lanes. The next poll finds those without room. 0: nothing is
	// delivered from memory.
	Capacity int

	// SkipRecent is how old a row has to be for a poll to take it, once the process has announced an INSERT. 0: any age.
	SkipRecent time.Duration
}

// Claims bounds what is claimed from a queue.
type Claims struct {
	// InMemory is the most rows that are claimed and not settled. Default 1000.
	InMemory int

	// PerGroup is the most rows of one group that a claim takes; a group of
	// which as many are in memory takes no more. Default: a quarter of InMemory.
	PerGroup int

	// Timeout is how long a row may be marked as being processed before adapters.Queue's Recover takes it for stuck, as the queue itself is
	// configured. Claims that last longer than a quarter of it are extended. Default 5 min.
	Timeout time.Duration

	// Recover is how often stuck rows are looked for. Default 1 min.
	Recover time.Duration
}

// WithDefaults replaces zero and wrong values by the defaults.
func (c Claims) WithDefaults() Claims {
	c.InMemory = positive(c.InMemory, 1000)
	c.PerGroup = positive(c.PerGroup, max(c.InMemory/4, 1))
	c.Timeout = positive(c.Timeout, 5*time.Minute)
	c.Recover = positive(c.Recover, time.Minute)
	return c
}

func (r *Route) setDefaults() {
	r.Poll, r.Claims = r.Poll.WithDefaults(), r.Claims.WithDefaults()
	if r.Match == nil {
		r.Match = func(*adapters.Row) bool { return true }
	}
	if len(r.Middleware) == 0 {
		r.DeliverFirst = true
	}
	if r.Order == "" {
		r.Order = adapters.OrderGroup
	}
	if r.Start.Kind == "" {
		r.Start.Kind = adapters.StartBeginning
	}
	if r.Pace != (Poll{}) {
		r.Pace = r.Pace.WithDefaults()
	}
	r.Window = positive(r.Window, DefaultWindow)
	r.Attempts = positive(r.Attempts, middleware.DefaultAttempts)
	r.SendTimeout = positive(r.SendTimeout, DefaultSendTimeout)
}

func (r *Route) validate() error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("route %q: "+format, append([]any{r.Name}, args...)...))
	}
	if r.Name == "" {
		add("needs a name")
	}
	given := 0
	for _, set := range []bool{r.Source != nil, r.Queue != nil, r.Subscriber != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		add("needs a source, a queue or a subscriber, and only one of them")
	}
	if r.Destination == nil {
		add("needs a destination")
	}
	if r.State == nil {
		add("needs a state store for its cursor and its parked messages")
	}
	switch r.Order {
	case adapters.OrderGroup, adapters.OrderNone, adapters.OrderGlobal:
	default:
		add("order %q is unknown: use group, global or none", r.Order)
	}
	if r.LeaderLock != nil && r.Leader == "" {
		add("has a leader's lock and no leader: name the source in Leader")
	}
	if r.Subscriber != nil && r.Order == adapters.OrderGlobal {
		add("order global needs a source that is read by position, not a subscriber")
	}
	if r.Queue != nil && r.Order == adapters.OrderGlobal {
		add("order global needs a source that is read by position, not a queue whose rows are claimed: use order group")
	}
	if r.group() != nil && (r.Order == adapters.OrderGlobal || r.Leader != "") {
		add("its source has partitions, each with an order of its own, which a group assigns to instances: order global and a leader are not possible")
	}
	return errors.Join(errs...)
}

// unit names the routes with which the route moves to another instance as a whole; empty: its lanes move one by one.
func (r *Route) unit() string {
	if r.Leader != "" {
		return "source " + r.Leader
	}
	_, undivided := r.Source.(adapters.SharedRead)
	if undivided || r.Order == adapters.OrderGlobal || r.Subscriber != nil {
		return "route " + r.Name
	}
	return ""
}

// owned says how the lanes of the route are owned.
func (r *Route) owned() ownership.RouteConfig {
	return ownership.RouteConfig{Source: r.Source, Start: r.Start, Unit: r.unit(), Lock: r.LeaderLock, Group: r.group()}
}

// group returns the source, if a group assigns its slots to instances.
func (r *Route) group() adapters.PartitionedSource {
	g, _ := r.Source.(adapters.PartitionedSource)
	return g
}

// lanes returns the configuration of the route's lanes.
func (r *Route) lanes() lane.Config {
	var together any
	if r.Together && r.Queue != nil {
		together = r.Queue
	}
	partitions := 0
	if g := r.group(); g != nil {
		partitions = g.Lanes()
	}
	return lane.Config{Partitions: partitions, Together: together, Name: r.Name, Match: r.Match, Middleware: r.Middleware, DeliverFirst: r.DeliverFirst, Before: r.before, Destination: r.Destination,
		Poison: r.Poison, PoisonName: r.PoisonName, State: r.State, Order: r.Order, Window: r.Window, Attempts: r.Attempts,
		SendTimeout: r.SendTimeout, Progress: r.Progress}
}
