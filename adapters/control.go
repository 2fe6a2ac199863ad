package adapters

import (
	"errors"
	"time"
)

// ErrPaused is returned by Acquire for a route that is paused.
var ErrPaused = errors.New("the route is paused")

// ErrAlive is returned by Forget for a route that an instance runs.
var ErrAlive = errors.New("a running instance works the route")

// Pause is a paused route, or a paused address or group of it.
type Pause struct {
	Route   string
	Address string // as the destination renders it; empty: the route itself, or a group
	Group   string // of messages, as [Row.Group] has it; empty: the route itself, or an address
	Reason  string
	By      string // who asked
	At      time.Time
}

// OfRoute reports whether the whole route is paused.
func (p *Pause) OfRoute() bool { return p.Address == "" && p.Group == "" }

// Move sets the cursors of a route.
type Move struct {
	Route   string
	Cursors map[int]Cursor  // by slot
	Beyond  map[int][]int64 // by slot: positions that count as settled though the cursor does not cover them
	Table   Table           // that they are of

	// Same says that the table holds the data that the cursors were of, in another
	// cluster or under another name: then [LaneStatus].Former remembers the cluster.
	Same bool

	Action string // for the audit: "seek", "rebase"
	Detail string // for the audit: where to
	By     string // who asked
}

// DeletedRoute counts what Forget of a [StateStore] deleted.
type DeletedRoute struct {
	Lanes  int // cursor rows
	Parked int // parked messages, dead ones included
	Pauses int
}
