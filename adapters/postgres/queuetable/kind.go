package queuetable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// kind is how it is known which rows of a table are claimed. The tables of a queue are of one kind: rows of [marking] ones have a status for it,
// of [remembering] ones the queue alone knows.
type kind interface {
	kindText
	validate(l *Layout) []error
	marks() bool // in the tables

	prepare(ctx context.Context, q *Queue, t *queueTable) error // finds what a claim needs
	args(s *tableClaim) []any                                   // further parameters of a look
	theirs(s *tableClaim, g *queueGroup, key string, claimed []byte) bool
	failed(s *tableClaim, raw [][]byte) int // attempts, by the look
	take(ctx context.Context, s *tableClaim) error
	owners(t *queueTable) owners
	extend(ctx context.Context, q *Queue, e *extension) (lost []*adapters.Claim, err error)
	recover(ctx context.Context, q *Queue, t *queueTable) (int, error)
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

func (marking) validate(*Layout) []error { return nil }

func (marking) marks() bool { return true }

func (remembering) marks() bool { return false }

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

// validate reports everything that is wrong with a layout.
func validate(l *Layout) error {
	errs := append(l.Problems(), kindOf(l).validate(l)...)
	for _, c := range l.All() {
		if len(c.Name) > pg.LongestName || !pg.PlainText(c.Name) {
			errs = append(errs, fmt.Errorf("%q cannot be the name of a column (%s)", c.Name, c.What))
		}
	}
	if l.ClaimEnds && l.Columns.Updated == "" {
		errs = append(errs, errors.New("a layout whose claims leave no time behind needs a column updated, by which a settle is found again"))
	}
	for _, v := range l.InUse() {
		if !pg.PlainText(v.Name) {
			errs = append(errs, fmt.Errorf("the status %s, %q, has a control character, or is not valid text", v.What, v.Name))
		}
	}
	return errors.Join(append(errs, validateDeadBy(l)...)...)
}

// validateDeadBy reports what is wrong with the statuses of dead rows.
func validateDeadBy(l *Layout) (errs []error) {
	s := &l.Statuses
	for _, cause := range slices.Sorted(maps.Keys(l.DeadBy)) {
		switch status := l.DeadBy[cause]; {
		case status == "" || !pg.PlainText(status):
			errs = append(errs, fmt.Errorf("the status of rows that died of %q, %q, has no value, or a control character", cause, status))
		case slices.Contains([]string{s.Pending, s.Retrying, s.Processing, s.Done}, status):
			errs = append(errs, fmt.Errorf("the status %q of rows that died of %q is that of others, too", status, cause))
		}
	}
	return errs
}
