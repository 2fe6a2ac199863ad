package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// progress is a row of status: a lane, or a route with the sum of its lanes.
type progress struct {
	Route     string     `json:"route"`
	State     routeState `json:"state,omitempty"` // of routes
	Slot      *int       `json:"slot,omitempty"`
	Lanes     int        `json:"lanes,omitempty"`
	Owners    []string   `json:"owners"`
	Alive     bool       `json:"alive"`    // all owners are
	Position  int64      `json:"position"` // settled; of a route, that of its farthest lane
	Retrying  int        `json:"retrying"`
	Waiting   int        `json:"waiting"`
	Held      int        `json:"held"`
	Dead      int        `json:"dead"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`

	// Of lanes only.
	Epoch int64      `json:"epoch,omitempty"`
	Since *time.Time `json:"since,omitempty"` // when the owner took it

	// Of routes only.
	DeadRows   int        `json:"dead_rows,omitempty"`      // those of Dead that are in a queue's table
	DeadMore   bool       `json:"dead_rows_more,omitempty"` // there are more
	Owned      []owned    `json:"owned,omitempty"`
	Behind     *int       `json:"behind,omitempty"` // rows not settled; absent when not known
	BehindMore bool       `json:"behind_more,omitempty"`
	Oldest     *time.Time `json:"oldest,omitempty"` // creation of the first of them
	Paused     *stop      `json:"paused,omitempty"`
	Down       []stop     `json:"addresses_down,omitempty"`
	Processing *marked    `json:"processing,omitempty"` // of queues: rows that are marked so in the source
	Stopped    string     `json:"stopped,omitempty"`    // why the running instance cannot run it
	Failing    *failing   `json:"failing,omitempty"`    // the parked message to look at first

	noRelay bool // no instance is alive
}

// each makes a row of each lane.
func each(lanes []adapters.LaneStatus) []progress {
	rows := []progress{}
	for _, l := range lanes {
		row := progress{Route: l.Route, Slot: &l.Slot, Owners: []string{}}
		row.Alive = true
		row.add(l)
		row.Lanes, row.Owned, row.Epoch = 0, nil, l.Epoch
		if !l.Since.IsZero() {
			row.Since = &l.Since
		}
		rows = append(rows, row)
	}
	return rows
}

// summarise makes a row of each route: those of the configuration, then others
// that the state remembers.
func summarise(cfg *config.Config, lanes []adapters.LaneStatus) []progress {
	rows := []progress{}
	index := map[string]int{}
	row := func(route string) *progress {
		i, ok := index[route]
		if !ok {
			i = len(rows)
			index[route] = i
			rows = append(rows, progress{Route: route, Owners: []string{}, Alive: true})
		}
		return &rows[i]
	}
	for _, r := range cfg.Routes {
		row(r.Name)
	}
	for _, l := range lanes {
		row(l.Route).add(l)
	}
	for i := range rows {
		rows[i].Alive = rows[i].Alive && len(rows[i].Owners) > 0
	}
	return rows
}

func (p *progress) add(l adapters.LaneStatus) {
	p.Lanes++
	if l.Owner != "" && !slices.Contains(p.Owners, l.Owner) {
		p.Owners = append(p.Owners, l.Owner)
	}
	p.own(l)
	p.Alive = p.Alive && l.Alive
	p.Position = max(p.Position, l.Cursor.Position)
	p.Retrying += l.Retrying
	p.Waiting += l.Waiting
	p.Held += l.Held
	p.Dead += l.Dead
	if !l.UpdatedAt.IsZero() && (p.UpdatedAt == nil || l.UpdatedAt.After(*p.UpdatedAt)) {
		p.UpdatedAt = &l.UpdatedAt
	}
}

// dead is how many messages are dead, with a sign where not all rows were counted.
func (p *progress) dead() string {
	if p.DeadMore {
		return strconv.Itoa(p.Dead) + "+"
	}
	return strconv.Itoa(p.Dead)
}

// owner is the instance that works the row.
func (p *progress) owner() string {
	switch {
	case p.Lanes == 0 && p.Slot == nil:
		return "(has never run)"
	case len(p.Owners) == 0:
		return "(none)"
	}
	who := p.Owners[0]
	if len(p.Owners) > 1 {
		who = counted(len(p.Owners), "instance")
	}
	if !p.Alive {
		who += " (not alive)"
	}
	return who
}
