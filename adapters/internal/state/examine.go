package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// ExamineLanes judges who works and what waits for an operator, as Lanes of a
// [adapters.StateStore] reports it.
func ExamineLanes(lanes []adapters.LaneStatus) []adapters.Finding {
	owners := map[string]bool{}
	held, dead := 0, 0
	for _, l := range lanes {
		if l.Owner != "" {
			owners[l.Owner] = l.Alive
		}
		held += l.Held
		dead += l.Dead
	}
	var alive, gone []string
	for name, lives := range owners {
		if lives {
			alive = append(alive, name)
		} else {
			gone = append(gone, name)
		}
	}
	slices.Sort(alive)
	slices.Sort(gone)
	f := adapters.Finding{Subject: "instances", Text: "none is running"}
	if len(alive) > 0 {
		f.Text = "working: " + strings.Join(alive, ", ")
	}
	if len(gone) > 0 {
		f.Level = adapters.LevelWarning
		f.Text += "; ended without releasing its lanes: " + strings.Join(gone, ", ")
		f.Fix = "start `outrider run`; it takes the lanes over"
	}
	parked := adapters.Finding{Subject: "parked messages", Text: "none is dead or held"}
	if held+dead > 0 {
		parked.Level = adapters.LevelWarning
		parked.Text = fmt.Sprintf("%d dead, and %d held with their groups behind them", dead, held)
		parked.Fix = "list them with `outrider parked list`, then `outrider parked redrive` or `skip`"
	}
	return []adapters.Finding{f, parked}
}
