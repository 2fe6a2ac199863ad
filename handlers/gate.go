package handlers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/lanectx"
	"github.com/outriderhq/outrider/outbox"
)

// Allowance is how much may be sent to an address now.
type Allowance int

// The allowances.
const (
	AllowAll  Allowance = iota // no restriction
	AllowOne                   // this one message, as a probe of the address
	AllowNone                  // nothing
)

// GateConfig says what a gate delivers to and under which restrictions. All fields but Judge are required.
type GateConfig struct {
	Destination adapters.Destination

	// Limiter is shared by the lanes of the route; unused for UnitWave.
	Limiter *Limiter

	// Allow is called before t, the next message for an address, is sent. It is called with the gate locked: it must not call the gate.
	Allow func(address string, t *Ticket) Allowance

	// Permit reports whether anything may be sent at all (the lane is still ours). Called like Allow.
	Permit func() bool

	// Judge is called with the result of a batch that was sent at began (nil: all of it arrived), and returns what each message gets.
	// nil: the same. Called like Allow.
	Judge func(address string, tickets []*Ticket, began time.Time, errs []error) []error

	// SendTimeout bounds a batch none of whose messages carries a limit of its own ([lanectx.LimitOf]).
	SendTimeout time.Duration

	// Ended takes the outcomes of messages that were offered ([Gate.Offer]). It is called without locks. For messages that were
	// sent it has returned before Stop does.
	Ended func([]Ended)
}

// Gate makes ordered batches of the messages of one lane. See the package comment for how a message passes through it.
type Gate struct {
	cfg      GateConfig
	ordering adapters.Ordering
	ctx      context.Context // ends deliveries, by Abort
	abort    context.CancelFunc

	mu       sync.Mutex
	groups   map[string]*group
	pipes    map[string]*pipe
	batches  map[*batch]struct{}  // of the workers that have one
	spare    []*batch             // of workers that have ended
	reserved map[*Ticket]struct{} // see Reserve
	stopped  bool
	workers  int
	idle     *sync.Cond // workers == 0
	ended    []Ended    // to be reported when the mutex is free

	// waits recycles the channels on which chains wait for their outcome. A channel goes back only after its one value was received.
	// It is a pointer because the runtime refers to a pool until the second collection after its last use.
	waits *sync.Pool

	// epoch is when the gate's clock began. The clock is monotonic, and a reading takes a third of the room of a time.Time.
	epoch time.Time

	// arrived counts the messages that came to wait for their turn.
	arrived atomic.Int64
}

var (
	errStopped   = outbox.Released(errors.New("the lane is stopping"))
	errWithdrawn = outbox.Released(errors.New("the message was taken out of the lane"))
	errTwice     = outbox.Released(errors.New("an earlier call of the handler has not returned: " +
		"a middleware handled the message twice at once, or did not wait"))
	errDeadline = outbox.Released(errors.New("the context of the message ended while it waited for its turn"))
)

// NewGate returns an open gate.
func NewGate(cfg GateConfig) *Gate {
	o := cfg.Destination.Ordering()
	if o.MaxMessages <= 0 {
		o.MaxMessages = 1
	}
	g := &Gate{cfg: cfg, ordering: o, groups: map[string]*group{}, pipes: map[string]*pipe{},
		batches: map[*batch]struct{}{}, reserved: map[*Ticket]struct{}{}, epoch: time.Now()}
	g.idle = sync.NewCond(&g.mu)
	g.waits = &sync.Pool{New: func() any { return make(chan error, 1) }}
	g.ctx, g.abort = context.WithCancel(context.Background())
	return g
}

// clock reads the gate's clock.
func (g *Gate) clock() int64 { return int64(time.Since(g.epoch)) }

// Enter gives t the place behind all messages of its group that have entered.
// A message with an empty key has no order. Call it in the order of the log.
func (g *Gate) Enter(t *Ticket, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if key == "" {
		new(group).push(t) // of its own
		return
	}
	q := g.groups[key]
	if q == nil {
		q = &group{key: key}
		g.groups[key] = q
	}
	q.push(t)
}

// Handle is the innermost handler of a lane: it waits for the outcome of delivering msg and returns it. It returns an
// [outbox.Released] error if the message was not sent: the lane stops, the message was withdrawn, its context ended before its turn
// came, or an earlier call still waits.
func (g *Gate) Handle(t *Ticket, msg *message.Message) error {
	address, err := g.Address(msg)
	if err != nil {
		return err
	}
	ctx := msg.Context()
	limit, _ := lanectx.LimitOf(ctx)

	g.mu.Lock()
	if refused, err := g.refuses(t); refused {
		g.mu.Unlock()
		return err
	}
	wait, _ := g.waits.Get().(chan error) // what New makes
	t.limit, t.wait = limit, wait
	g.arrive(t, msg, address)
	g.mu.Unlock()

	err = g.await(ctx, t, wait)
	g.waits.Put(wait)
	return err
}

// refuses reports whether a message need not wait, and its outcome then. Call with the mutex held.
func (g *Gate) refuses(t *Ticket) (refused bool, err error) {
	switch {
	case t.delivered.Load(): // a middleware called its handler again after success
		return true, nil
	case t.unwanted:
		return true, errWithdrawn
	case g.stopped:
		return true, errStopped
	case t.state != away:
		return true, errTwice
	}
	return false, nil
}

// arrive has a message wait for its turn. Call with the mutex held.
func (g *Gate) arrive(t *Ticket, msg *message.Message, address string) {
	t.msg, t.address = msg, address
	t.state, t.failed, t.recalled = here, false, false
	g.arrived.Add(1)
	if q := t.group; q.front() == t {
		g.ready(q, address)
	}
}

// await waits for the outcome. It observes only contexts that can end: arming a timer for every message would cost a quarter of
// the throughput.
func (g *Gate) await(ctx context.Context, t *Ticket, wait chan error) error {
	if lanectx.IsQuiet(ctx) || ctx.Done() == nil {
		return <-wait
	}
	select {
	case err := <-wait:
		return err
	case <-ctx.Done():
	}
	g.mu.Lock()
	if t.wait == wait { // otherwise the outcome has come
		t.recalled = true
		if t.state == here {
			g.release(t, errDeadline)
		}
	}
	g.mu.Unlock()
	// Sent already: the outcome must be known, whatever the context says.
	return <-wait
}

// release ends the wait of a message that is not being sent.
func (g *Gate) release(t *Ticket, err error) {
	t.state = away
	g.wake(t, err)
	if q := t.group; q.front() == t {
		g.unready(q)
	}
}

// Leave removes a settled message; the next of its group may go. A message that is being sent leaves with its outcome.
func (g *Gate) Leave(t *Ticket) {
	g.mu.Lock()
	defer g.unlock()
	t.unwanted = true
	switch t.state {
	case gone, sending:
		return
	case here:
		g.release(t, errWithdrawn)
	case away:
	}
	t.group.remove(t)
	g.advance(t.group)
}

// Stay has a message keep its place before all that is behind it, or comes, until it leaves: Withdraw does not take it.
func (g *Gate) Stay(t *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.stays = true
}

// Part is which messages of a group [Gate.Withdraw] takes.
type Part int

// The parts, as seen from one message.
const (
	WholeGroup Part = iota
	FromHere        // the message and what is behind it
	Behind          // only what is behind it
)

// Withdraw takes a part of t's group out of the gate and returns its tickets in order; kept are those that stay: what is being sent,
// what [Gate.Stay] keeps, and what is before the part, which may go. Chains that wait are released; chains that run are released when they get here. A
// message that is being sent is not sent again if the destination releases it: its chain is released.
func (g *Gate) Withdraw(t *Ticket, part Part) (out, kept []*Ticket) {
	g.mu.Lock()
	defer g.unlock()
	q := t.group
	front, within := q.front(), part == WholeGroup
	for _, x := range q.queue[q.head:] {
		if x == nil {
			continue
		}
		taken := within || x == t && part == FromHere
		within = within || x == t
		if !taken || x.stays || x.state == sending {
			x.recalled = x.recalled || taken
			kept = append(kept, x)
			continue
		}
		if x.state == here {
			g.wake(x, errWithdrawn)
		}
		x.state, x.unwanted = gone, true
		out = append(out, x)
	}
	q.keep(kept)
	if q.front() != front {
		g.unready(q)
	}
	g.advance(q)
	return out, kept
}

// Kick has the gate send what it may now, after Allow or Permit may answer differently.
func (g *Gate) Kick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pipes {
		p.refused = false
		g.start(p)
	}
}

// Stop ends sending: what waits is released, and Stop returns when what is being sent has its outcome. Abort ends that too, though not
// at once.
func (g *Gate) Stop() {
	g.mu.Lock()
	defer g.unlock()
	g.stopped = true
	for _, p := range g.pipes {
		for _, q := range p.ready {
			q.line = nil
			g.releaseWaiting(q)
		}
		p.ready = nil
		g.forget(p)
	}
	for _, q := range g.groups {
		g.releaseWaiting(q)
	}
	g.unlock() // released messages are reported before anything is waited for
	g.mu.Lock()
	g.awaitWorkers()
}

func (g *Gate) releaseWaiting(q *group) {
	for _, t := range q.queue[q.head:] {
		if t != nil && t.state == here {
			t.state = away
			g.wake(t, errStopped)
		}
	}
}

// Abort cancels the deliveries in flight; their outcome is unknown.
func (g *Gate) Abort() { g.abort() }

// advance puts the group in line if its front waits, and forgets an empty group. Call with the mutex held.
func (g *Gate) advance(q *group) {
	if q.line != nil {
		return
	}
	t := q.front()
	if t == nil {
		if q.key != "" && g.groups[q.key] == q {
			delete(g.groups, q.key)
		}
		return
	}
	if t.state == here {
		g.ready(q, t.address)
	}
}
