package layout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Queue is the layout of tables whose rows carry a status. The zero value of an optional field
// says that the tables have no such thing.
type Queue struct {
	// Tables of the layout with their usual names, at least one.
	Tables []Table

	Columns  Columns
	Statuses Statuses

	// Fields are the names of the same in documents of MongoDB. nil: the layout is of SQL alone.
	Fields *Columns

	// DefaultGroup is the group of rows whose group is NULL. Empty: such rows
	// have no order.
	DefaultGroup string

	// DeadBy are statuses of dead rows in addition to Statuses.Dead, by what a row died of: the code of the
	// receiver's answer (outbox.Error.Code) or, without one, the kind of the error ("permanent"). Other errors
	// get Statuses.Dead.
	DeadBy map[string]string

	// DoneIsDeleted: a row that was delivered is deleted, and has no status Done.
	DoneIsDeleted bool

	// OldIsDeleted: delivered rows are deleted when they are old. `outrider init` makes an index that finds them, and the relay needs the
	// privilege to delete rows.
	OldIsDeleted bool

	// KindInType: the column Type holds the kind of the row, in place of the table's. It is no part of the
	// group: rows of all kinds are in one order.
	KindInType bool

	// GroupByType: the group is the aggregate's type and, after a colon, the value of the column for groups
	// ("User:17"), or that value alone where the type is NULL.
	GroupByType bool

	// TypeInPayload takes the event type from the field "type" of the payload,
	// a JSON object; the column is used where the payload has none.
	TypeInPayload bool

	// JSONBytes: of a payload in a column of bytes, what is valid JSON counts as JSON. Otherwise it is bytes in any case.
	JSONBytes bool

	// DeadKeepsRetries: the attempts column counts retries, as those systems do
	// that leave it alone when they give up. Otherwise it counts failed attempts.
	DeadKeepsRetries bool

	// ErrorWhenDead: the error is written for dead rows only, not for retries.
	ErrorWhenDead bool

	// ClaimEnds: the time of a claim (and its owner, if there is a column for it) is removed with the claim.
	// It takes a column Updated.
	ClaimEnds bool

	// Headers are columns whose values travel as headers of the message, where they are not NULL. A table may be without them: see [Queue.In].
	Headers []Header

	// EventID is a column in which writers may give a row an id that is unique, where the key is a number that the table gives.
	// Only rows that are written get one: the event id of a row is its key.
	EventID string

	// DefaultKind is the kind of rows that are written for messages without one, with KindInType.
	DefaultKind string

	// CreatedIsOccurred: an event happened when its row was created, unless its headers say when (outbox.MetaOccurredAt).
	CreatedIsOccurred bool

	// Definitions are how `outrider init` creates the tables, by database. Without one for a database the
	// application creates them.
	Definitions map[Database]Definition
}

// Table is one table of a [Queue].
type Table struct {
	// Name, as in SQL: table, schema.table, quoted where needed.
	Name string

	// Kind of the table's rows, for example EVENT. It begins their groups
	// (EVENT:order-1), so that groups of two tables never meet, and travels
	// with their messages. Empty: none.
	Kind string

	// Key below `tables` of a source that names the table, where the layout has several.
	Key string
}

// Is reports whether it is the table of a name.
func (t Table) Is(name string) bool { return t.Name == name }

// Columns are the names of a queue table's columns, taken literally. The
// first six are required; Claimed only with a status for rows that are being processed.
type Columns struct {
	Key     string // primary key; the event id
	Payload string // json, jsonb or text that is JSON; or bytea
	Status  string // text, varchar, an enum or a number
	Created string // timestamp or timestamptz, NOT NULL: the order within a group
	Claimed string // timestamp or timestamptz: when the row was marked as being processed
	Type    string // event type

	Group       string // message group; "": rows have no order
	Attempts    string // failed attempts, a number
	NextAttempt string // timestamp or timestamptz before which the row is not due; NULL: it is
	Done        string // when the row was delivered; may be the same as Claimed
	Error       string // last error, text
	Owner       string // who has claimed the row, text; Outrider writes "outrider"
	Updated     string // timestamp or timestamptz: when the row was last changed

	AggregateType string
	AggregateID   string
	Tenant        string
	Headers       string // a JSON object of strings
}

// Statuses are the values of the status column, as text. Retrying may be
// empty or equal to Pending; all others are required and different, but for
// Processing: without it nothing in the table says that a row is being processed, and who owns
// the lane of a row may work it ([Queue.Claimless]).
type Statuses struct {
	Pending    string // waits for its first attempt
	Retrying   string // waits for its next attempt; "": as Pending
	Processing string // claimed; "": the tables have no such status
	Done       string // delivered
	Dead       string // given up
}

// Header is a column whose value travels as a header.
type Header struct{ Name, Column string }

// Database is a kind of database.
type Database string

// The databases.
const (
	PostgreSQL Database = "postgres" // of package adapters/postgres
	SQLite     Database = "sqlite"   // of package adapters/sqlite
	MySQL      Database = "mysql"    // of package adapters/mysql: MariaDB and MySQL
	MongoDB    Database = "mongodb"  // of package adapters/mongodb; its definitions have indexes alone
)

// Definition is how a database creates a table of the layout.
type Definition struct {
	Columns []Column // in their order
	Indexes []Index

	// FindsHeld: one of the indexes finds the rows of a group that are being processed. Then Outrider's own
	// indexes have just the rows that wait, and a claim makes no new entry in them.
	FindsHeld bool
}

// Column is a column with its type and the rest of its definition.
type Column struct{ Name, Type string }

// Index is an index of a table. {table} in its Name is the table's.
type Index struct {
	Name   string
	On     string // what follows the table's name: (a, b) WHERE c
	Unique bool
}

// Named is a column with what it is for: the name of its role, as a configuration has it.
type Named struct{ What, Name string }

// InUse are the values of the status column, with what they mean.
func (q *Queue) InUse() []Named {
	s := &q.Statuses
	values := []Named{{"pending", s.Pending}, {"done", s.Done}, {"dead", s.Dead}}
	if !q.Claimless() {
		values = append(values, Named{"processing", s.Processing})
	}
	if s.Retrying != "" && s.Retrying != s.Pending {
		values = append(values, Named{"retrying", s.Retrying})
	}
	return values
}

// Problems are the properties of a layout that no database supports.
func (q *Queue) Problems() (errs []error) {
	for _, c := range q.Columns.Required() {
		if c.Name == "" {
			errs = append(errs, fmt.Errorf("no column is named for %s; every queue table needs one", c.What))
		}
	}
	if !q.Claimless() && q.Columns.Claimed == "" {
		errs = append(errs, errors.New("no column is named for claimed; a table with a status for rows that are being processed needs one"))
	}
	if q.GroupByType && (q.Columns.Group == "" || q.Columns.AggregateType == "") {
		errs = append(errs, errors.New("a group with the aggregate's type needs the columns group and aggregate_type"))
	}
	values := q.InUse()
	for i, v := range values {
		if v.Name == "" {
			errs = append(errs, fmt.Errorf("the status %s has no value", v.What))
			continue
		}
		for _, other := range values[:i] {
			if other.Name == v.Name {
				errs = append(errs, fmt.Errorf("the statuses %s and %s are both %q; they must differ", other.What, v.What, v.Name))
			}
		}
	}
	return errs
}

// Claimless reports whether the tables have no status for rows that are being processed.
func (q *Queue) Claimless() bool { return q.Statuses.Processing == "" }

// Noted reports whether what the tables have no columns for (failed attempts, the time of the next one, the last error) is kept
// beside them, in the state store. Tables with a status for rows that are being processed have none of it kept: without a column for attempts
// a restart forgets them.
func (q *Queue) Noted() bool { return q.Claimless() && q.Columns.Attempts == "" }

// Required returns the columns that no table can do without, in a fixed order.
func (c *Columns) Required() []Named {
	return []Named{{"key", c.Key}, {"payload", c.Payload}, {"status", c.Status}, {"created", c.Created}, {"type", c.Type}}
}

// Optional returns the others, with an empty name where there is none.
func (c *Columns) Optional() []Named {
	return []Named{{"claimed", c.Claimed}, {"group", c.Group}, {"attempts", c.Attempts}, {"next_attempt", c.NextAttempt}, {"done", c.Done},
		{"error", c.Error}, {"owner", c.Owner}, {"updated", c.Updated}, {"aggregate_type", c.AggregateType},
		{"aggregate_id", c.AggregateID}, {"tenant", c.Tenant}, {"headers", c.Headers}}
}

// All returns the columns that the layout has, each once, by the first thing that it is for.
func (q *Queue) All() []Named {
	var out []Named
	add := func(n Named) {
		if n.Name != "" && !slices.ContainsFunc(out, func(o Named) bool { return o.Name == n.Name }) {
			out = append(out, n)
		}
	}
	for _, n := range slices.Concat(q.Columns.Required(), q.Columns.Optional()) {
		add(n)
	}
	for _, h := range q.Headers {
		add(Named{"header " + h.Name, h.Column})
	}
	return out
}

// In returns the layout as a table has it: without the columns of Headers that are missing there, and without the definitions of indexes on
// those.
func (q *Queue) In(has func(column string) bool) *Queue {
	missing := func(h Header) bool { return !has(h.Column) }
	if !slices.ContainsFunc(q.Headers, missing) {
		return q
	}
	of := *q
	of.Headers = slices.DeleteFunc(slices.Clone(q.Headers), missing)
	of.Definitions = maps.Clone(q.Definitions)
	for database, d := range of.Definitions {
		d.Indexes = slices.DeleteFunc(slices.Clone(d.Indexes), func(i Index) bool {
			return slices.ContainsFunc(q.Headers, func(h Header) bool { return missing(h) && strings.Contains(i.On, h.Column) })
		})
		of.Definitions[database] = d
	}
	return &of
}

// Written returns the columns that claiming and settling change.
func (c *Columns) Written() []string {
	var out []string
	for _, name := range []string{c.Status, c.Claimed, c.Done, c.Attempts, c.NextAttempt, c.Error, c.Owner, c.Updated} {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Waiting are the statuses of rows that can be claimed.
func (s *Statuses) Waiting() []string {
	if s.Retrying == "" || s.Retrying == s.Pending {
		return []string{s.Pending}
	}
	return []string{s.Pending, s.Retrying}
}

// Dead are the statuses of rows that were given up, that of Statuses first.
func (q *Queue) Dead() []string {
	out := []string{q.Statuses.Dead}
	for _, status := range slices.Sorted(maps.Values(q.DeadBy)) {
		if !slices.Contains(out, status) {
			out = append(out, status)
		}
	}
	return out
}

// Written are the values that the status column has to take.
func (q *Queue) Written() []string {
	out := append(q.Statuses.Waiting(), q.Dead()...)
	if !q.Claimless() {
		out = append(out, q.Statuses.Processing)
	}
	if !q.DoneIsDeleted {
		out = append(out, q.Statuses.Done)
	}
	return out
}

// Again is the status of a row that is to be attempted again.
func (s *Statuses) Again() string {
	if s.Retrying == "" {
		return s.Pending
	}
	return s.Retrying
}
