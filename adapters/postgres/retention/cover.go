package retention

import (
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// meetAll returns, by slot, what all routes have settled: nothing when there is
// no route.
func meetAll(routes []adapters.RouteCursors) (covers [adapters.Slots]reader.Cover, err error) {
	for slot := range covers {
		covers[slot] = reader.Nothing
		for i := range routes {
			c, err := reader.CoverOf(routes[i].Cursors[slot])
			if err != nil {
				return covers, fmt.Errorf("the cursor of route %q, slot %d: %w", routes[i].Route, slot, err)
			}
			if i == 0 {
				covers[slot] = c
				continue
			}
			covers[slot] = covers[slot].Meet(c)
		}
	}
	return covers, nil
}

// coverParams are the covers as arrays, as coverArrays reads them.
func coverParams(covers [adapters.Slots]reader.Cover) []any {
	slots, positions := make([]int16, adapters.Slots), make([]int64, adapters.Slots)
	snaps, bases := make([]string, adapters.Slots), make([]int64, adapters.Slots)
	for i, c := range &covers {
		slots[i], positions[i], snaps[i], bases[i] = int16(i), c.Position, c.Snap.Text(), c.Base
	}
	return []any{slots, positions, snaps, bases}
}
