package lane

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// health knows which addresses of a route are down. While an address is down
// nothing is sent to it but one message at a time, as a probe; failures are
// charged to the address and not to messages. An address is down when the
// destination says so (outbox.Unavailable), or when messages of two groups
// failed without a success in between.
type health struct {
	route   *Route
	trouble atomic.Int32 // len(addresses): the happy path takes no lock

	mu        sync.Mutex
	addresses map[string]*address
	closed    bool
}

// address is an address in trouble, or under suspicion.
type address struct {
	name    string
	down    bool
	gone    bool // disabled until an operator resumes it
	durable bool // and that is written down
	telling bool // it is being written down
	cause   error
	since   time.Time

	suspect string    // the group that failed last
	charged []*charge // its attempts that were charged since the last success

	held  []*Item          // wait until it is back, in order of failure
	open  bool             // the next message that comes may go, as the probe
	sent  *Item            // was run again for the opening
	probe *handlers.Ticket // under way
	fails int              // probes that failed
	next  time.Time        // of the planned opening
	timer *time.Timer
}

// The pauses between probes: doubled from the first to the longest.
const (
	firstProbe   = 200 * time.Millisecond
	LongestProbe = 5 * time.Second
)

// maxCharged bounds the messages whose attempts can be given back.
const maxCharged = 64

func newHealth(r *Route) *health { return &health{route: r, addresses: map[string]*address{}} }

// at returns the record of an address, creating it.
func (h *health) at(name string) *address {
	a := h.addresses[name]
	if a == nil {
		a = &address{name: name}
		h.addresses[name] = a
		h.trouble.Add(1)
	}
	return a
}

// allow implements handlers.GateConfig.Allow.
func (h *health) allow(name string, t *handlers.Ticket) handlers.Allowance {
	if h.trouble.Load() == 0 {
		return handlers.AllowAll
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.addresses[name]
	switch {
	case a == nil || !a.down:
		return handlers.AllowAll
	case a.probe == t: // again: a middleware of its chain retries on its own
		return handlers.AllowOne
	case a.open:
		a.open, a.probe = false, t
		if it, is := t.Owner.(*Item); is {
			it.probed = true
		}
		return handlers.AllowOne
	}
	return handlers.AllowNone
}

// delivered notes a success. When it brings the address back, it returns the
// messages that failed and wait to be run again; others wait at the gates.
func (h *health) delivered(name string) (again []*Item, back bool) {
	if h.trouble.Load() == 0 {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.addresses[name]
	if a == nil || a.gone { // gone: this one was under way
		return nil, false
	}
	if a.down {
		h.route.Log().Info("address is back", "address", h.route.redact(name), "down_for", time.Since(a.since).Round(time.Millisecond))
	}
	return h.remove(a), a.down
}

// remove forgets an address and returns the messages that waited for it. Its timer may
// be kept by the runtime, though it is stopped, and must keep none of them.
func (h *health) remove(a *address) (held []*Item) {
	if a.timer != nil {
		a.timer.Stop()
	}
	delete(h.addresses, a.name)
	h.trouble.Add(-1)
	held = a.held
	a.held, a.sent, a.probe, a.charged = nil, nil, nil, nil
	return held
}

// failed notes that the destination failed a message. It tells whether the
// attempt counts; if not, the message is held until the address is back. The
// second result are attempts that turned out to be the address's fault.
func (h *health) failed(name string, it *Item, retryAfter time.Duration, cause error) (charged bool, blamed []*charge) {
	if it.AmongDelivered() {
		return true, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.at(name)
	if !a.down {
		if a.suspect == "" || a.suspect == it.identity() {
			a.suspect = it.identity()
			a.charge(it)
			return true, nil
		}
		blamed, a.charged = a.charged, nil
		h.takeDown(a, cause, false)
	} else if a.probe == &it.Ticket {
		a.cause = cause
		it.probes++
		// It was the failing probe as often as the route allows attempts: this
		// one must end, or poisoned messages on a quiet route would never.
		if int(it.probes) >= h.route.Attempts {
			return true, nil
		}
		if int(it.probes) == h.route.Attempts-1 {
			it.Attempt.Number = h.route.Attempts // so that retry sees the last one
		}
		a.fails++
	}
	h.hold(a, it)
	h.plan(a, retryAfter)
	return false, blamed
}

// unavailable notes that an address cannot be reached, and holds the message.
// Outage tells that the failures before were the address's fault as well: a
// breaker has seen enough of them. The result is as that of failed.
func (h *health) unavailable(name string, it *Item, v outbox.Verdict, outage bool) (blamed []*charge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.at(name)
	if outage {
		blamed, a.charged = a.charged, nil
	}
	if !a.down {
		h.takeDown(a, v.Err, v.Gone)
	} else if a.probe == &it.Ticket || a.sent == it {
		a.cause = v.Err // what is wrong now, not what was wrong at first
		a.fails++       // sent and no probe: it did not even get to the gate (a breaker)
	}
	if v.Gone && !a.durable && !a.telling {
		a.telling = true
		h.route.Lease.RememberGone(a.name, v.Err)
	}
	a.gone = a.gone || v.Gone
	h.hold(a, it)
	h.plan(a, v.RetryAfter)
	return blamed
}

func (h *health) takeDown(a *address, cause error, gone bool) {
	a.down, a.cause, a.since, a.fails = true, cause, time.Now(), 0
	text := "address is down: its messages wait and it is probed"
	if gone {
		text = "address is gone: its messages wait, and it is not used until an operator resumes it (outrider resume " +
			h.route.Name + " --address ...)"
	}
	h.route.Log().Warn(text,
		"address", h.route.redact(a.name), "error", cause)
}

// hold keeps a message that failed.
func (h *health) hold(a *address, it *Item) {
	if a.probe == &it.Ticket {
		a.probe = nil
	}
	a.held = append(a.held, it)
}

// plan sets the time of the next probe, unless one is under way or planned.
func (h *health) plan(a *address, retryAfter time.Duration) {
	if a.gone || h.closed || a.probe != nil {
		return
	}
	pause := min(firstProbe<<min(a.fails, 10), LongestProbe)
	next := time.Now().Add(max(pause, retryAfter))
	if a.timer != nil && (retryAfter == 0 || next.Before(a.next)) {
		return // what is planned will do
	}
	a.next = next
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(time.Until(next), func() { h.tryAgain(a) })
}

// tryAgain lets one message through to an address: one that waits at a gate, or
// one that failed and whose chain is run again.
func (h *health) tryAgain(a *address) {
	h.mu.Lock()
	a.timer = nil
	if h.addresses[a.name] != a || h.closed || a.gone || a.probe != nil {
		h.mu.Unlock()
		return
	}
	a.open = true
	for {
		it := a.takeHeld()
		if a.sent = it; it != nil {
			it.probed = true
		}
		h.mu.Unlock()
		if it == nil || it.Session.rerun(it) {
			break
		}
		h.mu.Lock() // it has just left its lane: the next one
		if !a.open {
			h.mu.Unlock()
			break
		}
	}
	h.route.kick()
}

// takeHeld takes the first message of the group that has been held longest; nil
// if there is none. Only the first: the others could not go before it, and
// might take what it needs on its way (the one place of a half-open breaker).
func (a *address) takeHeld() *Item {
	if len(a.held) == 0 {
		return nil
	}
	first := 0
	for i, it := range a.held {
		f := a.held[first]
		if it.Session == f.Session && it.identity() == f.identity() && it.arrival < f.arrival {
			first = i
		}
	}
	it := a.held[first]
	a.held = slices.Delete(a.held, first, first+1)
	return it
}

// heldAlone returns the session's held messages that have no group.
func (h *health) heldAlone(s *Session) []*Item {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*Item
	for _, a := range h.addresses {
		for _, it := range a.held {
			if it.Session == s && it.key == "" {
				out = append(out, it)
			}
		}
	}
	return out
}

// forget removes everything of a session that ends.
func (h *health) forget(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		kept := a.held[:0:0]
		for _, it := range a.held {
			if it.Session != s {
				kept = append(kept, it)
			}
		}
		a.held = kept
		a.charged = slices.DeleteFunc(a.charged, func(c *charge) bool { return c.session == s })
		if a.sent != nil && a.sent.Session == s {
			a.sent = nil
		}
		if a.open || a.probe != nil && owner(a.probe).Session == s {
			a.probe = nil
			h.plan(a, 0)
		}
	}
}

// close stops the timers.
func (h *health) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, a := range h.addresses {
		if a.timer != nil {
			a.timer.Stop()
		}
	}
}

// status lists the addresses that are down.
func (h *health) status() []adapters.AddressStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []adapters.AddressStatus
	for _, a := range h.addresses {
		if a.down {
			s := adapters.AddressStatus{Address: h.route.redact(a.name), Gone: a.gone, Since: a.since, Cause: a.cause.Error(), Held: len(a.held)}
			if a.timer != nil && !a.gone {
				s.NextProbe = a.next
			}
			out = append(out, s)
		}
	}
	return out
}
