package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queuerow"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// Unfinished implements [adapters.UnfinishedCounter].
func (q *Queue) Unfinished(ctx context.Context, most int) (b adapters.Backlog, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return adapters.Backlog{}, err
		}
		var n int
		err = q.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+s.name+s.pin(s.byAge)+" WHERE "+my.Quote(stateColumn)+" = ? LIMIT ?) AS found", stateUnfinished, most+1).Scan(&n)
		if err != nil {
			return adapters.Backlog{}, wrap(t, "count rows", err)
		}
		query, args := s.inAge(stateUnfinished, "1", "", nil, 1)
		var oldest, key, one any
		if err := q.db.QueryRowContext(ctx, query, args...).Scan(&oldest, &key, &one); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return adapters.Backlog{}, wrap(t, "count rows", err)
		}
		b.Rows += n
		if at, err := timeOf("", oldest); err == nil && !at.IsZero() && (b.Oldest.IsZero() || at.Before(b.Oldest)) {
			b.Oldest = at
		}
	}
	if b.Rows > most {
		b.Rows, b.More = most, true
	}
	return b, nil
}

// WaitingByAge implements [adapters.WaitingFinder].
func (q *Queue) WaitingByAge(ctx context.Context, after adapters.DeadKey, most int) ([]adapters.WaitingRow, error) {
	from := max(slices.IndexFunc(q.tables, func(t *table) bool { return t.Name == after.Table }), 0)
	for _, t := range q.tables[from:] {
		page, err := q.waitingIn(ctx, t, after, most)
		if err != nil || len(page) > 0 {
			return page, wrap(t, "look for rows that wait", err)
		}
		after = adapters.DeadKey{}
	}
	return nil, nil
}

func (q *Queue) waitingIn(ctx context.Context, t *table, after adapters.DeadKey, most int) (page []adapters.WaitingRow, err error) {
	s, err := q.described(ctx, t)
	if err != nil {
		return nil, err
	}
	columns := strings.Join([]string{raw(t.layout.Columns.NextAttempt), s.attempts(), my.Quote(t.layout.Columns.Status)}, ", ")
	where, args := s.behind(after)
	query, args := s.inAge(stateUnfinished, columns, " AND "+s.in(t.layout.Statuses.Waiting())+where, args, most)
	rows, err := q.db.QueryContext(ctx, query, args...)
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
		w.At = s.placeOf(t, created, key)
		w.Due, _ = timeOf("", due) // what is no time makes the row dead when it is claimed
		w.Version = textOf(status) + " " + textOf(w.Attempts) + " " + textOf(due)
		page = append(page, w)
	}
	return page, rows.Err()
}

// placeOf is a row's place in the order of creation.
func (s *statements) placeOf(t *table, created, key any) adapters.DeadKey {
	at := adapters.DeadKey{Table: t.Name, Key: s.keyText(key)}
	if c, ok := created.(time.Time); ok {
		at.Created = c.UTC().Format(timeText)
	}
	return at
}

// behind is the condition that a row is behind a place; empty: there is none.
func (s *statements) behind(at adapters.DeadKey) (where string, args []any) {
	if at.Key == "" {
		return "", nil
	}
	return " AND " + s.after(), []any{at.Created, at.Created, s.keyValue(at.Key)}
}

// textOf is a value as text.
func textOf(value any) string {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(timeText)
	}
	return fmt.Sprint(value)
}

// IsFirst implements [adapters.WaitingFinder].
func (q *Queue) IsFirst(ctx context.Context, at adapters.DeadKey) (first bool, err error) {
	t := q.table(at.Table)
	if t == nil {
		return false, errNoTable(at.Table)
	}
	s, err := q.described(ctx, t)
	if err != nil {
		return false, err
	}
	c := &t.layout.Columns
	created, key, queue := my.Quote(c.Created), my.Quote(c.Key), my.Quote(queueColumn)
	var name sql.NullString
	var createdAt, rowKey any
	err = q.db.QueryRowContext(ctx, "SELECT "+queue+", "+created+", "+key+" FROM "+s.name+" WHERE "+key+" = ? AND "+s.in(t.layout.Statuses.Waiting()), s.keyValue(at.Key)).
		Scan(&name, &createdAt, &rowKey)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, wrap(t, "look at a row that waits", err)
	case name.String == alone:
		return true, nil
	}
	var firstKey any
	err = q.db.QueryRowContext(ctx, "SELECT "+key+" FROM "+s.name+s.pin(s.byQueue)+" WHERE "+queue+" = ? ORDER BY "+created+", "+key+" LIMIT 1", []byte(name.String)).Scan(&firstKey)
	if errors.Is(err, sql.ErrNoRows) { // it was finished meanwhile
		return false, nil
	}
	return s.keyText(firstKey) == s.keyText(rowKey), wrap(t, "look at a row that waits", err)
}

// Waiting implements [adapters.Sampler]: the oldest rows are shown.
func (q *Queue) Waiting(ctx context.Context, most int) (all []adapters.Row, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return nil, err
		}
		query, args := s.inAge(stateUnfinished, s.found(), " AND "+s.in(t.layout.Statuses.Waiting()), nil, most)
		found, err := q.find(ctx, t, query, args...)
		if err != nil {
			return nil, wrap(t, "look at what waits", err)
		}
		for i := range found {
			all = append(all, found[i].Row)
		}
	}
	return all, nil
}

// Find implements [adapters.Finder]. Ids are the primary keys of the tables.
func (q *Queue) Find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return found, err
		}
		c := &t.layout.Columns
		rows, err := q.find(ctx, t, "SELECT "+my.Quote(c.Created)+", "+my.Quote(c.Key)+", "+s.found()+" FROM "+s.name+" WHERE "+my.Quote(c.Key)+" = ? LIMIT ?", s.keyValue(id), most)
		if err != nil {
			return found, wrap(t, "look for an event", err)
		}
		found.Rows = append(found.Rows, rows...)
	}
	return found, nil
}

// found are the columns that operators look at, behind when a row was created and its key.
func (s *statements) found() string {
	c := &s.layout.Columns
	return strings.Join([]string{s.seen, short(c.Error), short(c.Status), raw(c.Claimed), raw(c.Done), raw(c.Updated)}, ", ")
}

// find reads rows with what routes match by and what became of them.
func (q *Queue) find(ctx context.Context, t *table, query string, args ...any) (found []adapters.FoundRow, err error) {
	rows, err := q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		r := newRecord(t)
		var failure, status sql.NullString
		var place [2]any
		var claimed, done, updated any
		if err := rows.Scan(slices.Concat([]any{&place[0], &place[1]}, r.targets, []any{&failure, &status, &claimed, &done, &updated})...); err != nil {
			return nil, err
		}
		row := r.decode()
		row.Payload = nil
		f := adapters.FoundRow{Row: *row, Table: t.Name, Status: queuerow.StatusOf(t.layout, status.String), Attempts: r.attempts, Error: failure.String,
			Due: known(r.next), Claimed: known(claimed), Changed: known(updated)}
		if f.Status == adapters.RowDone {
			f.Done = known(done)
		}
		if f.Changed.IsZero() {
			f.Changed = f.Claimed
		}
		found = append(found, f)
	}
	return found, rows.Err()
}

// known is a value's time; zero: it is none.
func known(value any) time.Time {
	at, _ := timeOf("", value) // looking has no use for what is wrong with it
	return at
}
