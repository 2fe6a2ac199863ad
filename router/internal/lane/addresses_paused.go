package lane

import (
	"errors"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// ApplyPauses tells the route which of its addresses are paused.
func (r *Route) ApplyPauses(pauses []adapters.Pause) {
	if again := r.health.apply(pauses); again != nil {
		followUp{rerun: again, back: r}.run()
	}
}

// GoneRemembered says that what [Lease].RememberGone was asked for is done.
func (r *Route) GoneRemembered(address string) { r.health.written(address) }

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

// disable takes an address out of use because a pause says so.
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
