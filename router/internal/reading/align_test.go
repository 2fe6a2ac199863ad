package reading

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
)

// alignedPlan returns a plan of reads that stand at positions, with limits as the
// reader divides them.
func alignedPlan(positions []int64, densities []float64, limit int) *plan {
	p := &plan{}
	for i, position := range positions {
		p.reads = append(p.reads, &read{slot: i, from: adapters.Cursor{Position: position}, limit: limit, room: 4 * limit, density: densities[i]})
	}
	return p
}

// TestLanesThatDrainABacklogStayTogether lets lanes of different densities, of which some
// have no room now and then, drain a backlog as a source reads it that comes to each
// place it is asked for. They must stay within a poll or two of each other, and every
// poll must read about as much as it may.
func TestLanesThatDrainABacklogStayTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 200
		positions, densities := make([]int64, adapters.Slots), make([]float64, adapters.Slots)
		for i := range densities {
			densities[i] = rapid.Float64Range(0.04, 0.08).Draw(t, "density")
			positions[i] = rapid.Int64Range(0, 2000).Draw(t, "position")
		}
		last := -1
		for range 50 {
			p := alignedPlan(positions, densities, limit)
			out := rapid.IntRange(-3, adapters.Slots-1).Draw(t, "without room")
			if out == last {
				out = -1 // a lane that is without room poll after poll falls behind by as many
			}
			if last = out; out >= 0 {
				p.reads = append(p.reads[:out], p.reads[out+1:]...)
			}
			may := limit * len(p.reads)
			p.align()
			rows, reached := 0, 0
			for _, rd := range p.reads {
				rows += rd.limit
				if rd.alignedTo == 0 { // far behind
					positions[rd.slot] += int64(float64(rd.limit) / rd.density)
					continue
				}
				found := int(rd.density * float64(rd.alignedTo-rd.from.Position))
				if found > rd.limit || rd.limit > rd.room {
					t.Fatalf("a read from %d comes to %d with %d of %d rows, room for %d", rd.from.Position, rd.alignedTo, found, rd.limit, rd.room)
				}
				positions[rd.slot] = rd.alignedTo
				reached++
			}
			if rows > may+len(p.reads) || rows < may*3/4 {
				t.Fatalf("%d rows may be read and %d are", may, rows)
			}
			if reached < 8 {
				t.Fatalf("%d of %d reads come to a place", reached, len(p.reads))
			}
			low, high := positions[0], positions[0]
			for _, position := range positions {
				low, high = min(low, position), max(high, position)
			}
			if poll := int64(limit * adapters.Slots); high-low > 4*poll {
				t.Fatalf("lanes are %d positions apart", high-low)
			}
		}
	})
}

// TestG6_LanesFarAheadDoNotWait: only lanes that are close ahead of others wait for them.
func TestG6_LanesFarAheadDoNotWait(t *testing.T) {
	t.Parallel()
	positions := append(slices.Repeat([]int64{0}, 8), slices.Repeat([]int64{1_000_000}, 8)...)
	p := alignedPlan(positions, slices.Repeat([]float64{1.0 / 16}, 16), 200)
	p.align()
	if len(p.reads) != 16 || p.again {
		t.Fatalf("%d of 16 reads are left", len(p.reads))
	}
	for _, rd := range p.reads[8:] {
		if rd.alignedTo != 0 || rd.limit != 200 {
			t.Errorf("a read far ahead is aligned to %d with limit %d; want its share", rd.alignedTo, rd.limit)
		}
	}
	for _, rd := range p.reads[:8] {
		if rd.alignedTo == 0 {
			t.Error("a read of those behind comes to no place of theirs")
		}
	}
}

// TestLanesAreAlignedOnlyWhereItIsKnownWhatComes: without a backlog, in a table with
// few rows per position and for a handful of rows limits are as they were.
func TestLanesAreAlignedOnlyWhereItIsKnownWhatComes(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*plan{
		"no backlog": alignedPlan(slices.Repeat([]int64{5}, 16), slices.Repeat([]float64{0.0}, 16), 200),
		"sparse":     alignedPlan(slices.Repeat([]int64{5}, 16), slices.Repeat([]float64{0.0001}, 16), 200),
		"few rows":   alignedPlan(slices.Repeat([]int64{5}, 16), slices.Repeat([]float64{0.05}, 16), 10),
		"few lanes":  alignedPlan(slices.Repeat([]int64{5}, 3), slices.Repeat([]float64{0.3}, 3), 200),
	} {
		limit := p.reads[0].limit
		p.align()
		for _, rd := range p.reads {
			if rd.alignedTo != 0 || rd.limit != limit {
				t.Errorf("%s: a read comes to %d with limit %d; want no place, and %d", name, rd.alignedTo, rd.limit, limit)
			}
		}
	}
}

// TestDensities: a density is known of a read that left something behind, and not of one
// that met a gap on the way to its place.
func TestDensities(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read read
		res  adapters.ReadResult
		want float64
	}{
		"left something":       {read{rows: 100}, adapters.ReadResult{Next: adapters.Cursor{Position: 1000}}, 0.1},
		"drained":              {read{rows: 100}, adapters.ReadResult{Next: adapters.Cursor{Position: 1000}, Drained: true}, 0},
		"late rows":            {read{rows: 100}, adapters.ReadResult{Next: adapters.Cursor{Position: 1000, Window: "1:2:"}}, 0},
		"too few":              {read{rows: 3}, adapters.ReadResult{Next: adapters.Cursor{Position: 1000}}, 0},
		"as expected":          {read{rows: 100, alignedTo: 1000, density: 0.12}, adapters.ReadResult{Next: adapters.Cursor{Position: 1000}}, 0.1},
		"a gap":                {read{rows: 100, alignedTo: 1000, density: 0.3}, adapters.ReadResult{Next: adapters.Cursor{Position: 1000}}, 0},
		"nothing moved at all": {read{rows: 100, alignedTo: 1000, density: 0.3}, adapters.ReadResult{}, 0},
	} {
		if got := c.read.densityAfter(c.res); got != c.want {
			t.Errorf("%s: density %v, want %v", name, got, c.want)
		}
	}
}
