package queuetable

import (
	"container/heap"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// A group whose first row is not due leaves the ring, or many of them would be looked at by every claim. It comes back when the row is due, when
// a row is found that is not behind it, and when the reading of everything has found that the row was changed or is gone: what a
// claim may take depends on the table, not on what it said once. Where notes say when rows are due, no group leaves the ring: a note that is
// changed leaves its row as it was.

// sleepersMost bounds the groups that sleep. The others stay in the ring.
const sleepersMost = 1 << 18

// sleeper is a group whose first row is not due. Its since is that of the row.
type sleeper struct {
	*queueGroup
	first uint64    // the version of the row; see [unmatched.name]
	until time.Time // when it is due
	round uint32    // of the reading of everything that has seen it last, or of the one under way as it fell asleep
}

// sleepers are the sleeping groups of a table. The heap has those that were woken, too, until their time comes.
type sleepers struct {
	groups map[string]*sleeper // by id
	order  sleepOrder
}

// sleepOrder is a heap: the first one is due first.
type sleepOrder []*sleeper

func (o sleepOrder) Len() int           { return len(o) }
func (o sleepOrder) Less(i, j int) bool { return o[i].until.Before(o[j].until) }
func (o sleepOrder) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *sleepOrder) Push(x any)        { *o = append(*o, x.(*sleeper)) } //nolint:forcetypeassert // nothing else is pushed
func (o *sleepOrder) Pop() any {
	last := len(*o) - 1
	x := (*o)[last]
	(*o)[last], *o = nil, (*o)[:last]
	return x
}

// sleep takes the group of a visit out of the ring until its first row is due.
func (t *queueTable) sleep(v *visit) {
	if !t.aged || t.sql.layout.Noted() || len(t.asleep.order) >= sleepersMost {
		return
	}
	t.leave(v.group, v.known)
	s := &sleeper{v.group, v.waits, v.group.due, t.unmatched.round}
	t.asleep.groups[s.id] = s
	heap.Push(&t.asleep.order, s)
}

// wakeDue puts the groups into the ring whose first row is due.
func (t *queueTable) wakeDue(now time.Time) {
	for o := &t.asleep.order; len(*o) > 0 && !(*o)[0].until.After(now); {
		if s := heap.Pop(o).(*sleeper); t.asleep.groups[s.id] == s { //nolint:forcetypeassert // nothing else is pushed
			t.enter(s.queueGroup)
		}
	}
}

// wakeChanged puts the groups into the ring whose first row the reading of everything that has come to its end has not seen.
func (t *queueTable) wakeChanged() {
	for _, s := range t.asleep.groups {
		if s.round != t.unmatched.round {
			t.enter(s.queueGroup)
		}
	}
}

// sleeps reports whether a version of a row keeps its group asleep.
func (t *queueTable) sleeps(group *string, key, at []byte) bool {
	if len(t.asleep.groups) == 0 {
		return false
	}
	s := t.asleep.groups[t.group(group).id]
	if s == nil || s.first != t.unmatched.name(key, wire.TIDFromBinary(at)) {
		return false
	}
	s.round = t.unmatched.round
	return true
}
