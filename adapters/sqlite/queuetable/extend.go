package queuetable

import (
	"context"
	"database/sql"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Extend implements [adapters.Queue]. The time at which the rows were marked is
// renewed in the table; the claims stay as they are. In a table without claims it finds out which rows wait still.
func (q *Queue) Extend(ctx context.Context, claims []*adapters.Claim) (lost []*adapters.Claim, err error) {
	stamp := q.nextStamp()
	q.claims.Lock()
	rows, lost := q.claims.Extended(claims)
	for _, r := range rows {
		if s := r.Table.sql(); s.renew != "" { // until it is written either may stand in the row
			r.Hold.former, r.Hold.stamp = r.Hold.stamp, s.timeValue(r.Table.layout.Columns.Claimed, textStamp, stamp)
		}
	}
	q.claims.Unlock()
	if len(rows) == 0 {
		return lost, nil
	}
	err = lite.Transact(ctx, q.db, func(tx *sql.Tx) (err error) {
		for _, r := range rows {
			if r.Done, err = renew(ctx, tx, r.Table.sql(), r.Hold); err != nil {
				return err
			}
		}
		return nil
	})
	q.claims.Lock()
	defer q.claims.Unlock()
	if err != nil {
		for _, r := range rows { // nothing was written
			if r.Table.sql().renew != "" {
				r.Hold.stamp = r.Hold.former
			}
		}
		return nil, wrap(rows[0].Table.name, "extend claims", lite.Refused(err))
	}
	for _, r := range rows {
		if r.Hold.former = r.Hold.stamp; !r.Done {
			lost = append(lost, q.claims.End(r)...)
		}
	}
	return lost, nil
}

// renew reports whether the row is claimed still.
func renew(ctx context.Context, tx *sql.Tx, s *statements, h *hold) (ok bool, err error) {
	if s.renew == "" {
		err = tx.QueryRowContext(ctx, s.waits, h.key).Scan(&ok)
		return ok, err
	}
	result, err := tx.ExecContext(ctx, s.renew, h.key, h.former, h.former, nil, nil, nil, nil, nil, h.stamp)
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

// Recover implements [adapters.Queue]. Rows that this queue holds are never
// recovered, however old their claims. It also notices indexes that were made or dropped meanwhile.
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
		n := 0
		if err := lite.Transact(ctx, q.db, func(tx *sql.Tx) error { n, err = q.recover(ctx, tx, t, s); return err }); err != nil {
			return recovered, wrap(t.name, "recover stuck rows", err)
		}
		if recovered += n; n > 0 {
			t.restart()
		}
	}
	return recovered, nil
}

func (q *Queue) recover(ctx context.Context, tx *sql.Tx, t *table, s *statements) (n int, err error) {
	rows, err := s.marked(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, m := range rows {
		q.claims.Lock()
		ours := t.Holds(s.KeyText(m.key))
		q.claims.Unlock()
		if ours || m.since.IsZero() || time.Since(m.since) < q.timeout {
			continue
		}
		if _, err := tx.ExecContext(ctx, s.recover, m.key, nil, nil, nil, nil, nil, nil, s.timeValue(t.layout.Columns.Updated, textTime, time.Now())); err != nil {
			return 0, err
		}
		n++
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
		rows, err := s.marked(ctx, q.db)
		if err != nil {
			return adapters.Processing{}, wrap(t.name, "count rows", err)
		}
		p.Rows += min(len(rows), most)
		p.More = p.More || len(rows) > most
		for _, m := range rows[:min(len(rows), most)] {
			if !m.since.IsZero() {
				p.Longest = max(p.Longest, time.Since(m.since))
			}
		}
	}
	return p, nil
}
