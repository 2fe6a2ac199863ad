package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// Extend implements [adapters.Queue]. The time at which the rows were marked is
// renewed in the table; the claims stay as they are. In a table without claims it finds out which rows wait still.
func (q *Queue) Extend(ctx context.Context, claims []*adapters.Claim) (lost []*adapters.Claim, err error) {
	s := &settling{q: q}
	q.claims.Lock()
	s.rows, s.lost = q.claims.Extended(claims)
	q.claims.Unlock()
	if len(s.rows) == 0 {
		return s.lost, nil
	}
	byTable := map[*table]*write{}
	for _, r := range s.rows {
		if byTable[r.Table] == nil {
			byTable[r.Table] = &write{table: r.Table}
		}
		byTable[r.Table].rows = append(byTable[r.Table].rows, r)
	}
	stamps := map[*table]time.Time{}
	err = my.Transact(ctx, q.db, func(tx *sql.Tx) error {
		for _, w := range byTable {
			if err := s.extend(ctx, tx, w, stamps); err != nil {
				return err
			}
		}
		return nil
	})
	q.claims.Lock()
	defer q.claims.Unlock()
	if err != nil {
		if !my.Answered(err) { // until it is known either may stand in the row
			for _, r := range s.rows {
				if stamp, ok := stamps[r.Table]; ok {
					r.Hold.former, r.Hold.stamp = r.Hold.stamp, stamp
				}
			}
		}
		return nil, wrap(s.rows[0].Table.Name, "extend claims", my.Refused(err))
	}
	for _, r := range s.rows {
		if stamp, ok := stamps[r.Table]; r.Done && ok && !r.Locked {
			r.Hold.stamp, r.Hold.former = stamp, stamp
		}
		if !r.Done {
			s.lost = append(s.lost, q.claims.End(r)...)
		}
	}
	return s.lost, nil
}

// extend renews the claims of a table that are there still.
func (s *settling) extend(ctx context.Context, tx *sql.Tx, w *write, stamps map[*table]time.Time) error {
	st := w.table.sql()
	for _, r := range w.rows {
		r.Done = false
	}
	still, err := s.still(ctx, tx, w.table, w.rows)
	if err != nil {
		return err
	}
	byClaim := map[int64]*values{}
	for _, r := range w.rows {
		at, ok := still[r.Claim.Key]
		if r.Done = ok || r.Locked; !ok {
			continue
		}
		if byClaim[at] == nil {
			byClaim[at] = &values{token: s.q.token, claimed: time.UnixMicro(at).UTC()}
		}
		byClaim[at].keys = append(byClaim[at].keys, r.Hold.key)
	}
	if w.table.layout.Claimless() || len(byClaim) == 0 {
		return nil
	}
	var now time.Time
	if err := tx.QueryRowContext(ctx, "SELECT NOW(6)").Scan(&now); err != nil {
		return err
	}
	stamps[w.table] = st.stamp(now)
	for _, v := range byClaim {
		v.stamp = stamps[w.table]
		query, args := v.bind(st.renew)
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// marked is a row that is being processed.
type marked struct {
	key, claimed any
	since        time.Duration // for how long; negative: not known
}

// marked lists rows that are being processed, those that have been for the longest first; only those for longer than a time.
func (s *statements) marked(ctx context.Context, db querier, longer time.Duration, most int) (all []marked, err error) {
	claimed := my.Quote(s.layout.Columns.Claimed)
	text := "SELECT " + my.Quote(s.layout.Columns.Key) + ", " + claimed + ", COALESCE(TIMESTAMPDIFF(MICROSECOND, " + claimed + ", NOW(6)), -1) AS age" +
		s.ofMarked() + " HAVING age >= ? ORDER BY age DESC LIMIT ?"
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

// ofMarked is the part of a query that finds the rows that are being processed.
func (s *statements) ofMarked() string {
	pin := ""
	if name := s.statusIndex(); name != "" {
		pin = " FORCE INDEX (" + my.Quote(name) + ")"
	}
	return " FROM " + s.name + pin + " WHERE " + s.Statuses(s.layout.Statuses.Processing)
}

// undated counts rows that are being processed and do not say since when.
func (s *statements) undated(ctx context.Context, db querier, most int) (n int, err error) {
	text := "SELECT COUNT(*) FROM (SELECT 1" + s.ofMarked() + " AND " + my.Quote(s.layout.Columns.Claimed) + " IS NULL LIMIT ?) AS x"
	err = db.QueryRowContext(ctx, text, most).Scan(&n)
	return n, err
}

// recoverRows is how many stuck rows are put back at a time.
const recoverRows = 1000

// Recover implements [adapters.Queue]. Rows that this queue holds are never
// recovered, however old their claims. It also notices columns and indexes that were made or dropped meanwhile.
func (q *Queue) Recover(ctx context.Context) (recovered int, err error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	for _, t := range q.tables {
		t.stale = true
		s, err := t.describe(ctx, q.db)
		if err != nil {
			return recovered, err
		}
		if t.layout.Claimless() {
			continue // nothing is marked
		}
		n, err := q.recover(ctx, t, s)
		if recovered += n; err != nil {
			return recovered, wrap(t.Name, "recover stuck rows", err)
		}
	}
	return recovered, nil
}

func (q *Queue) recover(ctx context.Context, t *table, s *statements) (n int, err error) {
	q.claims.Lock()
	held := t.Len()
	q.claims.Unlock()
	rows, err := s.marked(ctx, q.db, q.timeout, recoverRows+held)
	if err != nil {
		return 0, err
	}
	keys := make([]any, len(rows))
	for i := range rows {
		keys[i] = s.value(s.layout.Columns.Key, rows[i].key)
	}
	free, err := t.free(ctx, q.db, keys)
	if err != nil {
		return 0, err
	}
	for _, m := range rows {
		q.claims.Lock()
		ours := t.Holds(s.KeyText(m.key))
		t.restart = true
		q.claims.Unlock()
		at, known := m.claimed.(time.Time)
		if _, unlocked := free[s.KeyText(m.key)]; ours || !known || !unlocked {
			continue
		}
		v := values{claimed: at, keys: []any{s.value(s.layout.Columns.Key, m.key)}}
		query, args := v.bind(s.back)
		err := my.RetryConflict(ctx, func() error {
			result, err := q.db.ExecContext(ctx, query, args...)
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

// Processing implements [adapters.OperatorQueue].
func (q *Queue) Processing(ctx context.Context, most int) (p adapters.Processing, err error) {
	for _, t := range q.tables {
		s, err := q.described(ctx, t)
		if err != nil {
			return adapters.Processing{}, err
		}
		if t.layout.Claimless() {
			continue
		}
		rows, err := s.marked(ctx, q.db, -time.Hour, most+1)
		if err != nil {
			return adapters.Processing{}, wrap(t.Name, "count rows", err)
		}
		p.Rows += min(len(rows), most)
		p.More = p.More || len(rows) > most
		for _, m := range rows[:min(len(rows), most)] {
			p.Longest = max(p.Longest, m.since)
		}
	}
	return p, nil
}
