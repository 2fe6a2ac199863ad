package queuetable

import (
	"fmt"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// TestG2_AGroupThatIsWantedAgainBeginsAtItsBeginning: a claim may end in the middle of a group that it does not want, after so many rows. A claim
// that wants the group, because it was resumed, does not go on from there.
func TestG2_AGroupThatIsWantedAgainBeginsAtItsBeginning(t *testing.T) {
	t.Parallel()
	e := document(t)
	for i := range 4 {
		e.insert(event(fmt.Sprintf("%013d", i), "long", born.Add(time.Duration(i)*time.Second)))
	}
	q := e.open()
	paused := everything(10)
	paused.Wants, paused.Match = 1, func(*adapters.Row) bool { return false }
	rows, err := q.Claim(t.Context(), paused)
	must(t, err)
	if len(rows) > 0 {
		t.Fatalf("claimed %d rows of a group that is not wanted", len(rows))
	}
	q.tables[0].spot = spot{queue: grouped + "long", in: true, created: born.Add(time.Second), key: []byte("0000000000001")} // as if claimRows were 2
	resumed := everything(10)
	resumed.Wants = 2
	for range 2 { // the first one may come to the end of the index
		rows, err = q.Claim(t.Context(), resumed)
		must(t, err)
		if len(rows) > 0 {
			break
		}
	}
	if len(rows) != 4 || rows[0].ID != "0000000000000" {
		t.Errorf("claimed %d rows of 4, from %v on", len(rows), rows)
	}
}
