package queuetable

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Dead implements [adapters.OperatorQueue].
func (q *Queue) Dead(ctx context.Context, f adapters.DeadFilter) ([]adapters.DeadRow, error) {
	return queue.Pages(q.tables, f.After, errNoTable, func(t *queueTable, after adapters.DeadKey) ([]adapters.DeadRow, error) {
		if f.After = after; !after.Retrying {
			page, err := q.deadIn(ctx, t, f)
			if err != nil || len(page) > 0 || !f.Retrying {
				return page, queueError(t.name, "look for dead rows", err)
			}
			f.After = adapters.DeadKey{Retrying: true}
		}
		page, err := q.deadIn(ctx, t, f)
		return page, queueError(t.name, "look for rows in backoff", err)
	})
}

func errNoTable(name string) error {
	return fmt.Errorf("postgres queue: %q is none of its tables", name)
}

func (q *Queue) deadIn(ctx context.Context, t *queueTable, f adapters.DeadFilter) (page []adapters.DeadRow, err error) {
	sql, err := q.described(ctx, t)
	if err != nil {
		return nil, err
	}
	text, args, possible := sql.dead(t.kind, f)
	if !possible {
		return nil, nil
	}
	err = q.shown(ctx, t, &sql, text, args, f.ID, func(r *shownRow) {
		d := adapters.DeadRow{At: adapters.DeadKey{Table: t.name, Created: r.text(shownCreated), Key: r.row.ID, Retrying: f.After.Retrying},
			Row: *r.row, Attempts: r.attempts(), Error: r.text(shownError), Died: r.time(shownMore), Due: r.time(shownMore + 1)}
		if !f.Payload {
			d.Row.Payload, d.Row.Headers = nil, nil
		}
		page = append(page, d)
	})
	return page, err
}

// ChangeDead implements [adapters.OperatorQueue].
func (q *Queue) ChangeDead(ctx context.Context, action adapters.ParkedAction, rows []adapters.DeadKey, record func(context.Context, int) error) (changed int, err error) {
	keys := map[string][]string{}
	for _, r := range rows {
		keys[r.Table] = append(keys[r.Table], r.Key)
	}
	texts := map[string]string{} // before the transaction: describe takes a connection of its own
	for name := range keys {
		if texts[name], err = q.changeText(ctx, action, name); err != nil {
			return 0, err
		}
	}
	record = queue.Once(record)
	err = pg.RetryDeadlock(func() error {
		changed = 0
		return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
				return err
			}
			for _, t := range q.tables { // in one order, so that two commands do not deadlock
				if len(keys[t.name]) == 0 {
					continue
				}
				slices.Sort(keys[t.name])
				tag, err := tx.Exec(ctx, texts[t.name], keys[t.name])
				if err != nil {
					return queueError(t.name, string(action), err)
				}
				changed += int(tag.RowsAffected())
			}
			if changed == 0 {
				return nil
			}
			return record(ctx, changed)
		})
	})
	if err != nil {
		changed = 0
	}
	return changed, err
}

// changeText is the statement that changes dead rows of a table. Parameter: keys.
func (q *Queue) changeText(ctx context.Context, action adapters.ParkedAction, table string) (string, error) {
	t := q.table(table)
	if t == nil {
		return "", errNoTable(table)
	}
	sql, err := q.described(ctx, t)
	if err != nil {
		return "", queueError(table, string(action), err)
	}
	switch action {
	case adapters.ParkedRedrive:
		return sql.dropNotes("(n.dead OR n.due_at > now())") + sql.redrive(), nil
	case adapters.ParkedPurge:
		return sql.dropNotes("n.dead") + sql.purge(), nil
	default:
		return "", fmt.Errorf("postgres queue: dead rows can be redriven and purged; %q is neither", action)
	}
}

// dead reads a page of dead rows. It takes a partial index on (created, key) of these
// rows, which has no entry for any other. The window function adds up what payloads
// measure before any is read. It reports whether the table can have such rows at all.
func (q *queueSQL) dead(kind string, f adapters.DeadFilter) (text string, args []any, possible bool) {
	arg := func(v any) string { args = append(args, v); return fmt.Sprintf("$%d", len(args)) }
	limit := arg(cmp.Or(f.Limit, adapters.DefaultParkedStep))
	where := ""
	if f.After.Table != "" {
		where += " AND ({created}, {key}) > (" + arg(f.After.Created) + "::text::{created_type}, " + arg(f.After.Key) + "::text::{key_type})"
	}
	order := " ORDER BY {created}, {key}"
	if f.ID != "" {
		order = "" // one row, by the primary key: an order would lead along the index of all dead rows
		where += " AND {key} = " + arg(f.ID) + "::text::{key_type}"
	}
	if f.Group != "" {
		condition, ok := q.inGroup(kind, f.Group, arg)
		if !ok {
			return "", nil, false
		}
		where += condition
	}
	if f.Error != "" {
		if !q.keeps(q.layout.Columns.Error) {
			return "", nil, false
		}
		where += " AND strpos(lower({error}), lower(" + arg(f.Error) + ")) > 0"
	}
	status, due := "{status} IN ({dead})", "NULL::timestamptz"
	if f.After.Retrying {
		if due, status = q.timeText(cmp.Or(q.layout.Columns.NextAttempt, q.notes), "{next_attempt}"), q.backingOff(); status == "" {
			return "", nil, false
		}
	}
	died := q.died()
	if !f.Before.IsZero() {
		where += " AND " + died + " < " + arg(f.Before) + "::timestamptz"
	}
	most := strconv.Itoa(queue.DeadPageBytes)
	return q.fill(`SELECT s.*
FROM (
    SELECT r.*, sum(r.size) OVER (ROWS UNBOUNDED PRECEDING) AS total
    FROM (
        SELECT ` + q.shownColumns(f.Payload) + ", " + wire.Instant(died) + ` AS died, ` + due + ` AS due
        FROM {t} t` + q.noted(!f.After.Retrying) + `
        WHERE ` + status + where + order + `
        LIMIT ` + limit + `
    ) r
) s
WHERE s.total - least(s.size, ` + most + `) < ` + most), args, true
}

// backingOff is the condition that a row has failed and waits for a time, a template; "": the table does not say that.
func (q *queueSQL) backingOff() string {
	c := &q.layout.Columns
	if q.notes == "" && (c.NextAttempt == "" || c.Attempts == "") {
		return ""
	}
	return "{status} IN ({waiting}) AND {attempts} > 0 AND {next_attempt} > now()"
}

// died is when a row became dead, as far as the table says; a template.
func (q *queueSQL) died() string {
	c := &q.layout.Columns
	var of []string
	for _, column := range []layout.Named{{What: "updated", Name: c.Updated}, {What: "claimed", Name: c.Claimed}} {
		if column.Name != "" {
			of = append(of, "{"+column.What+"}")
		}
	}
	if q.notes != "" {
		of = append(of, "n.noted_at")
	}
	if c.Claimed == "" && c.NextAttempt != "" { // the last attempt was not before that
		of = append(of, "{next_attempt}")
	}
	return "coalesce(" + strings.Join(append(of, "{created}"), ", ") + ")"
}

// inGroup is the condition that a row is of a group, named as messages have it (with the
// table's kind) or as the column does.
func (q *queueSQL) inGroup(kind, group string, arg func(any) string) (string, bool) {
	if q.layout.Columns.Group == "" {
		return "", false
	}
	names := queue.GroupNames(kind, group)
	null := ""
	if q.layout.DefaultGroup != "" && slices.Contains(names, q.layout.DefaultGroup) {
		null = " OR {group} IS NULL"
	}
	return " AND (" + q.groupName("{group}") + " = ANY (" + arg(names) + "::text[])" + null + ")", true
}

// theDead is the condition that a row of the given keys is dead still. IS TRUE keeps the
// status from being looked up in an index.
const theDead = "{key} = ANY ($1::text[]::{key_type}[]) AND ({status} IN ({dead})) IS TRUE"

// theRedriven is the condition that a row of the given keys is dead still, or in backoff.
func (q *queueSQL) theRedriven() string {
	waits := q.backingOff()
	switch {
	case waits == "":
		return theDead
	case q.notes != "":
		waits = "EXISTS (SELECT FROM {notes} n WHERE n.queue = {queue} AND n.key = {key}::text AND NOT n.dead AND " + waits + ")"
	}
	return "{key} = ANY ($1::text[]::{key_type}[]) AND ({status} IN ({dead}) OR " + waits + ") IS TRUE"
}

// redrive makes dead rows, and those in backoff, wait as for their first attempt. The error, and when the row was
// last claimed, stay, as the systems that write such tables leave them when a row waits
// again. Parameter: keys.
func (q *queueSQL) redrive() string {
	set := "{set_status} = {is_pending}"
	if q.layout.Columns.Attempts != "" {
		set += ", {set_attempts} = 0"
	}
	if q.layout.Columns.NextAttempt != "" {
		set += ", {set_next_attempt} = now()"
	}
	if q.layout.Columns.Updated != "" {
		set += ", {set_updated} = now()"
	}
	return q.fill("UPDATE {t} t SET " + set + " WHERE " + q.theRedriven())
}

// purge deletes dead rows. Parameter: keys.
func (q *queueSQL) purge() string { return q.fill("DELETE FROM {t} t WHERE " + theDead) }
