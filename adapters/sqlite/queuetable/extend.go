package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// renew implements [queue.Backend].Renew.
func (q *Queue) renew(ctx context.Context, rows []*settled) error {
	now, was := q.nextStamp(), make([]time.Time, len(rows))
	for i, r := range rows {
		if was[i] = r.Lease.Stamp; r.Table.Marks {
			q.Expect(r.Table.sql().stamp(now), r)
		}
	}
	return lite.Transact(ctx, q.db, func(tx *sql.Tx) (err error) {
		for i, r := range rows {
			if r.Done, err = renew(ctx, tx, r, was[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// renew reports whether the row is claimed still.
func renew(ctx context.Context, tx *sql.Tx, r *settled, was time.Time) (ok bool, err error) {
	s := r.Table.sql()
	if !r.Table.Marks {
		query, args := sqltext.Bind(s.waits, sqltext.Args{"key": r.Lease.Key})
		err = tx.QueryRowContext(ctx, query, args...).Scan(&ok)
		return ok, err
	}
	c := s.layout.Columns.Claimed
	query, args := sqltext.Bind(s.renew, sqltext.Args{"key": r.Lease.Key, "stamp": s.timeValue(c, textStamp, was), "next": s.timeValue(c, textStamp, r.Lease.Stamp)})
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// marked is a row that is being processed.
type marked struct {
	key, claimed any
	since        time.Time
}

// marked lists the rows that are being processed.
func (s *statements) marked(ctx context.Context, db querier) (all []marked, err error) {
	rows, err := db.QueryContext(ctx, s.stuck)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var m marked
		if err := rows.Scan(&m.key, &m.claimed); err != nil {
			return nil, err
		}
		m.since, _ = timeOf("", m.claimed) // of what is no time it is not known
		all = append(all, m)
	}
	return all, rows.Err()
}

// Recover implements [queue.Driver].
func (t *table) Recover(ctx context.Context, held func(key string) bool, _ int) (n int, err error) {
	err = lite.Transact(ctx, t.q.db, func(tx *sql.Tx) error { n, err = t.recover(ctx, tx, held); return err })
	return n, err
}

func (t *table) recover(ctx context.Context, tx *sql.Tx, held func(key string) bool) (n int, err error) {
	s := t.sql()
	rows, err := s.marked(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, m := range rows {
		if m.since.IsZero() || time.Since(m.since) < t.q.timeout || held(s.KeyText(m.key)) {
			continue
		}
		query, args := sqltext.Bind(s.recover, sqltext.Args{"key": m.key, "updated": s.timeValue(t.Layout.Columns.Updated, textTime, time.Now())})
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Marked implements [queue.Driver].
func (t *table) Marked(ctx context.Context, most int) (n int, longest time.Duration, err error) {
	rows, err := t.sql().marked(ctx, t.q.db)
	for _, m := range rows[:min(len(rows), most)] {
		if !m.since.IsZero() {
			longest = max(longest, time.Since(m.since))
		}
	}
	return len(rows), longest, err
}
