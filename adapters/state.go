package adapters

import (
	"context"
	"errors"
	"time"
)

// StateStore keeps what Outrider must remember: cursors, ownership of lanes and
// parked messages. One store serves all routes of a process. Methods may be
// called concurrently. conformance: adapters/adaptertest.
type StateStore interface {
	// Migrate creates or upgrades the store's tables.
	Migrate(ctx context.Context) error

	// Join announces the instance and holds whatever shows the others at once
	// that it lives (PostgreSQL: a session advisory lock; SQLite: a lock on a
	// file). A store that allows one instance returns [ErrSecondInstance].
	Join(ctx context.Context, instance string, lease time.Duration) error

	// Renew extends the lease and returns, for each cursor row that the
	// instance still owns, what is durable of it. The caller does not change the result,
	// and it stays as it is: the next renewal may return the same map.
	Renew(ctx context.Context, instance string, lease time.Duration) (map[LaneRef]LaneMark, error)

	// Leave releases everything that the instance owns, so that another can
	// continue at once. It is the end of the instance.
	Leave(ctx context.Context, instance string) error

	// Announce says which routes the instance runs, in place of what it said
	// before. Until the first time it runs none.
	Announce(ctx context.Context, instance string, routes []RunningRoute) error

	// Instances returns those that have joined and not left, by id: also dead
	// ones, for a while.
	Instances(ctx context.Context) ([]Instance, error)

	// Acquire makes the instance the owner of those cursor rows of the
	// route that have no living owner, of at most so many, creating rows that do
	// not exist, and raises their epoch. It returns only the rows acquired; those
	// that were its own are acquired again, and first.
	Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]LaneState, error)

	// Bind says which table the route's cursors are of: it is written into those
	// rows of the route of which that is not known yet. When a row belongs to
	// another table nothing is written, and the error is an [*OtherTable]. Of two
	// callers that name different tables at the same time, one gets that error.
	Bind(ctx context.Context, route string, table Table) error

	// Settle writes all settlements in one transaction. Lanes whose epoch is no
	// longer the given one, or whose revision is lower than the one confirmed, are
	// left untouched and returned as fenced; the others are written.
	Settle(ctx context.Context, settlements []Settlement) (fenced []LaneRef, err error)

	// ParkedGroups summarises what keeps the groups of some of a route's cursor
	// rows from flowing: everything but dead messages that do not hold their
	// group, by ascending slot and first seq.
	ParkedGroups(ctx context.Context, route string, slots []int) ([]ParkedGroup, error)

	// ParkedQueue returns the messages of one group that are not dead, or are
	// held, by ascending seq, beginning after a seq. Payloads and metadata are read as long as they
	// fit into so many bytes together; a message that no longer fits is [Parked.Bare].
	ParkedQueue(ctx context.Context, lane LaneRef, group string, after int64, limit int, bytes int64) ([]Parked, error)

	// ListParked, CountParked and ChangeParked are for operators, from any
	// process. ListParked returns what the filter selects, by route, slot and
	// seq, with payloads as ParkedQueue does; CountParked what a command would change, by route and status.
	// ChangeParked carries out one step of a command in one transaction: it
	// raises the counter of the lanes that it touches, which makes their owner
	// load again, and writes an audit record.
	ListParked(ctx context.Context, f ParkedFilter, bytes int64) ([]Parked, error)
	CountParked(ctx context.Context, c ParkedCommand) ([]ParkedCount, error)
	ChangeParked(ctx context.Context, c ParkedCommand) (ParkedStep, error)

	// The following methods control routes from any process. A running owner notices by the counter that Renew returns,
	// or because its lanes are no longer its own. All that change something write an audit record.

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
	Forget(ctx context.Context, route string, force bool, by string) (DeletedRoute, error)

	// Lanes returns the state of all cursor rows, for status.
	Lanes(ctx context.Context) ([]LaneStatus, error)

	// Close releases connections; it does not leave.
	Close() error
}

// ErrSecondInstance is returned by Join when the store serves one instance
// only and that one is alive.
var ErrSecondInstance = errors.New("another instance is running on this database")

// ErrStateTooNew is in the error for state tables of a later release, which has removed or changed what this one needs.
var ErrStateTooNew = errors.New("the state tables were upgraded by a later release")

// Instance is a process that has joined.
type Instance struct {
	ID        string
	Alive     bool          // its lease is running, and what shows that it lives is there
	Left      time.Duration // of its lease, by the store's clock; 0 or less: it is over
	JoinedAt  time.Time
	RenewedAt time.Time // its last heartbeat, by the store's clock
	Routes    []RunningRoute
}

// RunningRoute is a route that an instance runs, as it announces it.
type RunningRoute struct {
	Route string `json:"route"`

	// Unit moves as a whole: all routes of the same unit have one owner
	// at a time. Empty: the route's lanes are spread one by one.
	Unit string `json:"unit,omitempty"`

	// Waits is why the instance takes nothing of the route now; empty: it does.
	Waits string `json:"waits,omitempty"`
}

// LaneRef names one cursor row: one slot of one route.
type LaneRef struct {
	Route string
	Slot  int
}

// LaneState is a cursor row as Acquire loaded it.
type LaneState struct {
	LaneRef
	New     bool    // never settled: Cursor means nothing yet
	Placed  bool    // set by the router: Cursor differs from what is written
	Cursor  Cursor  // settled
	Beyond  []int64 // positions settled behind the cursor; to be skipped
	NextSeq int64   // next sequence number for parked messages, from 1
	Table   Table   // that the cursor belongs to; without a name: not known

	LaneMark
}

// LaneMark says how often a cursor row was changed.
type LaneMark struct {
	Epoch    int64 // carried by every settle; a later owner's is higher, also after the store was restored
	Revision int64 // of the last settle; see [Settlement]
	Commands int64 // the counter that operator commands raise
}

// Settlement is the write of one settle to one cursor row. All of it or, when
// fenced, none of it.
type Settlement struct {
	LaneRef
	Epoch   int64
	Cursor  Cursor
	Beyond  []int64
	NextSeq int64
	Table   Table // that the cursor belongs to

	// Revision is written into the row; each settle's is higher than the last
	// one's. Confirmed is the revision that the row has at least, as far as its
	// owner knows: a row with a lower one was restored to an earlier state, and the
	// owner's cursor does not follow from it.
	Revision, Confirmed int64

	Published bool // messages of the route were delivered since the last settle

	Park   []Parked // rows to insert, or to replace by seq
	Unpark []int64  // seqs of rows to delete

	// Delivered are those of Unpark whose messages the same transaction delivers, see [TxStateStore]: one that is not there any
	// more rolls it back.
	Delivered []int64

	// Stored: rows with a seq below it were written by settles before this one. One
	// that is there no more was taken away by an operator, and Park does not bring it
	// back.
	Stored int64
}

// ParkedStatus is the reason why a message is parked.
type ParkedStatus string

// The reasons why a message is parked.
const (
	ParkedRetrying ParkedStatus = "retrying" // attempted again at NextAttemptAt
	ParkedWaiting  ParkedStatus = "waiting"  // behind an earlier message of its group, or for its address
	ParkedHeld     ParkedStatus = "held"     // dead, and its group waits for an operator
	ParkedDead     ParkedStatus = "dead"     // dead, its group continued
)

// Parked is a message taken out of the stream and kept durably. Within a
// group, ascending Seq is the order of delivery.
type Parked struct {
	LaneRef
	Seq           int64
	Group         string // empty: the message parks alone
	Status        ParkedStatus
	Attempts      int
	NextAttemptAt time.Time // for retrying
	LastError     string
	ParkedAt      time.Time // set by the store on insert
	Tries         []Try     // the latest failed attempts, at most [TriesMost], the latest last

	ID       string            // event id
	Type     string            // event type
	Position int64             // in the source; 0 when it has none
	Metadata map[string]string // as the message entered the route
	Payload  []byte

	// Set by the store: bytes of the payload, and whether payload and metadata were left out, because the caller wanted no more.
	Size int64
	Bare bool

	// Was is, for a settle, the Attempts of the row when its owner last read or wrote it; 0:
	// there was no row, or it does not matter. A row that an operator has redriven since then (it
	// is retrying with no attempts) is left as it is: the redrive follows the attempt that was
	// in flight. Stores return 0.
	Was int
}

// ParkedGroup summarises the parked messages of one group that keep it from
// flowing. Messages without a group are a summary each.
type ParkedGroup struct {
	Slot     int // of the cursor row
	Group    string
	Count    int
	FirstSeq int64
	// Due is when the first message may be attempted; zero: at once.
	Due time.Time
	// Since is when the first message was parked.
	Since time.Time
	// Held reports that the first message waits for an operator.
	Held bool
}

// LaneCounts are the parked messages of a lane by status.
type LaneCounts struct{ Retrying, Waiting, Held, Dead int }

// LaneStatus is one cursor row as status shows it.
type LaneStatus struct {
	LaneRef
	Owner     string    // empty: no instance
	Alive     bool      // the owner is, as in [Instance]
	Since     time.Time // when the owner took it; zero: it has no owner, or not known
	Epoch     int64
	Cursor    Cursor
	Beyond    []int64   // positions settled behind the cursor
	Table     Table     // that the cursor belongs to; without a name: not known
	Former    string    // cluster that a rebase took the cursor from; empty: none did
	UpdatedAt time.Time // of the last settle; zero: never settled, Cursor means nothing yet
	Retrying  int
	Waiting   int
	Held      int
	Dead      int
}

// DedupeStore records which events were delivered on which route. State stores
// that keep their tables in an SQL database are one. Methods may be called
// concurrently. conformance: adapters/adaptertest.
type DedupeStore interface {
	// Seen reports for each event whether it was recorded and has not expired.
	// The result is aligned with events.
	Seen(ctx context.Context, events []EventRef) ([]bool, error)

	// Record notes that events were delivered. One that is known already
	// restarts its time. All are recorded or, with an error, perhaps none.
	Record(ctx context.Context, events []SeenEvent) error

	// Expire deletes at most limit events whose time is over and returns how
	// many it deleted.
	Expire(ctx context.Context, limit int) (int, error)
}

// EventRef names an event on a route.
type EventRef struct {
	Route string // any scope within which an id means one event
	ID    string // event id
}

// SeenEvent is an event that was delivered.
type SeenEvent struct {
	EventRef
	Keep time.Duration // how long it is remembered, from now on by the store's clock
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

// DeletedRoute counts what Forget of a [StateStore] deleted.
type DeletedRoute struct {
	Lanes  int // cursor rows
	Parked int // parked messages, dead ones included
	Pauses int
}
