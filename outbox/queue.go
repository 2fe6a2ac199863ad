package outbox

import (
	"context"
	"time"
)

// Queue is an outbox table whose rows carry a status of their own. Rows are
// claimed by a short statement, delivered while no transaction is open, and
// settled in batches; the table itself remembers what became of them. What a
// foreign processor on the same table has claimed or locked is left to it.
//
// One goroutine calls Claim; the other methods may be called concurrently.
type Queue interface {
	// Check verifies what claiming and settling need (tables, columns,
	// privileges, a primary server) and returns an error that names what is
	// missing and the fix.
	Check(ctx context.Context) error

	// Claim marks rows as being processed and returns them, those of each group
	// in their order, with [Row.Claim] set. Of a group it takes a contiguous
	// prefix of what is unfinished: nothing behind a row that is not due, that
	// another processor holds, or that the request leaves out. Rows which the
	// caller holds already (claimed, not settled) do not end a prefix.
	Claim(ctx context.Context, c ClaimRequest) ([]*Row, error)

	// Settle writes results in one transaction. A row that is no longer claimed
	// as its Claim says (somebody recovered it meanwhile) is left as it is and
	// returned as lost.
	Settle(ctx context.Context, results []ClaimResult) (lost []*Claim, err error)

	// Extend keeps claims that are still wanted from being taken for stuck. Lost
	// ones are returned.
	Extend(ctx context.Context, claims []*Claim) (lost []*Claim, err error)

	// Recover puts rows back that have been marked as being processed for longer
	// than the layout's timeout, after a crash. It returns how many.
	Recover(ctx context.Context) (int, error)

	// Close releases the connections.
	Close() error
}

// ClaimRequest bounds a claim.
type ClaimRequest struct {
	Slots    []int    // of the lanes that are ours; see [SlotOf] of the row's Group
	Limit    int      // rows at most
	PerGroup int      // rows of one group at most, those held already not counted; 0: no bound
	Except   []string // groups that take nothing now (in backoff, or put back to make room)
}

// Claim identifies one claim of one row of a [Queue].
type Claim struct {
	Table    string // which of the queue's tables
	Key      string // primary key, as text
	Token    string // tells this claim from a later one of the same row
	Attempts int    // failed attempts that the table counts for the row
}

// ClaimResult is what a settle writes about a claimed row.
type ClaimResult struct {
	Claim   *Claim
	Outcome Outcome // Delivered or Skipped (done), Retry, Dead, or Put (unclaimed: nothing counted)

	Attempts int       // failed attempts, this one included; for Retry and Dead
	At       time.Time // when the row is due again, for Retry, where the layout has a column for it
	Error    string    // for Retry and Dead
}
