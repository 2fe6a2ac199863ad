package adapters

import (
	"errors"
	"time"
)

// ErrOperatorsLogin is part of what [Retainer.CheckRetention] returns for a login that
// has what operators' commands need, and not all that a relay needs.
var ErrOperatorsLogin = errors.New("this is an operator's login: connect the relay with its own")

// ErrOwnerOnly is part of what [Retainer.CheckRetention] returns for a login that does not
// own the table, where removing takes its owner: a relay's fault, but not an operator's.
// Rights on the table do not tell the two apart: see [LoginChecker].
var ErrOwnerOnly = errors.New("only the table's owner can make and drop its partitions")

// Retention configures which rows of a table are removed, and how.
type Retention struct {
	Mode RetentionMode

	// Keep is the least age of a row that is removed, by the time at which it
	// was created. 0: rows may go as soon as they are settled.
	Keep time.Duration

	// Batch is the most rows of one step of [RetainRows]. 0: [DefaultRetainBatch].
	Batch int

	// PartitionRows is how many positions a new partition spans.
	// 0: [DefaultPartitionRows].
	PartitionRows int64

	// DryRun removes nothing and counts what would be.
	DryRun bool
}

// RetentionMode is how rows are removed.
type RetentionMode string

// The ways to remove rows.
const (
	RetainRows       RetentionMode = "delete"     // by primary key, in batches
	RetainPartitions RetentionMode = "partitions" // whole partitions of positions
)

// The defaults of a [Retention], for values that are zero.
const (
	DefaultRetainBatch   = 10_000
	DefaultPartitionRows = 1_000_000
)

// RouteCursors are the settled cursors of one route.
type RouteCursors struct {
	Route string

	// Cursors by slot; nil where nothing is settled, or nothing that means
	// anything in the database as it is now: such a slot keeps all its rows.
	Cursors [Slots]*Cursor
}

// Retained is the result of one step.
type Retained struct {
	Rows       int64 // removed one by one
	Partitions int   // removed as a whole

	// More reports that another step would remove more.
	More bool

	// Busy reports that the step gave up, without any harm, because another
	// process removes rows or a transaction is in the way.
	Busy bool

	// Oldest is the age of the oldest row that is left, as far as the first row
	// of each slot tells. 0: there is none.
	Oldest time.Duration

	// Held says, by route, for how long it has kept a row which is old
	// enough to go.
	Held map[string]time.Duration

	// DatedAhead is the one of the oldest rows that are left which is dated
	// furthest in the future. Such a row goes when one behind it is old enough.
	DatedAhead DatedAhead

	// Waiting counts partitions that no route needs, and that could not be dropped
	// because of what InTheWay says.
	Waiting  int
	InTheWay string

	// Stray counts rows in the partition for positions that have no other, up to
	// a bound; Ahead is how many positions have a partition before they are
	// drawn. Both are 0 for tables without partitions.
	Stray int64
	Ahead int64
}

// And is the result of a step on several tables.
func (r Retained) And(of Retained) Retained {
	r.Rows += of.Rows
	r.More, r.Busy, r.Oldest = r.More || of.More, r.Busy || of.Busy, max(r.Oldest, of.Oldest)
	return r
}

// DatedAheadLeast is the least distance of a creation time in the future at
// which it is ignored as the row's age: clocks differ.
const DatedAheadLeast = 10 * time.Minute

// DatedAhead is a row whose time of creation is in the future.
type DatedAhead struct {
	Slot     int // 0 where the table has none
	Position int64
	By       time.Duration // how far, at most 100 years; 0: there is no such row
	Fix      string        // statement that corrects its date
}

// RetentionStats counts what retention has removed from a source's table since the
// process began, and what it found last.
type RetentionStats struct {
	Source     string
	Rows       int64
	Partitions int64
	Errors     int64
	Oldest     time.Duration
	Held       map[string]time.Duration
	DatedAhead DatedAhead
	Waiting    int
	InTheWay   string
	Stray      int64
	Ahead      int64
}

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
	Ages      AgeCounts     // the same of all messages. Of a busy route each 64th is measured, and counts for those since the one before
	AgeSum    float64       // seconds that these ages are together
	Oldest    time.Duration // since the oldest message that was read and is neither delivered nor given up was created; 0: none
	InFlight  int           // messages that are not durably settled
	ParkedNow int           // groups in the parking, as the lanes here know
	Lanes     int           // lanes that this instance owns
	Down      []AddressStatus
	Paused    *Pause    // nil: it is not; who asked is empty when not known yet
	Resumed   time.Time // when the instance noticed that a pause was over; zero: none was
	Stopped   string    // why the route cannot run; empty: it can

	SourceError string // why its source could not be read at the latest attempt; empty: it could
	StateError  string // why its progress could not be written at the latest attempt; empty: it could

	Duplicates int64 // messages that the destination took for duplicates and counts as delivered, of all its routes; 0 where it does not tell

	// Polls of a route with a poll of its own: how many there were, how many found nothing since the last one that did,
	// and when the next one is due; zero: now.
	Polls, EmptyPolls int64
	NextPoll          time.Time

	Queue *QueueStats // of a route that claims from a queue; routes of one queue share it
}

// AgeBounds are the upper bounds of [AgeCounts], each included.
var AgeBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour,
	24 * time.Hour, 3 * 24 * time.Hour, 7 * 24 * time.Hour,
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
