package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// longestError is how much of an error is kept in the table, in bytes.
const longestError = 4000

// Settle implements [outbox.Queue]: a statement for each outcome and table,
// all in one transaction and one round trip. After an error the claims are
// kept: settle them again. If the transaction did go through, they come back
// as lost.
func (q *Queue) Settle(ctx context.Context, results []outbox.ClaimResult) (lost []*outbox.Claim, err error) {
	s := settling{q: q, parts: map[settlePart]*settleRows{}}
	back := false
	q.mu.Lock()
	for i := range results {
		r := &results[i]
		h := q.held(r.Claim)
		if h == nil {
			lost = append(lost, r.Claim)
			continue
		}
		back = back || r.Outcome != outbox.Delivered && r.Outcome != outbox.Skipped && r.Outcome != outbox.Dead
		s.add(r, h)
	}
	q.mu.Unlock()
	if back { // nothing may be claimed now that is behind what is put back
		q.claiming.Lock()
		defer q.claiming.Unlock()
	}
	if err := s.run(ctx); err != nil {
		return nil, queueError(q.tables[0].name, "settle", err)
	}
	return append(lost, s.lost...), nil
}

// settlePart is what one statement writes.
type settlePart struct {
	table *queueTable
	text  string
}

// settleRows are the rows of one statement.
type settleRows struct {
	results                                    []*outbox.ClaimResult
	holds                                      []*hold
	keys, stamps, formers, attempts, errs, due arrayText
	back                                       bool
}

type settling struct {
	q     *Queue
	order []settlePart
	parts map[settlePart]*settleRows
	lost  []*outbox.Claim
}

// add puts a result into its statement.
func (s *settling) add(r *outbox.ClaimResult, h *hold) {
	t := s.q.table(r.Claim.Table)
	layout := t.sql.layout
	text, attempts, message, due, back := t.text.put, max(r.Attempts, 0), "", time.Time{}, true
	switch r.Outcome {
	case outbox.Delivered, outbox.Skipped:
		text, back = t.text.done, false
	case outbox.Dead:
		text, message, back = t.text.dead, r.Error, false
		if layout.DeadKeepsRetries {
			attempts = max(attempts-1, 0)
		}
	case outbox.Retry:
		text, message, due = t.text.retry, r.Error, r.At
	default: // released, or its address is away: as if it had not been claimed
	}
	part := settlePart{t, text}
	rows := s.parts[part]
	if rows == nil {
		rows = &settleRows{back: back}
		s.parts[part] = rows
		s.order = append(s.order, part)
	}
	rows.results, rows.holds = append(rows.results, r), append(rows.holds, h)
	rows.keys.text(r.Claim.Key)
	rows.stamps.text(timeText(h.stamp))
	rows.formers.text(timeText(h.former))
	rows.attempts.word(strconv.Itoa(attempts))
	if message == "" {
		rows.errs.null()
	} else {
		rows.errs.text(storable(message))
	}
	if due.IsZero() {
		rows.due.null()
	} else {
		rows.due.text(due.UTC().Format(time.RFC3339Nano))
	}
}

// run executes the statements. A batch is one transaction.
func (s *settling) run(ctx context.Context) error {
	if len(s.order) == 0 {
		return nil
	}
	settled := make([][]bool, len(s.order))
	err := retryDeadlock(func() error {
		batch := &pgx.Batch{}
		for i, part := range s.order {
			rows := s.parts[part]
			settled[i] = make([]bool, len(rows.results))
			batch.Queue(part.text, rows.keys.String(), rows.stamps.String(), rows.formers.String(), rows.attempts.String(),
				rows.errs.String(), rows.due.String()).Query(markSettled(settled[i]))
		}
		return s.q.pool.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return err
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for i, part := range s.order {
		s.finish(part.table, s.parts[part], settled[i])
	}
	return nil
}

// finish forgets the claims. The groups of rows that were put back are to be
// looked at from them on; the caller holds claiming then.
func (s *settling) finish(t *queueTable, rows *settleRows, settled []bool) {
	for j, r := range rows.results {
		h, key := rows.holds[j], rowKey{t.name, r.Claim.Key}
		switch {
		case !settled[j]:
			s.q.lose(key, h)
			s.lost = append(s.lost, r.Claim)
			continue
		case rows.back:
			t.enterFrom(h)
		}
		s.q.forget(key)
	}
}

// markSettled notes the numbers that a statement returns.
func markSettled(settled []bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var n int32
			if err := rows.Scan(&n); err != nil {
				return err
			}
			settled[n-1] = true
		}
		return rows.Err()
	}
}

// storable makes an error fit for a text column.
func storable(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if len(s) > longestError {
		s = s[:longestError]
	}
	return strings.ToValidUTF8(s, "")
}
