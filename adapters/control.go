package adapters

import (
	"context"
	"errors"
	"time"
)

// Controls are the methods of a [StateStore] by which operators control routes
// from any process. A running owner notices by the counter that Renew returns,
// or because its lanes are no longer its own. Everything that changes something
// writes an audit record.
type Controls interface {
	// Pauses returns the pauses of a route, or of all routes when the name is
	// empty, by route, address and group.
	Pauses(ctx context.Context, route string) ([]Pause, error)

	// Pause writes p down, its time set by the store, and raises the counter of
	// the route's lanes. From then on Acquire returns [ErrPaused] for a paused
	// route; lanes that have an owner keep it until it releases them. It
	// returns false, and changes nothing, when the same is paused already.
	Pause(ctx context.Context, p Pause) (bool, error)

	// Resume removes the pause of p's route (empty address and group), or of its address
	// or group, in the name of p's By, and raises the counter of the route's lanes. It
	// returns false when there was none.
	Resume(ctx context.Context, p Pause) (bool, error)

	// Release gives up those of the lanes that the instance owns, so that they
	// have no owner. Settle them before.
	Release(ctx context.Context, instance string, lanes []LaneRef) error

	// Move sets the cursors of a route, creating rows that do not exist. Epochs
	// rise and owners lose the lanes, so that nothing which they settle
	// later counts; they take them again at the new place. Parked messages stay.
	Move(ctx context.Context, m Move) error

	// Forget deletes everything that is kept for a route: cursors, parked
	// messages, pauses. Unless forced it refuses, with [ErrAlive], a route
	// that a living instance works.
	Forget(ctx context.Context, route string, force bool, by string) (Forgotten, error)
}

// InstanceRemover is implemented by state stores from which operators can remove an instance.
type InstanceRemover interface {
	// RemoveInstance takes all lanes away from an instance, deletes its registration, and ends
	// the session that shows that it lives. It returns false if there is none. Nothing is lost: others
	// take the lanes with a higher epoch, and what the instance settles later is refused. One that runs joins
	// again with its next renewal.
	RemoveInstance(ctx context.Context, id, by string) (bool, error)
}

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

// Forgotten says what [Controls] Forget deleted.
type Forgotten struct {
	Lanes  int // cursor rows
	Parked int // parked messages, dead ones included
	Pauses int
}
