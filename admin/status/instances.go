package status

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Owned has the lanes of a route that one instance owns.
type Owned struct {
	Owner string     `json:"owner"`
	Alive bool       `json:"alive"`
	Slots []int      `json:"slots"`
	Since *time.Time `json:"since,omitempty"` // when it took the latest of them
}

// own adds a lane to what its owner has.
func (p *RouteStatus) own(l adapters.LaneStatus) {
	if l.Owner == "" {
		return
	}
	i := slices.IndexFunc(p.Owned, func(o Owned) bool { return o.Owner == l.Owner })
	if i < 0 {
		i = len(p.Owned)
		p.Owned = append(p.Owned, Owned{Owner: l.Owner, Alive: l.Alive})
	}
	o := &p.Owned[i]
	o.Slots = append(o.Slots, l.Slot)
	if !l.Since.IsZero() && (o.Since == nil || l.Since.After(*o.Since)) {
		o.Since = &l.Since
	}
}

// AddIdle notes, of routes with lanes without an owner, which instances could own them; and which run the routes that are not configured.
func AddIdle(rows []RouteStatus, instances []adapters.Instance) {
	for i := range rows {
		r := &rows[i]
		for _, in := range instances {
			if r.Foreign && in.Alive && slices.ContainsFunc(in.Routes, func(x adapters.RunningRoute) bool { return x.Route == r.Route }) {
				r.RunBy = append(r.RunBy, in.ID)
			}
		}
		if r.Alive {
			continue
		}
		for _, in := range instances {
			runs := slices.ContainsFunc(in.Routes, func(x adapters.RunningRoute) bool { return x.Route == r.Route && x.Waits == "" && x.Unit == "" })
			owns := slices.ContainsFunc(r.Owned, func(o Owned) bool { return o.Owner == in.ID })
			if in.Alive && runs && !owns {
				r.Idle = append(r.Idle, in.ID)
			}
		}
	}
}

// Member is an instance as status shows it.
type Member struct {
	ID        string    `json:"id"`
	Alive     bool      `json:"alive"`
	JoinedAt  time.Time `json:"joined_at"`
	Heartbeat time.Time `json:"heartbeat_at"`
	Lanes     int       `json:"lanes"`
	Routes    int       `json:"routes"`
	Waits     []Waits   `json:"waits,omitempty"`
}

// Waits is a route that an instance runs and takes nothing of.
type Waits struct {
	Route string `json:"route"`
	Why   string `json:"why"`
}

// MembersOf describes the instances.
func MembersOf(instances []adapters.Instance, lanes []adapters.LaneStatus) []Member {
	out := []Member{}
	for _, i := range instances {
		m := Member{ID: i.ID, Alive: i.Alive, JoinedAt: i.JoinedAt, Heartbeat: i.RenewedAt, Routes: len(i.Routes)}
		for _, r := range i.Routes {
			if r.Waits != "" {
				m.Waits = append(m.Waits, Waits{r.Route, r.Waits})
			}
		}
		for _, l := range lanes {
			if l.Owner == i.ID {
				m.Lanes++
			}
		}
		out = append(out, m)
	}
	return out
}
