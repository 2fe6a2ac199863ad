package queuetable

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/outbox/format"
)

// deadRecord is a dead row as it is read.
type deadRecord struct {
	adapters.DeadRow
	group   *string
	died    pgtype.Timestamptz
	due     pgtype.Timestamptz
	headers []byte
	extra   []*string // the layout's headers
}

// targets are where the columns of [queueSQL.dead] go.
func (r *deadRecord) targets() []any {
	return []any{&r.At.Created, &r.At.Key, &r.group, &r.Row.Type, &r.Row.AggregateType, &r.Row.AggregateID, &r.Row.Tenant,
		&r.Row.Payload, &r.Attempts, &r.Error, &r.died, &r.Row.Position, &r.headers, &r.extra, &r.due}
}

// dead makes the row. Its headers are there if they were asked for; what cannot be read of them is left out, and Err
// says so.
func (t *queueTable) dead(sql *queueSQL, r *deadRecord) adapters.DeadRow {
	d := r.DeadRow
	d.At.Table, d.Died, d.Due = t.name, r.died.Time, r.due.Time
	d.At.Retrying = r.due.Valid
	row := &d.Row
	row.ID = d.At.Key
	t.place(row, r.group)
	row.Payload = slices.Clone(row.Payload)
	row.Binary = sql.types.payload == "bytea" && (!sql.layout.JSONBytes || !format.ValidJSON(row.Payload))
	if sql.layout.KindInType {
		row.Kind = row.Type
	}
	if sql.layout.TypeInPayload {
		row.Type = typeIn(row.Payload, row.Type)
	}
	row.Headers, row.Err = wire.StringMap(r.headers)
	for i, value := range r.extra {
		if value == nil {
			continue
		}
		if row.Headers == nil {
			row.Headers = map[string]string{}
		}
		row.Headers[sql.layout.Headers[i].Name] = *value
	}
	row.Err = errors.Join(row.Err, row.TakeOccurred(false))
	return d
}

// deadHeaders are the column of headers and those that are headers, templates.
func (q *queueSQL) deadHeaders() (headers, extra string) {
	headers, extra = "NULL::bytea", "NULL::text[]"
	if q.layout.Columns.Headers != "" {
		headers = "convert_to((" + wire.MetadataWithin("{headers}", 0) + ")::text, 'UTF8')"
	}
	if len(q.layout.Headers) > 0 {
		columns := make([]string, len(q.layout.Headers))
		for i, h := range q.layout.Headers {
			columns[i] = wire.CutName("t."+pg.QuoteName(h.Column), 0)
		}
		extra = "ARRAY[" + strings.Join(columns, ", ") + "]"
	}
	return headers, extra
}
