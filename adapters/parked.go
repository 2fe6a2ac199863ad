package adapters

import (
	"errors"
	"time"
)

// ParkedFilter selects parked messages. Empty fields match everything.
type ParkedFilter struct {
	Route   string
	Group   string // messages without a group cannot be selected by it
	ID      string // event id
	Status  ParkedStatus
	Type    string    // event type
	Error   string    // part of the last error, in any case
	Failure int64     // of the group of this name; see [ParkedFailure]
	Before  time.Time // parked before this time, by the store's clock

	// Limit bounds how many are taken. 0: for ListParked
	// [DefaultParkedList], for a step of a command [DefaultParkedStep];
	// CountParked has no use for it.
	Limit int

	// After takes only what comes after this message by route, slot and seq;
	// the zero key comes before all. Lists and commands continue after it, page by page.
	After ParkedKey
}

// The values for a limit of 0.
const (
	DefaultParkedList = 100
	DefaultParkedStep = 1000
)

// IsZero reports whether the filter selects everything.
func (f ParkedFilter) IsZero() bool {
	f.Limit, f.After = 0, ParkedKey{}
	return f == ParkedFilter{}
}

// ParkedKey names one parked message.
type ParkedKey struct {
	LaneRef
	Seq int64
}

// ParkedAction is a change of parked messages by an operator.
type ParkedAction string

// The actions of operators.
const (
	// ParkedRedrive makes messages due now, their attempts forgotten: dead, held
	// and retrying ones. Waiting ones follow the head of their group anyway.
	ParkedRedrive ParkedAction = "redrive"

	// ParkedSkip deletes messages that keep their group from flowing: held and
	// retrying ones, and waiting ones when the filter names that status or an
	// id, because they have failed nothing.
	ParkedSkip ParkedAction = "skip"

	// ParkedPurge deletes dead messages, which keep nothing from flowing.
	ParkedPurge ParkedAction = "purge"
)

// Statuses are those of the messages that the action changes when the filter
// selects them.
func (a ParkedAction) Statuses(f ParkedFilter) []ParkedStatus {
	var can []ParkedStatus
	switch {
	case a == ParkedRedrive:
		can = []ParkedStatus{ParkedRetrying, ParkedHeld, ParkedDead}
	case a == ParkedSkip && (f.Status == ParkedWaiting || f.ID != ""):
		can = []ParkedStatus{ParkedRetrying, ParkedHeld, ParkedWaiting}
	case a == ParkedSkip:
		can = []ParkedStatus{ParkedRetrying, ParkedHeld}
	case a == ParkedPurge:
		can = []ParkedStatus{ParkedDead}
	}
	var out []ParkedStatus
	for _, s := range can {
		if f.Status == "" || f.Status == s {
			out = append(out, s)
		}
	}
	return out
}

// ParkedCommand is an operator's change of parked messages.
type ParkedCommand struct {
	Action ParkedAction
	Filter ParkedFilter
	All    bool   // required when the filter selects everything: it may be a slip of the hand
	By     string // author, for the audit log
}

// ParkedStep is the result of one step of a command.
type ParkedStep struct {
	Changed int
	Last    ParkedKey // where the next step continues, as the filter's After
	More    bool      // there may be more to do after Last
}

// ParkedCount is how many messages of a route have a status.
type ParkedCount struct {
	Route  string
	Status ParkedStatus
	Count  int
}

// TriesMost is the number of failed attempts kept for a parked message.
const TriesMost = 10

// Try is a failed attempt to deliver a message.
type Try struct {
	Number int       `json:"attempt" doc:"Counted from the message's first, or from its latest redrive."`
	At     time.Time `json:"at"`
	Error  string    `json:"error"`
}

// AuditRecord is one action of an operator.
type AuditRecord struct {
	ID      int64 // ascending within a store
	At      time.Time
	By      string // what the command said of its author
	Role    string // database role that it came from; empty: not known
	Action  string
	Filter  string // a JSON object: what the command was about
	Changed int    // rows that it changed
}

// ParkedFailure is a group of parked messages that failed in the same way: they are of one route and one
// type, and their errors name one address and differ in numbers, ids and quoted texts only.
type ParkedFailure struct {
	Name     int64 // of the group, positive; see [ParkedFilter.Failure]
	Route    string
	Type     string
	Error    string // of one of them
	Count    int
	More     bool // there are more than Count; then ByStatus is of those that were counted
	ByStatus map[ParkedStatus]int
	First    time.Time // when the first of them was parked
	Last     time.Time // and the last
}

// Add adds what was counted of another part of the group.
func (f *ParkedFailure) Add(part ParkedFailure) {
	if f.Count == 0 || part.First.Before(f.First) {
		f.First = part.First
	}
	if f.Count == 0 || part.Last.After(f.Last) {
		f.Last = part.Last
	}
	f.Count, f.More = f.Count+part.Count, f.More || part.More
	for status, n := range part.ByStatus {
		f.ByStatus[status] += n
	}
}

// Operation is an operator's change of many messages or routes. It is kept in the state store
// of these messages or routes, and executed in steps by one worker at a time: a relay of that
// store, or a command. Each step commits together with its progress, so an interrupted
// operation continues where it was: it repeats nothing, and misses nothing that existed when
// it was created.
type Operation struct {
	ID   string // ascending with the time of the order
	Kind OperationKind

	// The messages that it changes: Filter selects parked messages, those that existed at CreatedAt, and
	// those rows of the tables of Sources that are dead when they are reached. Its
	// limit bounds them all; 0: no limit. Filter.After is not used.
	Filter  ParkedFilter
	All     bool     // required when the filter selects everything
	Sources []string // queues whose dead rows are concerned, in this order

	// Of a seek: these routes, in this order, go To a place, as `outrider seek --to` takes
	// it. It names no span before now: that would be another place for each of them.
	Routes []string
	To     string

	Rate float64 // messages, or routes, a second at most; 0: no limit
	By   string  // author

	State OperationState
	Place OperationPlace

	// Total is how many messages, or routes, were counted when it was ordered; Done were
	// changed, Failed could not be. Others may change messages meanwhile, so Done may
	// end below Total.
	Total, Done, Failed int

	Error string // why it failed, or the first thing that did

	CreatedAt time.Time
	StartedAt time.Time // when it was first worked; zero: it was not
	UpdatedAt time.Time // of the last step, or change of state
	EndedAt   time.Time // when it became done or failed, or was stopped; zero: it is running

	// Who works it: an instance or a command; empty: none. That ends when Left is over,
	// or when the instance is known to be dead.
	Worker string
	Epoch  int64         // carried by every step; a later worker's is higher
	Left   time.Duration // by the store's clock; 0 or less: it is over

	// When its worker began, and what was done then: for the rate.
	TakenAt   time.Time
	TakenDone int
}

// OperationKind is the kind of an [Operation].
type OperationKind string

// The kinds of operations. The first three are those of [ParkedAction].
const (
	OperationRedrive OperationKind = OperationKind(ParkedRedrive)
	OperationSkip    OperationKind = OperationKind(ParkedSkip)
	OperationPurge   OperationKind = OperationKind(ParkedPurge)
	OperationSeek    OperationKind = "seek"
)

// OperationState is how far an operation is.
type OperationState string

// The states of operations.
const (
	OperationPlanned OperationState = "planned" // ordered or resumed; not worked yet
	OperationRunning OperationState = "running" // worked, or to be taken over from a worker that is gone
	OperationStopped OperationState = "stopped" // by an operator, who may resume it
	OperationDone    OperationState = "done"    // to the end
	OperationFailed  OperationState = "failed"  // an error ended it; it may be resumed
)

// Active reports whether the operation is to be worked.
func (s OperationState) Active() bool { return s == OperationPlanned || s == OperationRunning }

// Remaining is how many messages or routes are left, as far as that is known; 0 at the end.
func (o *Operation) Remaining() int {
	if o.State == OperationDone {
		return 0
	}
	return max(o.Total-o.Done-o.Failed, 0)
}

// PerSecond is how many messages or routes a second its worker has changed; 0: not known, or it
// is not worked.
func (o *Operation) PerSecond() float64 {
	took := o.UpdatedAt.Sub(o.TakenAt).Seconds()
	if o.State != OperationRunning || o.TakenAt.IsZero() || took <= 0 {
		return 0
	}
	return float64(o.Done-o.TakenDone) / took
}

// Command is the command on parked messages of a step of the operation; of a planned one, which has no CreatedAt yet, as of now.
func (o *Operation) Command() ParkedCommand {
	c := ParkedCommand{Action: ParkedAction(o.Kind), Filter: o.Filter, All: o.All, By: o.By}
	if !o.CreatedAt.IsZero() && (c.Filter.Before.IsZero() || o.CreatedAt.Before(c.Filter.Before)) {
		c.Filter.Before = o.CreatedAt // what is parked later was not meant
	}
	c.Filter.After = o.Place.Parked
	return c
}

// OperationPlace is how far an operation is. It goes through the parked messages of its store,
// then through the dead rows of its sources, or through its routes.
type OperationPlace struct {
	Parked     ParkedKey // changed up to here
	ParkedOver bool      // nothing is left in the state store
	Source     int       // index of the source whose dead rows are next
	Dead       DeadKey   // changed up to here
	Route      int       // index of the route that is next

	// Pending are the rows that the step under way changes in a source's table. They are
	// written down before, because that table commits on its own: who takes the operation
	// over changes those of them that are still dead, and counts them all.
	Pending []DeadKey
}

// OperationFilter selects operations.
type OperationFilter struct {
	ID     string // only this one
	Active bool   // only those that are to be worked
	Before string // only those with a lower id
	Limit  int    // at most; 0: [DefaultParkedList]
}

// OperationStep is one step, in one transaction.
type OperationStep struct {
	ID    string
	Epoch int64

	// Lease is for how long the operation stays its worker's; 0: it is given up, and another
	// may take it at once.
	Lease time.Duration

	Parked int   // so many parked messages at most are changed as [Operation.Command] says; 0: none
	Move   *Move // carried out; its audit record as well

	Place        *OperationPlace // as it is afterwards, nil: as it was; a step with Parked finds it itself
	Done, Failed int             // are added; what a step with Parked changes as well

	End   OperationState // done or failed; empty: it is running
	Error string         // is kept, if none was before
}

// ErrOperationLost is the error of a step of a worker that no longer has the operation: another one
// has it, or it was stopped. The step has changed nothing.
var ErrOperationLost = errors.New("the operation was stopped, or another process works it")

// ErrNoOperation is the error for an id that no operation has.
var ErrNoOperation = errors.New("there is no such operation: it was never ordered, or ended long ago")

// OperationsKept is how long ended or stopped operations are kept. They are removed when another one is
// created.
const OperationsKept = 30 * 24 * time.Hour
