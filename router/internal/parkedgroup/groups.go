// Package parkedgroup has what a session knows of its messages in the parking: the state of each
// parked group, when groups are due, and which rows are to be written.
//
// [Groups], [Group] and [Writes] have no mutex. The mutex of their session guards them: all of their functions are called with it.
package parkedgroup

import (
	"container/heap"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Groups are the parked groups of a session.
type Groups struct {
	all   map[Key]*Group
	plans plans
	wake  func() // a group was planned
}

// New returns a session without parked groups. Wake is called when a group is planned.
func New(wake func()) Groups { return Groups{all: map[Key]*Group{}, wake: wake} }

// All returns the groups by their keys, to be read.
func (s *Groups) All() map[Key]*Group { return s.all }

// Open returns a group, creating it.
func (s *Groups) Open(k Key, slot int, since time.Time, paused bool) *Group {
	g := s.all[k]
	if g == nil {
		g = &Group{Key: k, Slot: slot, Since: since, paused: paused}
		s.all[k] = g
	}
	return g
}

// Add takes over a group that was read.
func (s *Groups) Add(l adapters.ParkedGroup, paused bool) *Group {
	g := &Group{Key: KeyOf(l.Slot, l.Group, l.FirstSeq), Slot: l.Slot, Since: l.Since, count: l.Count, due: l.Due, held: l.Held, paused: paused}
	s.all[g.Key] = g
	s.Plan(g)
	return g
}

// Plan plans the group's way back, if it can move.
func (s *Groups) Plan(g *Group) {
	if g.Movable() {
		heap.Push(&s.plans, plan{g, g.due})
		s.wake()
	}
}

// Again has the first rows of a group read when they are due; zero: at once, for they say when.
func (s *Groups) Again(g *Group, due time.Time) {
	g.due = due
	s.Plan(g)
}

// Next returns the group that is due first, and when.
func (s *Groups) Next() (g *Group, due time.Time, ok bool) {
	for len(s.plans) > 0 {
		p := s.plans[0]
		if s.all[p.group.Key] == p.group && p.group.Movable() && p.due.Equal(p.group.due) {
			return p.group, p.due, true
		}
		heap.Pop(&s.plans) // the group has another plan, or none
	}
	return nil, time.Time{}, false
}

// Load begins a read of the first rows of the group that Next has returned; it returns how many they are at most.
func (s *Groups) Load(g *Group, limit int) (most int) {
	heap.Pop(&s.plans)
	g.loading, g.limit = true, limit
	return min(g.count, limit)
}

// Changed forgets a group that has nothing left, which it reports, or plans its next step.
func (s *Groups) Changed(g *Group) (gone bool) {
	if g.empty() {
		delete(s.all, g.Key)
		return true
	}
	if g.live == 0 {
		s.Again(g, time.Time{})
	}
	return false
}

// Readmit makes the groups due that were parked to make room, or that wait for the poison destination.
func (s *Groups) Readmit() {
	for _, g := range s.all {
		if g.readmit() {
			s.Plan(g)
		}
	}
}

// Pause pauses groups, and resumes those that are no longer paused.
func (s *Groups) Pause(paused func(group string) bool) {
	for k, g := range s.all {
		resumed := g.paused && !paused(k.Group)
		g.paused = paused(k.Group)
		if resumed {
			s.Again(g, time.Time{})
		}
	}
}

// Reconcile takes over what was read after an operator's command. It returns the names of
// groups that were not in the parking, and whether any has nothing left.
func (s *Groups) Reconcile(read []adapters.ParkedGroup, paused func(group string) bool) (added []string, gone bool) {
	seen := map[Key]bool{}
	for _, l := range read {
		k := KeyOf(l.Slot, l.Group, l.FirstSeq)
		seen[k] = true
		if g := s.all[k]; g != nil {
			g.found(l)
			s.Plan(g)
			continue
		}
		s.Add(l, paused(l.Group))
		added = append(added, l.Group)
	}
	for k, g := range s.all {
		if !seen[k] && !g.loading {
			g.count = g.live + g.blockers
			gone = s.Changed(g) || gone
		}
	}
	return added, gone
}

// Oldest is when the first message was created or parked of groups that wait for no operator; zero: there are none.
func (s *Groups) Oldest() (oldest time.Time) {
	for _, g := range s.all {
		if !g.held && !g.paused && !g.Since.IsZero() && (oldest.IsZero() || g.Since.Before(oldest)) {
			oldest = g.Since
		}
	}
	return oldest
}

// plan is when a group is due.
type plan struct {
	group *Group
	due   time.Time
}

// plans are ordered by when their groups are due (container/heap).
type plans []plan

func (h plans) Len() int           { return len(h) }
func (h plans) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h plans) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

func (h *plans) Push(x any) {
	*h = append(*h, x.(plan)) //nolint:forcetypeassert // container/heap hands over what it was given
}

func (h *plans) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = plan{}
	*h = old[:n]
	return x
}
