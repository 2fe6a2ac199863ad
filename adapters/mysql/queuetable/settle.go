package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// settle implements [queue.Backend].Settle. At first all rows are taken for ours; only when some are not it is found out which.
func (q *Queue) settle(ctx context.Context, rows []*settled) error {
	s := newSettling(q, rows)
	err := errOthers
	if !s.doubt {
		err = q.transact(ctx, q.db, func(tx *sql.Tx) error { return s.run(ctx, tx, false) })
	}
	if errors.Is(err, errOthers) {
		err = q.transact(ctx, q.db, func(tx *sql.Tx) error { return s.run(ctx, tx, true) })
	}
	if slices.ContainsFunc(rows, func(r *settled) bool { return r.Locked }) {
		q.locked = time.Now()
	}
	return err
}

// settling is one call of Settle.
type settling struct {
	q      *Queue
	rows   []*settled
	writes []*write
	doubt  bool // of some it is not known whether they were settled before, or other sessions have locked some
}

// lockedRest is for how long rows are locked before they are settled, after one that another session has locked was met: each wait for such a row
// takes a second.
const lockedRest = 10 * time.Second

func newSettling(q *Queue, rows []*settled) *settling {
	s := &settling{q: q, rows: rows, doubt: time.Since(q.locked) < lockedRest}
	for _, r := range rows {
		s.doubt = s.doubt || r.Lease.Unknown || len(r.Lease.Former) > 0
	}
	s.prepare()
	return s
}

// write is one statement with the rows that it settles.
type write struct {
	table *table
	text  string
	values
	rows []*settled
}

// prepare puts rows together that one statement settles.
func (s *settling) prepare() {
	type key struct {
		table    *table
		text     string
		attempts int
		err, due any
		claimed  int64
	}
	known, now := map[key]*write{}, time.Now()
	for _, r := range s.rows {
		w := write{table: r.Table}
		w.text, w.values = r.Table.sql().settle(&r.Effect, now)
		w.claimed, w.token = r.Lease.Stamp, s.q.token
		at := key{w.table, w.text, w.attempts, w.err, w.due, w.claimed.UnixMicro()}
		if known[at] == nil {
			known[at] = &w
			s.writes = append(s.writes, known[at])
		}
		known[at].rows = append(known[at].rows, r)
		known[at].keys = append(known[at].keys, r.Lease.Key)
	}
}

// errOthers ends a transaction in which not all rows were as their claims say.
var errOthers = errors.New("some rows are not as their claims say")

// run writes the results. With care it finds out which rows are ours still, and settles those; without, it ends when it has found
// fewer.
func (s *settling) run(ctx context.Context, tx *sql.Tx, care bool) error {
	fences, err := s.fences(ctx, tx)
	if err != nil {
		return err
	}
	for _, w := range s.writes {
		rows := w.rows
		if w.fenced(s.q) {
			rows = w.passed(fences)
		}
		if len(rows) < len(w.rows) && !care {
			return errOthers
		}
		marked := map[int64][]*settled{w.claimed.UnixMicro(): rows}
		if care && w.text != "" {
			if marked, err = s.ours(ctx, tx, w, rows); err != nil {
				return err
			}
		}
		for claimed, rows := range marked {
			n, err := w.exec(ctx, tx, claimed, rows)
			if !care && (my.FailedWith(err, my.LockWaitTimeout) || err == nil && n != int64(len(rows))) {
				return errOthers
			}
			if err != nil {
				return err
			}
		}
	}
	failpoint.Hit(failpoint.InSettle)
	return nil
}

// exec writes rows that were marked at a time, in microseconds since 1970, and counts those that it finds.
func (w *write) exec(ctx context.Context, tx *sql.Tx, claimed int64, rows []*settled) (int64, error) {
	v := w.values
	v.claimed, v.keys = time.UnixMicro(claimed).UTC(), nil
	for _, r := range rows {
		r.Done = true
		v.keys = append(v.keys, r.Lease.Key)
	}
	if len(rows) == 0 || w.text == "" {
		return int64(len(rows)), nil
	}
	query, args := v.bind(w.text)
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// passed are the rows whose lanes have the epoch with which they were taken.
func (w *write) passed(fences map[laneEpoch]bool) (rows []*settled) {
	for _, r := range w.rows {
		if r.Done = false; fences[laneEpoch{r.Lane, r.Epoch}] {
			rows = append(rows, r)
		}
	}
	return rows
}

// ours locks rows, and returns those that are as their claims say, by when they were marked. Of the rest those count as written that
// have the state which an earlier attempt, of which nothing is known, would have given them, and say that it was us.
func (s *settling) ours(ctx context.Context, tx *sql.Tx, w *write, of []*settled) (marked map[int64][]*settled, err error) {
	for _, r := range w.rows {
		r.Done = false
	}
	marked = map[int64][]*settled{}
	still, err := s.still(ctx, tx, w.table, of)
	if err != nil {
		return nil, err
	}
	unknown := false
	for _, r := range of {
		if at, ok := still[r.Claim.Key]; ok {
			marked[at] = append(marked[at], r)
		} else {
			unknown = unknown || r.Lease.Unknown && !r.Locked
		}
	}
	if !unknown {
		return marked, nil
	}
	text, absent := w.table.sql().written(w.text)
	there, err := s.found(ctx, tx, w.table, text, of)
	if err != nil {
		return nil, err
	}
	for _, r := range of {
		_, ours := still[r.Claim.Key]
		if _, found := there[r.Claim.Key]; r.Lease.Unknown && !ours && !r.Locked {
			r.Done = found != absent
		}
	}
	return marked, nil
}

// still locks rows that are as their claims say, and returns when they were marked. Of the rest it finds out which another session
// has locked: nothing waits for those.
func (s *settling) still(ctx context.Context, tx *sql.Tx, t *table, rows []*settled) (still map[string]int64, err error) {
	for _, r := range rows {
		r.Locked = false
	}
	if still, err = s.found(ctx, tx, t, t.sql().still+skipLocked, rows); err != nil || len(still) == len(rows) {
		return still, err
	}
	there, err := s.found(ctx, tx, t, t.sql().still, rows)
	for _, r := range rows {
		_, ours := still[r.Claim.Key]
		_, unchanged := there[r.Claim.Key]
		r.Locked = unchanged && !ours
	}
	return still, err
}

// found are the keys of rows that a statement finds, with when they were marked. After an extension of which nothing is known it may be
// one or the other time.
func (s *settling) found(ctx context.Context, tx *sql.Tx, t *table, text string, rows []*settled) (map[string]int64, error) {
	byClaim := map[int64]*values{}
	add := func(r *settled, at time.Time) {
		if byClaim[at.UnixMicro()] == nil {
			byClaim[at.UnixMicro()] = &values{token: s.q.token, claimed: at}
		}
		v := byClaim[at.UnixMicro()]
		v.keys = append(v.keys, r.Lease.Key)
	}
	for _, r := range rows {
		for _, at := range r.Lease.Stamps() {
			add(r, at)
		}
	}
	found := map[string]int64{}
	for at, v := range byClaim {
		query, args := v.bind(text)
		if err := keysOf(ctx, tx, t, found, at, query, args...); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func keysOf(ctx context.Context, tx querier, t *table, found map[string]int64, at int64, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var key any
		if err := rows.Scan(&key); err != nil {
			return err
		}
		found[t.sql().KeyText(key)] = at
	}
	return rows.Err()
}

// written finds the rows that a statement has settled, by our mark in them; absent: those that it does not find were. In tables
// without claims nothing says who it was: there the state is all.
func (s *statements) written(text string) (query string, absent bool) {
	l := s.layout
	statuses := l.Statuses.Waiting()
	switch text {
	case s.Done:
		statuses, absent = []string{l.Statuses.Done}, l.DoneIsDeleted || l.OldIsDeleted
	case s.Retry, s.Put, "":
	default:
		statuses = l.Dead()
	}
	query = s.fill("SELECT {key} FROM {table}{by_key} WHERE {key} IN ({:keys})")
	if absent {
		return query, true
	}
	query += " AND " + s.Statuses(statuses...)
	if s.Of.Marks {
		query += s.fill(" AND {token} = {:token}")
	}
	return query, false
}
