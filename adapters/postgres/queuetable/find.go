package queuetable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Find implements [adapters.OperatorQueue]. Ids are the primary keys of the tables.
func (q *Queue) Find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	for _, t := range q.tables {
		sql, err := q.described(ctx, t)
		if err == nil {
			err = q.shown(ctx, t, &sql, sql.find(), []any{id, most}, id, func(r *shownRow) { found.Rows = append(found.Rows, t.foundRow(&sql, r)) })
		}
		if err != nil {
			return found, queueError(t.name, "look for an event", err)
		}
	}
	return found, nil
}

// find looks for a row by its key. Parameters: key, limit.
func (q *queueSQL) find() string {
	return q.fill(`SELECT ` + q.shownColumns(false) + `, {status}::text,
    ` + wire.Instant("{created}") + `, ` + q.timeText(q.layout.Columns.Claimed, "{claimed}") + `, ` + q.timeText(q.layout.Columns.NextAttempt, "{next_attempt}") + `,
    ` + q.timeText(q.layout.Columns.Done, "{done}") + `, ` + q.timeText(q.layout.Columns.Updated, "{updated}") + `
FROM {t} t` + q.notedAny() + ` WHERE {key} = $1::text::{key_type} LIMIT $2`)
}

// foundRow is a row of find.
func (t *queueTable) foundRow(sql *queueSQL, r *shownRow) adapters.FoundRow {
	f := adapters.FoundRow{Row: *r.row, Table: t.name, Status: queue.StatusOf(sql.layout, r.text(shownMore)), Attempts: r.attempts(), Error: r.text(shownError),
		Claimed: r.time(shownMore + 2), Due: r.time(shownMore + 3), Changed: r.time(shownMore + 5)}
	f.Row.CreatedAt, f.Row.Payload, f.Row.Headers = r.time(shownMore+1), nil, nil
	if f.Changed.IsZero() {
		f.Changed = f.Claimed
	}
	if f.Status == adapters.RowDone {
		f.Done = r.time(shownMore + 4)
	}
	return f
}

// timeText is a column of times, NULL where the layout has none.
func (q *queueSQL) timeText(column, name string) string {
	if column == "" {
		return "NULL::timestamptz"
	}
	return wire.Instant(name)
}

// WaitingByAge implements [adapters.OperatorQueue]. A table without an index by age is an error that wraps
// [errors.ErrUnsupported].
func (q *Queue) WaitingByAge(ctx context.Context, after adapters.DeadKey, most int) ([]adapters.WaitingRow, error) {
	return queue.Pages(q.tables, after, errNoTable, func(t *queueTable, after adapters.DeadKey) ([]adapters.WaitingRow, error) {
		page, err := q.waitingIn(ctx, t, after, most)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		return page, queueError(t.name, "look for rows that wait", err)
	})
}

func (q *Queue) waitingIn(ctx context.Context, t *queueTable, after adapters.DeadKey, most int) ([]adapters.WaitingRow, error) {
	sql, err := q.described(ctx, t)
	if err != nil {
		return nil, err
	}
	if !t.aged {
		return nil, fmt.Errorf("table %s has no index by age: %w", t.name, errors.ErrUnsupported)
	}
	args := []any{most}
	place := ""
	if after.Table != "" {
		place = " AND ({created}, {key}) > ($2::text::{created_type}, $3::text::{key_type})"
		args = append(args, after.Created, after.Key)
	}
	attempts := "0"
	if sql.layout.Columns.Attempts != "" {
		attempts = "coalesce({attempts}, 0)::int"
	}
	rows, err := q.pool.Query(ctx, sql.fill(`SELECT {created}::text, {key}::text, t.xmin::text || t.ctid::text, `+sql.timeText(sql.layout.Columns.NextAttempt, "least({next_attempt}, '9999-12-31')")+
		`, `+attempts+` FROM {t} t WHERE {status} IN ({waiting})`+place+` ORDER BY {created}, {key} LIMIT $1`), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (w adapters.WaitingRow, err error) {
		var due pgtype.Timestamptz
		err = row.Scan(&w.At.Created, &w.At.Key, &w.Version, &due, &w.Attempts)
		w.At.Table, w.Due = t.name, due.Time
		return w, err
	})
}

// IsFirst implements [adapters.OperatorQueue].
func (q *Queue) IsFirst(ctx context.Context, at adapters.DeadKey) (first bool, err error) {
	t := q.table(at.Table)
	if t == nil {
		return false, errNoTable(at.Table)
	}
	sql, err := q.described(ctx, t)
	if err != nil {
		return false, queueError(t.name, "look at a row that waits", err)
	}
	earlier := "false"
	if sql.layout.Columns.Group != "" {
		earlier = `EXISTS (SELECT FROM {t} o WHERE {other_group} = {group} AND o.{set_status} IN ({unfinished})
    AND (o.{set_created}, o.{set_key}) < ({created}, {key}))`
	}
	err = q.pool.QueryRow(ctx, sql.fill("SELECT NOT "+earlier+" FROM {t} t WHERE {key} = $1::text::{key_type} AND {status} IN ({waiting})"), at.Key).Scan(&first)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return first, queueError(t.name, "look at a row that waits", err)
}

// KeepsDue implements [adapters.Queue].
func (q *Queue) KeepsDue() bool {
	l := q.tables[0].sql.layout
	return l.Columns.NextAttempt != "" || l.Noted()
}

// Waiting implements [adapters.OperatorQueue]. Which rows of a table are shown is not
// defined: an order would cost more than it is worth.
func (q *Queue) Waiting(ctx context.Context, most int) (all []adapters.Row, err error) {
	for _, t := range q.tables {
		sql, err := q.described(ctx, t)
		if err == nil {
			err = q.shown(ctx, t, &sql, sql.sample(), []any{most}, "", func(r *shownRow) {
				r.row.Payload = nil
				all = append(all, *r.row)
			})
		}
		if err != nil {
			return nil, queueError(t.name, "look at what waits", err)
		}
	}
	return all, nil
}

// sample reads some rows that wait. Parameter: limit.
func (q *queueSQL) sample() string {
	return q.fill("SELECT " + q.shownColumns(false) + " FROM {t} t" + q.noted(false) + " WHERE {status} IN ({waiting}) LIMIT $1")
}

// Operators are shown rows as a look reads them, with further columns behind those.

// Columns of a row that is shown, behind those of a look.
const (
	shownGroup = iota
	shownCreated
	shownAttempts
	shownError
	shownMore // the first of a statement's own columns
)

// shownColumns are the columns of a row that is shown, a template. Without payload none is read, unless the type is in it.
func (q *queueSQL) shownColumns(payload bool) string {
	without, attempts, failure := "true", "0", "''"
	if payload || q.layout.TypeInPayload {
		without = "false"
	}
	if q.keeps(q.layout.Columns.Attempts) {
		attempts = "coalesce({attempts}, 0)::int"
	}
	if q.keeps(q.layout.Columns.Error) {
		failure = "left(coalesce({error}::text, ''), " + strconv.Itoa(queue.LongestError) + ")"
	}
	return "0 AS n, " + q.rowColumns("NULL::text", without, "0::float8", "NULL::tid") + ", " +
		q.groupColumn() + " AS grp, {created}::text AS created_text, " + attempts + " AS failed, " + failure + " AS failure"
}

// shownRow is a row that is shown.
type shownRow struct {
	row  *adapters.Row
	more [][]byte // behind the columns of a look
}

func (r *shownRow) text(column int) string { return string(r.more[column]) }

func (r *shownRow) attempts() int { return int(wire.Int32FromBinary(r.more[shownAttempts])) }

// time is a column made by [wire.Instant].
func (r *shownRow) time(column int) time.Time {
	at, _ := wire.TimeFromBinary(r.more[column])
	return at
}

// shown reads rows; id is the one that is looked for, if any. One that cannot be a key of the table is in no row.
func (q *Queue) shown(ctx context.Context, t *queueTable, sql *queueSQL, text string, args []any, id string, each func(*shownRow)) error {
	rows, err := q.pool.Query(ctx, text, append([]any{wire.RawResults}, args...)...)
	if err == nil {
		d := &wire.Decoder{MaxRow: sql.maxRow}
		of := &queueTable{name: t.name, kind: t.kind, sql: *sql} // which no other statement changes
		behind := lookExtra + len(sql.layout.Headers)
		if sql.kind.attempts(sql) != "" {
			behind++
		}
		for rows.Next() {
			v := rows.RawValues()
			r := shownRow{more: v[behind:]}
			r.row = of.decode(d, of.group(textOrNull(r.more[shownGroup])), v)
			if r.row.Err = nil; r.row.CreatedAt.IsZero() {
				r.row.Position = 0
			}
			if id == "" || queue.Names(id, r.row.ID) {
				each(&r)
			}
		}
		rows.Close()
		err = rows.Err()
	}
	if id != "" && pg.NoValue(err) {
		return nil
	}
	return err
}
