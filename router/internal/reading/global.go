package reading

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// globalRead is the read of routes with order global that have the same cursors: all slots at once, as of one snapshot, merged by position.
// Rows are merged as far as every slot is known: a slot whose read did not come to an end may have more rows behind its cursor.
//
// Cursors of slots differ: a slot's is behind its own last row that was taken, and after a crash behind its last one that was settled. A row
// that is late for one slot is fresh for another, so only the position orders rows of two slots, and only among rows of one snapshot: of two
// transactions the second may be visible in a newer snapshot alone.
type globalRead struct {
	members []globalMember
	from    [adapters.Slots]adapters.Cursor
	until   *adapters.Cursor      // where reads end while a window is open; nil: each sees what there is now
	reads   [adapters.Slots]*read // nil: the slot has seen more than until, and waits
	rows    [adapters.Slots][]*adapters.Row
	results [adapters.Slots]adapters.ReadResult
	bytes   int64 // of the rows
	kept    int
}

// globalMember is a lane that takes part in a globalRead, with its room.
type globalMember struct {
	session *lane.Session
	room    int
}

// globalPlaces bounds the global reads of one poll. Of more, other ones are made each time: routes that have seen everything have the
// same cursors afterwards.
const globalPlaces = 16

// keep takes a row until all are there to be merged. False if there is not enough memory: then the next poll asks for fewer. One row of
// each slot is needed to continue.
func (g *globalRead) keep(r *Reader, rd *read, row *adapters.Row, cost int64) bool {
	g.bytes += cost
	g.kept++
	if rd.limit > 1 && g.bytes > r.budget.Free() {
		r.rowCost = max(r.rowCost, float64(g.bytes)/float64(g.kept))
		return false
	}
	g.rows[rd.slot] = append(g.rows[rd.slot], row)
	return true
}

// addGlobal adds a lane to the read of its cursors.
func (p *plan) addGlobal(s *lane.Session, src adapters.Source, room int) {
	g := p.globalAt(s, src)
	g.members = append(g.members, globalMember{s, room})
	for i, str := range s.Streams() {
		rd := g.reads[i]
		if rd == nil {
			continue
		}
		limit := max(room/4, 1)
		if str.Drained {
			limit = min(limit, drainedLimit)
		}
		rd.limit, rd.overhead = max(rd.limit, limit), max(rd.overhead, s.Route.Overhead())
	}
}

// globalAt returns the read of a lane's cursors. Mostly all routes have the same, and comparing them with the last is cheaper than a
// look-up.
func (p *plan) globalAt(s *lane.Session, src adapters.Source) *globalRead {
	if n := len(p.globals); n > 0 && p.globals[n-1].isAt(s) {
		return p.globals[n-1]
	}
	var from [adapters.Slots]adapters.Cursor
	for i, str := range s.Streams() {
		from[i] = str.Fetched
	}
	g := p.globalsAt[from]
	if g == nil {
		g = &globalRead{from: from}
		g.bound(src)
		if p.globalsAt == nil {
			p.globalsAt = map[[adapters.Slots]adapters.Cursor]*globalRead{}
		}
		p.globalsAt[from] = g
		p.globals = append(p.globals, g)
	}
	return g
}

// isAt reports whether the read begins at a lane's cursors.
func (g *globalRead) isAt(s *lane.Session) bool {
	for i, str := range s.Streams() {
		if g.from[i] != str.Fetched {
			return false
		}
	}
	return true
}

// bound prepares the reads. While a window is open all slots are read as of the oldest window, up to the furthest cursor. A slot that has
// seen more than that waits: it has taken the rows of the window before.
func (g *globalRead) bound(src adapters.Source) {
	covers := func(snapshot, other string) bool { return snapshot == other }
	if c, ok := src.(adapters.SnapshotComparer); ok {
		covers = c.Covers
	}
	window, furthest := "", g.from[0]
	for _, at := range &g.from {
		if at.Window != "" && (window == "" || covers(window, at.Window)) {
			window = at.Window
		}
		if at.Position > furthest.Position {
			furthest = at
		}
	}
	if window != "" {
		g.until = &adapters.Cursor{Position: furthest.Position, Snapshot: window, Base: furthest.Base, Anchor: furthest.Anchor}
	}
	for slot, at := range &g.from {
		if window != "" && !covers(window, cmp.Or(at.Window, at.Snapshot)) {
			g.results[slot] = adapters.ReadResult{Next: at, Drained: true}
			continue
		}
		g.reads[slot] = &read{slot: slot, from: at, global: g}
		if at.Window == "" {
			g.reads[slot].until = g.until
		}
	}
}

// addGlobals adds the global reads that have their turn.
func (p *plan) addGlobals(turn int) {
	if n := len(p.globals); n > globalPlaces {
		p.again = true
		kept := make([]*globalRead, globalPlaces)
		for i := range kept {
			kept[i] = p.globals[(turn*globalPlaces+i)%n]
		}
		p.globals = kept
	}
	p.addGlobalReads()
}

// addGlobalReads adds the reads of what is to be read in global order.
func (p *plan) addGlobalReads() {
	for _, g := range p.globals {
		for _, rd := range &g.reads {
			if rd != nil {
				p.reads = append(p.reads, rd)
			}
		}
	}
}

// finish gives the merged rows to the lanes; it reports whether rows are left.
func (g *globalRead) finish(r *Reader) (again bool) {
	merged, complete := g.merge()
	for i := range g.members {
		again = g.give(r, &g.members[i], merged, complete) || again
	}
	return again
}

// give gives the merged rows to a lane; it reports whether rows are left. Of adjacent rows of a slot that the route does not match the last
// is enough: the cursor moves over all of them with it.
func (g *globalRead) give(r *Reader, m *globalMember, merged []*adapters.Row, complete [adapters.Slots]bool) (again bool) {
	taken := 0
	streams, batch := m.session.Streams(), r.arrivals[:0]
	var passed [adapters.Slots]int // by slot: the number of the arrival that passes over rows; 0: none
	for _, row := range merged {
		str := streams[row.Slot]
		if !m.session.Route.Match(row) {
			if n := passed[row.Slot]; n > 0 {
				batch[n-1].Row = row
			} else {
				batch = append(batch, lane.Arrival{Stream: str, Row: row})
				passed[row.Slot] = len(batch)
			}
			taken++
			continue
		}
		cost := int64(row.Size()) + m.session.Route.Overhead()
		if m.room == 0 {
			break
		}
		if !m.session.Route.Memory.Take(cost) {
			r.starved.Store(true)
			break
		}
		m.room--
		batch = append(batch, lane.Arrival{Stream: str, Row: row, Matched: true, Cost: cost})
		passed[row.Slot] = 0
		taken++
	}
	m.session.Accept(batch)
	clear(batch)
	r.arrivals = batch[:0]
	var left [adapters.Slots]bool
	for _, row := range merged[taken:] {
		left[row.Slot] = true
	}
	again = g.until != nil // there may be more than the window shows
	for i, str := range streams {
		if g.reads[i] == nil {
			continue
		}
		str.Order = r.fetches
		if complete[i] && !left[i] {
			str.MoveTo(g.results[i].Next, r.fetches, g.results[i].Drained && g.until == nil, false)
			again = again || !g.results[i].Drained
			continue
		}
		again = true
	}
	return again
}

// merge returns the rows that may be taken now, in order, and for which slots they are all that was read.
func (g *globalRead) merge() (rows []*adapters.Row, complete [adapters.Slots]bool) {
	cut := int64(math.MaxInt64)
	for _, res := range &g.results {
		switch { // a read can end without a row of its own: its cursor says how far
		case res.Next.Window != "":
			cut = min(cut, res.Next.Paged)
		case !res.Drained:
			cut = min(cut, res.Next.Position)
		}
	}
	for i, slot := range g.rows {
		n := sort.Search(len(slot), func(n int) bool { return slot[n].Position > cut })
		rows, complete[i] = append(rows, slot[:n]...), n == len(slot)
	}
	slices.SortFunc(rows, func(a, b *adapters.Row) int { return cmp.Compare(a.Position, b.Position) })
	return rows, complete
}
