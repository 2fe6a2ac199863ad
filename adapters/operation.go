package adapters

import (
	"errors"
	"fmt"
	"time"
)

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

// OperationKind is what an operation does.
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

// Command is what a step of the operation does with parked messages; of a planned one, which has no CreatedAt yet, what it would do now.
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

// OperationStep is what one step does, in one transaction.
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

// CheckOperation returns an error for an invalid operation.
func CheckOperation(o Operation) error {
	switch {
	case o.Kind != OperationSeek && len(ParkedAction(o.Kind).Statuses(o.Filter)) == 0:
		return fmt.Errorf("operation: %s changes no messages with the status %q", o.Kind, o.Filter.Status)
	case o.Kind == OperationSeek && (len(o.Routes) == 0 || o.To == ""):
		return errors.New("operation: a seek needs routes and a place")
	case o.Rate < 0:
		return fmt.Errorf("operation: rate %v is negative; use 0 for none", o.Rate)
	}
	return nil
}
