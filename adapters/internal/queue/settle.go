package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// Change says how a result changes a claimed row.
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

// Effect has the values that a settle writes into a row.
type Effect struct {
	Change
	Status   string // of a dead row
	Attempts int
	Error    string    // of a row that waits again or is dead; "": none is known
	Due      time.Time // of a row that waits again; zero: as it is
}

// EffectOf returns the effect of a result in a layout. Where tables mark what is claimed, a row that is released has to be written.
func EffectOf(l *layout.Queue, marks bool, r *adapters.ClaimResult) Effect {
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
		if !marks && e.Attempts == r.Claim.Attempts {
			e.Change = Leave
		}
	}
	return e
}

// Settled is a row that is settled, or whose claim is extended.
type Settled[T Driver] struct {
	*adapters.ClaimResult
	Effect Effect
	Table  T
	Lease  *Lease
	Done   bool // it is written
	Locked bool // another session has locked the row, which is as its claim says

	in    *engineTable[T]
	was   Lease     // before an extension
	stamp time.Time // that an extension writes; zero: none
}

// Settle implements [adapters.Queue].
func (e *Engine[T]) Settle(ctx context.Context, results []adapters.ClaimResult) (lost []*adapters.Claim, err error) {
	rows, lost := e.leased(results)
	if len(rows) == 0 {
		return lost, nil
	}
	if slices.ContainsFunc(rows, func(r *Settled[T]) bool { return !r.Effect.Ends() }) { // nothing may be claimed now that is behind what is put back
		e.claiming.Lock()
		defer e.claiming.Unlock()
	}
	err = e.db.Settle(ctx, rows)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		for _, r := range rows {
			r.Lease.Unknown = r.Lease.Unknown || !e.db.Answered(err)
		}
		return nil, e.db.Wrap(rows[0].in.Name, "settle", e.db.Refused(err))
	}
	locked := &adapters.LockedError{}
	for _, r := range rows {
		if r.Locked {
			locked.Claims, err = append(locked.Claims, r.Claim), locked
			continue
		}
		if !r.Done {
			lost = append(lost, r.Claim)
		}
		r.in.drop(r.Claim.Key, r.Lease, r.Done && r.Effect.Ends())
	}
	return lost, err
}

// leased are the results of claims that are held; the others are lost.
func (e *Engine[T]) leased(results []adapters.ClaimResult) (rows []*Settled[T], lost []*adapters.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range results {
		r := &results[i]
		if t := e.table(r.Claim.Table); t != nil {
			if l := t.held[r.Claim.Key]; l != nil && l.token == r.Claim.Token {
				rows = append(rows, &Settled[T]{ClaimResult: r, Effect: EffectOf(e.db.Layout, t.Marks, r), Table: t.Driver, Lease: l, in: t, was: *l})
				continue
			}
		}
		lost = append(lost, r.Claim)
	}
	return rows, lost
}

// Extend implements [adapters.Queue]. The time at which the rows were marked is renewed in the table; the claims stay as they are. In a table that
// marks nothing it finds out which rows still wait.
func (e *Engine[T]) Extend(ctx context.Context, claims []*adapters.Claim) (lost []*adapters.Claim, err error) {
	results := make([]adapters.ClaimResult, len(claims))
	for i, claim := range claims {
		results[i].Claim = claim
	}
	rows, lost := e.leased(results)
	if len(rows) == 0 {
		return lost, nil
	}
	err = e.db.Renew(ctx, rows)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range rows {
		switch {
		case err != nil:
			if e.db.Answered(err) {
				r.Lease.Stamp, r.Lease.Former = r.was.Stamp, r.was.Former
			}
		case !r.Done:
			lost = append(lost, r.Claim)
			r.in.drop(r.Claim.Key, r.Lease, false)
		case r.Locked: // it has none of the times that were to be written
			r.Lease.Stamp, r.Lease.Former = r.was.Stamp, r.was.Former
		case !r.stamp.IsZero():
			r.Lease.Stamp, r.Lease.Former = r.stamp, nil
		}
	}
	if err != nil {
		return nil, e.db.Wrap(rows[0].in.Name, "extend claims", e.db.Refused(err))
	}
	return lost, nil
}

// Expect says which time is about to be written into rows that are extended: until the outcome is known they may have it, or a former one.
func (e *Engine[T]) Expect(stamp time.Time, rows ...*Settled[T]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range rows {
		r.stamp = stamp
		r.Lease.Former = append(slices.Clip(r.Lease.Former), r.Lease.Stamp)
		r.Lease.Stamp = stamp
	}
}
