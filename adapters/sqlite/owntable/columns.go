package owntable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Columns says in which column of a table what is found, for a table that is not
// of Outrider's own layout. A value is the name of a column. Those marked so can
// be "=text" instead: that text for every row. Empty: the table has none.
type Columns struct {
	Position string // required: INTEGER PRIMARY KEY AUTOINCREMENT
	ID       string // required: event id; any type
	Payload  string // required: what is no JSON counts as bytes
	Type     string // required: event type; any type, or =text

	Group         string // ordering key; any type
	AggregateType string // any type, or =text
	AggregateID   string // any type
	Tenant        string // any type, or =text

	Headers    string // a JSON object of strings
	Tags       string // a JSON object of strings
	OccurredAt string // text: RFC 3339, or as SQLite's datetime() writes it
	CreatedAt  string // likewise; needed to start a route at a time, and to rebase it
}

// shape is a table as it is read: as if its columns had the names of the own
// layout.
type shape struct {
	table   string
	columns *Columns // nil: the own layout
	from    string   // what to select from: the table, or a subquery that SQLite merges into the statement
}

// newShape checks what can be checked without the table.
func newShape(table string, columns *Columns) (shape, error) {
	s := shape{table: tableName(table), columns: columns}
	s.from = lite.Quote(s.table)
	if columns == nil {
		return s, nil
	}
	var errs []error
	var selected []string
	for _, c := range columns.all() {
		constant := strings.HasPrefix(c.from, "=")
		switch {
		case c.from == "" && c.required:
			errs = append(errs, fmt.Errorf("no column is given for %s", c.key))
		case constant && !c.constant:
			errs = append(errs, fmt.Errorf("%s cannot be the same for every row; name a column", c.key))
		case constant:
			selected = append(selected, "'"+strings.ReplaceAll(c.from[1:], "'", "''")+"' AS "+c.name)
		case c.from == "":
			selected = append(selected, "NULL AS "+c.name)
		default:
			selected = append(selected, lite.Quote(c.from)+" AS "+c.name)
		}
	}
	s.from = "(SELECT " + strings.Join(append(selected, "NULL AS payload_bytes"), ", ") + " FROM " + s.from + ")"
	return s, errors.Join(errs...)
}

// mapped is one entry of [Columns].
type mapped struct {
	key, name, from    string // in the configuration, in the own layout, in the table
	required, constant bool
}

func (c *Columns) all() []mapped {
	return []mapped{
		{"position", "position", c.Position, true, false}, {"id", "id", c.ID, true, false},
		{"payload", "payload", c.Payload, true, false}, {"type", "type", c.Type, true, true},
		{"group", "message_group", c.Group, false, false}, {"aggregate_type", "aggregate_type", c.AggregateType, false, true},
		{"aggregate_id", "aggregate_id", c.AggregateID, false, false}, {"tenant", "tenant_id", c.Tenant, false, true},
		{"headers", "headers", c.Headers, false, false}, {"tags", "tags", c.Tags, false, false},
		{"occurred_at", "occurred_at", c.OccurredAt, false, false}, {"created_at", "created_at", c.CreatedAt, false, false},
	}
}

// dated reports whether it is known when rows were created.
func (s *shape) dated() bool { return s.columns == nil || s.columns.CreatedAt != "" }

// check verifies that the table is one that [Source] can read.
func (s *shape) check(ctx context.Context, db *sql.DB) error {
	if s.columns == nil {
		return checkLayout(ctx, db, s.table)
	}
	there, err := columnsOf(ctx, db, s.table)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return fmt.Errorf("table %s does not exist; correct its name, or the path of the database", s.table)
	}
	var errs []error
	for _, c := range s.columns.all() {
		if c.from != "" && !strings.HasPrefix(c.from, "=") && !there[strings.ToLower(c.from)] {
			errs = append(errs, fmt.Errorf("table %s has no column %s (%s); correct its name in the mapping", s.table, c.from, c.key))
		}
	}
	return errors.Join(append(errs, s.checkPosition(ctx, db))...)
}

// checkPosition requires positions that are never used twice.
func (s *shape) checkPosition(ctx context.Context, db *sql.DB) error {
	var ddl, key string
	err := db.QueryRowContext(ctx, `SELECT m.sql, coalesce((SELECT group_concat(name) FROM pragma_table_info(m.name) WHERE pk > 0), '')
FROM sqlite_master m WHERE m.type = 'table' AND m.name = ?`, s.table).Scan(&ddl, &key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s is not the name of a table, as the database writes it; a view cannot be read", s.table)
	case err != nil:
		return err
	case !strings.EqualFold(key, s.columns.Position) || !strings.Contains(strings.ToUpper(ddl), "AUTOINCREMENT"):
		return fmt.Errorf("table %s: column %s (position) is not INTEGER PRIMARY KEY AUTOINCREMENT, so positions could be used twice "+
			"and rows missed; copy the table into one that has it", s.table, s.columns.Position)
	}
	return nil
}

// InitMapped checks a table that is not of the own layout: such a table is its
// application's, so nothing is created. It returns a sentence about it.
func InitMapped(ctx context.Context, db *sql.DB, table string, columns Columns) ([]string, error) {
	s, err := newShape(table, &columns)
	if err == nil {
		err = s.check(ctx, db)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return []string{"table " + s.table + " has what reading needs"}, nil
}
