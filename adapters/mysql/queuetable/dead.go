package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queuerow"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

func errNoTable(name string) error { return fmt.Errorf("mysql queue: %q is none of its tables", name) }

// Dead implements [adapters.DeadRows].
func (q *Queue) Dead(ctx context.Context, f adapters.DeadFilter) ([]adapters.DeadRow, error) {
	from := 0
	if f.After.Table != "" {
		if from = slices.IndexFunc(q.tables, func(t *table) bool { return t.Name == f.After.Table }); from < 0 {
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
	if err != nil || f.Error != "" && t.layout.Columns.Error == "" || f.Group != "" && t.layout.Columns.Group == "" {
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
	for bytes := 0; bytes < queuerow.DeadPageBytes && rows.Next(); {
		r := newRecord(t)
		var failure, status sql.NullString
		var place [2]any
		var claimed, done, updated any
		if err := rows.Scan(slices.Concat([]any{&place[0], &place[1]}, r.targets, []any{&failure, &status, &claimed, &done, &updated})...); err != nil {
			return nil, last, err
		}
		bytes += len(r.payload)
		row := r.decode()
		last = s.placeOf(t, r.created, r.key)
		if row.Err = nil; !f.Payload {
			row.Payload = nil
		}
		page = append(page, adapters.DeadRow{At: last, Row: *row, Attempts: r.attempts, Error: failure.String, Died: died(updated, claimed, r.next, r.created)})
	}
	return page, last, rows.Err()
}

// died is when a row was given up, as far as the table says: the last attempt was not before it was due.
func died(times ...any) time.Time {
	for _, value := range times {
		if at := known(value); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// deadRows is the statement for a page, along the index of these rows.
func (s *statements) deadRows(f adapters.DeadFilter) (query string, args []any) {
	c := &s.layout.Columns
	where, args := s.behind(f.After)
	if f.ID != "" {
		where += " AND " + my.Quote(c.Key) + " = ?"
		args = append(args, s.keyValue(f.ID))
	}
	if f.Group != "" {
		where += " AND " + s.groupText() + " IN (?, ?)"
		args = append(args, []byte(grouped+f.Group), []byte(grouped+strings.TrimPrefix(f.Group, s.kind+":")))
	}
	if f.Error != "" {
		where += " AND LOCATE(LOWER(?), LOWER(" + my.Quote(c.Error) + ")) > 0"
		args = append(args, f.Error)
	}
	return s.inAge(stateDead, s.found(), where, args, cmp.Or(f.Limit, adapters.DefaultParkedStep))
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
			return 0, fmt.Errorf("mysql queue: dead rows can be redriven and purged; %q is neither", action)
		}
	}
	err = my.Transact(ctx, q.db, func(tx *sql.Tx) error {
		changed = 0
		for _, r := range rows {
			result, err := tx.ExecContext(ctx, texts[r.Table], q.table(r.Table).sql().keyValue(r.Key))
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
	return " WHERE " + my.Quote(s.layout.Columns.Key) + " = ? AND " + s.in(s.layout.Dead())
}

// redrive makes a dead row wait as for its first attempt. The error, and when the row was
// last claimed, stay, as the systems that write such tables leave them when a row waits again.
func (s *statements) redrive() string {
	c := &s.layout.Columns
	return s.update(s.layout.Statuses.Pending, set(c.Attempts, "0"), set(c.NextAttempt, s.now(c.NextAttempt)), set(c.Updated, s.now(c.Updated))) + s.theDead()
}

// CountDead implements [adapters.DeadCounter].
func (q *Queue) CountDead(ctx context.Context, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return nil, false, err
		}
		if kinds && t.layout.TypeInPayload {
			return nil, false, fmt.Errorf("table %s: the type of a row is in its payload: %w", t.Name, errors.ErrUnsupported)
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
	text := "SELECT a, b, c, count(*) FROM (SELECT " + columns + " FROM " + s.name + s.pin(s.byAge) + " WHERE " + my.Quote(stateColumn) + " = " + strconv.Itoa(stateDead) +
		" LIMIT ?) AS found GROUP BY a, b, c"
	return queuerow.DeadCounts(ctx, q.db, text, t.layout, t.Kind, most)
}
