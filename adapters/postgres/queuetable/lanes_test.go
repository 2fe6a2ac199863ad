package queuetable

import (
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// laneEnv is a table of FlowCatalyst's, and a queue whose reading of everything is
// at its share of the time, as it is beside a backlog.
type laneEnv struct {
	*queueEnv
	q     *Queue
	table *queueTable
	wants uint64
}

func newLaneEnv(t *testing.T) *laneEnv {
	t.Helper()
	e := &laneEnv{queueEnv: newQueueEnv(t).flowCatalyst(t, true)}
	e.q = e.queue()
	e.table = e.q.tables[0]
	t.Cleanup(func() { pgtest.Must(t, e.q.Close()) })
	return e
}

// add adds a waiting row of group g that was created at a minute.
func (e *laneEnv) add(id string, minute int) {
	e.t.Helper()
	e.exec(`INSERT INTO `+e.tables[0].Name+` (id, type, message_group, payload, status, created_at)
		VALUES ($1, 'EVENT', 'g', '{}', 'PENDING', localtimestamp - interval '1 hour' + $2 * interval '1 minute')`, id, minute)
}

// mark marks a row as another process or an operator would.
func (e *laneEnv) mark(id, status string) {
	e.t.Helper()
	e.exec(`UPDATE `+e.tables[0].Name+` SET status = $2, processed_at = localtimestamp WHERE id = $1`, id, status)
}

// claim claims in lanes.
func (e *laneEnv) claim(lanes []int) []*adapters.Row {
	e.t.Helper()
	rows, err := e.q.Claim(e.ctx, adapters.ClaimRequest{Slots: lanes, Limit: 100, PerGroup: 50, Wants: e.wants})
	pgtest.Must(e.t, err)
	return rows
}

// ration lets the reading of everything wait for its share of the time.
func (e *laneEnv) ration() {
	e.table.round.credit, e.table.round.read, e.table.round.took = 0, time.Now(), time.Minute
}

func idsOf(rows []*adapters.Row) (ids []string) {
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// others are the lanes but for that of group g.
func others() []int {
	return slices.DeleteFunc(slots(), func(slot int) bool { return slot == adapters.SlotOf("EVENT:g", "") })
}

// TestG2_WhatIsKnownOfAClosedLaneIsForgotten: a group had been read to its end when its
// lane was handed over with rows that went back. When the lane is ours again, the next
// owner holds the oldest of them; nothing behind it is claimed, although a newer row is
// found long before everything has been read again.
func TestG2_WhatIsKnownOfAClosedLaneIsForgotten(t *testing.T) {
	t.Parallel()
	e := newLaneEnv(t)
	e.wants = 1
	e.add("a1", 1)
	e.add("a2", 2)
	held := e.claim(slots())
	for e.table.known["=g"] != nil { // read to its end
		held = append(held, e.claim(slots())...)
	}
	if got := idsOf(held); !slices.Equal(got, []string{"a1", "a2"}) || e.table.left["=g"] == 0 {
		t.Fatalf("claimed %v", got)
	}
	e.ration()
	e.claim(others())
	var back []adapters.ClaimResult
	for _, row := range held {
		back = append(back, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeReleased})
	}
	lost, err := e.q.Settle(e.ctx, back)
	if err != nil || len(lost) > 0 {
		t.Fatalf("put back: %d lost, %v", len(lost), err)
	}
	e.mark("a1", "PROCESSING")
	e.ration()
	e.claim(others())
	e.add("a3", 3)
	e.wants = 2
	for range 5 {
		e.ration()
		if got := idsOf(e.claim(slots())); len(got) > 0 {
			t.Fatalf("claimed %v behind a row that the former owner of the lane holds", got)
		}
	}
	e.mark("a1", "COMPLETED")
	if got := idsOf(e.claim(slots())); !slices.Equal(got, []string{"a2", "a3"}) {
		t.Errorf("claimed %v, want the rest of the group in order", got)
	}
}

// TestG13_ALaneThatOpensIsReadFromTheBeginning: the reading of everything was on its way
// and past the rows of the lane. A claimer may not take what it has looked at by the end of that
// reading for everything.
func TestG13_ALaneThatOpensIsReadFromTheBeginning(t *testing.T) {
	t.Parallel()
	e := newLaneEnv(t)
	e.wants = 1
	e.add("a1", 1)
	for called := time.Now(); e.q.Coverage().Since.Before(called); {
		if got := e.claim(others()); len(got) > 0 {
			t.Fatalf("claimed %v of a lane that is not ours", idsOf(got))
		}
	}
	s, called := &e.table.round, time.Now()
	s.midway, s.began, s.position = true, time.Now(), e.table.latest // past the row
	e.wants = 2
	var got []string
	for len(got) == 0 && e.q.Coverage().Since.Before(called) {
		got = idsOf(e.claim(slots()))
	}
	if !slices.Equal(got, []string{"a1"}) {
		t.Errorf("claimed %v, and everything was looked at", got)
	}
}

// TestG7_GroupsOfOtherLanesAreNotRemembered: of a backlog that several instances share,
// each keeps its own groups only.
func TestG7_GroupsOfOtherLanesAreNotRemembered(t *testing.T) {
	t.Parallel()
	e := newLaneEnv(t)
	const groups = 400
	e.fill(e.tables[0].Name, groups, groups, "PENDING")
	e.wants = 1
	lanes := []int{0, 1, 2, 3}
	check := func(when string, want []int) {
		t.Helper()
		n := len(e.table.ring) + len(e.table.unmatched.shut)
		for _, g := range e.table.ring {
			if !slices.Contains(want, g.slot) {
				t.Errorf("%s group %s of lane %d is in the ring", when, g.name, g.slot)
			}
		}
		if n > groups*len(want)/adapters.Slots*2 || len(e.table.known) > n {
			t.Errorf("%s %d groups are remembered, of which %d are known by name", when, n, len(e.table.known))
		}
	}
	claimed := map[string]bool{}
	all := func(lanes []int, most int) {
		t.Helper()
		for called := time.Now(); e.q.Coverage().Since.Before(called) && len(claimed) < most; {
			for _, row := range e.claim(lanes) {
				if claimed[row.ID] || !slices.Contains(lanes, row.Slot) {
					t.Fatalf("row %s of lane %d was claimed again, or out of its lane", row.ID, row.Slot)
				}
				claimed[row.ID] = true
			}
		}
	}
	all(lanes, 50)
	check("with four lanes", lanes)
	all(lanes, groups)
	lanes = []int{2, 3, 4, 5}
	e.wants = 2
	all(lanes, groups)
	check("after a hand-over", lanes)
	e.wants = 3
	all(slots(), groups)
	if len(claimed) != groups {
		t.Errorf("%d of %d rows were claimed in the end", len(claimed), groups)
	}
}
