package adapters

import (
	"context"
	"time"
)

// The interfaces in this file are optional: some implementations of a contract have them, others do not.

// SharedRead is implemented by sources that read all slots at the price of one,
// such as tables without a column for the slot. Routes of such a source have one
// owner each: with more, every owner would read everything.
type SharedRead interface {
	SharedRead()
}

// SnapshotComparer is implemented by sources whose cursors have snapshots. Routes with order
// global need it: their slots are read as of one snapshot.
type SnapshotComparer interface {
	// Covers reports whether everything visible in the other snapshot is visible in this one.
	// It does not ask the database.
	Covers(snapshot, other string) bool
}

// SnapshotFitter is implemented by sources whose cursors have snapshots. After a crash, or on a standby that took over, a server gives out the
// numbers of transactions again that had been rolled back and left no trace. Snapshots of before must not count those as seen.
type SnapshotFitter interface {
	// Fit takes from cursors that are valid what their snapshots say of transactions that the server has yet to begin.
	Fit(ctx context.Context, cursors []*Cursor) error
}

// LaneBacklogger is implemented by sources that count the rows of many spans at once.
type LaneBacklogger interface {
	// Backlogs counts the rows of each span, at most so many.
	Backlogs(ctx context.Context, spans []Span, most int) ([]Backlog, error)
}

// Rebaser is implemented by sources whose cursors become invalid when the
// database is restored.
type Rebaser interface {
	// Rebase returns, by slot, cursors of the database as it is now that are
	// where the given lanes stood if that is known, and otherwise before
	// that: rows may come again, none is left out. It waits for transactions
	// that write to the table now, until ctx ends.
	Rebase(ctx context.Context, lanes []LaneStatus) (map[int]Cursor, error)
}

// RebaserOf returns what repositions a source's cursors after a restore. ok is false for
// a source that cannot tell which rows a cursor had not covered, because it is no
// [Rebaser] or has a method CanRebase that says so: a seek is the only way.
func RebaserOf(s Source) (r Rebaser, ok bool) {
	if c, limited := s.(interface{ CanRebase() bool }); limited && !c.CanRebase() {
		return nil, false
	}
	r, ok = s.(Rebaser)
	return r, ok
}

// Retainer is implemented by sources that can remove rows that no route needs.
// Methods may be called concurrently, also by several processes: then one of
// them removes, and the others find that it does.
//
// A row may go when every route has settled it: its position is at or below the
// route's cursor and it was visible in the cursor's snapshot. Its position alone
// says nothing, because a row that was committed late may be undelivered.
type Retainer interface {
	Source

	// CheckRetention verifies what removing needs (privileges, the shape of the
	// table) and returns an error that names what is missing and the fix.
	CheckRetention(ctx context.Context, r Retention) error

	// Retain takes one step: it removes at most a batch of rows, or one
	// partition, in one short transaction which gives up when it would have to
	// wait for others. routes are all that may still need rows of the table;
	// without any, nothing is removed.
	Retain(ctx context.Context, r Retention, routes []RouteCursors) (Retained, error)
}

// LoginChecker is implemented by state stores in which a relay and an operator have
// different grants.
type LoginChecker interface {
	// OperatorsLogin reports whether the login has what operators' commands need, and
	// not all that a relay needs.
	OperatorsLogin(ctx context.Context) (bool, error)
}

// Examiner is implemented by sources, destinations and state stores that can
// check everything they depend on. Unlike a [Checker] it also reports the
// checks that passed, and warnings, each with a fix.
type Examiner interface {
	// Examine returns one finding for each checked object, in a natural order.
	// It changes nothing, and sends nothing that a receiver would accept as a
	// message. A check that cannot run is a finding too.
	Examine(ctx context.Context) []Finding
}

// Waker is implemented by sources and queues of which writers can notify the
// reader that there are new rows, before its next poll.
//
// Telling costs a writer more than polling costs a reader that is busy anyway. So
// writers notify only a reader that sleeps: one that has found nothing for a while
// and asked for it. One goroutine calls Sleep and Awake.
type Waker interface {
	// Wake returns a channel that receives a value, coalesced, when a writer
	// has called, and when no publisher would any more. After that the reader is awake.
	// The first call begins to listen; Close ends that. nil: there is no connection
	// to listen to.
	Wake() <-chan struct{}

	// Sleep makes the writers notify from now on. Once it has returned [Armed]
	// the reader reads again before it pauses: rows of those who were not asked
	// are visible by then.
	Sleep(ctx context.Context) Sleep

	// Awake takes that back.
	Awake()

	// Follows reports whether every commit wakes the reader now, without Sleep and Awake: mostly a little before its rows are visible, and
	// whatever it wrote.
	Follows() bool
}

// Sleep is whether a reader is woken; see [Waker].
type Sleep int

// The answers to a reader that wants to sleep.
const (
	// Unsupported: no publisher would wake the reader. It polls.
	Unsupported Sleep = iota

	// Draining: a publisher that took the reader to be awake may still commit. It
	// polls for a little longer and calls Sleep again.
	Draining

	// Armed: every publisher that commits from now on wakes the reader.
	Armed
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

// HotSource is implemented by sources whose rows can be delivered from memory, right after the commit of a transaction of this process.
//
// A row is delivered from memory only if nothing of its group can be before it: the statement that inserts it also returns what
// was inserted before, and all of that must have been read by then, or have been delivered from memory itself. The row is read later, too, as it
// is in the table, and is then known. Uncertain rows are left to Fetch.
type HotSource interface {
	Source

	// Announce prepares an INSERT into the source's table, which any goroutine may do.
	Announce(insert string) HotRead
}

// HotRead is an INSERT whose rows are read right after the commit, from memory or from the slots that they are in. It is used by one
// goroutine at a time.
type HotRead interface {
	// Statement is to be run in place of the INSERT, with the same arguments. All columns that it returns are text.
	Statement() string

	// Inserted takes a row that the statement returned. ok is false for a row that cannot be delivered from memory: then only its slot
	// is known, or -1 if not even that is.
	Inserted(columns []*string) (row HotLogRow, slot int, ok bool)
}

// HotLogRow is a row of a [HotRead].
type HotLogRow struct {
	*Row

	// XID and Place are the version of the row: its transaction, an xid8, and its ctid.
	XID, Place string

	// Follows reports whether all that may be before the row in its group has been taken by one who has taken everything
	// that was visible as of the cursor, and what is at known positions.
	Follows func(c Cursor, known func(position int64) bool) bool
}

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
