package reader

import (
	"fmt"
	"math"

	"github.com/outriderhq/outrider/adapters"
)

// The cursor rule. A cursor (L, S) says: everything visible in S at or below
// position L has been taken. A read sees the table as of a snapshot T and takes
//
//   - late rows: at or below L, visible in T, not in S; by position. They belong
//     to transactions that were running when S was taken;
//   - fresh rows: above L, visible in T; by position, and only when the read has
//     room for all late ones. A fresh row moves the cursor to (its position, T),
//     which claims every late row of T.
//
// T depends on the read:
//
//   - usually T is the read's own snapshot;
//   - while a window W of late rows is open T is W, and only the late rows behind
//     the place that has been paged are taken. When they are done the cursor is
//     (L, W): what has become visible since W is late for the next read;
//   - a read with a bound U sees the table as of U's snapshot and ends at U.
//
// A bound must cover the cursor, or the read's end could not be expressed as a
// cursor: the rows that the cursor has and the bound has not would come twice.
//
// Positions at or below the base were all committed before the cursor's
// cluster took the table over; their transaction ids mean nothing. They are
// never late, and always visible as fresh rows.

// Plan is what the fetch statement needs to know about one read.
type Plan struct {
	Slot     int
	Position int64  // L
	Snapshot string // S
	Target   string // T; "" is the read's own snapshot
	Above    int64  // late rows at or below it are not wanted
	Base     int64  // rows at or below it are visible whatever their transaction id
	Upto     int64  // fresh rows above it are not wanted
	Limit    int
}

// PlanRead turns a read into its plan.
func PlanRead(r *adapters.Read) (Plan, error) {
	if r.Slot < 0 || r.Slot >= adapters.Slots {
		return Plan{}, fmt.Errorf("slot %d does not exist; slots are 0 to %d", r.Slot, adapters.Slots-1)
	}
	if r.From.Snapshot == "" {
		return Plan{}, fmt.Errorf("the cursor of slot %d has no snapshot; begin with Start", r.Slot)
	}
	p := Plan{
		Slot: r.Slot, Position: r.From.Position, Snapshot: r.From.Snapshot,
		Base: r.From.Floor(), Upto: math.MaxInt64,
		Limit: min(max(r.Limit, 0), math.MaxInt32),
	}
	if r.Until != nil {
		if err := checkBound(r); err != nil {
			return Plan{}, err
		}
		p.Base = max(p.Base, r.Until.Floor())
		p.Upto, p.Target = r.Until.Position, r.Until.Snapshot
	}
	p.Above = p.Base
	if r.From.Window != "" {
		p.Above = max(p.Above, r.From.Paged)
		p.Upto, p.Target = r.From.Position, r.From.Window
	}
	return p, nil
}

// checkBound refuses a bound that does not cover the cursor.
func checkBound(r *adapters.Read) error {
	u := r.Until
	if u.Window != "" {
		return fmt.Errorf("the bound of slot %d has an open window; bound a read by a cursor without one", r.Slot)
	}
	if u.Position < r.From.Position {
		return fmt.Errorf("the bound of slot %d is at position %d, behind the cursor at %d", r.Slot, u.Position, r.From.Position)
	}
	taken := r.From.Snapshot
	if r.From.Window != "" {
		taken = r.From.Window // it covers the snapshot
	}
	if taken == u.Snapshot {
		return nil
	}
	bound, err := ParseSnapshot(u.Snapshot)
	if err != nil {
		return fmt.Errorf("the bound of slot %d: %w", r.Slot, err)
	}
	older, err := ParseSnapshot(taken)
	if err != nil {
		return fmt.Errorf("the cursor of slot %d: %w", r.Slot, err)
	}
	if !bound.Covers(older) {
		return fmt.Errorf("the bound of slot %d is older than the cursor (snapshot %s, cursor %s)", r.Slot, u.Snapshot, taken)
	}
	return nil
}

// Progress is what a read has yielded so far.
type Progress struct {
	Page *adapters.Page // nil until the first row
	Rows int
	Late bool          // the last row was late
	Last int64         // position of the last row
	Row  *adapters.Row // the last row
}

// After is the cursor behind the last row.
func (p *Progress) After() adapters.Cursor {
	return p.Row.After()
}

// SeenBy returns T, given the snapshot at which the statement ran.
func (p *Plan) SeenBy(own string) string {
	if p.Target != "" {
		return p.Target
	}
	return own
}

// Finish says where a read ended, given the snapshot at which the statement ran.
// A read that used up its limit stopped behind its last row. Any other took
// all it was after: a window is then closed, which says nothing about what came
// after it, and otherwise the read is drained.
func Finish(r *adapters.Read, p *Plan, done *Progress, own string) adapters.ReadResult {
	switch {
	case p.Limit == 0:
		return adapters.ReadResult{Next: r.From}
	case done.Rows >= p.Limit:
		return adapters.ReadResult{Next: done.After()}
	case r.From.Window != "":
		return adapters.ReadResult{Next: adapters.Cursor{Position: r.From.Position, Snapshot: r.From.Window, Base: r.From.Base, Anchor: r.From.Anchor}}
	case r.Until != nil:
		return adapters.ReadResult{Next: *r.Until, Drained: true}
	}
	next := adapters.Cursor{Position: r.From.Position, Snapshot: own, Base: r.From.Base, Anchor: r.From.Anchor}
	if done.Rows > 0 && !done.Late {
		next.Position, next.Anchor = done.Last, done.Row.Anchor()
	}
	return adapters.ReadResult{Next: next, Drained: true}
}
