package queuetable

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/internal/shorten"
)

// Settle implements [adapters.Queue]: a statement for each outcome and table,
// all in one transaction and one round trip. After an error
// the claims are kept: settle them again. Results that did go through are found then, and
// are not lost.
func (q *Queue) Settle(ctx context.Context, results []adapters.ClaimResult) (lost []*adapters.Claim, err error) {
	s, lost := q.settling(results)
	s.back = slices.ContainsFunc(s.order, func(rows *settleRows) bool { return rows.back })
	if s.back { // nothing may be claimed now that is behind what is put back
		q.claiming.Lock()
		defer q.claiming.Unlock()
	}
	err = s.run(ctx)
	if pg.FailedWith(err, pg.LockNotAvailable) {
		s, lost, err = s.runFree(ctx, results)
	}
	if _, partly := errors.AsType[*adapters.LockedError](err); err != nil && !partly {
		s.tried()
		return nil, queueError(q.tables[0].name, "settle", pg.Refused(err))
	}
	return append(lost, s.lost...), err
}

// settling prepares the statements that write results. Those of claims that are not held are lost.
func (q *Queue) settling(results []adapters.ClaimResult) (s *settling, lost []*adapters.Claim) {
	s = &settling{q: q, most: len(results), parts: map[settlePart]*settleRows{}}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range results {
		r := &results[i]
		if h := q.held(r.Claim); h != nil {
			s.add(r, h)
		} else {
			lost = append(lost, r.Claim)
		}
	}
	return s, lost
}

// textOf returns the statements of a table: describing it writes them.
func (q *Queue) textOf(t *queueTable) queueText {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.text
}

// settlePart is what one statement writes.
type settlePart struct {
	table *queueTable
	text  string
}

// settleRows are the rows of one statement.
type settleRows struct {
	settlePart
	results            []*adapters.ClaimResult
	settled            []bool // the statement has changed them
	holds              []*hold
	owners             owners
	keys, at, attempts wire.Array // at: numbers of owners
	errs, due          wire.Array // for what is not done
	done               bool
	back               bool
	forgetNotes        string // deletes the notes of rows in noted; "": there are none
	noted              wire.Array
}

type settling struct {
	q     *Queue
	most  int // results
	order []*settleRows
	parts map[settlePart]*settleRows
	lost  []*adapters.Claim
	back  bool // some go back, and the caller has claiming
}

// add puts a result into its statement.
func (s *settling) add(r *adapters.ClaimResult, h *hold) {
	t := s.q.table(r.Claim.Table)
	layout := t.sql.layout
	e := queue.EffectOf(layout, t.claims.marks(), r)
	e.Error = shorten.Storable(e.Error, t.highest)
	text := ""
	switch e.Change {
	case queue.Done:
		text = t.text.done
	case queue.DeadLetter:
		text = cmp.Or(t.text.deadBy[r.Cause], t.text.dead)
	case queue.Retry:
		text = t.text.retry
	case queue.Release:
		text = t.text.put
	case queue.Leave:
	}
	part := settlePart{t, text}
	rows := s.parts[part]
	if rows == nil {
		rows = newSettleRows(part, s.most, e.Change)
		s.parts[part] = rows
		s.order = append(s.order, rows)
	}
	if rows.done && r.Claim.Attempts > 0 && t.text.forgetNotes != "" {
		rows.forgetNotes = t.text.forgetNotes
		rows.noted.Text(r.Claim.Key)
	}
	rows.add(r, h, e)
}

// newSettleRows makes room for as many rows as there are: most results have one
// outcome.
func newSettleRows(of settlePart, most int, change queue.Change) *settleRows {
	return &settleRows{
		settlePart: of, back: !change.Ends(), done: change == queue.Done, owners: of.table.claims.owners(of.table),
		results: make([]*adapters.ClaimResult, 0, most), holds: make([]*hold, 0, most),
		keys: wire.NewArray(most, keyBytes), at: wire.NewArray(most, numberBytes), attempts: wire.NewArray(most, numberBytes),
	}
}

func (rows *settleRows) add(r *adapters.ClaimResult, h *hold, e queue.Effect) {
	rows.results, rows.holds = append(rows.results, r), append(rows.holds, h)
	rows.keys.Text(r.Claim.Key)
	rows.at.Number(int64(rows.owners.number(r, h)))
	rows.attempts.Number(int64(e.Attempts))
	if rows.done {
		return
	}
	rows.errs.TextOrNull(e.Error)
	if e.Due.IsZero() {
		rows.due.Null()
	} else {
		rows.due.Text(strconv.FormatFloat(time.Until(e.Due).Seconds(), 'f', 6, 64))
	}
}

// args are the parameters of the statement.
func (rows *settleRows) args() []any {
	args := rows.owners.settling(rows)
	if !rows.done {
		args = append(args, rows.errs.String(), rows.due.String())
	}
	if lanes := rows.owners.fence(); lanes != nil {
		args = append(args, lanes.args()...)
	}
	return args
}

// run executes the statements. A batch is one transaction.
func (s *settling) run(ctx context.Context) error {
	if len(s.order) == 0 {
		return nil
	}
	err := pg.RetryDeadlock(func() error {
		return s.q.pool.SendBatch(ctx, s.batch(true)).Close()
	})
	if err != nil {
		return err
	}
	return s.end(ctx)
}

// end ends the claims, once the results are written.
func (s *settling) end(ctx context.Context) error {
	if err := s.confirm(ctx); err != nil {
		return err
	}
	s.forget()
	return nil
}

// batch are the statements, which mark what they change. Brief ones fail if another session holds a lock for long.
func (s *settling) batch(brief bool) *pgx.Batch {
	batch := &pgx.Batch{}
	if brief {
		batch.Queue(briefLocks)
	}
	s.lockLanes(batch)
	for _, rows := range s.order {
		if rows.settled = make([]bool, len(rows.results)); rows.text == "" {
			for n := range rows.settled {
				rows.settled[n] = true
			}
			continue
		}
		batch.Queue(rows.text, rows.args()...).Query(markSettled(func(n int) { rows.settled[n] = true }))
	}
	s.endNotes(batch)
	return batch
}

// forget ends the claims. A claim that is under way may have counted rows that are lost as held, and would go on behind
// them if they were not held any more when it comes to them.
func (s *settling) forget() {
	if !s.back && len(s.unsettled()) > 0 {
		s.q.claiming.Lock()
		defer s.q.claiming.Unlock()
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for _, rows := range s.order {
		s.finish(rows)
	}
}

// finish forgets the claims. The groups of rows that were put back are to be
// looked at from them on; the caller holds claiming then.
func (s *settling) finish(rows *settleRows) {
	t := rows.table
	for j, r := range rows.results {
		h, key := rows.holds[j], r.Claim.Key
		switch {
		case !rows.settled[j]:
			s.q.lose(t, key, h)
			s.lost = append(s.lost, r.Claim)
			continue
		case rows.back:
			t.enterFrom(h.group, h.created)
		case rows.done:
			s.q.hot.settled(key)
		}
		t.forget(key)
	}
}

// markSettled returns the numbers that a statement returns, from 0.
func markSettled(mark func(int)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var n int32
			if err := rows.Scan(&n); err != nil {
				return err
			}
			mark(int(n) - 1)
		}
		return rows.Err()
	}
}

// confirm finds out what an earlier settle wrote whose answer was lost: its rows
// are no longer claimed. Delivered and dead rows are looked up; rows that went
// back and are another process's by now count as gone back.
func (s *settling) confirm(ctx context.Context) error {
	batch := &pgx.Batch{}
	n := 0
	s.q.mu.Lock()
	for _, rows := range s.order {
		t := rows.table
		asked := settleRows{done: true, owners: t.claims.owners(t)}
		var at []int
		for j, r := range rows.results {
			switch {
			case rows.settled[j] || !rows.holds[j].tried:
			case rows.back:
				rows.settled[j] = true
				n++
			default:
				at = append(at, j)
				asked.add(r, rows.holds[j], queue.Effect{})
			}
		}
		if len(at) == 0 {
			continue
		}
		text := t.text.isDead
		if rows.done {
			text = t.text.isDone
		}
		batch.Queue(text, asked.owners.asking(&asked, s.q.timeout)...).Query(markSettled(func(k int) { rows.settled[at[k]] = true; n++ }))
	}
	s.q.mu.Unlock()
	if batch.Len() > 0 {
		if err := s.q.pool.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
	}
	if n > 0 {
		s.q.log.InfoContext(ctx, "results had been written to the queue's table although the answer was lost", "rows", n)
	}
	return nil
}

// tried notes that the results may have been written.
func (s *settling) tried() {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for _, rows := range s.order {
		for _, h := range rows.holds {
			h.tried = true
		}
	}
}

// endNotes adds the statements that delete the notes of rows that were delivered. A row that has not failed has none.
func (s *settling) endNotes(batch *pgx.Batch) {
	for _, rows := range s.order {
		if rows.forgetNotes != "" {
			batch.Queue(rows.forgetNotes, rows.noted.String())
		}
	}
}
