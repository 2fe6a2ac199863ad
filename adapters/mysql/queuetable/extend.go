package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// renew implements [queue.Backend].Renew.
func (q *Queue) renew(ctx context.Context, rows []*settled) error {
	s, byTable := &settling{q: q, rows: rows}, map[*table][]*settled{}
	for _, r := range rows {
		byTable[r.Table] = append(byTable[r.Table], r)
	}
	return q.transact(ctx, q.db, func(tx *sql.Tx) error {
		for t, rows := range byTable {
			if err := s.extend(ctx, tx, t, rows); err != nil {
				return err
			}
		}
		return nil
	})
}

// extend renews the claims of a table that are there still.
func (s *settling) extend(ctx context.Context, tx *sql.Tx, t *table, rows []*settled) error {
	still, err := s.still(ctx, tx, t, rows)
	if err != nil {
		return err
	}
	byClaim := map[int64][]*settled{}
	for _, r := range rows {
		at, ok := still[r.Claim.Key]
		if r.Done = ok || r.Locked; ok {
			byClaim[at] = append(byClaim[at], r)
		}
	}
	if !t.Marks || len(byClaim) == 0 {
		return nil
	}
	var now time.Time
	if err := tx.QueryRowContext(ctx, "SELECT NOW(6)").Scan(&now); err != nil {
		return err
	}
	stamp := t.sql().stamp(now)
	for at, rows := range byClaim {
		s.q.Expect(stamp, rows...)
		v := values{token: s.q.token, claimed: time.UnixMicro(at).UTC(), stamp: stamp}
		for _, r := range rows {
			v.keys = append(v.keys, r.Lease.Key)
		}
		query, args := v.bind(t.sql().renew)
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// recoverRows is how many stuck rows are put back at a time.
const recoverRows = 1000

// marked is a row that is being processed.
type marked struct {
	key, claimed any
	since        time.Duration // for how long; negative: not known
}

// marked lists rows that are being processed, those that have been for the longest first; only those for longer than a time.
func (s *statements) marked(ctx context.Context, db querier, longer time.Duration, most int) (all []marked, err error) {
	text := s.fill("SELECT {key}, {claimed}, COALESCE(TIMESTAMPDIFF(MICROSECOND, {claimed}, NOW(6)), -1) AS age FROM {table}{by_status} WHERE {marked}" +
		" HAVING age >= ? ORDER BY age DESC LIMIT ?")
	rows, err := db.QueryContext(ctx, text, longer.Microseconds(), most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var m marked
		var age int64
		if err := rows.Scan(&m.key, &m.claimed, &age); err != nil {
			return nil, err
		}
		m.since = time.Duration(age) * time.Microsecond
		all = append(all, m)
	}
	return all, rows.Err()
}

// undated counts rows that are being processed and do not say since when.
func (s *statements) undated(ctx context.Context, db querier, most int) (n int, err error) {
	text := s.fill("SELECT COUNT(*) FROM (SELECT 1 FROM {table}{by_status} WHERE {marked} AND {claimed} IS NULL LIMIT ?) AS x")
	err = db.QueryRowContext(ctx, text, most).Scan(&n)
	return n, err
}

// Recover implements [queue.Driver].
func (t *table) Recover(ctx context.Context, held func(key string) bool, leases int) (n int, err error) {
	s := t.sql()
	rows, err := s.marked(ctx, t.q.db, t.q.timeout, recoverRows+leases)
	if err != nil {
		return 0, err
	}
	keys := make([]any, len(rows))
	for i := range rows {
		keys[i] = s.value(s.layout.Columns.Key, rows[i].key)
	}
	free, err := t.free(ctx, t.q.db, keys)
	if err != nil {
		return 0, err
	}
	for i, m := range rows {
		at, known := m.claimed.(time.Time)
		if _, unlocked := free[s.KeyText(m.key)]; held(s.KeyText(m.key)) || !known || !unlocked {
			continue
		}
		v := values{claimed: at, keys: keys[i : i+1]}
		query, args := v.bind(s.back)
		err := my.RetryConflict(ctx, func() error {
			result, err := t.q.db.ExecContext(ctx, query, args...)
			if err != nil {
				return err
			}
			changed, err := result.RowsAffected()
			n += int(changed)
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Marked implements [queue.Driver].
func (t *table) Marked(ctx context.Context, most int) (n int, longest time.Duration, err error) {
	rows, err := t.sql().marked(ctx, t.q.db, -time.Hour, most+1)
	for _, m := range rows[:min(len(rows), most)] {
		longest = max(longest, m.since)
	}
	return len(rows), longest, err
}
