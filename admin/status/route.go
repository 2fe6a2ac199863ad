package status

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// RouteStatus is a row of status: a lane, or a route with the sum of its lanes. Its
// form as JSON is that of `outrider status -o json`.
type RouteStatus struct {
	Route     string     `json:"route"`
	State     RouteState `json:"state,omitempty"` // of routes
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
	DeadRows   int        `json:"dead_rows,omitempty"`       // those of Dead that are in a queue's table
	DeadMore   bool       `json:"dead_rows_more,omitempty"`  // there are more
	DeadError  string     `json:"dead_rows_error,omitempty"` // why they could not be counted
	Owned      []Owned    `json:"owned,omitempty"`
	Behind     *int       `json:"behind,omitempty"` // rows not settled; absent when not known
	BehindMore bool       `json:"behind_more,omitempty"`
	Oldest     *time.Time `json:"oldest,omitempty"` // creation of the first of them
	Paused     *Stop      `json:"paused,omitempty"`
	Down       []Stop     `json:"addresses_down,omitempty"`
	Groups     []Stop     `json:"groups_paused,omitempty"`
	Processing *Marked    `json:"processing,omitempty"` // of queues: rows that are Marked so in the source
	Stopped    string     `json:"stopped,omitempty"`    // why the running instance cannot run it
	Failing    *Failing   `json:"failing,omitempty"`    // the parked message whose error matters most

	Overdue *Overdue `json:"overdue,omitempty"` // what the watchdog found; of a running relay only

	Foreign     bool     `json:"-"`                      // this configuration does not have it
	RunBy       []string `json:"-"`                      // live instances that run it, of a route that is not configured
	NoRelay     bool     `json:"-"`                      // no instance is alive
	Idle        []string `json:"-"`                      // instances that are alive, run the route and own none of its lanes
	SourceError string   `json:"source_error,omitempty"` // why the source could not be read, or asked how far the route is behind
	StateError  string   `json:"state_error,omitempty"`  // why the running instance cannot write its progress

	LongTransaction    string `json:"-"` // a transaction of the source that has been open for long
	LongTransactionFix string `json:"-"`
	LongTransactionID  string `json:"-"` // empty: it cannot be ended from here

	to string // its destination
}

// EachLane makes a row of each lane.
func EachLane(lanes []adapters.LaneStatus) []RouteStatus {
	rows := []RouteStatus{}
	for _, l := range lanes {
		row := RouteStatus{Route: l.Route, Slot: &l.Slot, Owners: []string{}}
		row.Alive = true
		row.Add(l)
		row.Lanes, row.Owned, row.Epoch = 0, nil, l.Epoch
		if !l.Since.IsZero() {
			row.Since = &l.Since
		}
		rows = append(rows, row)
	}
	return rows
}

// Summarise makes a row of each route: those of the configuration, then others
// that the state remembers.
func Summarise(cfg *config.Config, lanes []adapters.LaneStatus) []RouteStatus {
	rows := []RouteStatus{}
	index := map[string]int{}
	row := func(route string) *RouteStatus {
		i, ok := index[route]
		if !ok {
			i = len(rows)
			index[route] = i
			rows = append(rows, RouteStatus{Route: route, Owners: []string{}, Alive: true, Foreign: true})
		}
		return &rows[i]
	}
	for _, r := range cfg.Routes {
		of := row(r.Name)
		of.to, of.Foreign = r.To, false
	}
	for _, l := range lanes {
		row(l.Route).Add(l)
	}
	for i := range rows {
		rows[i].Alive = rows[i].Alive && len(rows[i].Owners) > 0
	}
	return rows
}

// Add adds a lane to the sum.
func (p *RouteStatus) Add(l adapters.LaneStatus) {
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

// Overdue is a row that a route should have settled and has not, as the watchdog found it in the tables.
type Overdue struct {
	Rows  int       `json:"rows" doc:"Rows that were found; at most 200 of each lane."`
	More  bool      `json:"more,omitempty" doc:"There may be more."`
	Lanes []int     `json:"lanes" nullable:"false" doc:"Slots that they are of."`
	ID    string    `json:"id" doc:"Event id of the first one."`
	Where string    `json:"where" doc:"Its position, or the table of its queue."`
	Since time.Time `json:"since" doc:"It has been waiting since then at least."`
	Cause CauseKind `json:"cause" enum:"address_unavailable,no_owner,behind,stuck" doc:"behind: the lanes progress. stuck: unexplained."`
}

// Failing is the parked message of a route that most deserves a look.
type Failing struct {
	ID       string                `json:"id"`
	Group    string                `json:"group,omitempty"`
	Status   adapters.ParkedStatus `json:"status"`
	Attempts int                   `json:"attempts"`
	Since    time.Time             `json:"since"`
	Next     *time.Time            `json:"next_attempt_at,omitempty"`
	Error    string                `json:"error"`
}

// Stop is a route, or an address or a group of it, that does nothing, and why.
type Stop struct {
	Address string    `json:"address,omitempty"`
	Group   string    `json:"group,omitempty"`
	Since   time.Time `json:"since"`
	By      string    `json:"by,omitempty"`     // who paused it
	Reason  string    `json:"reason,omitempty"` // or what failed
	Waiting int       `json:"waiting,omitempty"`
	Durable bool      `json:"until_resumed"` // otherwise it is probed

	Probe *time.Time `json:"next_probe_at,omitempty"`
}

// Marked is how many rows of a queue are Marked as being processed, by whomever.
type Marked struct {
	Rows    int     `json:"rows"`
	More    bool    `json:"more,omitempty"`
	Longest float64 `json:"longest_seconds"`
}

// AddRunning adds what the relay's process knows of the route.
func (p *RouteStatus) AddRunning(r Route) {
	p.Stopped, p.SourceError, p.StateError = r.Stopped, r.SourceError, r.StateError
	for _, d := range r.Down {
		known := false
		for i := range p.Down {
			if p.Down[i].Address == d.Address {
				known, p.Down[i].Waiting = true, d.Waiting
			}
		}
		if !known {
			p.Down = append(p.Down, Stop{Address: d.Address, Since: d.Since, Reason: d.Cause, Waiting: d.Waiting, Durable: d.Gone, Probe: d.NextProbe})
		}
	}
}
