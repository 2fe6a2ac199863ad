package postgres

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

var _ outbox.Backlogger = (*LogSource)(nil)

// logBacklogSQL reads rows by the index on the position, from a place on.
// Parameters: position, limit.
const logBacklogSQL = `SELECT 0, false, {columns} FROM {table} o WHERE o.{position} > $1 ORDER BY o.{position} LIMIT $2`

// Backlog implements [outbox.Backlogger]. The table has no slots, so rows are
// looked at from the lowest of the spans' beginnings, payloads aside, and at most
// twice as many as are counted. Rows that are not visible yet do not count, nor do
// late ones below the cursors.
func (s *LogSource) Backlog(ctx context.Context, spans []outbox.Span, most int) (b outbox.Backlog, err error) {
	bySlot := map[int]outbox.Span{}
	lowest := int64(math.MaxInt64)
	for _, sp := range spans {
		bySlot[sp.Slot] = sp
		lowest = min(lowest, sp.After)
	}
	if err := s.src.find(ctx); err != nil {
		return b, s.explain("count rows", err)
	}
	err = pgx.BeginTxFunc(ctx, s.src.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, backlogSettings); err != nil {
			return err
		}
		t, _, err := s.mapping.look(ctx, tx)
		if err != nil {
			return err
		}
		if err := t.problems(); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, t.countingSQL(logBacklogSQL), rawResults, lowest, 2*most)
		if err != nil {
			return err
		}
		defer rows.Close()
		d := &decoder{table: s.src.table, maxRow: s.mapping.maxRow}
		looked := 0
		for rows.Next() && !b.More {
			looked++
			v := rows.RawValues()
			sp, ok := bySlot[s.mapping.head(d, v).slot]
			position := int64FromBinary(v[fetchPosition])
			if !ok || position <= sp.After || sp.Upto > 0 && position > sp.Upto {
				continue
			}
			if b.Rows == most {
				b.More = true
				continue
			}
			if b.Rows++; b.Oldest.IsZero() {
				b.Oldest = createdAt(v)
			}
		}
		b.More = b.More || looked == 2*most
		return rows.Err()
	})
	return b, s.explain("count rows", err)
}

// createdAt is when a row was created; zero when that is not known.
func createdAt(values [][]byte) time.Time {
	at, err := timeFromBinary(values[fetchCreatedAt])
	if err != nil {
		return time.Time{}
	}
	return at
}
