package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// The columns that [Init] adds.
const (
	queueColumn = "outrider_queue"
	stateColumn = "outrider_state"
	claimColumn = "outrider_claim"
)

// table is one table and what is known about it.
type table struct {
	queue.Table
	q  *Queue
	at my.Table

	text atomic.Pointer[statements] // nil: not described yet
}

func newTable(of Table, l *Layout, maxRow int64) (*table, error) {
	at, err := my.ParseTable(of.Name)
	if err != nil {
		return nil, err
	}
	return &table{Table: queue.NewTable(of, l, maxRow), at: at}, nil
}

// ID implements [queue.Driver].
func (t *table) ID() string { return t.at.SQL() }

// sql are the statements, once they are known.
func (t *table) sql() *statements { return t.text.Load() }

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// column is a column as the catalogue has it.
type column struct {
	kind      string // data type without its size: varchar
	extra     string
	computed  string // expression of a generated column
	length    int64  // in characters
	charset   string
	precision int    // of times
	whole     string // type as it was declared: enum('a','b')
}

var (
	timeKinds   = []string{"timestamp", "datetime"}
	textKinds   = []string{"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
	byteKinds   = []string{"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
	numberKinds = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"}
)

func (c column) bytes() bool  { return slices.Contains(byteKinds, c.kind) }
func (c column) number() bool { return slices.Contains(numberKinds, c.kind) }

// updatesItself reports whether every UPDATE that does not name the column sets it to the present time.
func (c column) updatesItself() bool { return strings.Contains(strings.ToLower(c.extra), "on update") }

// Describe implements [queue.Driver].
func (t *table) Describe(ctx context.Context) error {
	s, err := t.describe(ctx, t.q.db)
	if err == nil {
		t.text.Store(s)
	}
	return err
}

// describe finds out what the statements depend on.
func (t *table) describe(ctx context.Context, db querier) (*statements, error) {
	s, err := t.inspect(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := s.lacks(); err != nil {
		return nil, fmt.Errorf("mysql queue: table %s: %w", t.Name, err)
	}
	return s, nil
}

// inspect reads what the catalogue says of a table.
func (t *table) inspect(ctx context.Context, db querier) (*statements, error) {
	columns, err := t.columns(ctx, db)
	if err != nil {
		return nil, wrap(t.Name, "read its columns", err)
	}
	if err := t.checkColumns(columns); err != nil {
		return nil, fmt.Errorf("mysql queue: %w", err)
	}
	s := newStatements(t, columns)
	if s.there, err = t.indexes(ctx, db); err != nil {
		return nil, wrap(t.Name, "look for its indexes", err)
	}
	s.build()
	return s, nil
}

// columns returns what the catalogue has, by the names of columns in lower case.
func (t *table) columns(ctx context.Context, db querier) (map[string]column, error) {
	rows, err := db.QueryContext(ctx, `SELECT lower(column_name), lower(data_type), extra, coalesce(generation_expression, ''),
    coalesce(character_maximum_length, 0), coalesce(character_set_name, ''), coalesce(datetime_precision, 0), column_type
FROM information_schema.columns WHERE table_schema = `+t.at.In()+` AND table_name = ?`, t.at.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	all := map[string]column{}
	for rows.Next() {
		var name string
		var c column
		if err := rows.Scan(&name, &c.kind, &c.extra, &c.computed, &c.length, &c.charset, &c.precision, &c.whole); err != nil {
			return nil, err
		}
		all[name] = c
	}
	return all, rows.Err()
}

// checkColumns reports what is missing of what the application creates, and what is of a type that means something else.
func (t *table) checkColumns(all map[string]column) error {
	if len(all) == 0 {
		return fmt.Errorf("table %s does not exist, or the user may not see it; create it with `outrider init`, grant SELECT on it, or correct its name or the database of the url", t.Name)
	}
	return queue.CheckColumns(t.Name, t.Layout, queue.Has(all), func(c layout.Named) error {
		of := all[strings.ToLower(c.Name)]
		if words, right := rightKind(c.What, of); !right {
			return fmt.Errorf("table %s: column %s (%s) is of the type %s; it must be %s", t.Name, c.Name, c.What, of.kind, words)
		}
		if c.What == "status" {
			return t.checkStatuses(of)
		}
		return nil
	})
}

// checkStatuses reports the statuses that the column does not take. What a CHECK refuses is not seen here, but when it is written.
func (t *table) checkStatuses(c column) error {
	var errs []error
	for _, value := range t.Layout.Written() {
		fits := c.length == 0 || int64(len(value)) <= c.length
		if c.kind == "enum" {
			fits = strings.Contains(strings.ToLower(c.whole), strings.ToLower(my.Literal(value)))
		}
		if !fits {
			errs = append(errs, fmt.Errorf("table %s: column %s does not take the value %q: its type is %s; ALTER the table so that it does, or correct the value in the mapping",
				t.Name, t.Layout.Columns.Status, value, c.whole))
		}
	}
	return errors.Join(errs...)
}

// rightKind reports whether a column may be of its type, and says of which types it may be. A statement compares what it was read as: that of
// a BIT is bytes, that of an ENUM is in another order. A TIMESTAMP as a group would depend on the time zone of the session.
func rightKind(what string, c column) (words string, right bool) {
	of := func(kinds ...[]string) bool { return slices.Contains(slices.Concat(kinds...), c.kind) }
	switch what {
	case "created", "claimed", "next_attempt", "done", "updated":
		return "a timestamp or a datetime, best with (6)", of(timeKinds)
	case "status":
		return "text, an ENUM or a whole number", of(textKinds, numberKinds, []string{"enum"})
	case "attempts":
		return "a whole number", of(numberKinds)
	case "payload":
		return "text, JSON or bytes", of(textKinds, byteKinds, []string{"json"})
	case "error":
		return "text or bytes", of(textKinds, byteKinds)
	case "owner":
		return "text", of(textKinds)
	case "key":
		return "text, bytes, a whole number, a decimal, a UUID or a date", of(textKinds, byteKinds, numberKinds, timeKinds, []string{"uuid", "date"})
	case "group":
		return "text, bytes, a number, a UUID, an ENUM, JSON, a DATE or a DATETIME",
			of(textKinds, byteKinds, numberKinds, []string{"uuid", "enum", "set", "json", "date", "datetime", "time", "year", "float", "double"})
	}
	return "", true
}

// indexes returns the columns of a table's indexes, separated by commas, by their names in lower case.
func (t *table) indexes(ctx context.Context, db querier) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT lower(index_name), lower(column_name) FROM information_schema.statistics
WHERE table_schema = `+t.at.In()+` AND table_name = ? ORDER BY index_name, seq_in_index`, t.at.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	all := map[string]string{}
	for rows.Next() {
		var name string
		var column sql.NullString // NULL for an expression
		if err := rows.Scan(&name, &column); err != nil {
			return nil, err
		}
		if all[name] != "" {
			all[name] += ","
		}
		all[name] += column.String
	}
	return all, rows.Err()
}

// value is a value that was read, for a statement: text must not be compared as bytes.
func (s *statements) value(column string, read any) any {
	if b, ok := read.([]byte); ok && !s.columnOf(column).bytes() {
		return string(b)
	}
	return read
}
