// Package health tracks which addresses of a route are down, and which groups an address refuses.
//
// While an address is down, nothing is sent to it but one message at a time, as a probe; failures are
// charged to the address and not to messages. An address is down when the destination says so
// ([outbox.Unavailable]), or when messages of two groups failed without a success in between.
//
// [Addresses] knows messages by [Message] only. It returns what the caller has to do for them as
// [Effects]; it calls no session, gate or queue itself.
//
// The mutex of [Addresses] is the third of the lock order of package lane: callers may hold the mutex
// of a session and of a gate. It is released while a message is run again.
package health

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Message is a message M of a lane. Attempts that were charged to a message are kept in a C.
// All methods but Rerun are called with the mutexes of its session and of [Addresses].
type Message[M, C any] interface {
	comparable

	// Identity is its group, or unique if it has none.
	Identity() string

	// Precedes reports whether both are of one lane and group, and it comes before the other.
	Precedes(other M) bool

	// FailProbe counts a probe that failed. It reports whether the message has had its last attempt.
	FailProbe() (last bool)

	// Charge counts an attempt that may have been the address's fault, in the charges of the address.
	Charge(charges []C) []C

	// Rerun runs its chain again; false if it has left its lane. It is called without mutexes.
	Rerun() bool
}

// Effects have the work of the caller, to be done when it has released its mutexes.
type Effects[M, C any] struct {
	Resume   []M  // their address is back: run them again
	GiveBack []C  // attempts that were their address's fault
	Back     bool // an address is back: messages at the gates, and in the parking, may go
}

// Empty reports whether nothing is to be done.
func (e *Effects[M, C]) Empty() bool { return len(e.Resume) == 0 && len(e.GiveBack) == 0 && !e.Back }

// Config of [Addresses]. All fields are required.
type Config struct {
	Route  string
	Log    func() *slog.Logger
	Redact func(address string) string
	Opened func() // a message may be sent to an address as a probe: called without mutexes
}

// Addresses are the addresses of a route that are down or suspected.
type Addresses[M Message[M, C], C any] struct {
	cfg   Config
	known atomic.Int32 // len(addresses): the happy path takes no lock

	mu        sync.Mutex
	addresses map[string]*address[M, C]
	probing   map[M]struct{} // were sent as a probe, or run again for one, and are not concluded
	closed    bool
}

// New returns a list without addresses.
func New[M Message[M, C], C any](cfg Config) *Addresses[M, C] {
	return &Addresses[M, C]{cfg: cfg, addresses: map[string]*address[M, C]{}, probing: map[M]struct{}{}}
}

// at returns the record of an address, creating it.
func (h *Addresses[M, C]) at(name string) *address[M, C] {
	a := h.addresses[name]
	if a == nil {
		a = &address[M, C]{name: name}
		h.addresses[name] = a
		h.known.Add(1)
	}
	return a
}

// remove forgets an address and returns the messages that waited for it. The runtime may keep its timer
// though it is stopped, so the address must refer to no message.
func (h *Addresses[M, C]) remove(a *address[M, C]) (held []M) {
	a.stopTimer()
	delete(h.addresses, a.name)
	h.known.Add(-1)
	if len(h.addresses) == 0 {
		clear(h.probing)
	}
	held = a.held
	var none M
	a.held, a.sent, a.probe, a.charges = nil, none, none, nil
	return held
}

// Left forgets a message that leaves the lane without being concluded: one that is held, or that was run
// again as a probe and has not come to the gate.
func (h *Addresses[M, C]) Left(m M) {
	if h.known.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		if i := slices.Index(a.held, m); i >= 0 {
			a.held = slices.Delete(a.held, i, i+1)
		}
	}
	h.concluded(m)
}

// Concluded plans another probe if a message was one and showed nothing (skipped, released), or was run
// again as one and did not come to the gate.
func (h *Addresses[M, C]) Concluded(m M) {
	if h.known.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.concluded(m)
}

func (h *Addresses[M, C]) concluded(m M) {
	if _, was := h.probing[m]; !was { // there may be thousands of addresses
		return
	}
	delete(h.probing, m)
	var none M
	for _, a := range h.addresses {
		if a.probe == m {
			a.probe = none
			h.plan(a, 0)
		} else if a.open && a.sent == m {
			h.plan(a, 0) // it stays open for those that wait at the gate
		}
		if a.sent == m {
			a.sent = none
		}
	}
}

// Forget removes all messages and charges of a session that ends.
func (h *Addresses[M, C]) Forget(message func(M) bool, charge func(C) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.probing {
		if message(m) {
			delete(h.probing, m)
		}
	}
	var none M
	for _, a := range h.addresses {
		a.held = slices.DeleteFunc(a.held, message) // which clears what it leaves behind
		a.charges = slices.DeleteFunc(a.charges, charge)
		if a.sent != none && message(a.sent) {
			a.sent = none
		}
		if a.open || a.probe != none && message(a.probe) {
			a.probe = none
			h.plan(a, 0)
		}
	}
}

// Held calls f for each message that waits for an address, with the mutex held.
func (h *Addresses[M, C]) Held(f func(address string, m M)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		for _, m := range a.held {
			f(a.name, m)
		}
	}
}

// Status lists the addresses that are down.
func (h *Addresses[M, C]) Status(text func(error) string) []adapters.AddressStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []adapters.AddressStatus
	for _, a := range h.addresses {
		if a.down {
			s := adapters.AddressStatus{Address: h.cfg.Redact(a.name), Gone: a.gone, Since: a.since, Cause: text(a.cause), Held: len(a.held)}
			if a.timer != nil && !a.gone {
				s.NextProbe = a.next
			}
			out = append(out, s)
		}
	}
	return out
}

// ProbeNow runs the planned probe of an address, as [Config].Redact shows it, at once. It reports whether one was planned.
func (h *Addresses[M, C]) ProbeNow(shown string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		if h.cfg.Redact(a.name) == shown && a.timer != nil && a.timer.Stop() {
			a.next = time.Now()
			a.timer.Reset(0)
			return true
		}
	}
	return false
}

// Close ends the timers of addresses that are down.
func (h *Addresses[M, C]) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, a := range h.addresses {
		a.stopTimer()
	}
}
