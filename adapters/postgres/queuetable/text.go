package queuetable

import "github.com/outriderhq/outrider/adapters/layout"

// Package layout describes queue tables.
type (
	// Layout says what the columns and statuses of queue tables are called.
	Layout = layout.Queue
	// Table is one table of a [Queue].
	Table = layout.Table
	// Columns are the names of a queue table's columns.
	Columns = layout.Columns
	// Statuses are the values of the status column.
	Statuses = layout.Statuses
)

// kindText is the half of a [kind] that builds statements; what it returns are templates, but for whole statements.
type kindText interface {
	unfinished(s *Statuses) []string                 // statuses of rows that are to be delivered, those that wait first
	held(q *queueSQL, members []string) []string     // the ranges of a look at what is being processed
	looked(q *queueSQL) (claimed, held, wait string) // columns of a look
	attempts(q *queueSQL) string                     // likewise; "": the claim reads them
	budget() string                                  // the parameter that bounds a look
	complete(q *queueSQL, t *queueText)              // adds the statements that only this kind has
	settle(q *queueSQL, o settlement) string
	settled(q *queueSQL, statuses string) string // finds rows that have one of the statuses which a settle wrote, or are gone
}

// marking is the kind of tables with a status for rows that are being processed.
type marking struct{}

// remembering is the kind of tables without one, see remember.go.
type remembering struct{}

// queueText are the statements, once the types are known.
type queueText struct {
	everything, held string // of a round, the first page and after the last
	first, next      string
	latest, later    string
	look             string
	take, takeAll    string // takeAll: without locking first
	done             string
	retry, dead, put string
	deadBy           map[string]string // by what a row died of; others are dead
	extend, recover  string
	unclaim          string // puts back what a claim with a mark took
	isDone, isDead   string // look for what a settle wrote
	forgetNotes      string // of rows that were delivered; "": there are none
	locked           string // waits for the ends of transactions that change rows
	elsewhere        string // finds rows that other sessions have locked
}

// text builds the statements.
func (q *queueSQL) text(indexes queueIndexes) queueText {
	text := queueText{
		everything: q.everything(indexes.heldAged),
		first:      q.byAge(pageFirst, indexes.heldAged), next: q.byAge(pageNext, indexes.heldAged),
		latest: q.byAge(pageLatest, indexes.heldAged), later: q.byAge(pageLater, indexes.heldAged),
		look:  q.look(indexes),
		done:  q.kind.settle(q, settlement{status: "{is_done}", done: true}),
		retry: q.kind.settle(q, settlement{status: "{is_retrying}", withError: !q.layout.ErrorWhenDead}),
		dead:  q.kind.settle(q, settlement{status: "{is_dead}", withError: true, dead: true}), deadBy: q.deadBy(),
		put:    q.kind.settle(q, settlement{status: q.waitingAgain()}),
		isDone: q.kind.settled(q, "{is_done}"), isDead: q.kind.settled(q, "{dead}"),
		locked: q.locked(), elsewhere: q.elsewhere(), forgetNotes: q.forgetNotes(),
	}
	q.kind.complete(q, &text)
	return text
}
