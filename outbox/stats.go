package outbox

import "time"

// RouteStats is a snapshot of a route's counters, since the process began.
type RouteStats struct {
	Route     string
	Delivered int64
	Retried   int64
	Dead      int64
	Parked    int64            // messages that were taken out of the stream
	Skipped   map[string]int64 // by reason

	Age       time.Duration // from creation to delivery, of a recent message
	InFlight  int           // messages that are not durably settled
	ParkedNow int           // groups in the parking, as the lanes here know
	Lanes     int           // lanes that this instance owns
	Down      []AddressStatus
}

// AddressStatus is an address that is down, for status and metrics.
type AddressStatus struct {
	Address string // with secrets masked
	Gone    bool
	Since   time.Time
	Cause   string
	Held    int
}
