package queue

import (
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// Dialect is how a database that database/sql reaches writes the statements for one table, whose columns are known.
// Names of columns are as the layout has them.
type Dialect interface {
	Table() string         // its name
	Layout() *layout.Queue // as the table has it
	Quote(name string) string
	Raw(column string) string            // as it is, whatever its type is called; NULL: the layout has none
	Attempts() string                    // expression of the failed attempts
	Group() string                       // expression of the group, for [Dialect.GroupName]; of finished rows as well
	Statuses(statuses ...string) string  // condition that a row has one of them; not for an index of ours
	Aged(state State) string             // "FROM table WHERE ..." of the rows in a state, along the index by age
	Grouped() string                     // the same of the unfinished rows of a group, which is a parameter, along the index by group
	After(at adapters.DeadKey) Statement // the condition of what comes after a position in the order of age
	Lacks(state State) string            // the index along which Aged finds rows, where it is missing; "": it is there
	SkipLocked() string                  // the end of a query that locks rows, but for those that others have locked
	Redrive() Statement                  // UPDATE without WHERE: the row waits as for its first attempt

	GroupName(value string) (name string, ok bool) // of what Group yields; ok is false for a row in no order
	GroupValue(name string) any                    // for a comparison with Group
	Key(text string) any                           // for a comparison with the column
	KeyText(value any) string
	BytePayloads() (bytes, orJSON bool) // a payload is bytes, not text that is JSON; orJSON: but what is valid JSON
	Time(column string, value any) (time.Time, error)
	Text(value any) string // as [adapters.DeadKey] has the time of creation
}

// Statement is a statement, or a part of one, with its parameters.
type Statement struct {
	Text string
	Args []any
}

// and adds a part.
func (s Statement) and(text string, args ...any) Statement {
	return Statement{s.Text + text, append(s.Args, args...)}
}

// State is whether a row is to be delivered still.
type State int

// The states.
const (
	Unfinished State = iota
	Dead
	Delivered
)

// Short is a column for a name, cut where it is too long for one; NULL: the layout has none.
func Short(d Dialect, column string) string { return Cut(d, column, adapters.MaxRowNameBytes) }

// Cut is a column of which no more is read than shows that it is too long; NULL: the layout has none.
func Cut(d Dialect, column string, most int) string {
	if column == "" {
		return "NULL"
	}
	return fmt.Sprintf("CASE WHEN OCTET_LENGTH(%[1]s) > %[2]d THEN SUBSTR(%[1]s, 1, %[2]d + 1) ELSE %[1]s END", d.Quote(column), most)
}

// Columns are those of a [Record]. Where a claim knows the group, or when the row was claimed, the expression for it may be NULL.
func Columns(d Dialect, l *layout.Queue, maxRow int64, claimed, group string) string {
	c := &l.Columns
	payload := d.Quote(c.Payload)
	columns := []string{
		d.Raw(c.Key), d.Raw(c.Created), claimed, d.Raw(c.NextAttempt), d.Attempts(),
		Short(d, c.Type), Short(d, c.AggregateType), Short(d, c.AggregateID), Short(d, c.Tenant), Cut(d, c.Headers, adapters.MaxRowMetadataBytes),
		fmt.Sprintf("CASE WHEN OCTET_LENGTH(%[1]s) > %[2]d THEN NULL ELSE %[1]s END", payload, maxRow),
		fmt.Sprintf("CASE WHEN OCTET_LENGTH(%[1]s) > %[2]d THEN OCTET_LENGTH(%[1]s) ELSE 0 END", payload, maxRow),
		group,
	}
	for _, h := range l.Headers {
		columns = append(columns, Short(d, h.Column))
	}
	return strings.Join(columns, ", ")
}
