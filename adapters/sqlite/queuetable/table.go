package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// table is one table and what is known about it.
type table struct {
	queue.Table
	q    *Queue
	name string // as configured

	text atomic.Pointer[statements] // nil: not described yet

	seen    int64        // the rows up to this rowid are not newer; unread: none was read
	deleted atomic.Int64 // the largest rowid after rows were deleted; unread: none were
}

func newTable(of Table, l *Layout, maxRow int64) *table {
	t := &table{Table: queue.NewTable(of, l, maxRow), name: of.Name, seen: unread}
	t.deleted.Store(unread)
	return t
}

// ID implements [queue.Driver].
func (t *table) ID() string { return strings.ToLower(t.name) }

// sql are the statements, once they are known.
func (t *table) sql() *statements { return t.text.Load() }

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// affinity is which values a column turns into which (https://www.sqlite.org/datatype3.html).
type affinity int

const (
	affinityNone affinity = iota
	affinityText
	affinityInteger
	affinityNumeric
)

func affinityOf(declared string) affinity {
	d := strings.ToUpper(declared)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(d, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return affinityInteger
	case has("CHAR", "CLOB", "TEXT"):
		return affinityText
	case d == "" || has("BLOB"):
		return affinityNone
	}
	return affinityNumeric
}

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
	columns, err := t.columns(ctx, db)
	if err != nil {
		return nil, wrap(t.name, "read its columns", err)
	}
	if err := t.checkColumns(columns); err != nil {
		return nil, fmt.Errorf("sqlite queue: %w", err)
	}
	s := newStatements(t, columns)
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(wr), 0) FROM pragma_table_list WHERE schema = 'main' AND lower(name) = lower(?)`, t.name).Scan(&s.rowless); err != nil {
		return nil, wrap(t.name, "look at it", err)
	}
	for _, index := range s.indexes() {
		if index.there, err = hasIndex(ctx, db, index); err != nil {
			return nil, wrap(t.name, "look for its indexes", err)
		}
	}
	s.build()
	return s, nil
}

// columns returns the declared types by the names of columns in lower case.
func (t *table) columns(ctx context.Context, db querier) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT lower(name), type FROM pragma_table_info(?)`, t.name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	types := map[string]string{}
	for rows.Next() {
		var name, declared string
		if err := rows.Scan(&name, &declared); err != nil {
			return nil, err
		}
		types[name] = declared
	}
	return types, rows.Err()
}

// checkColumns reports what is missing.
func (t *table) checkColumns(types map[string]string) error {
	if len(types) == 0 {
		return fmt.Errorf("table %s does not exist; create it with `outrider init`, or correct its name or the path of the database", t.name)
	}
	return queue.CheckColumns(t.name, t.Layout, queue.Has(types), nil)
}

// hasIndex reports whether an index is there as it is wanted.
func hasIndex(ctx context.Context, db querier, index *index) (bool, error) {
	var text string
	err := db.QueryRowContext(ctx, `SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?`, index.name).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return text == strings.Replace(index.create, " IF NOT EXISTS", "", 1), err
}

// The forms in which times are written into columns of text. They identify claims.
const (
	textTime  = "2006-01-02T15:04:05.000Z"
	textStamp = "2006-01-02T15:04:05.000000Z"
)

// timeValue is a time as a column keeps it: text, or milliseconds since 1970 in a column of integers.
func (s *statements) timeValue(column, form string, at time.Time) any {
	if s.affinity(column) == affinityInteger {
		return at.UnixMilli()
	}
	return at.UTC().Format(form)
}
