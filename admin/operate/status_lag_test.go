package operate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// countedRows counts rows of a table: slot and position of each.
type countedRows struct {
	rows  [][2]int64
	asked int
}

func (c *countedRows) Backlogs(_ context.Context, spans []adapters.Span, most int) ([]adapters.Backlog, error) {
	out := make([]adapters.Backlog, len(spans))
	for i, s := range spans {
		for _, r := range c.rows {
			if r[0] == int64(s.Slot) && r[1] > s.After && (s.Upto == 0 || r[1] <= s.Upto) {
				c.asked++
				out[i].Add(adapters.Backlog{Rows: 1, Oldest: time.Unix(r[1], 0)})
			}
		}
		out[i] = out[i].Upto(most)
	}
	return out, nil
}

// Counted for all routes at once, each route is as far behind as counted alone, and each row is counted once.
func TestLagsOfManyRoutesAreCountedAtOnce(t *testing.T) {
	t.Parallel()
	c := &countedRows{}
	for i := range int64(400) {
		c.rows = append(c.rows, [2]int64{i % 16, i + 1})
	}
	lanes, routes := map[string][]adapters.LaneStatus{}, []string{}
	for r := range 40 {
		name := fmt.Sprint("r", r)
		routes = append(routes, name)
		for slot := range 16 {
			l := adapters.LaneStatus{LaneRef: adapters.LaneRef{Route: name, Slot: slot}, UpdatedAt: time.Unix(1, 0)}
			l.Cursor.Position = int64(r * slot % 7 * 60)
			if slot == 5 && r%3 == 0 {
				l.UpdatedAt = time.Time{} // it has never been settled
			}
			lanes[name] = append(lanes[name], l)
		}
	}
	got := map[string]adapters.Backlog{}
	sumSource(t.Context(), c, routes, lanes, got)
	if c.asked > len(c.rows) {
		t.Errorf("%d rows were counted of %d", c.asked, len(c.rows))
	}
	for _, route := range routes {
		var want adapters.Backlog
		for _, l := range lanes[route] {
			if l.UpdatedAt.IsZero() {
				continue
			}
			alone, _ := c.Backlogs(t.Context(), []adapters.Span{{Slot: l.Slot, After: l.Cursor.Position}}, lagMost)
			want.Add(alone[0])
		}
		if got[route] != want {
			t.Errorf("%s is %+v behind, want %+v", route, got[route], want)
		}
	}
}
