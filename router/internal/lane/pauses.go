package lane

import (
	"maps"

	"github.com/outriderhq/outrider/adapters"
)

// PausedGroups are the groups of a route that an operator has paused. A set never changes: a new set has a new pointer.
type PausedGroups map[string]bool

// Has reports whether a group is paused.
func (p *PausedGroups) Has(group string) bool { return p != nil && (*p)[group] }

// pauseGroups takes over which groups are paused. Routes that keep no order or a global one have no groups to pause.
func (r *Route) pauseGroups(pauses []adapters.Pause) {
	now := PausedGroups{}
	for _, p := range pauses {
		switch {
		case p.Group == "":
		case r.Order == adapters.OrderNone || r.Order == adapters.OrderGlobal:
			r.Log().Warn("a group is paused, but the route's order knows no groups: its messages are delivered", "group", p.Group, "order", string(r.Order))
		default:
			now[p.Group] = true
		}
	}
	before := r.paused.Load()
	if before == nil && len(now) == 0 || before != nil && maps.Equal(*before, now) {
		return
	}
	r.paused.Store(&now)
	for _, s := range r.Sessions() {
		applyPausedGroups(s)
	}
	r.Log().Info("paused groups have changed", "paused", len(now)) // none of them is delivered from here on
	r.Feeder.Wake()                                                // what was resumed may be claimed
}

// Paused returns the groups that are paused now; nil: none was paused so far. A command may change the set at any time: a claim uses one set
// for all of its rows.
func (r *Route) Paused() *PausedGroups { return r.paused.Load() }

// ApplyPauses takes over which addresses and groups of the route are paused.
func (r *Route) ApplyPauses(pauses []adapters.Pause) {
	r.pauseGroups(pauses)
	follow := followUp{Effects: r.Health.Apply(pauses)}
	follow.run(r)
}
