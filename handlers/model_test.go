package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// tracked is a message and what the model knows of it. All but the script is
// guarded by the model's mutex.
type tracked struct {
	Ticket
	*script
	name string

	ended     chan error       // gets the outcome of what was offered
	waiting   *message.Message // whose Handle has not returned, or that was offered and has not ended
	sending   bool
	last      error // outcome of the latest delivery in this call of Handle
	sent      bool  // whether there was one
	attempts  int   // deliveries that counted, an index into the script
	settled   bool  // delivered, left or withdrawn
	delivered bool
	withdrawn bool
}

// model says what a gate may do, in the simplest way: it remembers every
// message, and looks at all of them whenever something is sent.
type model struct {
	scenario *scenario
	gates    []*Gate
	limiters []*Limiter // of the gates
	wg       sync.WaitGroup

	mu          sync.Mutex
	err         error
	entered     []*tracked
	outstanding map[string]int // batches, by gate and address
	requests    int            // batches in all
	batches     int            // so far
	stopping    map[int]bool
	stopped     map[int]bool
	down        map[string]*outage // by address; "": nothing may be sent at all
}

// outage is a time in which an address takes nothing, or only probes.
type outage struct {
	allow  atomic.Int32 // Allowance; read by the gates
	since  time.Time
	begins time.Duration
	ends   time.Duration
	probes bool
}

func newModel(s *scenario) *model {
	m := &model{scenario: s, outstanding: map[string]int{},
		stopping: map[int]bool{}, stopped: map[int]bool{}, down: s.outages}
	places := new(Permits)
	for i := range s.gates {
		limiter := places.Limiter(s.ordering.MaxRequests, s.shared)
		if i > 0 && !s.apart { // all gates are lanes of one route
			limiter = m.limiters[0]
		}
		m.limiters = append(m.limiters, limiter)
		cfg := GateConfig{Destination: &modelDestination{model: m, gate: i}, Limiter: limiter, Ended: m.tell, SendTimeout: 30 * time.Second}
		cfg.Allow = func(address string, _ *Ticket) Allowance { return m.allowance(address) }
		cfg.Permit = func() bool { return m.allowance("") == AllowAll }
		m.gates = append(m.gates, NewGate(cfg))
	}
	return m
}

// tell passes on what became of offered messages.
func (m *model) tell(ended []Ended) {
	for _, e := range ended {
		e.Ticket.Owner.(*tracked).ended <- e.Err
	}
}

// allowance is called with a gate locked.
func (m *model) allowance(address string) Allowance {
	if o := m.down[address]; o != nil {
		return Allowance(o.allow.Load())
	}
	return AllowAll
}

// failf notes the first thing that is wrong. Call with the mutex held.
func (m *model) failf(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// modelDestination is the destination of one gate.
type modelDestination struct {
	model *model
	gate  int
}

func (d *modelDestination) Ordering() adapters.Ordering { return d.model.scenario.ordering }
func (d *modelDestination) Close() error                { return nil }

func (d *modelDestination) Address(msg *message.Message) (string, error) {
	return msg.Metadata["address"], nil
}

func (d *modelDestination) Deliver(_ context.Context, address string, batch []*message.Message) []error {
	items := make([]*tracked, len(batch))
	for i, msg := range batch {
		items[i] = msg.Context().Value(trackedKey{}).(*tracked)
	}
	elapse(d.model.begin(d.gate, address, batch, items))
	errs, broken := d.model.end(d.gate, address, items)
	if broken {
		panic("as the script says")
	}
	return errs
}

type trackedKey struct{}

// begin checks a batch and returns how long its delivery takes.
func (m *model) begin(gate int, address string, batch []*message.Message, items []*tracked) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkOutstanding(gate, address, len(batch))
	groups, bytes := map[string]bool{}, 0
	for i, x := range items {
		bytes += x.size
		groups[x.identity()] = true
		switch {
		case x.gate != gate || x.to != address:
			m.failf("%s was sent by gate %d to %q", x.name, gate, address)
		case x.waiting != batch[i]:
			m.failf("%s was sent although its chain does not wait", x.name)
		case x.sending || x.settled:
			m.failf("%s was sent again: being sent %t, settled %t", x.name, x.sending, x.settled)
		}
		m.checkOrder(x, items[:i])
	}
	for _, x := range items {
		x.sending = true
	}
	o := m.scenario.ordering
	switch {
	case len(items) == 0 || len(items) > max(o.MaxMessages, 1):
		m.failf("a batch of %d messages", len(items))
	case len(items) > 1 && o.MaxBytes > 0 && bytes > o.MaxBytes:
		m.failf("a batch of %d messages with %d bytes", len(items), bytes)
	case o.MaxGroups > 0 && len(groups) > o.MaxGroups:
		m.failf("a batch of %d groups", len(groups))
	}
	m.batches++
	return m.scenario.delays[m.batches%len(m.scenario.delays)]
}

func (m *model) checkOutstanding(gate int, address string, size int) {
	lane := fmt.Sprint(gate, address)
	m.outstanding[lane]++
	m.requests++
	o := m.scenario.ordering
	switch {
	case m.stopped[gate]:
		m.failf("a batch after Stop")
	case o.Unit == adapters.UnitWave && m.outstanding[lane] > 1:
		m.failf("two waves at once to %q", address)
	case o.Unit == adapters.UnitGroup && m.requests > o.MaxRequests:
		m.failf("%d requests at once, of %d", m.requests, o.MaxRequests)
	}
	for _, name := range []string{"", address} {
		down := m.down[name]
		if down == nil || Allowance(down.allow.Load()) == AllowAll || !time.Now().After(down.since) {
			continue // or it was asked before the change, at the same time
		}
		if !down.probes || size > 1 {
			m.failf("%d messages for %q at a time when it is down (probes: %t)", size, address, down.probes)
		}
	}
}

// checkOrder looks for a message that x has overtaken.
func (m *model) checkOrder(x *tracked, before []*tracked) {
	for _, y := range m.entered {
		if y == x {
			return
		}
		if y.identity() == x.identity() && y.gate == x.gate && !y.settled && !slices.Contains(before, y) {
			m.failf("%s was sent before %s is settled (being sent: %t)", x.name, y.name, y.sending)
		}
	}
}

// end decides the outcomes. Those of a group end with its first failure, as
// the contract of Destination wants it; the rest is held back.
func (m *model) end(gate int, address string, items []*tracked) (errs []error, broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outstanding[fmt.Sprint(gate, address)]--
	m.requests--
	errs = make([]error, len(items))
	failed := map[string]bool{}
	short := false
	for i, x := range items {
		what := held
		if !failed[x.identity()] {
			what = x.next()
		}
		failed[x.identity()] = failed[x.identity()] || what != succeeds
		broken, short = broken || what == panics, short || what == returnsTooFew
		errs[i] = what.err(x)
	}
	for i, x := range items {
		x.sending, x.sent, x.last = false, true, errs[i]
		switch {
		case broken || short:
			x.last = errBroken
		case errs[i] == nil:
			x.settled, x.delivered = true, true
		}
	}
	if short {
		errs = errs[:len(errs)-1]
		if len(errs) == 0 {
			errs = make([]error, 2) // nil would be success
		}
	}
	return errs, broken
}

// errBroken stands for what the gate makes of a broken destination.
var errBroken = errors.New("any transient error")

// concluded checks what a call of Handle returned.
func (m *model) concluded(x *tracked, err error) {
	address, failed := x.Failed()
	released := outbox.KindOf(x.last) == outbox.KindReleased
	switch {
	case !x.sent || released: // nothing told, or collateral
		if err == nil || outbox.KindOf(err) != outbox.KindReleased || failed {
			m.failf("%s: Handle returned %v (failed: %t), but it was not attempted", x.name, err, failed)
		}
	case errors.Is(x.last, errBroken):
		if err == nil || outbox.KindOf(err) != outbox.KindTransient || !failed {
			m.failf("%s: Handle returned %v (failed: %t) from a broken destination", x.name, err, failed)
		}
	case !errors.Is(err, x.last):
		m.failf("%s: Handle returned %v, the destination %v", x.name, err, x.last)
	case failed != (err != nil) || address != x.to:
		m.failf("%s: Handle returned %v; failed: %t, at %q", x.name, err, failed, address)
	}
	if x.Delivered() != x.delivered || x.delivered != (err == nil) {
		m.failf("%s: Handle returned %v; delivered: %t, as the gate says %t", x.name, err, x.delivered, x.Delivered())
	}
	x.waiting, x.sent, x.last = nil, false, nil
}

// leave and withdraw tell the gate what became of a message. Both hold the mutex
// while they do, as a session of the router does: one message leaves while another
// of its group withdraws it, and either is first for both of us.

func (m *model) leave(x *tracked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.settled = true
	m.gates[x.gate].Leave(&x.Ticket)
}

func (m *model) withdraw(x *tracked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var want []*tracked // at least; the gate may not know yet what was delivered
	for _, y := range m.entered {
		if y.gate == x.gate && y.identity() == x.identity() && !y.settled {
			want = append(want, y)
		}
	}
	out, kept := m.gates[x.gate].Withdraw(&x.Ticket, WholeGroup)
	for _, t := range out {
		y := t.Owner.(*tracked)
		if y.sending || y.settled || !slices.Contains(want, y) {
			m.failf("%s was withdrawn: being sent %t, settled %t", y.name, y.sending, y.settled)
		}
		y.settled, y.withdrawn = true, true
	}
	for _, y := range want {
		if !y.settled && !slices.Contains(kept, &y.Ticket) {
			m.failf("%s was neither withdrawn nor kept", y.name)
		}
	}
	if !slices.IsSortedFunc(out, byPosition) || !slices.IsSortedFunc(kept, byPosition) {
		m.failf("the withdrawn group is out of order")
	}
}

func byPosition(a, b *Ticket) int { return a.Owner.(*tracked).position - b.Owner.(*tracked).position }

// checkLiveness looks for what waits and could go. Nobody else may be running:
// the locks are for the race detector.
func (m *model) checkLiveness() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, g := range m.gates {
		g.mu.Lock()
		for _, x := range m.entered {
			if q := x.Ticket.group; x.gate == i && x.state == here && q.front() == &x.Ticket && q.line == nil && !g.stopped {
				m.failf("%s is at the front of its group and not in line", x.name)
			}
		}
		for _, p := range g.pipes {
			m.checkPipe(i, g, p)
		}
		g.mu.Unlock()
	}
}

func (m *model) checkPipe(i int, g *Gate, p *pipe) {
	l := m.limiters[i]
	l.permits.mu.Lock()
	defer l.permits.mu.Unlock()
	switch {
	case len(p.ready) == 0 || g.stopped:
	case p.refused && m.allowance("") == AllowAll && m.allowance(p.address) == AllowAll:
		m.failf("%d groups wait at gate %d for %q, which takes everything", len(p.ready), i, p.address)
	case !g.startable(p):
	case g.ordering.Unit == adapters.UnitWave || l.permits.free > 0 && l.allows(l.taken[p.address], l.free):
		m.failf("%d groups wait at gate %d for %q with %d places free", len(p.ready), i, p.address, l.free)
	}
}
