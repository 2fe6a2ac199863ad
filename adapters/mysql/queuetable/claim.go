package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

var _ queue.Driver = (*table)(nil)

// longestWait is when a row that is not due is read again at the latest.
const longestWait = 24 * time.Hour

// Page implements [queue.Driver]. The ids of groups are values of outrider_queue.
func (t *table) Page(ctx context.Context, from queue.Position) (page queue.Page, err error) {
	s := t.sql()
	text := s.page
	switch {
	case from.In && from.Created == nil:
		text = s.pageOf
	case from.In:
		text = s.pageOn
	}
	query, args := sqltext.Bind(text, sqltext.Args{"queue": []byte(from.ID), "created": from.Created, "key": from.Key, "limit": pageRows})
	rows, err := t.q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return page, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var e queue.Entry
		var claimed any
		var wait sql.NullInt64
		var token int64
		if err := rows.Scan(&e.ID, &e.Created, &e.Key, &e.Marked, &claimed, &wait, &token); err != nil {
			return page, err
		}
		if e.Text = s.KeyText(e.Key); e.ID == queue.Alone {
			e.Slot = adapters.SlotOf("", e.Text)
		}
		e.Created, e.Key = s.value(s.layout.Columns.Created, e.Created), s.value(s.layout.Columns.Key, e.Key)
		e.Stamp, _ = claimed.(time.Time)
		e.Ours, e.Wait = token == t.q.token, time.Duration(min(max(wait.Int64, 0), longestWait.Microseconds()))*time.Microsecond
		page.Entries = append(page.Entries, e)
	}
	page.Close(from, len(page.Entries) == pageRows)
	return page, rows.Err()
}

// Newer implements [queue.Driver]: no column says when a row became visible.
func (t *table) Newer(context.Context) ([]string, error) { return nil, nil }

// Group implements [queue.Driver].
func (t *table) Group(id string) string {
	name, _ := t.sql().GroupName(id)
	return queue.GroupOf(t.Table.Table, name)
}

// Take implements [queue.Driver]. Without marks nothing is written.
func (t *table) Take(ctx context.Context, f func(queue.Taker) error) error {
	if !t.Marks {
		return f(&taker{table: t, tx: t.q.db})
	}
	return t.q.transact(ctx, t.q.db, func(tx *sql.Tx) error { return f(&taker{table: t, tx: tx}) })
}

// taker implements [queue.Taker].
type taker struct {
	*table
	tx  querier
	now time.Time
}

func (t *taker) Read(ctx context.Context, chosen []*queue.Entry, _ int64) (map[string]queue.Found, error) {
	return queue.Chosen(ctx, t.tx, t.sql().lock, chosen, func() *queue.Record { return t.record().With(&t.now) }, func(r *queue.Record) string { return r.Group.String })
}

func (t *taker) Fill(ctx context.Context, e *queue.Entry, f *queue.Found) (bool, error) {
	return f.Fill(t.tx.QueryRowContext(ctx, t.sql().payload, e.Key))
}

func (t *taker) Mark(ctx context.Context, rows []queue.Picked) (time.Time, map[string]bool, error) {
	take := values{stamp: t.sql().stamp(t.now), token: t.q.token}
	for i := range rows {
		take.keys = append(take.keys, rows[i].Key)
	}
	query, args := take.bind(t.sql().take)
	_, err := t.tx.ExecContext(ctx, query, args...)
	return take.stamp, nil, err
}

// stamp is a time for claims that no other claimer gives a row from now on: one unit of the column's precision in the past.
func (s *statements) stamp(now time.Time) time.Time {
	unit := time.Second
	for range s.precision(s.layout.Columns.Claimed) {
		unit /= 10
	}
	return now.Truncate(unit).Add(-unit)
}

// Unmark implements [queue.Driver].
func (t *table) Unmark(ctx context.Context, keys []any, stamp time.Time) (locked []any, err error) {
	free, err := t.free(ctx, t.q.db, keys)
	if err != nil {
		return nil, err
	}
	unlocked := values{token: t.q.token, claimed: stamp}
	for _, key := range keys {
		if _, ok := free[t.sql().KeyText(key)]; ok {
			unlocked.keys = append(unlocked.keys, key)
		} else {
			locked = append(locked, key)
		}
	}
	if len(unlocked.keys) == 0 {
		return locked, nil
	}
	query, args := unlocked.bind(t.sql().unclaim)
	_, err = t.q.db.ExecContext(ctx, query, args...)
	return locked, err
}

// free are the keys of rows that no transaction has locked.
func (t *table) free(ctx context.Context, db querier, keys []any) (map[string]int64, error) {
	free := map[string]int64{}
	if len(keys) == 0 {
		return free, nil
	}
	query, args := (&values{keys: keys}).bind(t.sql().free)
	return free, keysOf(ctx, db, t, free, 0, query, args...)
}
