package reading

import (
	"cmp"
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// globalRead is the read of a route with order global: all slots at once, as of one snapshot,
// merged by position. Rows are merged as far as every slot is known: a slot
// whose read did not come to an end may have more rows behind its cursor.
//
// Cursors of slots differ: a slot stands behind its own last row that was taken, and after
// a crash behind its last one that was settled. What is late for one slot is fresh for another, so nothing
// but the position orders rows of two slots, and that only among rows that one snapshot shows: of two
// transactions the second may be visible in a newer one alone.
type globalRead struct {
	session *lane.Session
	room    int
	until   *adapters.Cursor     // where reads end while a window is open; nil: each sees what there is now
	left    [adapters.Slots]bool // slots that have seen more than until, and wait
	rows    [adapters.Slots][]*adapters.Row
	results [adapters.Slots]adapters.ReadResult
	bytes   int64 // of the rows
	kept    int
}

// keep takes a row until all are there to be merged. False when they would be
// more than there is memory for: then the next poll asks for fewer. One of each
// slot is needed to continue.
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

func (p *plan) addGlobal(s *lane.Session, src adapters.Source, room int) {
	g := &globalRead{session: s, room: room}
	p.globals = append(p.globals, g)
	g.bound(src)
	for i, str := range s.Streams() {
		if g.left[i] {
			g.results[i] = adapters.ReadResult{Next: str.Fetched, Drained: true}
			continue
		}
		limit := max(room/4, 1)
		if str.Drained {
			limit = min(limit, drainedLimit)
		}
		rd := &read{slot: str.Slot, from: str.Fetched, limit: limit, global: g, overhead: s.Route.Overhead()}
		if str.Fetched.Window == "" {
			rd.until = g.until
		}
		p.reads = append(p.reads, rd)
	}
}

// bound has all slots read as of the oldest open window, if there is one, up to where the furthest
// slot stands. A slot that has seen more than that waits: what that window showed was taken before it
// came there.
func (g *globalRead) bound(src adapters.Source) {
	covers := func(snapshot, other string) bool { return snapshot == other }
	if c, ok := src.(adapters.SnapshotComparer); ok {
		covers = c.Covers
	}
	streams := g.session.Streams()
	window, furthest := "", streams[0].Fetched
	for _, str := range streams {
		at := str.Fetched
		if at.Window != "" && (window == "" || covers(window, at.Window)) {
			window = at.Window
		}
		if at.Position > furthest.Position {
			furthest = at
		}
	}
	if window == "" {
		return
	}
	g.until = &adapters.Cursor{Position: furthest.Position, Snapshot: window, Base: furthest.Base, Anchor: furthest.Anchor}
	for i, str := range streams {
		seen := cmp.Or(str.Fetched.Window, str.Fetched.Snapshot)
		g.left[i] = !covers(window, seen)
	}
}

// finish gives the merged rows to the lane; it reports whether rows were left.
func (g *globalRead) finish(r *Reader) (again bool) {
	merged, complete := g.merge()
	taken := 0
	var batch []lane.Arrival
	for _, row := range merged {
		str := g.session.Streams()[row.Slot]
		if !g.session.Route.Match(row) {
			batch = append(batch, lane.Arrival{Stream: str, Row: row})
			taken++
			continue
		}
		cost := int64(row.Size()) + g.session.Route.Overhead()
		if g.room == 0 {
			break
		}
		if !g.session.Route.Share.Take(cost) {
			r.starved.Store(true)
			break
		}
		g.room--
		batch = append(batch, lane.Arrival{Stream: str, Row: row, Matched: true, Cost: cost})
		taken++
	}
	g.session.Accept(batch)
	var left [adapters.Slots]bool
	for _, row := range merged[taken:] {
		left[row.Slot] = true
	}
	again = g.until != nil // there may be more than the window shows
	for i, str := range g.session.Streams() {
		if g.left[i] {
			continue
		}
		str.Order = r.fetches
		if complete[i] && !left[i] {
			str.MoveTo(g.results[i].Next, r.fetches, g.results[i].Drained && g.until == nil)
			again = again || !g.results[i].Drained
			continue
		}
		again = true
	}
	return again
}

// merge returns the rows that may be taken now, in order, and for which slots
// they are all that was read.
func (g *globalRead) merge() (rows []*adapters.Row, complete [adapters.Slots]bool) {
	cut := int64(math.MaxInt64 - 1)
	for _, res := range &g.results {
		switch { // a read can end without a row of its own: its cursor says how far
		case res.Next.Window != "":
			cut = min(cut, res.Next.Paged)
		case !res.Drained:
			cut = min(cut, res.Next.Position)
		}
	}
	for i, slot := range g.rows {
		n, _ := slices.BinarySearchFunc(slot, cut+1, func(row *adapters.Row, position int64) int { return cmp.Compare(row.Position, position) })
		rows, complete[i] = append(rows, slot[:n]...), n == len(slot)
	}
	slices.SortFunc(rows, func(a, b *adapters.Row) int { return cmp.Compare(a.Position, b.Position) })
	return rows, complete
}
