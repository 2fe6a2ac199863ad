package lane

import (
	"errors"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// address is an address in trouble, or under suspicion.
type address struct {
	name    string
	down    bool
	gone    bool // disabled until an operator resumes it
	durable bool // and that is written down
	writing bool // it is being written down
	cause   error
	since   time.Time // when the first attempt began that failed

	suspect string    // the group that failed last
	charges []*charge // of its attempts since the last success

	held  []*Item          // wait until it is back, in order of failure
	open  bool             // the next message that comes may go, as the probe
	sent  *Item            // was run again for the opening
	probe *handlers.Ticket // in flight
	fails int              // probes that failed
	next  time.Time        // of the planned opening
	timer *time.Timer
}

// The pauses between probes: doubled from the first to the longest.
const (
	firstProbe   = 200 * time.Millisecond
	LongestProbe = 5 * time.Second
)

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

// delivered notes a success. When it brings the address back, messages that failed are to
// be run again; others wait at the gates.
func (h *health) delivered(name string) (follow followUp) {
	if h.trouble.Load() == 0 {
		return follow
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.addresses[name]
	if a == nil || a.gone { // gone: this one was sent before
		return follow
	}
	if a.down {
		h.route.Log().Info("address is back", "address", h.route.redact(name), "down_for", time.Since(a.since).Round(time.Millisecond))
		follow.back = h.route
	}
	follow.rerun = h.remove(a)
	return follow
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
	a.held, a.sent, a.probe, a.charges = nil, nil, nil, nil
	return held
}

// failed notes that the destination failed a message. It reports whether the
// attempt counts; if not, the message is held until the address is back. The
// second result are attempts that turned out to be the address's fault.
func (h *health) failed(name string, it *Item, retryAfter time.Duration, cause error) (charged bool, blamed []*charge) {
	if it.AmongDelivered() {
		return true, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.at(name)
	a.began(it)
	if !a.down {
		if a.suspect == "" || a.suspect == it.identity() {
			a.suspect = it.identity()
			a.charge(it)
			return true, nil
		}
		blamed, a.charges = a.charges, nil
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
// Outage says that the failures before were the address's fault as well: a
// breaker has seen enough of them. The result is as that of failed.
func (h *health) unavailable(name string, it *Item, v outbox.Verdict, outage bool) (blamed []*charge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.at(name)
	if outage {
		blamed, a.charges = a.charges, nil
	}
	if !a.down {
		a.began(it)
		h.takeDown(a, v.Err, v.Gone)
	} else if a.probe == &it.Ticket || a.sent == it {
		a.cause = v.Err // what is wrong now, not what was wrong at first
		a.fails++       // sent and no probe: it did not even get to the gate (a breaker)
	}
	if v.Gone && !a.durable && !a.writing {
		a.writing = true
		h.route.Lease.RememberGone(a.name, v.Err)
	}
	a.gone = a.gone || v.Gone
	h.hold(a, it)
	h.plan(a, v.RetryAfter)
	return blamed
}

func (h *health) takeDown(a *address, cause error, gone bool) {
	a.down, a.cause, a.fails = true, cause, 0
	if a.since.IsZero() {
		a.since = time.Now()
	}
	text := "address is down: its messages wait, and Outrider is probing it"
	if gone {
		text = "address is gone: its messages wait, and it is not used until an operator resumes it (outrider resume " +
			h.route.Name + " --address ...)"
	}
	h.route.Log().Warn(text,
		"address", h.route.redact(a.name), "error", cause)
}

func (h *health) hold(a *address, it *Item) {
	if a.probe == &it.Ticket {
		a.probe = nil
	}
	a.held = append(a.held, it)
}

// plan sets the time of the next probe, unless one is in flight or planned.
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

// probeNow makes the planned probe of an address at once. It reports whether one was planned.
func (h *health) probeNow(shown string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.addresses {
		if h.route.redact(a.name) == shown && a.timer != nil && a.timer.Stop() {
			a.next = time.Now()
			a.timer.Reset(0)
			return true
		}
	}
	return false
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
		if it == nil || it.rerun() {
			break
		}
		h.mu.Lock() // it has just left its lane: the next one
		if !a.open {
			h.mu.Unlock()
			break
		}
	}
	h.route.Kick()
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

// left forgets a message that leaves the lane without being concluded: one that
// is held, or that was run again for an opening and has not got to the gate.
func (h *health) left(it *Item) {
	if h.trouble.Load() == 0 {
		return
	}
	h.mu.Lock()
	for _, a := range h.addresses {
		if i := slices.Index(a.held, it); i >= 0 {
			a.held = slices.Delete(a.held, i, i+1)
		}
	}
	h.mu.Unlock()
	h.concluded(it)
}

// concluded notes that a message was concluded: if it was a probe that told
// nothing (skipped, released), or was run for an opening that it did not take,
// another is planned.
func (h *health) concluded(it *Item) {
	if h.trouble.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !it.probed { // thousands of addresses may be in trouble
		return
	}
	for _, a := range h.addresses {
		if a.probe == &it.Ticket {
			a.probe = nil
			h.plan(a, 0)
		} else if a.open && a.sent == it {
			h.plan(a, 0) // it stays open for those that wait at the gate
		}
		if a.sent == it {
			a.sent = nil
		}
	}
}

// apply brings the addresses that are not to be used into agreement with the
// pauses that were written down. It returns the messages that waited for an
// address that was resumed, to be run again; nil when none was.
func (h *health) apply(pauses []adapters.Pause) (again []*Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	paused := map[string]bool{}
	for _, p := range pauses {
		if p.Address == "" {
			continue
		}
		paused[p.Address] = true
		a := h.at(p.Address)
		if !a.gone {
			h.disable(a, p)
		}
		a.durable = true
	}
	for _, a := range h.addresses {
		if a.durable && !paused[a.name] {
			h.route.Log().Info("address was resumed", "address", h.route.redact(a.name))
			again = append(append([]*Item{}, again...), h.remove(a)...)
		}
	}
	return again
}

func (h *health) disable(a *address, p adapters.Pause) {
	a.down, a.gone, a.open = true, true, false
	a.cause, a.since = errors.New("paused by "+p.By), p.At
	if p.Reason != "" {
		a.cause = errors.New(p.Reason)
	}
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	h.route.Log().Info("address is paused: its messages wait", "address", h.route.redact(a.name), "reason", a.cause,
		"since", p.At.UTC().Format(time.RFC3339))
}

// written notes that the pause of an address that is gone is durable.
func (h *health) written(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.addresses[name]; a != nil && a.gone {
		a.durable = true
	}
}
