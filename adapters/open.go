package adapters

import (
	"context"
	"time"
)

// TransactionLister is implemented by sources and queues that can find transactions that have
// been open so long that rows wait for them, and end them.
type TransactionLister interface {
	// ExamineOpen returns a finding for each, or one that says that there is none.
	ExamineOpen(ctx context.Context) []Finding

	// OpenTransactions returns the transactions that can be ended, the longest first: none
	// of Outrider's own, and no prepared one.
	OpenTransactions(ctx context.Context) ([]OpenTransaction, error)

	// EndTransaction rolls the transaction back that an ID of OpenTransactions names, by
	// ending its session. It returns false, and changes nothing, if that transaction has
	// ended already, whatever its session does now.
	EndTransaction(ctx context.Context, id string) (bool, error)
}

// OpenTransaction is a transaction that has been open for long.
type OpenTransaction struct {
	ID          string // of this very transaction: no later one has it
	Process     int    // of the server
	Application string
	User        string
	Client      string // address; empty: a local one
	State       string // of its session, such as "idle in transaction"
	Statement   string // that runs, or the latest one: its begin, with quoted values masked
	Since       time.Time
	Open        time.Duration // by the server's clock
}
