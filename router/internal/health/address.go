package health

import (
	"errors"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// address is an address that is down or suspected.
type address[M comparable, C any] struct {
	name    string
	down    bool
	gone    bool // paused until an operator resumes it
	durable bool // the pause is written
	writing bool // the pause is being written
	cause   error
	since   time.Time // when the first attempt began that failed

	suspect string // the group that failed last
	charges []C    // of its attempts since the last success

	held  []M  // wait until it is back, in order of failure
	open  bool // the next message that comes may go, as the probe
	sent  M    // was run again for the opening
	probe M    // in flight
	fails int  // probes that failed
	next  time.Time
	timer *time.Timer // of the probe that is planned
}

// The pauses between probes: doubled from the first to the longest.
const (
	FirstProbe   = 200 * time.Millisecond
	LongestProbe = 5 * time.Second
)

// Pause returns the pause before the next probe, after some have failed.
func Pause(fails int) time.Duration { return min(FirstProbe<<min(fails, 10), LongestProbe) }

// Allow reports whether a message may be sent to an address, and whether it goes alone, as a probe.
func (h *Addresses[M, C]) Allow(name string, m M) (allowed, probe bool) {
	if h.known.Load() == 0 {
		return true, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.addresses[name]
	switch {
	case a == nil || !a.down:
		return true, false
	case a.probe == m: // again: a middleware of its chain retries on its own
		return true, true
	case a.open:
		a.open, a.probe = false, m
		h.probing[m] = struct{}{}
		return true, true
	}
	return false, false
}

// Delivered counts a success. It may bring the address back: then the messages that it failed are run again; others wait at the gates.
func (h *Addresses[M, C]) Delivered(name string) (e Effects[M, C]) {
	if h.known.Load() == 0 {
		return e
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.addresses[name]
	if a == nil || a.gone { // gone: this message was sent before
		return e
	}
	if a.down {
		h.cfg.Log().Info("address is back", "address", h.cfg.Redact(name), "down_for", time.Since(a.since).Round(time.Millisecond))
		e.Back = true
	}
	e.Resume = h.remove(a)
	return e
}

// Failed counts an attempt, begun at a time, that the destination failed. It reports whether the attempt counts for the message; if not,
// the message is held until the address is back. blamed are attempts that turn out to be the address's fault.
func (h *Addresses[M, C]) Failed(name string, m M, began time.Time, retryAfter time.Duration, cause error) (counts bool, blamed []C) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.at(name)
	a.failedSince(began)
	if !a.down {
		if a.suspect == "" || a.suspect == m.Identity() {
			a.suspect = m.Identity()
			a.charges = m.Charge(a.charges)
			return true, nil
		}
		blamed, a.charges = a.charges, nil
		h.takeDown(a, cause, false)
	} else if a.probe == m {
		a.cause = cause
		// If it was the failing probe as often as its route allows attempts, it must end: poisoned messages on a quiet route never would.
		if m.FailProbe() {
			return true, nil
		}
		a.fails++
	}
	a.hold(m)
	h.plan(a, retryAfter)
	return false, blamed
}

// Unavailable holds a message whose address cannot be reached, in an attempt that was begun at a time. With outage the failures
// before are the address's fault as well: a breaker has seen enough of them. gone reports that the
// address is newly gone, which is to be written down; see [Addresses.Written].
func (h *Addresses[M, C]) Unavailable(name string, m M, began time.Time, v outbox.Verdict, outage bool) (blamed []C, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.at(name)
	if outage {
		blamed, a.charges = a.charges, nil
	}
	if !a.down {
		a.failedSince(began)
		h.takeDown(a, v.Err, v.Gone)
	} else if a.probe == m || a.sent == m {
		a.cause = v.Err // what is wrong now, not what was wrong at first
		a.fails++       // sent and no probe: it did not even get to the gate (a breaker)
	}
	gone = v.Gone && !a.durable && !a.writing
	a.writing = a.writing || gone
	a.gone = a.gone || v.Gone
	a.hold(m)
	h.plan(a, v.RetryAfter)
	return blamed, gone
}

// failedSince notes when a failed attempt began: a receiver that hangs has failed since then.
func (a *address[M, C]) failedSince(began time.Time) {
	if !a.down && !began.IsZero() && (a.since.IsZero() || began.Before(a.since)) {
		a.since = began
	}
}

func (h *Addresses[M, C]) takeDown(a *address[M, C], cause error, gone bool) {
	a.down, a.cause, a.fails = true, cause, 0
	if a.since.IsZero() {
		a.since = time.Now()
	}
	text := "address is down: its messages wait, and Outrider is probing it"
	if gone {
		text = "address is gone: its messages wait, and it is not used until an operator resumes it (outrider resume " +
			h.cfg.Route + " --address ...)"
	}
	h.cfg.Log().Warn(text, "address", h.cfg.Redact(a.name), "error", cause)
}

func (a *address[M, C]) hold(m M) {
	var none M
	if a.probe == m {
		a.probe = none
	}
	a.held = append(a.held, m)
}

// plan sets the time of the next probe, unless one is in flight or planned.
func (h *Addresses[M, C]) plan(a *address[M, C], retryAfter time.Duration) {
	var none M
	if a.gone || h.closed || a.probe != none {
		return
	}
	next := time.Now().Add(max(Pause(a.fails), retryAfter))
	if a.timer != nil && (retryAfter == 0 || next.Before(a.next)) {
		return // the planned one is early enough
	}
	a.stopTimer()
	a.next = next
	a.timer = time.AfterFunc(time.Until(next), func() { h.tryAgain(a) })
}

func (a *address[M, C]) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// tryAgain lets one message through to an address: one that waits at a gate, or one that failed and whose chain is run again.
func (h *Addresses[M, C]) tryAgain(a *address[M, C]) {
	var none M
	h.mu.Lock()
	a.timer = nil
	if h.addresses[a.name] != a || h.closed || a.gone || a.probe != none {
		h.mu.Unlock()
		return
	}
	a.open = true
	for a.open {
		m := h.takeHeld(a)
		if a.sent = m; m == none {
			break
		}
		h.probing[m] = struct{}{}
		h.mu.Unlock()
		sent := m.Rerun()
		h.mu.Lock()
		if sent {
			break
		}
		delete(h.probing, m) // it has just left its lane: the next one
	}
	h.mu.Unlock()
	h.cfg.Opened()
}

// takeHeld takes the message that has been held longest or, if others of its lane and group precede it, the first of those; none if nothing
// is held. One only: what is behind could not go before it, and might take what it needs (the one place of a half-open breaker).
func (h *Addresses[M, C]) takeHeld(a *address[M, C]) (m M) {
	if len(a.held) == 0 {
		return m
	}
	first := 0
	for i, x := range a.held {
		if x.Precedes(a.held[first]) {
			first = i
		}
	}
	m = a.held[first]
	a.held = slices.Delete(a.held, first, first+1)
	return m
}

// Apply brings the addresses that are paused into agreement with the pauses that are written. Back reports that
// an address was resumed; its messages are run again.
func (h *Addresses[M, C]) Apply(pauses []adapters.Pause) (e Effects[M, C]) {
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
			h.cfg.Log().Info("address was resumed", "address", h.cfg.Redact(a.name))
			e.Resume, e.Back = append(e.Resume, h.remove(a)...), true
		}
	}
	return e
}

func (h *Addresses[M, C]) disable(a *address[M, C], p adapters.Pause) {
	a.down, a.gone, a.open = true, true, false
	a.cause, a.since = errors.New("paused by "+p.By), p.At
	if p.Reason != "" {
		a.cause = errors.New(p.Reason)
	}
	a.stopTimer()
	h.cfg.Log().Info("address is paused: its messages wait", "address", h.cfg.Redact(a.name), "reason", a.cause,
		"since", p.At.UTC().Format(time.RFC3339))
}

// Written notes that the pause of an address that is gone is durable.
func (h *Addresses[M, C]) Written(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.addresses[name]; a != nil && a.gone {
		a.durable = true
	}
}
