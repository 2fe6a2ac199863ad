package adapters

import "time"

// HotQueue is implemented by queues that can claim rows from memory: those that transactions of this process
// have just committed. It is for tables without a claim status, where a claim writes nothing.
//
// A row is claimed from memory only if nothing of its group can be before it: the statement that inserts it also
// returns what waits in its group, and all of that must be held by this process, or be done, when the row is
// claimed. An uncertain row is left to [Queue.Claim], which finds the row in the table.
type HotQueue interface {
	Queue

	// Announce prepares an INSERT into the queue's table, which any goroutine may do. nil: its rows are left to Claim.
	Announce(insert string) HotInsert

	// ClaimHot claims rows of committed transactions, in the order that is given, under the conditions of Claim: of the
	// request it heeds Slots, Terms, PerGroup, Match and Wants. Rows that a claim has found meanwhile, or that have
	// waited for longer than [HotTTL], are passed over. left counts the rows that are left to Claim because something before
	// them may be unfinished, or because Match refuses them. It is called by the goroutine that calls Claim.
	ClaimHot(c ClaimRequest, rows []*HotRow) (claimed []*Row, left int)

	// SkipRecent has Claim pass over rows until they are so old, from the next claim on. 0: none.
	SkipRecent(age time.Duration)
}

// HotTTL is how long an inserted row may wait for a claim from memory; after that only [Queue.Claim] takes it.
const HotTTL = time.Minute

// HotInsert is an INSERT whose rows may be claimed from memory. It is used by one goroutine at a time.
type HotInsert interface {
	// Statement is to be run in place of the INSERT, with the same arguments, in a transaction at READ COMMITTED. All columns
	// that it returns are text.
	Statement() string

	// Inserted takes a row that the statement returned. A row that cannot be claimed from memory is passed over.
	Inserted(columns []*string)

	// Rows are those that were taken, in the order of their group. Call it after the commit.
	Rows() []*HotRow

	// Forget forgets the rows: the transaction was rolled back, or they are left to Claim.
	Forget()
}

// HotRow is a row of a [HotInsert].
type HotRow struct {
	Key    string
	Raw    [][]byte  // its columns as a claim reads them
	Group  *string   // value of the group's column
	Before []string  // keys of the rows that wait in its group, and of those of its own statement before it
	Seq    uint64    // what the queue knew of rows that are done as the statement began
	At     time.Time // when it was inserted
	Bytes  int       // of memory

	XID, Place string // of its version: its transaction, an xid8, and its ctid
}
