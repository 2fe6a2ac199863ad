package postgres

import (
	"slices"

	"github.com/outriderhq/outrider/outbox"
)

// cover is what has been settled of one slot: the rows at or below position that
// are visible in the snapshot or at or below the base. With a position of -1 it
// is nothing, because positions begin at 1.
type cover struct {
	position int64
	base     int64
	snap     snapshot
}

// nothing covers no row.
var nothing = cover{position: -1, base: -1}

// coverOf is what a cursor covers. Of an open window it counts nothing, and of
// what was settled beyond the cursor neither: those rows stay a little longer.
func coverOf(c *outbox.Cursor) (cover, error) {
	if c == nil {
		return nothing, nil
	}
	snap, err := parseSnapshot(c.Snapshot)
	if err != nil {
		return nothing, err
	}
	return cover{position: c.Position, base: c.Base, snap: snap}, nil
}

// has tells whether a row is covered.
func (c cover) has(position int64, xid uint64) bool {
	return position <= c.position && (position <= c.base || c.snap.visible(xid))
}

// meet covers what both cover. Rows that one of them covers by its base alone
// are left out unless they are below the other's base too.
func (c cover) meet(d cover) cover {
	m := cover{position: min(c.position, d.position), base: min(c.base, d.base)}
	m.snap.xmax = min(c.snap.xmax, d.snap.xmax)
	m.snap.xip = slices.Concat(c.snap.xip, d.snap.xip)
	m.snap.xip = slices.DeleteFunc(m.snap.xip, func(xid uint64) bool { return xid >= m.snap.xmax })
	slices.Sort(m.snap.xip)
	m.snap.xip = slices.Compact(m.snap.xip)
	return m
}
