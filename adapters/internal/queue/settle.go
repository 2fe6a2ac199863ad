package queue

import (
	"cmp"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// Change is what a result makes of a claimed row.
type Change int

// The changes.
const (
	Release    Change = iota // it goes back as if it had not been claimed
	Leave                    // the same, and there is nothing to write
	Retry                    // it waits for its next attempt
	Done                     // it was delivered, or is not wanted
	DeadLetter               // it is given up
)

// Ends reports whether the row is finished.
func (c Change) Ends() bool { return c == Done || c == DeadLetter }

// Effect is what a settle writes of a row.
type Effect struct {
	Change
	Status   string // of a dead row
	Attempts int
	Error    string    // of a row that waits again or is dead; "": none is known
	Due      time.Time // of a row that waits again; zero: as it is
}

// EffectOf is what a result makes of a row of a layout.
func EffectOf(l *layout.Queue, r *adapters.ClaimResult) Effect {
	e := Effect{Attempts: max(r.Attempts, 0)}
	switch r.Outcome {
	case outbox.OutcomeDelivered, outbox.OutcomeSkipped:
		e.Change = Done
	case outbox.OutcomeDead:
		e.Change, e.Status, e.Error = DeadLetter, cmp.Or(l.DeadBy[r.Cause], l.Statuses.Dead), Error(r.Error)
		if l.DeadKeepsRetries {
			e.Attempts = max(e.Attempts-1, 0)
		}
	case outbox.OutcomeRetry:
		e.Change, e.Error, e.Due = Retry, Error(r.Error), r.At
	default:
		if l.Claimless() && e.Attempts == r.Claim.Attempts {
			e.Change = Leave
		}
	}
	return e
}
