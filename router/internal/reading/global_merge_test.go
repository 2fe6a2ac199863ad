package reading

import (
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// page is what one slot of a global read yielded: positions, negative ones of
// late rows.
type page struct {
	rows    []int64
	full    bool  // more rows are behind
	lateCut bool  // more late rows are behind
	upto    int64 // how far it was read, when that is not its last row
}

// known is how far a page that was cut was read.
func (p *page) known() int64 {
	if p.upto == 0 && len(p.rows) > 0 {
		last := p.rows[len(p.rows)-1]
		return max(last, -last)
	}
	return p.upto
}

// merged runs globalRead.merge and returns positions and incomplete slots.
func merged(pages ...page) (positions []int64, incomplete []int) {
	g := &globalRead{}
	for i := range adapters.Slots {
		g.results[i] = adapters.ReadResult{Drained: true, Next: adapters.Cursor{Snapshot: "S2"}}
	}
	for i, p := range pages {
		for _, pos := range p.rows {
			g.rows[i] = append(g.rows[i], &adapters.Row{Slot: i, Position: max(pos, -pos), Late: pos < 0})
		}
		g.results[i].Drained = !p.full && !p.lateCut
		g.results[i].Next.Position = p.known()
		if p.lateCut {
			g.results[i].Next = adapters.Cursor{Snapshot: "S1", Window: "S2", Paged: p.known()}
		}
	}
	rows, complete := g.merge()
	for _, row := range rows {
		positions = append(positions, row.Position)
	}
	for i, ok := range complete {
		if !ok {
			incomplete = append(incomplete, i)
		}
	}
	return positions, incomplete
}

func TestGlobalMerge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pages      []page
		want       []int64
		incomplete []int
	}{
		"nothing":                        {nil, nil, nil},
		"by position":                    {[]page{{rows: []int64{2, 5}}, {rows: []int64{1, 3, 6}}, {rows: []int64{4}}}, []int64{1, 2, 3, 4, 5, 6}, nil},
		"a full page ends what is known": {[]page{{rows: []int64{2, 5}, full: true}, {rows: []int64{1, 3, 6, 9}}}, []int64{1, 2, 3, 5}, []int{1}},
		"the lowest of full pages":       {[]page{{rows: []int64{2, 8}, full: true}, {rows: []int64{1, 3}, full: true}}, []int64{1, 2, 3}, []int{0}},
		"late and fresh ones of slots that stand at different places": {[]page{{rows: []int64{-4, 7}}, {rows: []int64{3, 6}}, {rows: []int64{-5}}}, []int64{3, 4, 5, 6, 7}, nil},
		"late ones first": {[]page{{rows: []int64{-4, 7}}, {rows: []int64{6}}, {rows: []int64{-2}}}, []int64{2, 4, 6, 7}, nil},
		"late ones do not end at a full fresh page": {[]page{{rows: []int64{-9, 10}, full: true}, {rows: []int64{-8, 12}}}, []int64{8, 9, 10}, []int{1}},
		"a full late page keeps fresh ones back":    {[]page{{rows: []int64{-2, -4}, lateCut: true}, {rows: []int64{-3, -6, 8}}, {rows: []int64{9}}}, []int64{2, 3, 4}, []int{1, 2}},
		"an open window without rows":               {[]page{{lateCut: true, upto: 3}, {rows: []int64{-3}}}, []int64{3}, nil},
		"an open window ends before others":         {[]page{{lateCut: true, upto: 4}, {rows: []int64{-3, -5}}}, []int64{3}, []int{1}},
		"a slot that was read less far":             {[]page{{full: true, upto: 4}, {rows: []int64{3, 5}}, {rows: []int64{2}}}, []int64{2, 3}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, incomplete := merged(tt.pages...)
			if !slices.Equal(got, tt.want) || !slices.Equal(incomplete, tt.incomplete) {
				t.Errorf("got %v, incomplete %v; want %v, %v", got, incomplete, tt.want, tt.incomplete)
			}
		})
	}
}
