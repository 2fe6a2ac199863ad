package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// foreignLayout is how a client writes into a table that is not of Outrider's own layout.
type foreignLayout struct {
	table  string                    // its usual name
	insert func(table string) string // for PostgreSQL
	args   func([]Envelope) []any    // of insert
	fits   func(*Envelope) error     // what the table has no place for
	sqlite func(table string) string // insert for SQLite; nil: there is none

	sqliteArgs func([]Envelope) []any // of sqlite

	mysql func(table string, envelopes []Envelope) (query string, args []any) // for MySQL; nil: there is none
}

// layouts are those that a client knows.
var layouts = map[string]foreignLayout{
	layoutOutboxFramework: {"outbox_event", frameworkInsert, frameworkArgs, fitsFramework, frameworkSQLiteInsert, frameworkSQLiteArgs, frameworkMySQLInsert},
	layoutYantra:          {"outbox_messages", yantraInsert, yantraArgs, fitsYantra, nil, nil, nil},
}

// knownLayout returns an error for a layout that no client writes.
func knownLayout(cfg *ClientConfig) error {
	if cfg.Layout == "" || cfg.Layout == "outrider" {
		if cfg.Dialect == MySQL {
			return fmt.Errorf("a table of Outrider's own cannot be in MySQL, where a reader cannot know of rows that commit late; set Layout: %q, "+
				"or use NewFlowCatalyst or NewTalkie", layoutOutboxFramework)
		}
		return nil
	}
	switch _, known := layouts[cfg.Layout]; {
	case !known:
		return fmt.Errorf("unknown Layout %q; leave it empty, or use one of %s", cfg.Layout, strings.Join(slices.Sorted(maps.Keys(layouts)), ", "))
	case cfg.Dialect == SQLite && layouts[cfg.Layout].sqlite == nil, cfg.Dialect == MySQL && layouts[cfg.Layout].mysql == nil:
		return fmt.Errorf("layout %s is for PostgreSQL, not for %s", cfg.Layout, cfg.Dialect)
	}
	return nil
}

// columnText returns a text for a column that has room for a number of characters.
type columnText struct {
	field, text string
	most        int
}

// tooLong are the problems with texts that their columns have no room for.
func tooLong(columns ...columnText) (problems []FieldError) {
	for _, c := range columns {
		if n := utf8.RuneCountInString(c.text); n > c.most {
			problems = append(problems, FieldError{c.field, fmt.Sprintf("is %d characters, the table's column has %d", n, c.most)})
		}
	}
	return problems
}

// misfit is the error for an envelope that a table has no place for; nil without problems.
func misfit(e *Envelope, problems []FieldError) error {
	if len(problems) == 0 {
		return nil
	}
	return &EnvelopeError{Type: e.typ, Fields: problems}
}
