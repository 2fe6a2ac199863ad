package queuetable

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Find implements [adapters.OperatorQueue]. Ids are the primary keys of the tables.
func (q *Queue) Find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	for _, t := range q.tables {
		sql, err := q.described(ctx, t)
		if err != nil {
			return found, queueError(t.name, "look for an event", err)
		}
		rows, err := q.pool.Query(ctx, sql.find(), id, most)
		if err == nil {
			var more []adapters.FoundRow
			more, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (adapters.FoundRow, error) { return t.scanFound(&sql, row) })
			found.Rows = append(found.Rows, slices.DeleteFunc(more, func(f adapters.FoundRow) bool { return !queue.Names(id, f.Row.ID) })...)
		}
		if pg.NoValue(err) {
			continue // it cannot be a key of this table
		}
		if err != nil {
			return found, queueError(t.name, "look for an event", err)
		}
	}
	return found, nil
}

// find looks for a row by its key. Parameters: key, limit.
func (q *queueSQL) find() string {
	payload := "NULL::bytea"
	if q.layout.TypeInPayload {
		payload, _ = q.deadPayload()
	}
	return q.fill(`SELECT {key}::text, ` + q.groupText() + `, ` + q.deadText() + `, ` + payload + `, {status}::text,
    ` + wire.Instant("{created}") + `, ` + q.timeText(q.layout.Columns.Claimed, "{claimed}") + `, ` + q.timeText(q.layout.Columns.NextAttempt, "{next_attempt}") + `,
    ` + q.timeText(q.layout.Columns.Done, "{done}") + `, ` + q.timeText(q.layout.Columns.Updated, "{updated}") + `
FROM {t} t` + q.notedAny() + ` WHERE {key} = $1::text::` + q.types.key + ` LIMIT $2`)
}

// timeText is a column of times, NULL where the layout has none.
func (q *queueSQL) timeText(column, name string) string {
	if column == "" {
		return "NULL::timestamptz"
	}
	return wire.Instant(name)
}

// scanFound reads a row of find.
func (t *queueTable) scanFound(sql *queueSQL, row pgx.CollectableRow) (f adapters.FoundRow, err error) {
	r := &f.Row
	var group *string
	var status string
	var payload []byte
	var created, claimed, due, done, changed pgtype.Timestamptz
	err = row.Scan(&r.ID, &group, &r.Type, &r.AggregateType, &r.AggregateID, &r.Tenant, &f.Attempts, &f.Error, &payload,
		&status, &created, &claimed, &due, &done, &changed)
	if err != nil {
		return f, err
	}
	t.place(r, group)
	if sql.layout.KindInType {
		r.Kind = r.Type
	}
	if sql.layout.TypeInPayload {
		r.Type = typeIn(payload, r.Type)
	}
	f.Table, f.Status = t.name, queue.StatusOf(sql.layout, status)
	r.CreatedAt, f.Claimed, f.Due, f.Changed = created.Time, claimed.Time, due.Time, changed.Time
	if f.Changed.IsZero() {
		f.Changed = claimed.Time
	}
	if f.Status == adapters.RowDone {
		f.Done = done.Time
	}
	return f, nil
}

// place sets what follows from the table and the group's column: kind, group and slot.
func (t *queueTable) place(r *adapters.Row, group *string) {
	g := t.group(group)
	r.Kind, r.Group, r.Slot = t.kind, g.key, g.slot
	if !g.ordered() {
		r.Slot = adapters.SlotOf("", r.ID)
	}
}

// typeIn is the event type that a payload names, or else the column's.
func typeIn(payload []byte, column string) string {
	if gjson.ValidBytes(payload) {
		if in := gjson.GetBytes(payload, "type"); in.Type == gjson.String && in.Str != "" {
			return in.Str
		}
	}
	return column
}
