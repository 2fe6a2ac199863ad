package queuetable

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

// kind is how it is known which rows of a table are claimed. The tables of a queue are of one kind: rows of [marking] ones have a status for it,
// of [remembering] ones the queue alone knows.
type kind interface {
	validate(l *Layout) []error

	// These build statements; what they return are templates, but for whole statements.

	unfinished(s *Statuses) []string                 // statuses of rows that are to be delivered, those that wait first
	held(q *queueSQL, members []string) []string     // the ranges of a look at what is being processed
	looked(q *queueSQL) (claimed, held, wait string) // columns of a look
	attempts(q *queueSQL) string                     // likewise; "": the claim reads them
	budget() string                                  // the parameter that bounds a look
	complete(q *queueSQL, t *queueText)              // adds the statements that only this kind has
	settle(q *queueSQL, o settlement) string
	settled(q *queueSQL, statuses string) string // finds rows that have one of the statuses which a settle wrote, or are gone
	count(q *queueSQL) string                    // counts what is being processed; "": nothing is marked

	// These claim rows and end claims.

	prepare(ctx context.Context, q *Queue, t *queueTable) error // finds what a claim needs
	describe(ctx context.Context, q *Queue, conn *pgxpool.Conn, t *queueTable, indexes queueIndexes) error
	args(s *service) []any // further parameters of a look
	theirs(s *service, g *queueGroup, key string, claimed []byte) bool
	failed(s *service, raw [][]byte) int // attempts, by the look
	take(ctx context.Context, s *service) error
	owners(t *queueTable) owners
	extend(ctx context.Context, q *Queue, e *extension) (lost []*adapters.Claim, err error)
	recover(ctx context.Context, q *Queue, t *queueTable) (int, error)
	deliversBeside(f Fence) bool // whether a delivery in the database may be in the transaction that settles
}

// owners number what rows of one settle share that says whose claims they are. The caller has the queue's lock.
type owners interface {
	number(r *adapters.ClaimResult, h *hold) int          // from 1
	settling(rows *settleRows) []any                      // the first parameters of the statement that settles
	fence() *lanesOf                                      // the lanes whose epochs it asks for; nil: none
	asking(rows *settleRows, timeout time.Duration) []any // the parameters of [kind.settled]
}

// kindOf is the kind of a layout's tables.
func kindOf(l *Layout) kind {
	if l.Claimless() {
		return remembering{}
	}
	return marking{}
}

// newSQL returns the builder of a table's statements, by its quoted name.
func newSQL(table string, l *Layout) queueSQL {
	return queueSQL{table: table, layout: l, kind: kindOf(l)}
}

// marking is the kind of tables with a status for rows that are being processed.
type marking struct{}

// remembering is the kind of tables without one, see remember.go.
type remembering struct{}

func (marking) validate(*Layout) []error { return nil }

func (remembering) validate(l *Layout) (errs []error) {
	c := &l.Columns
	if c.Claimed != "" || c.Owner != "" || l.ClaimEnds {
		errs = append(errs, errors.New("a layout without a status for rows that are being processed has no column for claims"))
	}
	if l.Noted() && (c.NextAttempt != "" || c.Error != "" || l.Statuses.Again() != l.Statuses.Pending) {
		errs = append(errs, errors.New("a layout without a status for rows that are being processed and without a column for attempts has no column "+
			"for the next attempt or errors either, and no status for retries: all of that is in the notes"))
	}
	return errs
}
