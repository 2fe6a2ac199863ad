package queuetable

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// settle implements [queue.Backend].Settle.
func (q *Queue) settle(ctx context.Context, rows []*settled) error {
	s := &settling{q: q, now: time.Now(), rows: rows}
	return lite.Transact(ctx, q.db, s.run)
}

// settling is one call of Settle.
type settling struct {
	q    *Queue
	now  time.Time
	rows []*settled
}

// run writes the results.
func (s *settling) run(tx *sql.Tx) error {
	ctx := context.Background() // the transaction has its own
	fences, stmts := map[laneEpoch]bool{}, map[string]*sql.Stmt{}
	deleted := map[*table]bool{}
	for _, r := range s.rows {
		r.Done = false
		text, values := r.Table.sql().settle(r, s.now)
		if text == "" {
			r.Done = true
			continue
		}
		if !r.Table.Marks && s.q.fenced {
			ok, err := fence(ctx, tx, fences, laneEpoch{r.Lane, r.Epoch})
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
		}
		query, args := sqltext.Bind(text, values)
		stmt := stmts[query]
		if stmt == nil {
			var err error
			if stmt, err = tx.PrepareContext(ctx, query); err != nil {
				return err
			}
			stmts[query] = stmt
		}
		result, err := stmt.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		r.Done = n > 0
		deleted[r.Table] = deleted[r.Table] || r.Done && strings.HasPrefix(text, "DELETE")
	}
	failpoint.Hit(failpoint.InSettle)
	return s.keepNewest(ctx, tx, deleted)
}

// keepNewest remembers the largest rowid of tables of which rows were deleted: the next row may get that of one of them.
func (s *settling) keepNewest(ctx context.Context, tx *sql.Tx, tables map[*table]bool) error {
	for t, deleted := range tables {
		if !deleted || t.sql().rowless {
			continue
		}
		var newest int64
		if err := tx.QueryRowContext(ctx, t.sql().newest).Scan(&newest); err != nil {
			return err
		}
		if known := t.deleted.Load(); known == unread || newest < known {
			t.deleted.Store(newest)
		}
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

// settle is the statement for an effect; empty: there is nothing to write.
func (s *statements) settle(r *settled, now time.Time) (text string, values sqltext.Args) {
	c, message, due := &s.layout.Columns, any(nil), any(nil)
	switch r.Effect.Change {
	case queue.Done:
		text = s.Done
	case queue.DeadLetter:
		text = s.Dead[r.Effect.Status]
	case queue.Retry:
		if text = s.Retry; !r.Effect.Due.IsZero() {
			due = s.timeValue(c.NextAttempt, textTime, r.Effect.Due)
		}
	case queue.Release:
		text = s.Put
	case queue.Leave:
	}
	if r.Effect.Error != "" {
		message = r.Effect.Error
	}
	return text, sqltext.Args{"key": r.Lease.Key, "stamp": s.timeValue(c.Claimed, textStamp, r.Lease.Stamp), "attempts": r.Effect.Attempts, "error": message, "due": due,
		"done": s.timeValue(c.Done, textTime, now), "updated": s.timeValue(c.Updated, textTime, now)}
}
