package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Queue is an outbox table, or several of one layout, whose rows carry a status. Rows are claimed by a
// short statement, delivered while no transaction is open, and settled in batches; their results are
// in the table. Rows that another processor has claimed or locked are left to it.
//
// Several instances share a table by lanes: each claims in those that it owns
// ([ClaimRequest.Slots]). Lanes move at any time, with or without the consent of their former
// owner, which may still hold rows of them. A queue knows an instance's claims from memory; there
// is no column for an owner. So a row held by another instance is like one of another processor:
// no later row of its group is claimed until it is settled, put back or recovered. This alone
// keeps the order while lanes move; one owner per lane avoids conflicts between instances.
//
// A table without a status for rows being processed has no claims. The owner of a row's lane owns the row; a claim writes
// nothing, its rows are remembered until they are settled, and Settle writes only where a row waits still and the lane
// has the epoch that the result says ([ClaimResult.Epoch]), as far as the queue can see epochs. There a row that was
// taken by mistake is not seen by other instances, so lanes that were taken again have another term
// ([ClaimRequest.Terms]).
//
// One goroutine calls Claim, another one calls Settle and Extend, and both continue
// at the same time; the other methods may be called concurrently. So Extend may
// renew the tokens in the claims that it is given.
type Queue interface {
	// Check verifies what claiming and settling need (tables, columns,
	// privileges, a primary server) and returns an error that names what is
	// missing and the fix.
	Check(ctx context.Context) error

	// Claim marks rows as being processed and returns them, those of each group
	// in their order, with [Row.Claim] set, and [Row.Kind] where the tables differ
	// in kind. Row.Group is the group whose order is kept, which begins with
	// the kind ("EVENT:order-1"): equal names in two tables are two groups. Of a group it takes a contiguous
	// prefix of what is unfinished: nothing behind a row that is not due, that
	// another processor holds, or whose group the request leaves out. Rows which
	// the caller holds already (claimed, not settled) do not end a prefix; those
	// of a claim that ended with an error do, until Recover puts them back.
	Claim(ctx context.Context, c ClaimRequest) ([]*Row, error)

	// Settle writes results in one transaction. A row that is no longer claimed
	// as its Claim says (another process recovered it) is left as it is and
	// returned as lost, by the pointer that was given. Rows that other sessions have locked are not waited
	// for: the error is a [*LockedError] then. One with [ErrRefused] says that the table does not take one of the results.
	// After any error but a LockedError results may have been written or not; given again, those that were written are not lost.
	Settle(ctx context.Context, results []ClaimResult) (lost []*Claim, err error)

	// Extend renews claims, so that they do not count as stuck. It returns lost
	// ones. Those of rows that other sessions have locked stay as they are.
	Extend(ctx context.Context, claims []*Claim) (lost []*Claim, err error)

	// Recover puts rows back that have been marked as being processed for longer
	// than the layout's timeout, after a crash. It returns how many. It covers all lanes, so any
	// instance may call it, and several at once; rows that the caller holds stay as they are.
	Recover(ctx context.Context) (int, error)

	// Coverage reports how much the claims so far have read. A claim may end before it has read everything that it should: a table
	// with many rows that are not to be claimed is read in parts, at a bounded share of the time. The goroutine that calls Claim calls it.
	Coverage() Coverage

	// KeepsDue reports whether the tables say when a row is due again. Then claims leave nothing out that was given back until a
	// time: what the table says is valid, which others may change, and [Coverage.Due] says when to claim again.
	KeepsDue() bool

	// Close releases the connections.
	Close() error
}

// ErrRefused is part of an error of Settle or Extend that is about what one row would become: a type, a constraint or a trigger of the
// table refuses it. The other rows can be written without it.
var ErrRefused = errors.New("the table refuses a row")

// ClaimRequest bounds a claim.
type ClaimRequest struct {
	Slots    []int    // of the claimer's lanes; see [SlotOf] of the row's Group and, without one, its ID. Of other lanes nothing is claimed
	Limit    int      // rows at most
	PerGroup int      // rows of one group at most, those held already not counted; 0: no bound. Rows without a group are not bounded
	Except   []string // groups that take nothing now (in backoff, or put back to make room)

	// ExceptRows are rows that take no part now, by Table and Key: rows without
	// a group, and rows of routes without order, that are in backoff. To the
	// claim they are not there: they end no prefix.
	ExceptRows []*Claim

	// Terms are numbers of the lanes, as many as Slots: a lane that was lost and taken again has
	// another one, and nothing that the queue knows of its rows from before is valid. nil: no lane
	// is lost and taken again between two claims.
	Terms []uint64

	// Match reports whether any route wants a row; nil: all are wanted. A row that
	// no route wants does not exist for the claim: it stays untouched, counts
	// for no limit and ends no prefix. It is called by the goroutine that calls
	// Claim, with the row as it would be returned, Claim aside.
	Match func(*Row) bool

	// Later reports for a row that Match refused whether a later claim may want it:
	// a route matches it, whose lane is closed now. Of others it is remembered, for as long
	// as Wants stays, that no route wants them. nil: all may be wanted later.
	Later func(*Row) bool

	// Wants is another number whenever Slots and Match may want rows that they did
	// not want before, or that Later refused. With the same number the queue may pass over what it
	// has seen refused. 0: nothing is remembered. The notes of a lane are not valid when it
	// opens again: another instance has run it since.
	Wants uint64

	// Bytes bounds the payloads of the rows together; the first row fits
	// whatever its size. 0: no bound.
	Bytes int64
}

// Claim identifies one claim of one row of a [Queue].
type Claim struct {
	Table    string // which of the queue's tables
	Key      string // primary key, as text
	Token    string // differs from that of a later claim of the same row
	Attempts int    // failed attempts that the table counts for the row
}

// ClaimResult is the result of a claimed row, as a settle writes it.
type ClaimResult struct {
	Claim   *Claim
	Outcome outbox.Outcome // Delivered or Skipped (done), Retry, Dead, or Put (unclaimed: nothing counted)

	// Attempts are the failed attempts that count for the row, this one
	// included. It is given with every outcome, and less than the Claim said
	// when attempts turned out to be the fault of the row's address.
	Attempts int

	// Lane is the one that the row was given to, and Epoch that of its cursor row as the lane was taken.
	// A queue whose tables have no claims fences by them. Without a route there was no lane.
	Lane  LaneRef
	Epoch int64

	At    time.Time // when the row is due again, for Retry, where the layout has a column for it
	Error string    // for Retry and Dead
	Cause string    // of Error, its outbox.Error.Code or, without one, the name of its outbox.Kind
}

// LockedError is the error of a settle that left out the rows which other sessions have locked. Everything else is
// written. The claims are still held: they are to be settled again.
type LockedError struct{ Claims []*Claim }

// Error implements error.
func (e *LockedError) Error() string {
	return fmt.Sprintf("another session has locked %d rows, the first is %s of table %s: end its transaction", len(e.Claims), e.Claims[0].Key, e.Claims[0].Table)
}

// Coverage is how much of a queue the claims so far have read.
type Coverage struct {
	// Since is when the latest reading of everything began that has come to its end:
	// nothing that was committed before is overlooked. A row that was committed later may be.
	// Zero: there is none, or what it found in the way has become free since and was not looked at.
	Since time.Time

	// Next is when a claim would read on, if Since is not late enough.
	Next time.Time

	// Due is when something that was seen and could not be claimed may be claimed: a
	// row that is due then, or one behind a row that another process holds. Zero: none is known.
	Due time.Time

	// Unwanted is how many rows are passed over because no route wants them.
	Unwanted int

	// Tables are the same of each table, where there are several.
	Tables []Coverage
}

// NextFor is when a claim would read on in one of the tables whose Since is before a time. It is for times after the common Since.
func (c Coverage) NextFor(whole time.Time) time.Time {
	next := c.Next
	for _, t := range c.Tables {
		if t.Since.Before(whole) && t.Next.Before(next) {
			next = t.Next
		}
	}
	return next
}

// Processing counts rows marked as being processed. After a crash rows stay so
// until the queue's timeout.
type Processing struct {
	Rows    int
	More    bool          // there are more
	Longest time.Duration // for how long the first of the counted rows has been marked
}
