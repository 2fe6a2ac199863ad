package adapters

import "time"

// RouteStats is a snapshot of a route's counters, since the process began.
type RouteStats struct {
	Route     string
	Delivered int64
	Retried   int64
	Dead      int64
	Parked    int64            // messages that were taken out of the stream
	Skipped   map[string]int64 // by reason

	// Batches that a route with order global gave to its destination, counted by how long each delivery took, and how long all took together.
	Batches AgeCounts
	Sending time.Duration

	Age       time.Duration // from creation to delivery, of a recent message
	Ages      AgeCounts     // the same of a sample of all messages: each of a quiet route, every 64th of a busy one
	Oldest    time.Duration // since the oldest message that was read and is neither delivered nor given up was created; 0: none
	InFlight  int           // messages that are not durably settled
	ParkedNow int           // groups in the parking, as the lanes here know
	Lanes     int           // lanes that this instance owns
	Down      []AddressStatus
	Paused    *Pause // nil: it is not; who asked is empty when not known yet
	Stopped   string // why the route cannot run; empty: it can

	SourceError string // why its source could not be read at the latest attempt; empty: it could
	StateError  string // why its progress could not be written at the latest attempt; empty: it could

	Duplicates int64 // messages that the destination took for duplicates and counts as delivered, of all its routes; 0 where it does not tell

	// Looks for messages of a route with a pace of its own: how many there were, how many found nothing since the last one that did,
	// and when the next one is due; zero: now.
	Looks, EmptyLooks int64
	NextLook          time.Time

	Queue *QueueStats // of a route that claims from a queue; routes of one queue share it
}

// AgeBounds are the upper bounds of [AgeCounts], each included.
var AgeBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour,
}

// AgeCounts counts ages, or how long something took, up to each of [AgeBounds] and above the one before; the last
// count is of those above all.
type AgeCounts [len(AgeBounds) + 1]int64

// QueueStats are the counters of a queue over all its routes.
type QueueStats struct {
	Claimed   int   // rows that are claimed and not settled
	Unmatched int64 // rows that no route matches and that the latest claim passed over, as far as it looked
	Lost      int64 // rows that another process recovered as stuck while they were claimed here
	Recovered int64 // rows that were put back after having been processed for too long

	HotTaken   int64 // rows that came into the hot queue after their commit
	HotDropped int64 // rows that had no room there, and were left to the poll
	HotWaiting int   // rows in the hot queue
}

// AddressStatus is an address that is down, for status and metrics.
type AddressStatus struct {
	Address string // with secrets masked
	Gone    bool   // not used, and not probed, until an operator resumes it
	Since   time.Time
	Cause   string // of the latest failure
	Held    int    // messages that failed there and wait

	// NextProbe is when the next message is tried there; zero: an attempt is under
	// way, or nothing waits for the address.
	NextProbe time.Time
}
