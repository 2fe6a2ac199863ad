package logtable

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// logBacklogSQL reads rows by the index on the position, from a place on.
// Parameters: position, limit.
const logBacklogSQL = `SELECT 0, false, {columns} FROM {table} o WHERE o.{position} > $1 ORDER BY o.{position} LIMIT $2`

// Backlog implements [adapters.OperatorSource]. The table has no slots, so rows are
// read from the lowest of the spans' beginnings, payloads aside, and at most
// twice as many as are counted. Rows that are not visible yet do not count, nor do
// late ones below the cursors.
func (s *Source) Backlog(ctx context.Context, spans []adapters.Span, most int) (b adapters.Backlog, err error) {
	bySlot := map[int]adapters.Span{}
	lowest := int64(math.MaxInt64)
	for _, sp := range spans {
		bySlot[sp.Slot] = sp
		lowest = min(lowest, sp.After)
	}
	looked, err := s.each(ctx, logBacklogSQL, []any{lowest, 2 * most}, func(slot int, position int64, v [][]byte) bool {
		sp, ok := bySlot[slot]
		switch {
		case !ok || position <= sp.After || sp.Upto > 0 && position > sp.Upto:
		case b.Rows == most:
			b.More = true
		default:
			if b.Rows++; b.Oldest.IsZero() {
				b.Oldest = createdAt(v)
			}
		}
		return !b.More
	})
	b.More = b.More || looked == 2*most
	return b, s.explain("count rows", err)
}

// each hands over the rows of a statement that countingSQL completes, until f wants no
// more, and returns how many there were.
func (s *Source) each(ctx context.Context, sql string, args []any, f func(slot int, position int64, v [][]byte) bool) (n int, err error) {
	err = s.base.Count(ctx, func(tx pgx.Tx) error {
		t, err := s.mapping.sound(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, t.countingSQL(sql), append([]any{wire.RawResults}, args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		d := &wire.Decoder{Table: s.base.Table, MaxRow: s.mapping.maxRow}
		for more := true; more && rows.Next(); n++ {
			v := rows.RawValues()
			more = f(s.mapping.head(d, v).slot, wire.Int64FromBinary(v[reader.FetchPosition]), v)
		}
		return rows.Err()
	})
	return n, err
}

// createdAt is when a row was created; zero when that is not known.
func createdAt(values [][]byte) time.Time {
	at, err := wire.TimeFromBinary(values[reader.FetchCreatedAt])
	if err != nil {
		return time.Time{}
	}
	return at
}
