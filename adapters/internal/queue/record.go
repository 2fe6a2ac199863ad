package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/sqlvalue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox/format"
)

// Record is a row as database/sql reads it; its columns are [Columns].
type Record struct {
	table  layout.Table
	layout *layout.Queue
	maxRow int64
	sql    Dialect

	Key, Created, Claimed, Next             any
	Attempts                                int
	Group                                   sql.NullString // as the column has it
	Payload                                 sqlvalue.Bytes
	typ, aggregateType, aggregateID, tenant sql.NullString
	headers                                 sql.NullString
	stored                                  int64 // bytes of a payload that was left out
	extra                                   []sql.NullString
	targets                                 []any
}

// NewRecord makes a record, which may be read into again and again.
func NewRecord(of layout.Table, l *layout.Queue, maxRow int64, d Dialect) *Record {
	r := &Record{table: of, layout: l, maxRow: maxRow, sql: d, extra: make([]sql.NullString, len(l.Headers))}
	r.targets = []any{&r.Key, &r.Created, &r.Claimed, &r.Next, &r.Attempts, &r.typ, &r.aggregateType, &r.aggregateID, &r.tenant,
		&r.headers, &r.Payload, &r.stored, &r.Group}
	for i := range r.extra {
		r.targets = append(r.targets, &r.extra[i])
	}
	return r
}

// With has the record read further columns behind its own.
func (r *Record) With(targets ...any) *Record {
	r.targets = append(r.targets, targets...)
	return r
}

// Scan reads a row.
func (r *Record) Scan(rows *sql.Rows) error {
	r.Payload = nil
	return rows.Scan(r.targets...)
}

// Querier is a database or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Chosen reads chosen rows into records, which id names the groups of. The query has {:keys} for them.
func Chosen(ctx context.Context, db Querier, query string, chosen []*Entry, record func() *Record, id func(*Record) string) (map[string]Found, error) {
	keys := make([]any, len(chosen))
	for i, e := range chosen {
		keys[i] = e.Key
	}
	query, args := sqltext.Bind(query, sqltext.Args{"keys": keys})
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	found := make(map[string]Found, len(chosen))
	for rows.Next() {
		r := record()
		if err := r.Scan(rows); err != nil {
			return nil, err
		}
		found[r.sql.KeyText(r.Key)] = Found{ID: id(r), Attempts: r.Attempts, Record: r, Left: r.Left()}
	}
	return found, rows.Err()
}

// Fill adds a payload that was left out, of a query for it; false: the row is gone.
func (f *Found) Fill(payload *sql.Row) (bool, error) {
	err := payload.Scan(&f.Record.Payload)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	f.Left, f.Record.stored = 0, 0
	return true, err
}

// Left is how large a payload is that was left out and may be read, with [Found.Fill]; 0: there is none.
func (r *Record) Left() int64 {
	if r.stored > r.maxRow {
		return 0
	}
	return r.stored
}

// Decode makes the row of a record with its group. Its Err has the values that cannot be decoded; the rest of the row is there all the same.
func (r *Record) Decode() *adapters.Row {
	group, slot := "", adapters.SlotOf("", r.sql.KeyText(r.Key))
	if name, ok := groupName(r.sql, r.Group); ok {
		group = GroupOf(r.table, name)
		slot = adapters.SlotOf(group, "")
	}
	return r.DecodeIn(group, slot)
}

// DecodeIn is [Record.Decode] for a row whose group is known.
func (r *Record) DecodeIn(group string, slot int) *adapters.Row {
	l := r.layout
	row := &adapters.Row{ID: r.sql.KeyText(r.Key), Kind: r.table.Kind, Type: r.typ.String, Group: group, Slot: slot,
		AggregateType: r.aggregateType.String, AggregateID: r.aggregateID.String, Tenant: r.tenant.String}
	if l.KindInType {
		row.Kind = row.Type
	}
	var errs [6]error
	row.Headers, errs[0] = r.allHeaders()
	if row.CreatedAt, errs[1] = r.sql.Time(l.Columns.Created, r.Created); errs[1] == nil && row.CreatedAt.IsZero() {
		errs[1] = fmt.Errorf("%s is NULL or zero", l.Columns.Created)
	}
	errs[5] = row.TakeOccurred(l.CreatedIsOccurred)
	row.Position = row.CreatedAt.UnixMicro()
	errs[2] = r.content(row)
	_, errs[3] = r.sql.Time(l.Columns.NextAttempt, r.Next)
	errs[4] = row.Limit()
	if err := errors.Join(errs[:]...); err != nil {
		row.Err = fmt.Errorf("table %s, row %q cannot be decoded: %w", r.table.Name, shorten.To(row.ID, 128), err)
	}
	return row
}

// content takes the payload over, and the type out of it.
func (r *Record) content(row *adapters.Row) error {
	column := r.layout.Columns.Payload
	switch {
	case r.stored > 0:
		return fmt.Errorf("payload: %w", adapters.PayloadTooLarge(r.stored, r.maxRow, "make the row wait again: set its status back"))
	case r.Payload == nil:
		return fmt.Errorf("%s is NULL", column)
	}
	row.Payload = r.Payload
	if bytes, orJSON := r.sql.BytePayloads(); bytes {
		row.Binary = !orJSON && !r.layout.JSONBytes || !format.ValidJSON(row.Payload)
		return nil
	}
	if err := JSON(row, r.layout); err != nil {
		return fmt.Errorf("%s %w", column, err)
	}
	return nil
}

// JSON checks a payload that is to be JSON, and takes the type out of it where the layout has it there. An error is said of the column.
func JSON(row *adapters.Row, l *layout.Queue) error {
	switch {
	case len(row.Payload) == 0:
		return errors.New("is empty, and not valid JSON")
	case !format.ValidJSON(row.Payload):
		return fmt.Errorf("is not valid JSON, or nested more than %d deep", format.MaxDepth)
	}
	if in := gjson.GetBytes(row.Payload, "type"); l.TypeInPayload && in.Type == gjson.String && in.Str != "" {
		row.Type = in.Str
	}
	return nil
}

// allHeaders are those of the column and those that are columns.
func (r *Record) allHeaders() (map[string]string, error) {
	headers, err := sqlvalue.Object(r.layout.Columns.Headers, r.headers)
	for i, value := range r.extra {
		if !value.Valid {
			continue
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[r.layout.Headers[i].Name] = value.String
	}
	return headers, err
}

func groupName(d Dialect, column sql.NullString) (name string, ok bool) {
	if !column.Valid {
		return "", false
	}
	return d.GroupName(column.String)
}

// GroupOf is the group of the messages of a table's rows.
func GroupOf(of layout.Table, name string) string {
	if of.Kind == "" {
		return name
	}
	return of.Kind + ":" + name
}
