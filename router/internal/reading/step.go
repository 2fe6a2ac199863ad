package reading

import (
	"cmp"
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// Lanes that drain a backlog are kept in step: what a poll may read is divided
// among those that stand close together so that they come to one position, instead of
// in equal shares, with which lanes that have fewer rows run ahead. Sources can read
// many lanes at once up to one place for half of what it costs to read each by itself
// (adapters.Read.AlignedTo), and pages of the table are read once.
const (
	// alignReads and stepRows are how many reads, and rows for all of them, make a
	// step worth it.
	alignReads = 4
	alignRows  = 512

	// alignSlack is how much of its limit a read is expected to use. Rows are not
	// spread evenly, and rows beyond a limit are read without use.
	alignSlack = 7.0 / 8

	// alignSpread is how far apart lanes may be that wait for each other, in steps.
	// One that is further ahead goes on by itself: it has as much right to be read.
	alignSpread = 8

	// alignSparse is how many positions there may be for a row. Where there are more,
	// many rows are gone or belong to others, and nobody knows what comes next.
	alignSparse = 8
)

// densityAfter is how many rows per position a read found, if it left something
// behind; 0: not known, or too few to tell. One that was to come to a place and
// found less than half of what was expected met a gap, over which only a read
// without such a place leads.
func (rd *read) densityAfter(res adapters.ReadResult) float64 {
	moved := res.Next.Position - rd.from.Position
	if res.Drained || res.Next.Window != "" || moved <= 0 || rd.rows < alignRows/adapters.Slots {
		return 0
	}
	pace := float64(rd.rows) / float64(moved)
	if rd.reach > 0 && pace < rd.density/2 {
		return 0
	}
	return pace
}

// align divides the rows of the plan anew among reads that stand close
// together and whose paces are known. Those of them that are ahead of where the
// others come to wait for the next poll.
func (p *plan) align() {
	var reads []*read
	for _, rd := range p.reads {
		if rd.density > 0 && rd.until == nil && rd.global == nil && rd.from.Window == "" {
			reads = append(reads, rd)
		}
	}
	slices.SortFunc(reads, func(a, b *read) int { return cmp.Compare(a.from.Position, b.from.Position) })
	for ; len(reads) >= alignReads; reads = reads[1:] {
		n, rows, paces := 0, 0, 0.0
		for _, rd := range reads {
			if n > 0 && float64(rd.from.Position-reads[0].from.Position) > alignSpread*float64(rows)/paces {
				break
			}
			n++
			rows += rd.limit
			paces += rd.density
		}
		if n >= alignReads && p.step(reads[:n], rows) {
			return
		}
	}
}

// step sets the limits of reads so that they come to one position with a number of
// rows; false: it is not worth it.
func (p *plan) step(reads []*read, rows int) bool {
	wanted := alignSlack * float64(rows)
	low := reads[0].from.Position
	farthest := low + int64(alignSparse*wanted)
	reach := reachOf(reads, low, farthest, wanted)
	if rows < alignRows || reach == farthest {
		return false
	}
	waiting := map[*read]bool{}
	for _, rd := range reads {
		switch n := rd.upTo(reach); {
		case n < 1:
			waiting[rd] = true
		case n < alignSlack*float64(rd.room):
			rd.reach, rd.limit = reach, int(math.Ceil(n/alignSlack))
		default:
			rd.limit = max(int(n), 1) // it has no room for all up to there
		}
	}
	if len(waiting) > 0 {
		p.again = true
		p.reads = slices.DeleteFunc(p.reads, func(rd *read) bool { return waiting[rd] })
	}
	return true
}

// upTo is how many rows a read is expected to find, and has room for, up to a
// position.
func (rd *read) upTo(position int64) float64 {
	return min(alignSlack*float64(rd.room), rd.density*float64(max(0, position-rd.from.Position)))
}

// reachOf is the lowest position between two up to which reads find a number of rows
// in all; the higher one if there is none.
func reachOf(reads []*read, low, high int64, rows float64) int64 {
	for low < high {
		middle, found := low+(high-low)/2, 0.0
		for _, rd := range reads {
			found += rd.upTo(middle)
		}
		if found < rows {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return high
}
