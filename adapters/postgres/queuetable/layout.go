package queuetable

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

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

// validate reports everything that is wrong with a layout.
func validate(l *Layout) error {
	errs := append(l.Problems(), validateClaims(l)...)
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

// validateClaims looks at what depends on whether rows are marked as being processed.
func validateClaims(l *Layout) (errs []error) {
	if l.Claimless() && (l.Columns.Claimed != "" || l.Columns.Owner != "" || l.ClaimEnds) {
		errs = append(errs, errors.New("a layout without a status for rows that are being processed has no column for claims"))
	}
	if c := &l.Columns; l.Noted() && (c.NextAttempt != "" || c.Error != "" || l.Statuses.Again() != l.Statuses.Pending) {
		errs = append(errs, errors.New("a layout without a status for rows that are being processed and without a column for attempts has no column "+
			"for the next attempt or errors either, and no status for retries: all of that is in the notes"))
	}
	return errs
}

// groupPairs are the names of a group that is made of several columns. They go before the pair of the column.
func (q *queueSQL) groupPairs() []string {
	if !q.layout.GroupByType {
		return nil
	}
	of := func(table string) string {
		return fmt.Sprintf("(coalesce(%[1]s%[2]s::text || ':', '') || %[1]s%[3]s::text)", table,
			pg.QuoteName(q.layout.Columns.AggregateType), pg.QuoteName(q.layout.Columns.Group))
	}
	return []string{"{group}", of("t."), "{set:group}", of("")}
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
