package adapters

import (
	"time"
)

// WaitingRow is a row of a queue that waits to be claimed.
type WaitingRow struct {
	At       DeadKey
	Version  string    // differs after every change of the row
	Due      time.Time // zero: it is due, or the layout does not say
	Attempts int
}
