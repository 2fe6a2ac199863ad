package adapters

import (
	"context"
	"time"
)

// UnsettledFinder is implemented by sources of which a watchdog can find, by indexes and by statements
// that reading does not use, what lanes have left.
type UnsettledFinder interface {
	// Unsettled returns, for each lane, rows that were visible when Start returned the mark (an end of
	// the table) and that the lane has not settled: neither its cursor covers them, nor are they among the positions
	// beyond it. Of each lane it returns at most so many; the first ones above the position After, and late ones below the
	// cursor.
	Unsettled(ctx context.Context, lanes []LaneStatus, after []int64, mark Cursor, most int) ([][]FoundRow, error)
}

// WaitingFinder is the same for queues.
type WaitingFinder interface {
	// WaitingByAge returns rows of a table that wait, the oldest first, beginning after a place; the zero place is the beginning of the
	// first table. Only an empty page is the last.
	WaitingByAge(ctx context.Context, after DeadKey, most int) ([]WaitingRow, error)

	// IsFirst reports whether a row still waits and nothing unfinished of its group is before it.
	IsFirst(ctx context.Context, at DeadKey) (bool, error)
}

// WaitingRow is a row of a queue that waits to be claimed.
type WaitingRow struct {
	At       DeadKey
	Version  string    // differs after every change of the row
	Due      time.Time // zero: it is due, or the layout does not say
	Attempts int
}
