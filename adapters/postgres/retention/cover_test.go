package retention

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// modelLog is one slot of an outbox table in memory: transactions draw
// positions, commit or roll back in any order, and a snapshot sees those that
// have ended.
type modelLog struct {
	xid       uint64           // the last one given out
	completed uint64           // the highest that has ended
	position  int64            // the last one drawn
	running   map[uint64]bool  // to whether it has drawn a position
	committed map[uint64]bool  // has ended with a commit
	rows      map[int64]uint64 // position to transaction
	floor     *floor           // what reads may leave out
	next      int64            // the next floor's position
	writers   map[uint64]bool  // and those who could have drawn it
	routes    [2]modelRoute
	settledBy [2]map[int64]bool // rows that were delivered and settled
}

// modelRoute is a route's place in the log.
type modelRoute struct{ fetched, settled adapters.Cursor }

func newModelLog() *modelLog {
	m := &modelLog{xid: 2, completed: 2, running: map[uint64]bool{}, committed: map[uint64]bool{}, rows: map[int64]uint64{}}
	for i := range m.routes {
		m.settledBy[i] = map[int64]bool{}
		start := adapters.Cursor{Snapshot: m.snapshot().Text()}
		m.routes[i] = modelRoute{start, start}
	}
	return m
}

func (m *modelLog) snapshot() reader.Snapshot {
	s := reader.Snapshot{Xmax: m.completed + 1}
	for xid := range m.running {
		if xid < s.Xmax {
			s.Xip = append(s.Xip, xid)
		}
	}
	slices.Sort(s.Xip)
	return s
}

// anyRunning returns a running transaction of rapid's choice, 0 when there is none.
func (m *modelLog) anyRunning(t *rapid.T) uint64 {
	if len(m.running) == 0 {
		return 0
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.running))).Draw(t, "transaction")
}

func (m *modelLog) end(xid uint64, commit bool) {
	delete(m.running, xid)
	m.completed = max(m.completed, xid)
	if commit {
		m.committed[xid] = true
	}
}

// sink is what pass.sink does.
func (m *modelLog) sink() {
	writers := map[uint64]bool{}
	for xid, drew := range m.running {
		if drew {
			writers[xid] = true
		}
	}
	waiting := false
	for xid := range m.writers {
		waiting = waiting || writers[xid]
	}
	if len(writers) == 0 {
		m.next = m.position
	} else if waiting {
		return
	}
	if m.next > 0 {
		m.floor = &floor{position: m.next, snap: m.snapshot()}
	}
	m.next, m.writers = m.position, writers
}

// read fetches, as the statement does, and settles a part of what it got. A
// restart forgets the rest.
func (m *modelLog) read(t *rapid.T, route, limit int, settles func() bool) {
	r := &m.routes[route]
	read := adapters.Read{From: r.fetched, Limit: limit}
	p, err := reader.PlanRead(&read)
	if err != nil {
		t.Fatal(err)
	}
	m.floor.raise(&p)
	own := m.snapshot()
	target := own
	if p.Target != "" {
		target = mustSnapshot(t, p.Target)
	}
	taken := mustSnapshot(t, p.Snapshot)
	var late, fresh []int64
	for _, position := range slices.Sorted(maps.Keys(m.rows)) {
		xid := m.rows[position]
		switch {
		case !m.committed[xid] || !target.Visible(xid):
		case position <= p.Position && position > p.Above && !taken.Visible(xid):
			late = append(late, position)
		case position > p.Position && position <= p.Upto:
			fresh = append(fresh, position)
		}
	}
	var done reader.Progress
	page := &adapters.Page{From: read.From, Snapshot: p.SeenBy(own.Text())}
	settling := true
	for i, position := range append(slices.Clone(late), fresh...) {
		if done.Rows == p.Limit {
			break
		}
		done.Page, done.Rows = page, done.Rows+1
		done.Late, done.Last = i < len(late), position
		done.Row = &adapters.Row{Position: position, Late: done.Late, Page: page}
		if settling = settling && settles(); settling {
			m.settledBy[route][position] = true
			r.settled = done.Row.After()
		}
	}
	r.fetched = reader.Finish(&read, &p, &done, own.Text()).Next
	if settling {
		r.settled = r.fetched
	} else {
		r.fetched = r.settled // a restart
	}
}

func mustSnapshot(t *rapid.T, text string) reader.Snapshot {
	s, err := reader.ParseSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check asks for every row whether it might be removed.
func (m *modelLog) check(t *rapid.T) {
	var routes []adapters.RouteCursors
	for i := range m.routes {
		c := adapters.RouteCursors{Route: strconv.Itoa(i)}
		c.Cursors[0] = &m.routes[i].settled
		routes = append(routes, c)
	}
	covers, err := meetAll(routes)
	if err != nil {
		t.Fatal(err)
	}
	for position, xid := range m.rows {
		if !covers[0].Has(position, xid) {
			continue
		}
		if m.running[xid] {
			t.Fatalf("row %d of transaction %d, which runs, would be removed: cover %+v", position, xid, covers[0])
		}
		for i := range m.settledBy {
			if m.committed[xid] && !m.settledBy[i][position] {
				t.Fatalf("row %d of transaction %d would be removed before route %d has settled it: cursor %+v, cover %+v",
					position, xid, i, m.routes[i].settled, covers[0])
			}
		}
	}
}

// TestG1_WhatIsCoveredWasSettled plays transactions and two routes with paged
// windows and restarts against the covered rule, and the floor below which reads
// do not look for late rows against what is delivered in the end.
func TestG1_WhatIsCoveredWasSettled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModelLog()
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(*rapid.T) { m.xid++; m.running[m.xid] = false },
			"insert": func(t *rapid.T) {
				if xid := m.anyRunning(t); xid > 0 {
					m.position++
					m.running[xid], m.rows[m.position] = true, xid
				}
			},
			"end": func(t *rapid.T) {
				if xid := m.anyRunning(t); xid > 0 {
					m.end(xid, rapid.IntRange(0, 4).Draw(t, "commit") > 0)
				}
			},
			"read": func(t *rapid.T) {
				m.read(t, rapid.IntRange(0, 1).Draw(t, "route"), rapid.IntRange(1, 6).Draw(t, "limit"),
					func() bool { return rapid.IntRange(0, 5).Draw(t, "settled") > 0 })
			},
			"sink": func(*rapid.T) { m.sink() },
			"":     m.check,
		})
		for xid := range maps.Clone(m.running) {
			m.end(xid, true)
		}
		for route := range m.routes {
			for range len(m.rows) + 3 { // more than there are rows and windows
				m.read(t, route, 2, func() bool { return true })
			}
			m.check(t)
			for position, xid := range m.rows {
				if m.committed[xid] && !m.settledBy[route][position] {
					t.Fatalf("row %d was never delivered to route %d", position, route)
				}
			}
		}
	})
}

func TestMeetOfCovers(t *testing.T) {
	t.Parallel()
	cursor := func(position int64, snap string, base int64) *adapters.Cursor {
		return &adapters.Cursor{Position: position, Snapshot: snap, Base: base}
	}
	for name, tt := range map[string]struct {
		cursors  []*adapters.Cursor
		position int64
		xid      uint64
		want     bool
	}{
		"no route":                              {nil, 1, 3, false},
		"settled":                               {[]*adapters.Cursor{cursor(9, "20:20:", 0)}, 9, 19, true},
		"above the position":                    {[]*adapters.Cursor{cursor(9, "20:20:", 0)}, 10, 19, false},
		"running when the snapshot was taken":   {[]*adapters.Cursor{cursor(9, "12:20:12", 0)}, 5, 12, false},
		"newer than the snapshot":               {[]*adapters.Cursor{cursor(9, "20:20:", 0)}, 5, 20, false},
		"running in the other's":                {[]*adapters.Cursor{cursor(9, "20:20:", 0), cursor(9, "12:18:12", 0)}, 5, 12, false},
		"newer than the other's":                {[]*adapters.Cursor{cursor(9, "20:20:", 0), cursor(9, "12:18:12", 0)}, 5, 18, false},
		"settled by both":                       {[]*adapters.Cursor{cursor(9, "20:20:", 0), cursor(7, "12:18:12", 0)}, 7, 17, true},
		"one is behind":                         {[]*adapters.Cursor{cursor(9, "20:20:", 0), cursor(7, "12:18:12", 0)}, 8, 17, false},
		"one has settled nothing":               {[]*adapters.Cursor{cursor(9, "20:20:", 0), nil}, 1, 3, false},
		"below both bases":                      {[]*adapters.Cursor{cursor(9, "5:5:", 6), cursor(9, "6:6:", 4)}, 4, 99, true},
		"below one base":                        {[]*adapters.Cursor{cursor(9, "5:5:", 6), cursor(9, "6:6:", 4)}, 5, 99, false},
		"below the base, above the position":    {[]*adapters.Cursor{cursor(3, "5:5:", 6)}, 5, 2, false},
		"in an open window: as if not yet seen": {[]*adapters.Cursor{{Position: 9, Snapshot: "12:20:12", Window: "30:30:", Paged: 8}}, 5, 12, false},
	} {
		routes := make([]adapters.RouteCursors, len(tt.cursors))
		for i, c := range tt.cursors {
			routes[i].Cursors[3] = c
		}
		covers, err := meetAll(routes)
		if err != nil || covers[3].Has(tt.position, tt.xid) != tt.want {
			t.Errorf("%s: %v, %v", name, covers[3], err)
		}
		if covers[4].Has(tt.position, tt.xid) {
			t.Errorf("%s: a slot without cursors is covered", name)
		}
	}
	broken := []adapters.RouteCursors{{Route: "r"}}
	broken[0].Cursors[0] = cursor(1, "nonsense", 0)
	if _, err := meetAll(broken); err == nil {
		t.Error("a snapshot that is none was taken")
	}
}
