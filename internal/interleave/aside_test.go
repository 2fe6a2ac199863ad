package interleave_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// asideScenarios are those in which settles beside an old snapshot meet others: they are written to outrider_settled.
var asideScenarios = slices.DeleteFunc(slices.Clone(logScenarios), func(sc *scenario) bool {
	return !slices.Contains([]string{"late rows", "late rows behind settled ones", "the fence", "hand over", "park beside a takeover", "redrive beside a failed attempt"}, sc.name)
})

// asideMutants are changes of their statements.
var asideMutants = []*mutant{
	{name: "settle aside: any epoch", by: "the fence", within: "first AS", find: "WHERE s.place IS NULL AND c.epoch = s.epoch AND", replace: "WHERE s.place IS NULL AND"},
	{name: "settle aside: the position stays", by: "late rows behind settled ones", within: "later AS", find: "SET position = s.position,", replace: "SET position = h.position,"},
	{name: "fold: any epoch", by: "the fence", within: "gone AS", find: "AND c.epoch = s.epoch", replace: ""},
}

// asideWorld is a world whose relays have settled beside an old snapshot until their settles went aside, which they do for minutes.
func asideWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := logWorld(t, url, m)
	must(t, w.reset())
	w.facts = newFacts()
	old, err := pgx.Connect(w.ctx, url)
	must(t, err)
	defer func() { _ = old.Close(w.ctx) }()
	_, err = old.Exec(w.ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outrider_cursor")
	must(t, err)
	for _, name := range []string{relayA, relayB} {
		r, began := w.relays[name], time.Now()
		must(t, r.acquire())
		for aside := 0; aside == 0; {
			for range 100 {
				must(t, r.settle(r.settlement(r.lane.Cursor)))
			}
			aside, err = w.count("SELECT count(*) FROM outrider_settled")
			if must(t, err); time.Since(began) > time.Minute {
				t.Fatal("settles do not go aside")
			}
		}
		must(t, release(r))
		_, err := w.count("WITH gone AS (DELETE FROM outrider_settled) SELECT 0")
		must(t, err)
	}
	return w
}

func TestInterleavingsBesideAnOldSnapshot(t *testing.T) {
	t.Parallel()
	if briefly() {
		t.Skip("it takes seconds until settles go aside; make interleave waits for it")
	}
	w := asideWorld(t, logDatabase(t), nil)
	for _, sc := range asideScenarios {
		w.play(t, sc)
	}
}

func TestMutantsBesideAnOldSnapshot(t *testing.T) {
	t.Parallel()
	kill(t, asideMutants, asideScenarios, logDatabase, asideWorld)
}
