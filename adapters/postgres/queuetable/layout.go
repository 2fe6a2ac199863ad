package queuetable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Table is one table of a [Queue].
type Table struct {
	// Name, as in SQL: table, schema.table, quoted where needed.
	Name string

	// Kind of the table's rows, for example EVENT. It begins their groups
	// (EVENT:order-1), so that groups of two tables never meet, and travels
	// with their messages. Empty: none.
	Kind string
}

// Layout says what the columns and statuses of queue tables are called.
// The zero value of an optional field says that the table has no such thing.
type Layout struct {
	Columns  Columns
	Statuses Statuses

	// DefaultGroup is the group of rows whose group is NULL. Empty: such rows
	// want no order.
	DefaultGroup string

	// TypeInPayload takes the event type from the field "type" of the payload,
	// a JSON object; the column is used where the payload has none.
	TypeInPayload bool

	// DeadKeepsRetries: the attempts column counts retries, as those systems do
	// that leave it alone when they give up. Otherwise it counts failed attempts.
	DeadKeepsRetries bool

	// ErrorWhenDead: the error is written for dead rows only, not for retries.
	ErrorWhenDead bool
}

// Columns are the names of a queue table's columns, taken literally. The
// first six are required.
type Columns struct {
	Key     string // primary key; the event id
	Payload string // json, jsonb or text that is JSON; or bytea
	Status  string // text, varchar, an enum or a number
	Created string // timestamp or timestamptz, NOT NULL: the order within a group
	Claimed string // timestamp or timestamptz: when the row was marked as being processed
	Type    string // event type

	Group       string // message group; "": no row wants order
	Attempts    string // failed attempts, a number
	NextAttempt string // timestamp or timestamptz before which the row is not due; NULL: it is
	Done        string // when the row was delivered; may be the same as Claimed
	Error       string // last error, text

	AggregateType string
	AggregateID   string
	Tenant        string
	Headers       string // a JSON object of strings
}

// Statuses are the values of the status column, as text. Retrying may be
// empty or equal to Pending; all others are required and different.
type Statuses struct {
	Pending    string // waits for its first attempt
	Retrying   string // waits for its next attempt; "": as Pending
	Processing string // claimed
	Done       string // delivered
	Dead       string // given up
}

// FlowCatalystTables are the two tables of FlowCatalyst's outbox processor with
// their default names.
func FlowCatalystTables() []Table {
	return []Table{{Name: "outbox_events", Kind: "EVENT"}, {Name: "outbox_dispatch_jobs", Kind: "DISPATCH_JOB"}}
}

// FlowCatalystLayout is the layout of FlowCatalyst's outbox tables.
func FlowCatalystLayout() Layout {
	return Layout{
		Columns: Columns{
			Key: "id", Type: "type", Group: "message_group", Payload: "payload", Status: "status",
			Attempts: "retry_count", Created: "created_at", Claimed: "processed_at", Done: "processed_at", Error: "error_message",
		},
		Statuses: Statuses{Pending: "PENDING", Processing: "PROCESSING", Done: "COMPLETED", Dead: "FAILED"},

		DefaultGroup: "default", TypeInPayload: true, DeadKeepsRetries: true, ErrorWhenDead: true,
	}
}

// named is a column with what it is for.
type named struct{ what, name string }

func (c *Columns) required() []named {
	return []named{{"key", c.Key}, {"payload", c.Payload}, {"status", c.Status}, {"created", c.Created},
		{"claimed", c.Claimed}, {"type", c.Type}}
}

func (c *Columns) optional() []named {
	return []named{{"group", c.Group}, {"attempts", c.Attempts}, {"next_attempt", c.NextAttempt}, {"done", c.Done},
		{"error", c.Error}, {"aggregate_type", c.AggregateType}, {"aggregate_id", c.AggregateID}, {"tenant", c.Tenant},
		{"headers", c.Headers}}
}

// all returns the columns that the layout has, each once.
func (c *Columns) all() []named {
	var out []named
	for _, n := range slices.Concat(c.required(), c.optional()) {
		if n.name != "" && !slices.ContainsFunc(out, func(o named) bool { return o.name == n.name }) {
			out = append(out, n)
		}
	}
	return out
}

// written returns the columns that claiming and settling change.
func (c *Columns) written() []string {
	var out []string
	for _, name := range []string{c.Status, c.Claimed, c.Done, c.Attempts, c.NextAttempt, c.Error} {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// validate reports everything that is wrong with the layout.
func (l *Layout) validate() error {
	var errs []error
	for _, c := range l.Columns.required() {
		if c.name == "" {
			errs = append(errs, fmt.Errorf("no column is named for %s; every queue table needs one", c.what))
		}
	}
	for _, c := range l.Columns.all() {
		if len(c.name) > pg.LongestName || !pg.PlainText(c.name) {
			errs = append(errs, fmt.Errorf("%q cannot be the name of a column (%s)", c.name, c.what))
		}
	}
	s := &l.Statuses
	values := []named{{"pending", s.Pending}, {"processing", s.Processing}, {"done", s.Done}, {"dead", s.Dead}}
	if s.Retrying != "" && s.Retrying != s.Pending {
		values = append(values, named{"retrying", s.Retrying})
	}
	for i, v := range values {
		if v.name == "" {
			errs = append(errs, fmt.Errorf("the status %s has no value", v.what))
			continue
		}
		if !pg.PlainText(v.name) {
			errs = append(errs, fmt.Errorf("the status %s, %q, has a control character, or is not valid text", v.what, v.name))
		}
		for _, other := range values[:i] {
			if other.name == v.name {
				errs = append(errs, fmt.Errorf("the statuses %s and %s are both %q; they must differ", other.what, v.what, v.name))
			}
		}
	}
	return errors.Join(errs...)
}

// waiting are the statuses of rows that can be claimed.
func (s *Statuses) waiting() []string {
	if s.Retrying == "" || s.Retrying == s.Pending {
		return []string{s.Pending}
	}
	return []string{s.Pending, s.Retrying}
}

// retrying is the status of a row that is to be attempted again.
func (s *Statuses) retrying() string {
	if s.Retrying == "" {
		return s.Pending
	}
	return s.Retrying
}
