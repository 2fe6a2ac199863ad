package owntable

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

var _ adapters.Retainer = (*Source)(nil)

// retention is the memory of a source between the steps of retention. Its
// handle can write, unlike the one that reads; it is opened when first needed.
type retention struct {
	mu    sync.Mutex // held by Retain and Close
	db    *sql.DB
	swept sweep
	dry   sweep // of a count that removes nothing

	// ahead are cursors that were ahead of the table: the file was replaced by an
	// older copy. It may catch up with them, and they mean nothing all the same.
	ahead map[lostCursor]bool
}

// sweep is how far a look through the rows is, from the first one on.
type sweep struct {
	mark  int64
	begun time.Time
	old   int64 // the highest position known to be old enough
}

// lostCursor is a cursor of a slot of a route.
type lostCursor struct {
	route  string
	slot   int
	cursor adapters.Cursor
}

// sweepEvery is how often removing begins again at the first row instead of
// where it stopped, to find rows that were settled late.
const sweepEvery = 10 * time.Minute

// countEvery is how long the step of a count may take until the next one begins at the first row.
const countEvery = 10 * time.Second

// CheckRetention implements [adapters.Retainer].
func (s *Source) CheckRetention(ctx context.Context, r adapters.Retention) error {
	if r.Mode != adapters.RetainRows {
		return s.wrap("check retention", fmt.Errorf("mode %q does not exist in SQLite, use delete", r.Mode))
	}
	s.retention.mu.Lock()
	defer s.retention.mu.Unlock()
	db, err := s.writable()
	if err != nil {
		return s.wrap("check retention", err)
	}
	err = lite.RetryBusy(ctx, func() error {
		tx, err := db.BeginTx(ctx, nil) // takes the write lock
		if err != nil {
			return err
		}
		return tx.Rollback()
	})
	if err != nil {
		return s.wrap("check retention: rows can only be removed from a file that can be written to", err)
	}
	return nil
}

// writable returns the handle that can write. The caller holds the mutex.
func (s *Source) writable() (*sql.DB, error) {
	if s.retention.db == nil {
		db, err := lite.Open(s.path)
		if err != nil {
			return nil, err
		}
		s.retention.db = db
	}
	return s.retention.db, nil
}

// closeRetention closes the handle that can write, if there is one.
func (s *Source) closeRetention() error {
	s.retention.mu.Lock()
	defer s.retention.mu.Unlock()
	if s.retention.db == nil {
		return nil
	}
	return s.retention.db.Close()
}

// Retain implements [adapters.Retainer]. The application's writers wait while a
// batch is deleted, so batches should be small.
func (s *Source) Retain(ctx context.Context, r adapters.Retention, routes []adapters.RouteCursors) (adapters.Retained, error) {
	s.retention.mu.Lock()
	defer s.retention.mu.Unlock()
	if r.Batch <= 0 {
		r.Batch = adapters.DefaultRetainBatch
	}
	at, most := &s.retention.swept, sweepEvery
	if r.DryRun {
		at, most = &s.retention.dry, countEvery
	}
	if time.Since(at.begun) > most {
		at.mark, at.begun = 0, time.Now()
	}
	p := pass{Retention: r, routes: routes, now: time.Now(), mark: at.mark, old: at.old}
	if err := s.checkAhead(ctx, routes); err != nil {
		return p.result, s.wrap("retention", err)
	}
	if err := s.choose(ctx, &p); err != nil {
		return p.result, s.wrap("retention", err)
	}
	if len(p.gone) > 0 && !r.DryRun {
		if err := s.remove(ctx, p.gone); err != nil {
			return adapters.Retained{}, s.wrap("retention", err)
		}
	}
	if d := &p.result.DatedAhead; d.By > 0 {
		d.Fix = fmt.Sprintf("UPDATE %s SET created_at = strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ') WHERE position = %d", lite.Quote(s.table), d.Position)
	}
	at.mark, at.old = p.mark, p.old
	if r.DryRun {
		at.begun = time.Now()
		if !p.result.More {
			at.begun = time.Time{} // the next count begins at the first row
		}
	}
	p.result.Rows = int64(len(p.gone))
	return p.result, nil
}

// checkAhead refuses to remove anything while a cursor is ahead of the table, or
// was, and has not been repositioned.
func (s *Source) checkAhead(ctx context.Context, routes []adapters.RouteCursors) error {
	var last int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?`, s.table).Scan(&last)
	if err != nil {
		return err
	}
	found := map[lostCursor]bool{}
	for i := range routes {
		for slot, c := range routes[i].Cursors {
			if c == nil {
				continue
			}
			key := lostCursor{routes[i].Route, slot, *c}
			back := s.retention.ahead[key] || c.Position > last
			if !back && !c.Anchor.IsZero() {
				there, err := s.rowAt(ctx, c.Position) // what is gone says nothing here: rows may go that were at a cursor
				if err != nil {
					return err
				}
				back = !there.IsZero() && !there.Matches(c.Anchor)
			}
			if back {
				found[key] = true
			}
		}
	}
	s.retention.ahead = found
	for key := range found {
		return fmt.Errorf("the file is behind the cursor of route %q, because it was replaced by an older copy: "+
			"nothing is removed until `outrider rebase %s` has repositioned it", key.route, key.route)
	}
	return nil
}

// pass is one step of retention.
type pass struct {
	adapters.Retention
	routes []adapters.RouteCursors
	now    time.Time
	mark   int64   // up to here everything was read
	old    int64   // the highest position known to be old enough
	last   int64   // the last one that was read
	ahead  []int64 // settled rows that are dated in the future, since the last row that is not
	gone   []int64
	result adapters.Retained
}

// choose reads the rows behind the mark until one is too young, no route has settled
// any row behind it, or the batch is full.
func (s *Source) choose(ctx context.Context, p *pass) error {
	highest := p.highest()
	query := sqltext.Fill(`SELECT position, coalesce(id, ''), coalesce(message_group, ''), created_at FROM {table}
WHERE position > ? ORDER BY position LIMIT ?`, sqltext.Names{"table": lite.Quote(s.table)})
	rows, err := s.db.QueryContext(ctx, query, p.mark, p.Batch)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	count := 0
	for rows.Next() {
		var position int64
		var id, group string
		var created sql.NullString
		if err := rows.Scan(&position, &id, &group, &created); err != nil {
			return err
		}
		count++
		born, err := lite.Instant("created_at", created)
		if err != nil {
			born = time.Time{} // a row without a date counts as old
		}
		if !p.offer(position, adapters.SlotOf(group, id), born, highest) {
			return nil
		}
	}
	if p.result.More = count == p.Batch; p.result.More {
		p.mark = p.last
	}
	return rows.Err()
}

// highest is the highest position that all routes have settled in some slot.
func (p *pass) highest() int64 {
	var most int64
	for slot := range adapters.Slots {
		least := int64(-1)
		for i := range p.routes {
			c := p.routes[i].Cursors[slot]
			if c == nil {
				least = -1
				break
			}
			if i == 0 || c.Position < least {
				least = c.Position
			}
		}
		most = max(most, least)
	}
	return most
}

// offer decides about a row; it is false when none of those that follow can go. A row
// that is dated in the future is as old as one behind it that is not: it was written
// before that one.
func (p *pass) offer(position int64, slot int, born time.Time, highest int64) bool {
	age := p.now.Sub(born)
	ahead := age < -adapters.DatedAheadLeast
	if born.IsZero() || ahead && position <= p.old {
		age, ahead = p.Keep, false
	}
	holders := p.blockers(position, slot)
	kept := len(holders) > 0 || len(p.routes) == 0
	if ahead {
		p.dated(position, slot, -max(age, -100*365*24*time.Hour))
		if !kept {
			p.ahead = append(p.ahead, position)
		}
		p.last = position
		return position <= highest
	}
	if kept = kept || age < p.Keep; kept {
		p.result.Oldest = max(p.result.Oldest, age)
	} else {
		p.gone = append(p.gone, position)
	}
	p.block(holders, age)
	if age < p.Keep {
		return false
	}
	p.gone, p.ahead = append(p.gone, p.ahead...), nil
	p.old, p.result.DatedAhead = max(p.old, position), adapters.DatedAhead{}
	if position > highest {
		return false
	}
	p.mark, p.last = position, position
	return true
}

// dated notes a row that is dated in the future, and not known to be old.
func (p *pass) dated(position int64, slot int, by time.Duration) {
	if by > p.result.DatedAhead.By {
		p.result.DatedAhead = adapters.DatedAhead{Slot: slot, Position: position, By: by}
	}
}

// blockers are the routes that have not settled the row.
func (p *pass) blockers(position int64, slot int) (names []string) {
	for i := range p.routes {
		if c := p.routes[i].Cursors[slot]; c == nil || c.Position < position {
			names = append(names, p.routes[i].Route)
		}
	}
	return names
}

// block remembers the routes that keep a row which is old enough to go.
func (p *pass) block(names []string, age time.Duration) {
	if age <= p.Keep {
		return
	}
	for _, name := range names {
		if p.result.Held == nil {
			p.result.Held = map[string]time.Duration{}
		}
		p.result.Held[name] = max(p.result.Held[name], age-p.Keep)
	}
}

// remove deletes rows by position, in one transaction.
func (s *Source) remove(ctx context.Context, positions []int64) error {
	db, err := s.writable()
	if err != nil {
		return err
	}
	list, _ := json.Marshal(positions) // integers cannot fail to encode
	return lite.RetryBusy(ctx, func() error {
		query := sqltext.Fill(`DELETE FROM {table} WHERE position IN (SELECT value FROM json_each(?))`, sqltext.Names{"table": lite.Quote(s.table)})
		_, err := db.ExecContext(ctx, query, string(list))
		return err
	})
}
