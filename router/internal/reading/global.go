package reading

import (
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
)

// globalRead is the read of a route with order global: all slots at once,
// merged by position. Rows are merged as far as every slot is known: a slot
// whose read did not come to an end may have more rows behind its cursor.
type globalRead struct {
	session *lane.Session
	room    int
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

func (p *plan) addGlobal(s *lane.Session, room int) {
	g := &globalRead{session: s, room: room}
	p.globals = append(p.globals, g)
	for _, str := range s.Streams() {
		limit := max(room/4, 1)
		if str.Drained {
			limit = min(limit, drainedLimit)
		}
		p.reads = append(p.reads, &read{slot: str.Slot, from: str.Fetched, limit: limit, global: g, overhead: s.Route.Overhead()})
	}
}

// finish gives the merged rows to the lane; it reports whether rows were left.
// Late rows come before fresh ones, as in a single slot.
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
	for i, str := range g.session.Streams() {
		str.Order = r.fetches
		if complete[i] && !left[i] {
			str.MoveTo(g.results[i].Next, r.fetches, g.results[i].Drained)
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
	lateOnly, cut := false, int64(math.MaxInt64)
	for _, res := range &g.results {
		lateOnly = lateOnly || res.Next.Window != ""
	}
	for _, res := range &g.results {
		// A read can end without a row of its own: its cursor says how far.
		open, known := !res.Drained, res.Next.Position
		if lateOnly {
			open, known = res.Next.Window != "", res.Next.Paged
		}
		if open {
			cut = min(cut, known)
		}
	}
	for i, slot := range g.rows {
		complete[i] = true
		for _, row := range slot {
			if lateOnly && !row.Late || row.Late == lateOnly && row.Position > cut {
				complete[i] = false
				continue
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b *adapters.Row) int {
		switch {
		case a.Late != b.Late && a.Late:
			return -1
		case a.Late != b.Late:
			return 1
		default:
			return int(min(max(a.Position-b.Position, -1), 1))
		}
	})
	return rows, complete
}
