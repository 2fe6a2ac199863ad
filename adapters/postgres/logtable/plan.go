package logtable

import (
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// A table without slots is read by position for all reads at once, whatever
// their slots are. Package reader has the cursor rule, which holds for each slot; how
// sixteen cursors share one scan:
//
//   - Reads at the same cursor (and have the same bound) are a cohort.
//     Their late rows are one set, of which the lowest positions are read: when
//     there are more, the window stays open behind the last one read, for those
//     slots too that had no row among them.
//   - Fresh rows are read in segments, one from the position of each cohort
//     to that of the next. Rows of a segment serve all cohorts that began
//     at or before it. A segment that has more rows than its limit ends, at its last row,
//     the reads of all of them.
//   - A read whose segments were all read to their ends has seen everything of
//     its slot up to the last row of all. So reads that caught up have the
//     same cursor afterwards, and the next scan has one cohort and one segment.
//
// Rows read for another slot are dropped, so a lane that has fallen behind
// alone costs as much as all lanes would; it is bounded in each read by its limit.

const (
	// logBytes bounds what one read of a Source keeps, in bytes, unless its first
	// row is larger.
	logBytes = 8 << 20

	// searchFactor is how many rows are read, as a multiple of a read's
	// limit, when a cohort has fewer reads than there are slots; searchRows
	// bounds that.
	searchFactor = 16
	searchRows   = 1024
)

// extent is how much one part of the statement's result (the late rows of a cohort,
// or a segment) was to yield, and has.
type extent struct {
	limit int
	rows  int
	last  int64 // position of the last row, or where the part began
	cut   bool  // rows that follow were dropped
}

// truncated reports whether there may be more rows than were read.
func (e *extent) truncated() bool { return e.cut || e.limit > 0 && e.rows >= e.limit }

// cohort is the reads at one cursor.
type cohort struct {
	reader.Plan // its slot and limit mean nothing
	late        extent
	segment     int // where its fresh rows begin; -1: it reads none
	sees        reader.Snapshot
}

// segment is a range of positions: above low, up to high.
type segment struct {
	extent
	anchor    adapters.Anchor // of its last row
	low, high int64
}

// logPlan plans the rows of one fetch.
type logPlan struct {
	reads    []adapters.Read
	plans    []reader.Plan
	of       []int // cohort by read; -1: the read has no limit
	bySlot   [adapters.Slots][]int
	cohorts  []cohort
	segments []segment
}

// standing is the cursor of a cohort, and its bound.
type standing struct {
	from, until adapters.Cursor
	bounded     bool
}

// planLog plans a fetch of which a row takes so many bytes.
func planLog(reads []adapters.Read, rowBytes float64) (*logPlan, error) {
	l := &logPlan{reads: reads, plans: make([]reader.Plan, len(reads)), of: make([]int, len(reads))}
	places := map[standing]int{}
	for i := range reads {
		r := &reads[i]
		p, err := reader.PlanRead(r)
		if err != nil {
			return nil, err
		}
		l.plans[i], l.of[i] = p, -1
		if p.Limit == 0 {
			continue
		}
		at := standing{from: r.From, bounded: r.Until != nil}
		if at.bounded {
			at.until = *r.Until
		}
		n, ok := places[at]
		if !ok {
			n = len(l.cohorts)
			places[at] = n
			l.cohorts = append(l.cohorts, cohort{Plan: p, segment: -1, late: extent{last: p.Above}})
		}
		l.of[i] = n
		l.bySlot[p.Slot] = append(l.bySlot[p.Slot], i)
	}
	l.planRows(rowBytes)
	return l, nil
}

// planRows sets what is read of each cohort and segment.
func (l *logPlan) planRows(rowBytes float64) {
	sums, most := make([]int, len(l.cohorts)), make([]int, len(l.cohorts))
	for i, n := range l.of {
		if n >= 0 {
			sums[n] += l.plans[i].Limit
			most[n] = max(most[n], l.plans[i].Limit)
		}
	}
	total := 0
	for i := range l.cohorts {
		sums[i] = max(sums[i], min(searchFactor*most[i], searchRows))
		total += sums[i]
	}
	l.planSegments(sums, total)
	for i := range l.cohorts {
		if c := &l.cohorts[i]; c.Target != c.Snapshot { // otherwise nothing became visible
			c.late.limit = sums[i]
		}
	}
	l.fit(total, logBytes/rowBytes)
}

// planSegments cuts the positions at those of cohorts.
func (l *logPlan) planSegments(sums []int, total int) {
	var lows []int64
	for i := range l.cohorts {
		if c := &l.cohorts[i]; c.Upto > c.Position {
			lows = append(lows, c.Position)
		}
	}
	slices.Sort(lows)
	lows = slices.Compact(lows)
	l.segments = make([]segment, len(lows))
	for k, low := range lows {
		l.segments[k] = segment{low: low, high: low, extent: extent{last: low}}
	}
	for i := range l.cohorts {
		c := &l.cohorts[i]
		if c.Upto <= c.Position {
			continue
		}
		c.segment, _ = slices.BinarySearch(lows, c.Position)
		for k := c.segment; k < len(lows); k++ {
			l.segments[k].high = max(l.segments[k].high, c.Upto)
		}
		l.segments[c.segment].limit += sums[i]
	}
	for k := range l.segments {
		if k+1 < len(lows) {
			l.segments[k].high = min(l.segments[k].high, lows[k+1])
			continue
		}
		// Those who were close behind come this far, and want rows here.
		l.segments[k].limit = total
	}
}

// fit reduces limits to what fits in memory, at least one row each.
func (l *logPlan) fit(total int, affordable float64) {
	if float64(total) <= affordable {
		return
	}
	share := affordable / float64(total)
	reduce := func(e *extent) {
		if e.limit > 0 {
			e.limit = max(int(float64(e.limit)*share), 1)
		}
	}
	for i := range l.cohorts {
		reduce(&l.cohorts[i].late)
	}
	for k := range l.segments {
		reduce(&l.segments[k].extent)
	}
}

// params writes the plan as the statement's arrays, in PostgreSQL's text form.
// A cohort without late rows to read has a limit of 0 in its place.
func (l *logPlan) params() [][]byte {
	var a [8]wire.Array
	for i := range a {
		a[i] = wire.NewArray(len(l.cohorts), 24)
	}
	for i := range l.cohorts {
		c := &l.cohorts[i]
		a[0].Number(c.Position)
		a[1].TextOrNull(c.Snapshot)
		a[2].TextOrNull(c.Target)
		a[3].Number(c.Above)
		a[4].Number(int64(c.late.limit))
	}
	for k := range l.segments {
		s := &l.segments[k]
		a[5].Number(s.low)
		a[6].Number(s.high)
		a[7].Number(int64(s.limit))
	}
	params := make([][]byte, len(a))
	for i := range a {
		params[i] = a[i].End()
	}
	return params
}

// reach returns how far a cohort's fresh rows were read, and whether that is all
// there was for it.
func (l *logPlan) reach(c *cohort) (position int64, done bool) {
	if c.segment < 0 {
		return c.Position, true
	}
	for k := c.segment; k < len(l.segments); k++ {
		s := &l.segments[k]
		if s.truncated() && s.last < c.Upto {
			return s.last, false
		}
		if s.high >= c.Upto && c.Upto < math.MaxInt64 {
			return c.Upto, true
		}
		position = s.last
	}
	return position, true
}
