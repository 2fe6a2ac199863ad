package reading

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/outriderhq/outrider/adapters"
)

// Lanes that drain a backlog are aligned: reads of a poll that begin close together get limits with which they end at one position. With
// equal limits, lanes that have fewer rows would run ahead. Sources can answer reads that end at one position by one range scan
// ([adapters.Read].AlignedTo), at half the cost of single reads.
const (
	// alignLeast and alignRows are from how many reads, and rows for all of them, it is worth it.
	alignLeast = 4
	alignRows  = 512

	// alignSlack is how much of its limit a read is expected to use. Rows are not spread evenly, and rows beyond a limit are read in addition.
	alignSlack = 7.0 / 8

	// alignSpread is how far apart lanes may be that wait for each other, in polls. A lane that is further ahead is read on its own.
	alignSpread = 8

	// alignSparse is how many positions there may be for a row. If there are more, many rows are gone or belong to other routes, and
	// densities predict nothing.
	alignSparse = 8
)

// densityAfter is how many rows per position a read found, if it left rows behind; 0: not known, or too few. An aligned read that found less
// than half of what was expected met a gap; only a read without such a limit leads over it.
func (rd *read) densityAfter(res adapters.ReadResult) float64 {
	moved := res.Next.Position - rd.from.Position
	if res.Drained || res.Next.Window != "" || moved <= 0 || rd.rows < alignRows/adapters.Slots {
		return 0
	}
	density := float64(rd.rows) / float64(moved)
	if rd.alignedTo > 0 && density < rd.density/2 {
		return 0
	}
	return density
}

// align divides the rows of the plan among reads that begin close together and whose densities are known. Reads that begin beyond the
// common end wait for the next poll.
func (p *plan) align() {
	var reads []*read
	for _, rd := range p.reads {
		if rd.density > 0 && rd.until == nil && rd.global == nil && rd.from.Window == "" {
			reads = append(reads, rd)
		}
	}
	slices.SortFunc(reads, func(a, b *read) int { return cmp.Compare(a.from.Position, b.from.Position) })
	for ; len(reads) >= alignLeast; reads = reads[1:] {
		n, rows, density := 0, 0, 0.0
		for _, rd := range reads {
			if n > 0 && float64(rd.from.Position-reads[0].from.Position) > alignSpread*float64(rows)/density {
				break
			}
			n++
			rows += rd.limit
			density += rd.density
		}
		if n >= alignLeast && p.alignReads(reads[:n], rows) {
			return
		}
	}
}

// alignReads sets the limits of reads so that they end at one position with a number of rows; false: it is not worth it.
func (p *plan) alignReads(reads []*read, rows int) bool {
	wanted := alignSlack * float64(rows)
	low, most := reads[0].from.Position, int(alignSparse*wanted)
	n := sort.Search(most, func(n int) bool {
		found := 0.0
		for _, rd := range reads {
			found += rd.upTo(low + int64(n))
		}
		return found >= wanted
	})
	if rows < alignRows || n == most {
		return false
	}
	end, waiting := low+int64(n), map[*read]bool{}
	for _, rd := range reads {
		switch n := rd.upTo(end); {
		case n < 1:
			waiting[rd] = true
		case n < alignSlack*float64(rd.room):
			rd.alignedTo, rd.limit = end, int(math.Ceil(n/alignSlack))
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

// upTo is how many rows a read is expected to find, and has room for, up to a position.
func (rd *read) upTo(position int64) float64 {
	return min(alignSlack*float64(rd.room), rd.density*float64(max(0, position-rd.from.Position)))
}
