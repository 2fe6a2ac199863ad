package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
)

// Described is a table in a database that database/sql reaches, whose columns are known. A [Dialect] embeds it.
type Described struct {
	Of      Table                    // its layout is without the columns that the table lacks
	Quoted  func(name string) string // quotes a column
	Literal func(text string) string
	Number  func(column string) bool // it keeps numbers
}

// Has reports whether a table has a column, by what is known of its columns: those are in lower case.
func Has[T any](columns map[string]T) func(name string) bool {
	return func(name string) bool { _, ok := columns[strings.ToLower(name)]; return ok }
}

// Layout implements [Dialect].
func (d *Described) Layout() *layout.Queue { return d.Of.Layout }

// Quote implements [Dialect].
func (d *Described) Quote(name string) string { return d.Quoted(name) }

// Status is a status as the column has it.
func (d *Described) Status(status string) string {
	if d.Number(d.Of.Layout.Columns.Status) {
		if n, err := strconv.ParseInt(status, 10, 64); err == nil && strconv.FormatInt(n, 10) == status {
			return status
		}
	}
	return d.Literal(status)
}

// In is the condition that an expression has one of the statuses.
func (d *Described) In(expression string, statuses []string) string {
	values := make([]string, len(statuses))
	for i, status := range statuses {
		values[i] = d.Status(status)
	}
	return expression + " IN (" + strings.Join(values, ", ") + ")"
}

// Unfinished are the statuses of rows that are to be delivered.
func (d *Described) Unfinished() []string {
	if st := &d.Of.Layout.Statuses; d.Of.Marks {
		return append(st.Waiting(), st.Processing)
	}
	return d.Of.Layout.Statuses.Waiting()
}

// CheckColumns reports the columns that a table lacks. wrong is called for those that it has; nil: nothing can be wrong with them.
func CheckColumns(table string, l *layout.Queue, has func(name string) bool, wrong func(c layout.Named) error) error {
	var errs []error
	for _, c := range l.In(has).All() {
		if !has(c.Name) {
			errs = append(errs, fmt.Errorf("table %s has no column %s (%s); correct its name in the mapping, or add the column", table, c.Name, c.What))
		} else if wrong != nil {
			errs = append(errs, wrong(c))
		}
	}
	return errors.Join(errs...)
}

// Validate reports what no queue in a database can work with that keeps no notes of attempts.
func Validate(l *layout.Queue, database string) error {
	errs := l.Problems()
	if l.Noted() {
		errs = append(errs, errors.New("no column is named for attempts; in "+database+" a table without a status for rows that are being processed needs one"))
	}
	return errors.Join(errs...)
}
