package adapters

import "time"

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

// ParkedAction is what an operator does with parked messages.
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
