package queue

import (
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
)

// Changes writes the statements that change rows of a table.
type Changes struct {
	Dialect
	Layout *layout.Queue
	Status func(status string) string // one as the column has it
	Now    func(column string) string // the present time for a column
	Kept   string                     // an assignment that every statement has; "": none

	Attempts, Error, Due string // parameters; NULL for Due: as it is
}

// Settles are the statements that settle claimed rows.
type Settles struct {
	Done, Retry, Put string
	Dead             map[string]string // by status
}

// Settles returns them; where says which rows.
func (c *Changes) Settles(where string) Settles {
	l := c.Layout
	s, col := Settles{Dead: map[string]string{}}, &l.Columns
	ended := append([]string{c.Set(col.Attempts, c.Attempts), c.Set(col.Updated, c.Now(col.Updated))}, c.unclaimed()...)
	with := func(more ...string) []string { return append(more, ended...) }
	due := ""
	if col.NextAttempt != "" {
		due = c.Set(col.NextAttempt, "COALESCE("+c.Due+", "+c.Quote(col.NextAttempt)+")")
	}
	failed := c.Set(col.Error, c.Error)
	for _, status := range l.Dead() {
		s.Dead[status] = c.Update(c.Status(status), with(failed, due)...) + where
	}
	if l.ErrorWhenDead {
		failed = ""
	}
	s.Done = c.Update(c.Status(l.Statuses.Done), with(c.Set(col.Done, c.Now(col.Done)))...) + where
	if l.DoneIsDeleted {
		s.Done = "DELETE FROM " + c.Table() + where
	}
	s.Retry = c.Update(c.Status(l.Statuses.Again()), with(failed, due)...) + where
	s.Put = c.Update(c.waitingAgain(c.Attempts), with()...) + where
	return s
}

// Take marks rows as being processed, with further assignments.
func (c *Changes) Take(more ...string) string {
	col := &c.Layout.Columns
	touched := ""
	if col.Updated != col.Claimed {
		touched = c.Set(col.Updated, c.Now(col.Updated))
	}
	return c.Update(c.Status(c.Layout.Statuses.Processing), append(more, c.Set(col.Owner, "'outrider'"), touched)...)
}

// PutBack resets claimed rows to waiting, as if they had never been claimed, with further assignments.
func (c *Changes) PutBack(more ...string) string {
	updated := c.Layout.Columns.Updated
	return c.Update(c.waitingAgain(c.Dialect.Attempts()), append(append(more, c.Set(updated, c.Now(updated))), c.unclaimed()...)...)
}

// waitingAgain is the status of a row that is put back.
func (c *Changes) waitingAgain(attempts string) string {
	st := &c.Layout.Statuses
	if st.Again() == st.Pending {
		return c.Status(st.Pending)
	}
	return "CASE WHEN " + attempts + " > 0 THEN " + c.Status(st.Again()) + " ELSE " + c.Status(st.Pending) + " END"
}

// unclaimed removes a claim whose time does not stay.
func (c *Changes) unclaimed() []string {
	if !c.Layout.ClaimEnds {
		return nil
	}
	return []string{c.Set(c.Layout.Columns.Claimed, "NULL"), c.Set(c.Layout.Columns.Owner, "NULL")}
}

// Update is the beginning of a statement that changes the status. Assignments that are empty are left out, and those of a column
// that has one already.
func (c *Changes) Update(status string, more ...string) string {
	var out []string
	seen := map[string]bool{}
	for _, assignment := range append([]string{c.Set(c.Layout.Columns.Status, status), c.Kept}, more...) {
		column, _, _ := strings.Cut(assignment, " = ")
		if assignment != "" && !seen[column] {
			out = append(out, assignment)
			seen[column] = true
		}
	}
	return "UPDATE " + c.Table() + " SET " + strings.Join(out, ", ")
}

// Set assigns a column; empty: there is none.
func (c *Changes) Set(column, value string) string {
	if column == "" {
		return ""
	}
	return c.Quote(column) + " = " + value
}
