package operate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// PlanSeek plans to have a route continue elsewhere in its table.
//
// A row is only ever passed over when it is counted among the skipped:
//
//   - A lane that goes back keeps its snapshot, so that what was committed late,
//     and has not been delivered, still will be.
//   - A lane that goes forward skips what is visible now at or below the target,
//     with the rows among it that were committed late, because its cursor has one
//     snapshot only. What is committed afterwards is delivered.
//   - A lane with nothing to be skipped stays where it is, and waits for what is
//     committed late like one that goes back. A seek to the end skips that, too.
//     In a partition nothing is committed late, and a cursor before records that
//     were removed has to move.
func (op *Operator) PlanSeek(ctx context.Context, route string, to Target) (*Relocation, error) {
	src, lanes, table, err := op.standing(ctx, route)
	if err != nil {
		return nil, err
	}
	lanes, _ = together(src, lanes, table)
	s := seek{end: to.Position == 0 && to.Start.Kind == adapters.StartEnd}
	_, rebased := adapters.RebaserOf(src) // of others a seek is the only way
	var known []adapters.LaneStatus       // whose cursors are of the table
	for _, l := range lanes {
		other := otherTable(l, table)
		if other != nil && other.Moved() && rebased {
			return nil, refused("route %q: %w: run `outrider rebase %s` first", route, other, route)
		}
		if other == nil || other.Moved() {
			known = append(known, l)
		}
	}
	if s.good, err = stillGood(ctx, src, known, table); err != nil {
		return nil, fmt.Errorf("route %q: %w", route, err)
	}
	if rebased && !s.good {
		return nil, refused("route %q: its cursor means nothing in the database: run `outrider rebase %s` first", route, route)
	}
	if err := reachable(ctx, src, lanes, to); err != nil {
		return nil, fmt.Errorf("route %q: %w", route, err)
	}
	if err := s.find(ctx, src, to, op.startOf(route)); err != nil {
		return nil, err
	}
	s.plan(known)
	counts, err := op.countMoves(ctx, src, route, s.moves)
	if err != nil {
		return nil, err
	}
	s.stay(counts)
	plan, err := op.relocation(lanes, Relocation{Action: "seek", To: to.String(), move: s.move(route, table)})
	if err == nil {
		plan.count(counts)
	}
	return plan, err
}

// errFuture is the error of a seek to a place that the table has not reached.
var errFuture = errors.New("to skip all present rows, seek to the end")

// reachable refuses a place that the table has not reached: a cursor there would be
// ahead of the database, which is how a restored one looks.
func reachable(ctx context.Context, src adapters.OperatorSource, lanes []adapters.LaneStatus, to Target) error {
	if t := to.Start.Time; to.Start.Kind == adapters.StartTime && t.After(time.Now()) {
		return refused("%s is in the future: %w", t.UTC().Format(time.RFC3339), errFuture)
	}
	if to.Position == 0 {
		return nil
	}
	end, err := src.Start(ctx, adapters.Start{Kind: adapters.StartEnd})
	if err != nil {
		return err
	}
	last := end.Position
	for _, l := range lanes { // the rows up to there may have been removed
		last = max(last, l.Cursor.Position)
	}
	if to.Position > last+1 {
		return refused("position %d is beyond the last one, which is %d: %w", to.Position, last, errFuture)
	}
	return nil
}

// startOf is where a configured route begins that has no cursor.
func (op *Operator) startOf(route string) adapters.Start {
	for _, r := range op.build.Config.Routes {
		if r.Name == route {
			return assembly.Start(r.Start)
		}
	}
	return adapters.Start{Kind: adapters.StartBeginning}
}

// seek is a seek that is being planned.
type seek struct {
	end   bool            // what is visible now is skipped, wherever it is
	good  bool            // the snapshots of the cursors mean something
	to    adapters.Cursor // the target, as of now
	fresh adapters.Cursor // where a lane without cursor would begin

	moves []adapters.CursorMove // of all slots, by slot
	isNew map[int]bool          // the lane had no cursor

	places map[int]int64 // by slot, of a source with partitions; nil: all lanes go to one place
	only   *int          // the slot that is moved; nil: all
}

// find finds the target.
func (s *seek) find(ctx context.Context, src adapters.OperatorSource, to Target, begin adapters.Start) (err error) {
	if s.fresh, err = src.Start(ctx, begin); err != nil {
		return err
	}
	at := to.Start
	if to.Position > 0 {
		at = adapters.Start{Kind: adapters.StartBeginning}
	}
	if s.to, err = src.Start(ctx, at); err != nil {
		return err
	}
	if p, ok := src.(adapters.PartitionedSource); ok {
		s.fresh = adapters.Cursor{Position: -1}
		return s.findIn(ctx, p, to, at)
	}
	if to.Partition != nil {
		return refused("the source has no partitions: seek without one")
	}
	if to.Position > 0 {
		s.to.Position = to.Position - 1
	}
	return nil
}

// findIn finds the target in each partition, or in one.
func (s *seek) findIn(ctx context.Context, src adapters.PartitionedSource, to Target, at adapters.Start) (err error) {
	if s.places, err = src.Starts(ctx, at); err != nil || to.Partition == nil {
		if err == nil && to.Position > 0 {
			err = refused("each partition of a topic has offsets of its own: add --partition, or seek to the beginning, the end or a time")
		}
		return err
	}
	slot := *to.Partition
	if _, ok := s.places[slot]; !ok {
		return refused("the topic has no partition %d", slot)
	}
	s.only = to.Partition
	if to.Position > 0 {
		s.places[slot] = to.Position - 1
	}
	return nil
}

// place is the position to which a slot goes.
func (s *seek) place(slot int) int64 {
	if s.places != nil {
		return s.places[slot]
	}
	return s.to.Position
}

// plan decides where each lane goes.
func (s *seek) plan(lanes []adapters.LaneStatus) {
	slots := adapters.Slots
	if s.places != nil {
		slots = len(s.places)
	}
	s.moves, s.isNew = make([]adapters.CursorMove, slots), make(map[int]bool, slots)
	for slot := range s.moves {
		s.moves[slot] = adapters.CursorMove{Slot: slot, From: s.fresh, To: s.to}
		s.moves[slot].To.Position = s.place(slot)
		s.isNew[slot] = true
	}
	for _, l := range lanes {
		if l.UpdatedAt.IsZero() || l.Slot < 0 || l.Slot >= slots {
			continue
		}
		m := &s.moves[l.Slot]
		m.From, m.Beyond, s.isNew[l.Slot] = l.Cursor, l.Beyond, false
		switch {
		case !s.good: // the source was asked for another snapshot; the old one is of no use
			m.From = adapters.Cursor{Position: l.Cursor.Position, Snapshot: s.to.Snapshot}
		case s.end || m.To.Position > l.Cursor.Position:
			m.To.Base = l.Cursor.Base // what was restored stays restored
		default:
			m.To = back(l.Cursor, m.To.Position)
		}
	}
	if s.only != nil {
		s.moves = s.moves[*s.only : *s.only+1]
	}
}

// back returns the cursor at a position that is not above the given one's, under
// which the same rows are covered.
func back(c adapters.Cursor, position int64) adapters.Cursor {
	if c.Window != "" && c.Paged >= position { // all late rows of the window are covered
		c.Snapshot, c.Window, c.Paged = c.Window, "", 0
	}
	if c.Position != position {
		c.Position, c.Anchor = position, adapters.Anchor{}
	}
	return c
}

// stay leaves lanes where they are that would pass nothing but rows committed late.
func (s *seek) stay(counts []adapters.MoveCount) {
	for i := range s.moves {
		if s.isNew[s.moves[i].Slot] {
			counts[i].Again = 0 // it has delivered nothing
			continue
		}
		if m := &s.moves[i]; s.places == nil && s.good && !s.end && m.To.Position > m.From.Position && counts[i].Passed == 0 && !counts[i].More {
			m.To, counts[i].Late = m.From, 0
		}
	}
}

// move is the seek as the state store carries it out. What is settled behind a
// cursor stays so up to the target.
func (s *seek) move(route string, table adapters.Table) adapters.Move {
	m := adapters.Move{Route: route, Cursors: map[int]adapters.Cursor{}, Beyond: map[int][]int64{}, Table: table}
	for _, lane := range s.moves {
		m.Cursors[lane.Slot] = lane.To
		if lane.To.Position > lane.From.Position || lane.To.Snapshot == s.to.Snapshot && s.to.Snapshot != "" {
			continue // all of them are covered
		}
		for _, p := range lane.Beyond {
			if p <= s.place(lane.Slot) { // a lane that stays has its cursor below
				m.Beyond[lane.Slot] = append(m.Beyond[lane.Slot], p)
			}
		}
	}
	return m
}

// countMoves counts what moves of a route change, of the rows that it matches.
func (op *Operator) countMoves(ctx context.Context, src adapters.OperatorSource, route string, moves []adapters.CursorMove) ([]adapters.MoveCount, error) {
	var match func(*adapters.Row) bool // nil: all rows, which is counted faster
	for _, r := range op.build.Config.Routes {
		if r.Name == route && !reflect.ValueOf(r.Match).IsZero() {
			match = assembly.Matcher(r.Match)
		}
	}
	return src.CountMoves(ctx, moves, movedMost, match)
}

// Target is where a route is to continue: either Start or Position is set.
type Target struct {
	Start     adapters.Start
	Position  int64 // the first message to be delivered is the one at it, or the next
	Partition *int  // of a topic: the others stay; nil: all of them
}

// String says the place in words.
func (p Target) String() string {
	if p.Partition != nil {
		return fmt.Sprintf("%s of partition %d", Target{Start: p.Start, Position: p.Position}, *p.Partition)
	}
	switch {
	case p.Position > 0:
		return fmt.Sprintf("position %d", p.Position)
	case p.Start.Kind == adapters.StartTime:
		return p.Start.Time.UTC().Format(time.RFC3339)
	}
	return "the " + string(p.Start.Kind)
}

// ParseTarget reads a place in a table: beginning, end, a time, a span before now, a
// position.
func ParseTarget(text string, now time.Time) (Target, error) {
	at := func(t time.Time) (Target, error) {
		return Target{Start: adapters.Start{Kind: adapters.StartTime, Time: t}}, nil
	}
	switch text {
	case string(adapters.StartBeginning), string(adapters.StartEnd), string(adapters.StartOffsets):
		return Target{Start: adapters.Start{Kind: adapters.StartKind(text)}}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return Target{Position: n}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return at(t)
		}
	}
	if parsed, err := config.ParseDuration(text); err == nil && parsed > 0 {
		return at(now.Add(-parsed.Std()))
	}
	return Target{}, fmt.Errorf("%q is none of beginning, end, offsets (of watermill-sql), a time such as 2026-01-31T08:00:00Z, a span such as 90m, a position", text)
}
