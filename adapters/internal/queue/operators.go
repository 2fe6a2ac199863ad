package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// Database is how a queue reaches its tables by database/sql.
type Database struct {
	Queue  string // what it is, for errors: mysql queue
	DB     *sql.DB
	Tables []layout.Table
	Layout *layout.Queue
	MaxRow int64

	Describe func(ctx context.Context, table string) (Dialect, error)
	Transact func(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error
	Wrap     func(table, what string, err error) error // nil for nil

	// Within is a context with which a state store in the same database joins a transaction. nil: it need not.
	Within func(ctx context.Context, tx *sql.Tx) context.Context
}

// Operators reads rows of a queue's tables for operators, and changes dead ones, in databases that database/sql reaches. A queue
// embeds it.
type Operators struct{ q Database }

// NewOperators returns that part over a database.
func NewOperators(q Database) Operators { return Operators{q} }

// Pages reads the first page that has rows: of the table of a position behind it, or of one of the tables after that one, from its beginning.
func Pages[T interface{ Is(name string) bool }, R any](tables []T, after adapters.DeadKey, unknown func(table string) error,
	read func(of T, after adapters.DeadKey) ([]R, error)) ([]R, error) {
	from := 0
	if after.Table != "" {
		if from = slices.IndexFunc(tables, func(t T) bool { return t.Is(after.Table) }); from < 0 {
			return nil, unknown(after.Table)
		}
	}
	for _, of := range tables[from:] {
		page, err := read(of, after)
		if err != nil || len(page) > 0 {
			return page, err
		}
		after = adapters.DeadKey{}
	}
	return nil, nil
}

// unknown is the error for the name of a table that the queue does not have.
func (o *Operators) unknown(table string) error {
	return fmt.Errorf("%s: %q is none of its tables", o.q.Queue, table)
}

// described returns the dialect of a table by its name.
func (o *Operators) described(ctx context.Context, name string) (Dialect, error) {
	if !slices.ContainsFunc(o.q.Tables, func(t layout.Table) bool { return t.Is(name) }) {
		return nil, o.unknown(name)
	}
	return o.q.Describe(ctx, name)
}

// Unfinished implements [adapters.OperatorQueue].
func (o *Operators) Unfinished(ctx context.Context, most int) (b adapters.Backlog, err error) {
	for _, t := range o.q.Tables {
		d, err := o.q.Describe(ctx, t.Name)
		if err != nil {
			return adapters.Backlog{}, err
		}
		var n int
		var oldest any
		err = o.q.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 "+d.Aged(Unfinished)+" LIMIT ?) AS found", most+1).Scan(&n)
		if err == nil && n > 0 {
			err = o.q.DB.QueryRowContext(ctx, "SELECT "+d.Raw(o.q.Layout.Columns.Created)+" "+d.Aged(Unfinished)+o.byAge(d)+" LIMIT 1").Scan(&oldest)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return adapters.Backlog{}, o.q.Wrap(t.Name, "count rows", err)
		}
		b.Rows += n
		if at := known(d, oldest); !at.IsZero() && (b.Oldest.IsZero() || at.Before(b.Oldest)) {
			b.Oldest = at
		}
	}
	if b.Rows > most {
		b.Rows, b.More = most, true
	}
	return b, nil
}

// WaitingByAge implements [adapters.OperatorQueue].
func (o *Operators) WaitingByAge(ctx context.Context, after adapters.DeadKey, most int) ([]adapters.WaitingRow, error) {
	return Pages(o.q.Tables, after, o.unknown, func(of layout.Table, after adapters.DeadKey) ([]adapters.WaitingRow, error) {
		page, err := o.waitingIn(ctx, of, after, most)
		return page, o.q.Wrap(of.Name, "look for rows that wait", err)
	})
}

func (o *Operators) waitingIn(ctx context.Context, of layout.Table, after adapters.DeadKey, most int) (page []adapters.WaitingRow, err error) {
	d, err := o.q.Describe(ctx, of.Name)
	if err != nil {
		return nil, err
	}
	c := &o.q.Layout.Columns
	query := Statement{Text: "SELECT " + strings.Join([]string{d.Raw(c.Created), d.Raw(c.Key), d.Raw(c.NextAttempt), d.Attempts(), d.Raw(c.Status)}, ", ") + " " + d.Aged(Unfinished)}
	query = o.waits(d, query).behind(d, after).and(o.byAge(d)+" LIMIT ?", most)
	rows, err := o.q.DB.QueryContext(ctx, query.Text, query.Args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var w adapters.WaitingRow
		var created, key, due, status any
		if err := rows.Scan(&created, &key, &due, &w.Attempts, &status); err != nil {
			return nil, err
		}
		w.At = adapters.DeadKey{Table: of.Name, Created: d.Text(created), Key: d.KeyText(key)}
		w.Due = known(d, due) // what is no time makes the row dead when it is claimed
		w.Version = fmt.Sprint(d.Text(status), " ", w.Attempts, " ", d.Text(due))
		page = append(page, w)
	}
	return page, rows.Err()
}

// waits leaves out what is being processed.
func (o *Operators) waits(d Dialect, s Statement) Statement {
	return s.and(" AND " + d.Statuses(o.q.Layout.Statuses.Waiting()...))
}

// behind leaves out rows that are not behind a position.
func (s Statement) behind(d Dialect, at adapters.DeadKey) Statement {
	if at.Table == "" {
		return s
	}
	after := d.After(at)
	return s.and(" AND "+after.Text, after.Args...)
}

// byAge is the order of age.
func (o *Operators) byAge(d Dialect) string {
	return " ORDER BY " + d.Quote(o.q.Layout.Columns.Created) + ", " + d.Quote(o.q.Layout.Columns.Key)
}

// keyed is a row by its key.
func (o *Operators) keyed(d Dialect, key string) Statement {
	return Statement{"FROM " + d.Table() + " WHERE " + d.Quote(o.q.Layout.Columns.Key) + " = ?", []any{d.Key(key)}}
}

// IsFirst implements [adapters.OperatorQueue].
func (o *Operators) IsFirst(ctx context.Context, at adapters.DeadKey) (first bool, err error) {
	d, err := o.described(ctx, at.Table)
	if err != nil {
		return false, err
	}
	var group sql.NullString
	var key, firstKey any
	column := d.Raw(o.q.Layout.Columns.Key)
	row := o.waits(d, o.keyed(d, at.Key))
	err = o.q.DB.QueryRowContext(ctx, "SELECT "+d.Group()+", "+column+" "+row.Text, row.Args...).Scan(&group, &key)
	if err == nil {
		name, ok := groupName(d, group)
		if !ok {
			return true, nil
		}
		err = o.q.DB.QueryRowContext(ctx, "SELECT "+column+" "+d.Grouped()+o.byAge(d)+" LIMIT 1", d.GroupValue(name)).Scan(&firstKey)
	}
	if errors.Is(err, sql.ErrNoRows) { // it is finished
		return false, nil
	}
	return err == nil && d.KeyText(firstKey) == d.KeyText(key), o.q.Wrap(at.Table, "look at a row that waits", err)
}

// Waiting implements [adapters.OperatorQueue]: the oldest rows are shown.
func (o *Operators) Waiting(ctx context.Context, most int) (all []adapters.Row, err error) {
	for _, of := range o.q.Tables {
		found, err := o.find(ctx, of, func(d Dialect) Statement {
			return o.waits(d, Statement{Text: d.Aged(Unfinished)}).and(o.byAge(d)+" LIMIT ?", most)
		})
		if err != nil {
			return nil, o.q.Wrap(of.Name, "look at what waits", err)
		}
		for i := range found {
			all = append(all, found[i].Row)
		}
	}
	return all, nil
}

// Find implements [adapters.OperatorQueue]. Ids are the primary keys of the tables.
func (o *Operators) Find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	for _, of := range o.q.Tables {
		rows, err := o.find(ctx, of, func(d Dialect) Statement { return o.keyed(d, id).and(" LIMIT ?", most) })
		if err != nil {
			return found, o.q.Wrap(of.Name, "look for an event", err)
		}
		found.Rows = append(found.Rows, slices.DeleteFunc(rows, func(f adapters.FoundRow) bool { return !Names(id, f.Row.ID) })...)
	}
	return found, nil
}

// find reads rows with what routes match by and what became of them.
func (o *Operators) find(ctx context.Context, of layout.Table, from func(Dialect) Statement) (found []adapters.FoundRow, err error) {
	d, err := o.q.Describe(ctx, of.Name)
	if err != nil {
		return nil, err
	}
	c := &o.q.Layout.Columns
	var failure, status sql.NullString
	var done, updated any
	query := from(d)
	columns := strings.Join([]string{o.columns(d), Short(d, c.Error), Short(d, c.Status), d.Raw(c.Done), d.Raw(c.Updated)}, ", ")
	//nolint:gosec // G202: names from the table's description
	rows, err := o.q.DB.QueryContext(ctx, "SELECT "+columns+" "+query.Text, query.Args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	r := NewRecord(of, d.Layout(), o.q.MaxRow, d).With(&failure, &status, &done, &updated)
	for rows.Next() {
		if err := r.Scan(rows); err != nil {
			return nil, err
		}
		row := r.Decode()
		row.Payload = nil
		f := adapters.FoundRow{Row: *row, Table: of.Name, Status: StatusOf(o.q.Layout, status.String), Attempts: r.Attempts, Error: failure.String,
			Due: known(d, r.Next), Claimed: known(d, r.Claimed), Changed: known(d, updated)}
		if f.Status == adapters.RowDone {
			f.Done = known(d, done)
		}
		if f.Changed.IsZero() {
			f.Changed = f.Claimed
		}
		found = append(found, f)
	}
	return found, rows.Err()
}

// columns are those of a record, in full.
func (o *Operators) columns(d Dialect) string {
	return Columns(d, d.Layout(), o.q.MaxRow, d.Raw(o.q.Layout.Columns.Claimed), d.Group())
}

// known is a value's time; zero: it is none.
func known(d Dialect, value any) time.Time {
	at, _ := d.Time("", value) // an operator sees rows with wrong times too
	if !adapters.Carried(at) {
		return time.Time{}
	}
	return at
}
