package queuetable

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox/format"
)

// record is a row as a claim reads it; its columns are those of [statements.full].
type record struct {
	table *table

	key, created, next                      any
	attempts                                int
	typ, aggregateType, aggregateID, tenant sql.NullString
	headers                                 sql.NullString
	payload                                 []byte
	stored                                  int64 // bytes of a payload that was left out
	group                                   sql.NullString
	queue                                   string
	extra                                   []sql.NullString
	targets                                 []any
}

func newRecord(t *table) *record {
	r := &record{table: t, extra: make([]sql.NullString, len(t.layout.Headers))}
	r.targets = []any{&r.key, &r.created, &r.next, &r.attempts, &r.typ, &r.aggregateType, &r.aggregateID, &r.tenant,
		&r.headers, &r.payload, &r.stored, (*queueName)(r)}
	for i := range r.extra {
		r.targets = append(r.targets, &r.extra[i])
	}
	return r
}

// queueName takes outrider_queue over.
type queueName record

// Scan implements [sql.Scanner].
func (q *queueName) Scan(value any) error {
	var text sql.NullString
	err := text.Scan(value)
	q.queue, q.group = text.String, sql.NullString{}
	if name, ok := strings.CutPrefix(text.String, grouped); ok {
		q.group = sql.NullString{String: name, Valid: true}
	}
	return err
}

// statementKey is the key as statements take it.
func (r *record) statementKey() any {
	s := r.table.sql()
	return s.value(s.layout.Columns.Key, r.key)
}

// decode makes the row. What cannot be decoded is in its Err; the rest of the row is there all the same.
func (r *record) decode() *adapters.Row {
	l, s := r.table.layout, r.table.sql()
	row := &adapters.Row{ID: s.keyText(r.key), Kind: r.table.Kind, Type: r.typ.String,
		AggregateType: r.aggregateType.String, AggregateID: r.aggregateID.String, Tenant: r.tenant.String}
	if r.group.Valid {
		row.Group = r.table.groupKey(r.group.String)
		row.Slot = adapters.SlotOf(row.Group, "")
	} else {
		row.Slot = adapters.SlotOf("", row.ID)
	}
	if l.KindInType {
		row.Kind = row.Type
	}
	var errs [5]error
	row.Headers, errs[0] = r.allHeaders()
	if row.CreatedAt, errs[1] = timeOf(l.Columns.Created, r.created); errs[1] == nil && row.CreatedAt.IsZero() {
		errs[1] = fmt.Errorf("%s is NULL or zero", l.Columns.Created)
	}
	row.Position = row.CreatedAt.UnixMicro()
	errs[2] = r.content(row)
	_, errs[3] = timeOf(l.Columns.NextAttempt, r.next)
	errs[4] = row.Limit()
	if err := errors.Join(errs[:]...); err != nil {
		row.Err = fmt.Errorf("table %s, row %q cannot be decoded: %w", r.table.Name, shorten.To(row.ID, 128), err)
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
	if r.table.sql().columnOf(l.Columns.Payload).bytes() {
		row.Binary = !l.JSONBytes || !format.ValidJSON(row.Payload)
		return nil
	}
	if !format.ValidJSON(row.Payload) {
		return fmt.Errorf("%s is not valid JSON, or nested more than %d deep", l.Columns.Payload, format.MaxDepth)
	}
	if l.TypeInPayload {
		if in := gjson.GetBytes(row.Payload, "type"); in.Type == gjson.String && in.Str != "" {
			row.Type = in.Str
		}
	}
	return nil
}

// allHeaders are those of the column and those that are columns.
func (r *record) allHeaders() (headers map[string]string, err error) {
	if text := r.headers.String; text != "" {
		if err = adapters.CheckPairs([]byte(text)); err == nil {
			if e := json.Unmarshal([]byte(text), &headers); e != nil {
				err = adapters.NotStrings(e)
			}
		}
		if err != nil {
			headers, err = nil, fmt.Errorf("%s: %w", r.table.layout.Columns.Headers, err)
		}
	}
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
