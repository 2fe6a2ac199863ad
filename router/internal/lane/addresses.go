package lane

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/outriderhq/outrider/adapters"
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

	refusals refusals
}

func newHealth(r *Route) *health {
	return &health{route: r, addresses: map[string]*address{}, refusals: refusals{addresses: map[string]*refuser{}}}
}

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

// began notes when an attempt began that failed: a receiver that hangs has failed since then, not since that was found out.
func (a *address) began(it *Item) {
	if at := it.Session.gate.SentAt(&it.Ticket); !a.down && !at.IsZero() && (a.since.IsZero() || at.Before(a.since)) {
		a.since = at
	}
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
		a.held = slices.DeleteFunc(a.held, func(it *Item) bool { return it.Session == s }) // which clears what it leaves behind
		a.charges = slices.DeleteFunc(a.charges, func(c *charge) bool { return c.session == s })
		if a.sent != nil && a.sent.Session == s {
			a.sent = nil
		}
		if a.open || a.probe != nil && owner(a.probe).Session == s {
			a.probe = nil
			h.plan(a, 0)
		}
	}
}

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

func (h *health) status() []adapters.AddressStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []adapters.AddressStatus
	for _, a := range h.addresses {
		if a.down {
			s := adapters.AddressStatus{Address: h.route.redact(a.name), Gone: a.gone, Since: a.since, Cause: textOf(a.cause), Held: len(a.held)}
			if a.timer != nil && !a.gone {
				s.NextProbe = a.next
			}
			out = append(out, s)
		}
	}
	return out
}

// ApplyPauses tells the route which of its addresses and groups are paused.
func (r *Route) ApplyPauses(pauses []adapters.Pause) {
	r.pauseGroups(pauses)
	if again := r.health.apply(pauses); again != nil {
		followUp{rerun: again, back: r}.run()
	}
}

// ProbeNow tries an address that is down, as it is shown, at once instead of at the time of its next probe.
// It returns false when no probe is planned: it is not down, paused, being probed, or nothing waits for it.
func (r *Route) ProbeNow(address string) bool { return r.health.probeNow(address) }

// GoneRemembered says that what [Lease].RememberGone was asked for is done.
func (r *Route) GoneRemembered(address string) { r.health.written(address) }

// StopProbing ends the timers of addresses that are down.
func (r *Route) StopProbing() { r.health.close() }
