package statestore

import (
	"testing"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
)

// A statement is encoded as a whole, so parked rows are written by several, of so many bytes each, in their order; a larger row has
// one for itself.
func TestG7_ParkedRowsAreWrittenInParts(t *testing.T) {
	t.Parallel()
	lane := adapters.LaneRef{Route: "r"}
	fenced := adapters.LaneRef{Route: "r", Slot: 1}
	park := func(sizes ...int) (rows []adapters.Parked) {
		for i, size := range sizes {
			rows = append(rows, adapters.Parked{Seq: int64(i + 1), Payload: make([]byte, size)})
		}
		return rows
	}
	_, _, parts := parkedParts([]adapters.Settlement{
		{LaneRef: lane, Park: park(1<<20, 3<<20, 1, 9<<20, 0, partBytes-1, 1, 1)}, {LaneRef: fenced, Park: park(1)},
	}, map[adapters.LaneRef]bool{lane: true}, utf8.MaxRune)
	want := []int{2, 1, 1, 3, 1}
	if len(parts) != len(want) {
		t.Fatalf("%d parts, want %d", len(parts), len(want))
	}
	seq := int64(0)
	for i, part := range parts {
		total := 0
		for j := range part.seqs {
			if seq++; part.seqs[j] != seq {
				t.Errorf("row %d comes where %d is due", part.seqs[j], seq)
			}
			total += len(part.payloads[j])
		}
		if len(part.seqs) != want[i] || total > partBytes && len(part.seqs) > 1 {
			t.Errorf("part %d has %d rows with %d bytes, want %d rows", i, len(part.seqs), total, want[i])
		}
	}
}
