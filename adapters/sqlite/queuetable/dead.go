package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queuerow"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

func errNoTable(name string) error { return fmt.Errorf("sqlite queue: %q is none of its tables", name) }

// Dead implements [adapters.DeadRows].
func (q *Queue) Dead(ctx context.Context, f adapters.DeadFilter) ([]adapters.DeadRow, error) {
	from := 0
	if f.After.Table != "" {
		if from = slices.IndexFunc(q.tables, func(t *table) bool { return t.name == f.After.Table }); from < 0 {
			return nil, errNoTable(f.After.Table)
		}
	}
	for _, t := range q.tables[from:] {
		rows, err := q.deadIn(ctx, t, f)
		if err != nil || len(rows) > 0 {
			return rows, wrap(t, "look for dead rows", err)
		}
		f.After = adapters.DeadKey{}
	}
	return nil, nil
}

// deadIn reads a page of a table.
func (q *Queue) deadIn(ctx context.Context, t *table, f adapters.DeadFilter) (page []adapters.DeadRow, err error) {
	s, err := q.described(ctx, t)
	if err != nil || f.Error != "" && t.layout.Columns.Error == "" || f.Group != "" && s.group == "" {
		return nil, err
	}
	return queuerow.DeadPage(f, func(f adapters.DeadFilter) ([]adapters.DeadRow, adapters.DeadKey, error) {
		return q.deadPage(ctx, t, s, f)
	})
}

// deadPage reads rows after a place, and returns that of the last one; zero: there is none.
func (q *Queue) deadPage(ctx context.Context, t *table, s *statements, f adapters.DeadFilter) (page []adapters.DeadRow, last adapters.DeadKey, err error) {
	query, args := s.deadRows(f)
	rows, err := q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, last, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	r := newRecord(t)
	var name, failure sql.NullString
	var updated any
	r.targets = append(r.targets, &name, &failure, &updated)
	for bytes := 0; bytes < queuerow.DeadPageBytes && rows.Next(); bytes += len(r.payload) {
		if err := r.scan(rows); err != nil {
			return nil, last, err
		}
		row := r.decode(t.place(name, r.key))
		if row.Err = nil; !f.Payload {
			row.Payload = nil
		}
		last = adapters.DeadKey{Table: t.name, Created: textOf(r.created), Key: row.ID}
		page = append(page, adapters.DeadRow{At: last, Row: *row, Attempts: r.attempts, Error: failure.String, Died: t.died(r, updated)})
	}
	return page, last, rows.Err()
}

// died is when a row was given up, as far as the table says: the last attempt was not before it was due.
func (t *table) died(r *record, updated any) time.Time {
	for _, value := range []any{updated, r.claimed, r.next, r.created} {
		if at := known(value); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// deadRows is the statement for a page, along the index of these rows.
func (s *statements) deadRows(f adapters.DeadFilter) (query string, args []any) {
	c := &s.layout.Columns
	place, group := lite.Quote(c.Created)+", "+lite.Quote(c.Key), s.group
	if group == "" {
		group = "NULL"
	}
	query = "SELECT " + s.columns() + ", " + group + ", " + short(c.Error) + ", " + raw(c.Updated) + " FROM " + s.name
	if f.ID == "" {
		query += s.byDead.pin() + " WHERE " + s.in(s.layout.Dead())
	} else {
		query += " WHERE " + s.is(s.layout.Dead()...) + " AND " + lite.Quote(c.Key) + " = ?"
		args = append(args, f.ID)
	}
	if f.After.Key != "" {
		query += " AND (" + place + ") > (?, ?)"
		args = append(args, f.After.Created, f.After.Key)
	}
	if f.Group != "" {
		query += " AND " + s.group + " IN (?, ?)"
		args = append(args, f.Group, strings.TrimPrefix(f.Group, s.kind+":"))
	}
	if f.Error != "" {
		query += " AND instr(lower(" + lite.Quote(c.Error) + "), lower(?)) > 0"
		args = append(args, f.Error)
	}
	return query + " ORDER BY " + place + " LIMIT ?", append(args, cmp.Or(f.Limit, adapters.DefaultParkedStep))
}

// errNothing ends a transaction that has changed nothing.
var errNothing = errors.New("nothing was changed")

// ChangeDead implements [adapters.DeadRows].
func (q *Queue) ChangeDead(ctx context.Context, action adapters.ParkedAction, rows []adapters.DeadKey, record func(changed int) error) (changed int, err error) {
	texts := map[string]string{}
	for _, r := range rows {
		t := q.table(r.Table)
		if t == nil {
			return 0, errNoTable(r.Table)
		}
		if texts[r.Table] != "" {
			continue
		}
		s, err := q.described(ctx, t)
		if err != nil {
			return 0, err
		}
		switch action {
		case adapters.ParkedRedrive:
			texts[r.Table] = s.redrive()
		case adapters.ParkedPurge:
			texts[r.Table] = "DELETE FROM " + s.name + s.theDead()
		default:
			return 0, fmt.Errorf("sqlite queue: dead rows can be redriven and purged; %q is neither", action)
		}
	}
	now := time.Now()
	err = lite.Transact(ctx, q.db, func(tx *sql.Tx) error {
		changed = 0
		for _, r := range rows {
			s, c := q.table(r.Table).sql(), &q.table(r.Table).layout.Columns
			result, err := tx.ExecContext(ctx, texts[r.Table], r.Key, s.timeValue(c.NextAttempt, textTime, now), s.timeValue(c.Updated, textTime, now))
			if err != nil {
				return wrap(q.table(r.Table), string(action), err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			changed += int(n)
		}
		if changed == 0 {
			return errNothing
		}
		return record(changed)
	})
	if err != nil {
		changed = 0
	}
	if errors.Is(err, errNothing) {
		err = nil
	}
	return changed, err
}

// theDead is the condition that a row of a key is dead still.
func (s *statements) theDead() string {
	return " WHERE " + lite.Quote(s.layout.Columns.Key) + " = ?1 AND " + s.is(s.layout.Dead()...)
}

// redrive makes a dead row wait as for its first attempt. The error, and when the row was
// last claimed, stay, as the systems that write such tables leave them when a row waits again.
func (s *statements) redrive() string {
	c := &s.layout.Columns
	return s.update(s.layout.Statuses.Pending, set(c.Attempts, "0"), set(c.NextAttempt, "?2"), set(c.Updated, "?3")) + s.theDead()
}

// CountDead implements [adapters.DeadCounter].
func (q *Queue) CountDead(ctx context.Context, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return nil, false, err
		}
		if kinds && t.layout.TypeInPayload {
			return nil, false, fmt.Errorf("table %s: the type of a row is in its payload: %w", t.name, errors.ErrUnsupported)
		}
		in, over, err := q.countDead(ctx, t, s, most, kinds)
		if err != nil {
			return nil, false, wrap(t, "count dead rows", err)
		}
		counts, more = append(counts, in...), more || over
	}
	return counts, more, nil
}

func (q *Queue) countDead(ctx context.Context, t *table, s *statements, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	c := &t.layout.Columns
	columns := "NULL AS a, NULL AS b, NULL AS c"
	if kinds {
		columns = short(c.Type) + " AS a, " + short(c.AggregateType) + " AS b, " + short(c.Tenant) + " AS c"
	}
	text := "SELECT a, b, c, count(*) FROM (SELECT " + columns + " FROM " + s.name + s.byDead.pin() + " WHERE " + s.in(t.layout.Dead()) +
		" LIMIT ?) GROUP BY a, b, c"
	return queuerow.DeadCounts(ctx, q.db, text, t.layout, t.Kind, most)
}
