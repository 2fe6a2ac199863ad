package queuetable

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox/format"
)

// record is a row as a look reads it; its columns are those of [statements.columns].
type record struct {
	table *table

	key, created, claimed, next             any
	marked                                  bool // it is being processed
	attempts                                int
	typ, aggregateType, aggregateID, tenant sql.NullString
	headers                                 sql.NullString
	payload                                 lite.Blob
	stored                                  int64 // bytes of a payload that was left out
	extra                                   []sql.NullString
	targets                                 []any
}

func newRecord(t *table) *record {
	r := &record{table: t, extra: make([]sql.NullString, len(t.layout.Headers))}
	r.targets = []any{&r.key, &r.created, &r.marked, &r.claimed, &r.next, &r.attempts, &r.typ, &r.aggregateType, &r.aggregateID, &r.tenant,
		&r.headers, &r.payload, &r.stored}
	for i := range r.extra {
		r.targets = append(r.targets, &r.extra[i])
	}
	return r
}

func (r *record) scan(rows *sql.Rows) error {
	r.payload = nil
	return rows.Scan(r.targets...)
}

// decode makes the row. What cannot be decoded is in its Err; the rest of the row is there all the same.
func (r *record) decode(e *entry) *adapters.Row {
	l := r.table.layout
	row := &adapters.Row{ID: textOf(r.key), Kind: r.table.Kind, Type: r.typ.String, Group: e.group, Slot: e.slot,
		AggregateType: r.aggregateType.String, AggregateID: r.aggregateID.String, Tenant: r.tenant.String}
	if l.KindInType {
		row.Kind = row.Type
	}
	var errs [4]error
	row.Headers, errs[0] = r.allHeaders()
	if row.CreatedAt, errs[1] = timeOf(l.Columns.Created, r.created); errs[1] == nil && row.CreatedAt.IsZero() {
		errs[1] = fmt.Errorf("%s is NULL", l.Columns.Created)
	}
	row.Position = row.CreatedAt.UnixMicro()
	errs[2] = r.content(row)
	errs[3] = row.Limit()
	if err := errors.Join(errs[:]...); err != nil {
		row.Err = fmt.Errorf("table %s, row %q cannot be decoded: %w", r.table.name, shorten.To(row.ID, 128), err)
	}
	return row
}

// content takes the payload over, and the type out of it.
func (r *record) content(row *adapters.Row) error {
	l := r.table.layout
	switch {
	case r.stored > 0:
		return fmt.Errorf("payload: %w", adapters.PayloadTooLarge(r.stored, r.table.maxRow, "make the row wait again: set its status back"))
	case r.payload == nil:
		return fmt.Errorf("%s is NULL", l.Columns.Payload)
	}
	row.Payload = r.payload
	if r.table.sql().bytes() {
		row.Binary = !l.JSONBytes || !format.ValidJSON(row.Payload)
		return nil
	}
	if !format.ValidJSON(row.Payload) {
		return fmt.Errorf("%s is not valid JSON, or nested more than %d deep", l.Columns.Payload, format.MaxDepth)
	}
	if l.TypeInPayload {
		row.Type = typeIn(row.Payload, row.Type)
	}
	return nil
}

// bytes reports whether payloads are bytes, by the column's declared type.
func (s *statements) bytes() bool { return s.affinity(s.layout.Columns.Payload) == affinityNone }

// typeIn is the event type that a payload names, or else the column's.
func typeIn(payload []byte, column string) string {
	if in := gjson.GetBytes(payload, "type"); in.Type == gjson.String && in.Str != "" {
		return in.Str
	}
	return column
}

// allHeaders are those of the column and those that are columns.
func (r *record) allHeaders() (map[string]string, error) {
	headers, err := lite.Object(r.table.layout.Columns.Headers, r.headers)
	for i, value := range r.extra {
		if !value.Valid {
			continue
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[r.table.layout.Headers[i].Name] = value.String
	}
	return headers, err
}
