package queuetable

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queuerow"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// settleArgs is how many parameters the statements that write have at most.
const settleArgs = 9

// Settle implements [adapters.Queue].
func (q *Queue) Settle(ctx context.Context, results []adapters.ClaimResult) (lost []*adapters.Claim, err error) {
	s := &settling{q: q, now: time.Now()}
	if !s.add(results) {
		return s.lost, nil
	}
	if s.back { // nothing may be claimed now that is behind what is put back
		q.claiming.Lock()
		defer q.claiming.Unlock()
	}
	if err := lite.Transact(ctx, q.db, s.run); err != nil {
		return nil, wrap(s.rows[0].table.name, "settle", err)
	}
	return s.finish(), nil
}

// settling is one call of Settle.
type settling struct {
	q    *Queue
	now  time.Time
	rows []settled
	lost []*adapters.Claim
	back bool // rows go back
}

// settled is a row that is settled.
type settled struct {
	*adapters.ClaimResult
	table  *table
	hold   *hold
	effect queuerow.Effect
	done   bool // the statement has changed it
}

// add takes the results of claims that are held; others are lost.
func (s *settling) add(results []adapters.ClaimResult) (some bool) {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for i := range results {
		r := &results[i]
		t, h := s.q.held(r.Claim)
		if h == nil {
			s.lost = append(s.lost, r.Claim)
			continue
		}
		row := settled{ClaimResult: r, table: t, hold: h, effect: queuerow.EffectOf(t.layout, r)}
		s.back = s.back || !row.effect.Ends()
		s.rows = append(s.rows, row)
	}
	return len(s.rows) > 0
}

// run writes the results.
func (s *settling) run(tx *sql.Tx) error {
	ctx := context.Background() // the transaction has its own
	fences, stmts := map[laneEpoch]bool{}, map[string]*sql.Stmt{}
	deleted := map[*table]bool{}
	for i := range s.rows {
		r := &s.rows[i]
		r.done = false
		text, args := r.write(s.now)
		if text == "" {
			r.done = true
			continue
		}
		if r.table.layout.Claimless() && s.q.fenced {
			ok, err := fence(ctx, tx, fences, laneEpoch{r.Lane, r.Epoch})
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
		}
		stmt := stmts[text]
		if stmt == nil {
			var err error
			if stmt, err = tx.PrepareContext(ctx, text); err != nil {
				return err
			}
			stmts[text] = stmt
		}
		result, err := stmt.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		r.done = n > 0
		deleted[r.table] = deleted[r.table] || r.done && strings.HasPrefix(text, "DELETE")
	}
	failpoint.Hit(failpoint.InSettle)
	return s.noteDeleted(ctx, tx, deleted)
}

// noteDeleted notes the newest rowid of tables of which rows are deleted: the next row may get that of one of them.
func (s *settling) noteDeleted(ctx context.Context, tx *sql.Tx, tables map[*table]bool) error {
	for t, deleted := range tables {
		if !deleted || t.sql().rowless {
			continue
		}
		var newest int64
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(_rowid_), 0) FROM "+lite.Quote(t.name)).Scan(&newest); err != nil {
			return err
		}
		s.q.mu.Lock()
		if t.newest == unread || newest < t.newest {
			t.newest = newest
		}
		s.q.mu.Unlock()
	}
	return nil
}

// laneEpoch is a lane as it was taken.
type laneEpoch struct {
	lane  adapters.LaneRef
	epoch int64
}

// fence reports whether a lane has the epoch that it was taken with. No instance takes it while the transaction lasts.
func fence(ctx context.Context, tx *sql.Tx, known map[laneEpoch]bool, at laneEpoch) (ok bool, err error) {
	if ok, asked := known[at]; asked {
		return ok, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM outrider_cursor WHERE route = ? AND slot = ? AND epoch = ?)`,
		at.lane.Route, at.lane.Slot, at.epoch).Scan(&ok)
	known[at] = ok
	return ok, err
}

// write is the statement for an effect; empty: there is nothing to write.
func (r *settled) write(now time.Time) (text string, args []any) {
	s := r.table.sql()
	c, message, due := &s.layout.Columns, any(nil), any(nil)
	switch r.effect.Change {
	case queuerow.Done:
		text = s.Done
	case queuerow.DeadLetter:
		text = s.Dead[r.effect.Status]
	case queuerow.Retry:
		if text = s.Retry; !r.effect.Due.IsZero() {
			due = s.timeValue(c.NextAttempt, textTime, r.effect.Due)
		}
	case queuerow.Release:
		text = s.Put
	case queuerow.Leave:
	}
	if r.effect.Error != "" {
		message = r.effect.Error
	}
	return text, []any{r.hold.key, r.hold.stamp, r.hold.former, r.effect.Attempts, message, due,
		s.timeValue(c.Done, textTime, now), s.timeValue(c.Updated, textTime, now), nil}
}

// finish ends the claims, and returns those that are lost.
func (s *settling) finish() []*adapters.Claim {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for i := range s.rows {
		r := &s.rows[i]
		if !r.done {
			s.lost = append(s.lost, r.Claim)
		}
		r.table.end(r.Claim.Key, r.hold, r.done && r.effect.Ends())
	}
	return s.lost
}
