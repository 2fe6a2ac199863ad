package reader

import (
	"math"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// Cover is what has been settled of one slot: the rows at or below position that
// are visible in the snapshot or at or below the base.
type Cover struct {
	Position int64
	Base     int64
	Snap     Snapshot
}

// Nothing covers no row.
var Nothing = Cover{Position: math.MinInt64, Base: math.MinInt64}

// CoverOf is what a cursor covers. Of an open window it counts nothing, and of
// what was settled beyond the cursor neither: those rows stay a little longer.
func CoverOf(c *adapters.Cursor) (Cover, error) {
	if c == nil {
		return Nothing, nil
	}
	snap, err := ParseSnapshot(c.Snapshot)
	if err != nil {
		return Nothing, err
	}
	return Cover{Position: c.Position, Base: c.Floor(), Snap: snap}, nil
}

// Has reports whether a row is covered.
func (c Cover) Has(position int64, xid uint64) bool {
	return position <= c.Position && (position <= c.Base || c.Snap.Visible(xid))
}

// Meet covers what both cover. Rows that one of them covers by its base alone
// are left out unless they are below the other's base too.
func (c Cover) Meet(d Cover) Cover {
	m := Cover{Position: min(c.Position, d.Position), Base: min(c.Base, d.Base)}
	m.Snap.Xmax = min(c.Snap.Xmax, d.Snap.Xmax)
	m.Snap.Xip = slices.Concat(c.Snap.Xip, d.Snap.Xip)
	m.Snap.Xip = slices.DeleteFunc(m.Snap.Xip, func(xid uint64) bool { return xid >= m.Snap.Xmax })
	slices.Sort(m.Snap.Xip)
	m.Snap.Xip = slices.Compact(m.Snap.Xip)
	return m
}
