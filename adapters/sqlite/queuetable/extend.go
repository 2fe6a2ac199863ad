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
	type renewal struct {
		claim *adapters.Claim
		table *table
		hold  *hold
		ok    bool
	}
	stamp := q.nextStamp()
	var renewals []renewal
	q.mu.Lock()
	for _, c := range claims {
		t, h := q.held(c)
		if h == nil {
			lost = append(lost, c)
			continue
		}
		if s := t.sql(); s.renew != "" { // until it is written either may stand in the row
			h.former, h.stamp = h.stamp, s.timeValue(t.layout.Columns.Claimed, textStamp, stamp)
		}
		renewals = append(renewals, renewal{claim: c, table: t, hold: h})
	}
	q.mu.Unlock()
	if len(renewals) == 0 {
		return lost, nil
	}
	err = lite.Transact(ctx, q.db, func(tx *sql.Tx) error {
		for i := range renewals {
			r := &renewals[i]
			ok, err := renew(ctx, tx, r.table.sql(), r.hold)
			if err != nil {
				return err
			}
			r.ok = ok
		}
		return nil
	})
	if err != nil {
		q.mu.Lock()
		for _, r := range renewals { // nothing was written
			if r.table.sql().renew != "" {
				r.hold.stamp = r.hold.former
			}
		}
		q.mu.Unlock()
		return nil, wrap(renewals[0].table.name, "extend claims", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range renewals {
		if r.hold.former = r.hold.stamp; !r.ok {
			lost = append(lost, r.claim)
			r.table.end(r.claim.Key, r.hold, false)
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
		q.mu.Lock()
		ours := t.holds[textOf(m.key)] != nil
		q.mu.Unlock()
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

// Processing implements [adapters.ProcessingCounter].
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
