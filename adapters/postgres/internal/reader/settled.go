package reader

import (
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// SettledRow returns what [adapters.FoundRow] has as Settled, for a row of a transaction.
func SettledRow(position int64, xid uint64) func(adapters.Cursor, []int64) bool {
	return func(c adapters.Cursor, beyond []int64) bool {
		if slices.Contains(beyond, position) {
			return true
		}
		cover, err := CoverOf(&c)
		if err != nil {
			return false
		}
		if cover.Has(position, xid) {
			return true
		}
		if c.Window == "" || position > c.Paged || position > c.Position {
			return false
		}
		window, err := ParseSnapshot(c.Window)
		return err == nil && window.Visible(xid)
	}
}
