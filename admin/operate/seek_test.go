package operate_test

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// TestG1_SeekBackKeepsWhatCommittedLate: rows of a transaction that commits below
// where the route stands are delivered after a seek that goes back, but not as far
// back as they are; and retention keeps them until then.
func TestG1_SeekBackKeepsWhatCommittedLate(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]operate.Target{
		"to a position":  {Position: 1000},
		"to where it is": {Position: 1051},
		"a bit too far":  {Position: 1049}, // forwards for lanes that stand before it, though there is nothing to skip
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "rows", testenv.Postgres(t))
			w.begin(t)
			defer w.end()
			late := w.write(50)
			w.publish(1000)
			w.drain("a")
			w.commit(late)
			plan, err := w.op.PlanSeek(w.ctx, "a", to)
			must(t, err)
			if plan.Skipped.Rows != 0 {
				t.Errorf("%d rows are to be skipped", plan.Skipped.Rows)
			}
			w.relocate("a", plan, w.retain)
			w.nothingIsOwed()
		})
	}
}

// A seek forwards skips what has committed late, and says so; what commits
// afterwards arrives.
func TestG1_SeekForwardsCountsWhatCommittedLate(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]operate.Target{
		"to a position": {Position: 200},
		"to the end":    {Start: adapters.Start{Kind: adapters.StartEnd}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "rows", testenv.Postgres(t))
			w.begin(t)
			defer w.end()
			late, later := w.write(37), w.write(37) // a row in each group
			w.publish(100)
			w.drain("a")
			w.commit(late)
			w.publish(74)
			plan, err := w.op.PlanSeek(w.ctx, "a", to)
			must(t, err)
			if plan.Late.Rows == 0 || plan.Skipped.Rows <= plan.Late.Rows || plan.Again.Rows != 0 {
				t.Errorf("the plan is %+v", plan)
			}
			w.relocate("a", plan, func() {
				w.commit(later)
				w.retain()
			})
			w.nothingIsOwed()
		})
	}
}
