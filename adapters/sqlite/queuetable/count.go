package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queuerow"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Unfinished implements [adapters.UnfinishedCounter].
func (q *Queue) Unfinished(ctx context.Context, most int) (b adapters.Backlog, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return adapters.Backlog{}, err
		}
		created := lite.Quote(t.layout.Columns.Created)
		from := " FROM " + s.name + s.byAge.pin() + " WHERE " + s.in(s.unfinished())
		var n int
		var oldest any
		err = errors.Join(
			q.db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1"+from+" LIMIT ?)", most+1).Scan(&n),
			q.db.QueryRowContext(ctx, "SELECT (SELECT +"+created+from+" ORDER BY "+created+", "+lite.Quote(t.layout.Columns.Key)+" LIMIT 1)").Scan(&oldest))
		if err != nil {
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
	from := max(slices.IndexFunc(q.tables, func(t *table) bool { return t.name == after.Table }), 0)
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
	c := &t.layout.Columns
	attempts := "0"
	if c.Attempts != "" {
		attempts = "CAST(coalesce(" + lite.Quote(c.Attempts) + ", 0) AS INTEGER)"
	}
	place := lite.Quote(c.Created) + ", " + lite.Quote(c.Key)
	query, args := "SELECT "+raw(c.Created)+", "+raw(c.Key)+", "+raw(c.NextAttempt)+", "+attempts+", "+raw(c.Status)+
		" FROM "+s.name+s.byAge.pin()+" WHERE "+s.in(s.unfinished())+" AND "+s.is(t.layout.Statuses.Waiting()...), []any{}
	if after.Key != "" {
		query += " AND (" + place + ") > (?, ?)"
		args = append(args, after.Created, after.Key)
	}
	rows, err := q.db.QueryContext(ctx, query+" ORDER BY "+place+" LIMIT ?", append(args, most)...)
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
		w.At = adapters.DeadKey{Table: t.name, Created: textOf(created), Key: textOf(key)}
		w.Due, _ = timeOf("", due) // what is no time makes the row dead when it is claimed
		w.Version = textOf(status) + " " + textOf(w.Attempts) + " " + textOf(due)
		page = append(page, w)
	}
	return page, rows.Err()
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
	group, created, key := s.group, lite.Quote(c.Created), lite.Quote(c.Key)
	if group == "" {
		group = "NULL"
	}
	var name sql.NullString
	var createdAt, rowKey any
	err = q.db.QueryRowContext(ctx, "SELECT "+group+", "+raw(c.Created)+", "+raw(c.Key)+" FROM "+s.name+" WHERE "+key+" = ? AND "+s.is(t.layout.Statuses.Waiting()...), at.Key).
		Scan(&name, &createdAt, &rowKey)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, wrap(t, "look at a row that waits", err)
	case !name.Valid:
		return true, nil
	}
	err = q.db.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM "+s.name+s.byGroup.pin()+" WHERE "+s.group+" = ? AND "+s.in(s.unfinished())+
		" AND ("+created+", "+key+") < (?, ?))", name.String, createdAt, rowKey).Scan(&first)
	return first, wrap(t, "look at a row that waits", err)
}

// Waiting implements [adapters.Sampler]: the oldest rows are shown.
func (q *Queue) Waiting(ctx context.Context, most int) (all []adapters.Row, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return nil, err
		}
		found, err := q.find(ctx, t, s.byAge.pin()+" WHERE "+s.in(s.unfinished())+" AND "+s.is(t.layout.Statuses.Waiting()...)+" LIMIT ?", most)
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
		if _, err := q.described(ctx, t); err != nil {
			return found, err
		}
		rows, err := q.find(ctx, t, " WHERE "+lite.Quote(t.layout.Columns.Key)+" = ? LIMIT ?", id, most)
		if err != nil {
			return found, wrap(t, "look for an event", err)
		}
		found.Rows = append(found.Rows, rows...)
	}
	return found, nil
}

// find reads rows with what routes match by and what became of them.
func (q *Queue) find(ctx context.Context, t *table, where string, args ...any) (found []adapters.FoundRow, err error) {
	s, c := t.sql(), &t.layout.Columns
	group := s.group
	if group == "" {
		group = "NULL"
	}
	//nolint:gosec // G202: names from the table's description
	text := "SELECT " + s.columns() + ", " + group + ", " + short(c.Error) + ", " + short(c.Status) + ", " + raw(c.Done) + ", " + raw(c.Updated) +
		" FROM " + s.name + where
	rows, err := q.db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	r := newRecord(t)
	var name, failure, status sql.NullString
	var done, updated any
	r.targets = append(r.targets, &name, &failure, &status, &done, &updated)
	for rows.Next() {
		if err := r.scan(rows); err != nil {
			return nil, err
		}
		row := r.decode(t.place(name, r.key))
		row.Payload = nil
		f := adapters.FoundRow{Row: *row, Table: t.name, Status: queuerow.StatusOf(t.layout, status.String), Attempts: r.attempts, Error: failure.String,
			Due: known(r.next), Claimed: known(r.claimed), Changed: known(updated)}
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

// place is the entry that a row would have, whoever owns its lane.
func (t *table) place(group sql.NullString, key any) *entry {
	e := &entry{value: key, alone: true, slot: adapters.SlotOf("", textOf(key))}
	if group.Valid {
		e = &entry{value: group.String, group: t.groupKey(group.String)}
		e.slot = adapters.SlotOf(e.group, "")
	}
	return e
}
