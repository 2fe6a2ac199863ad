package owntable

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// backlogSQL counts along the primary key, at most $4 rows of each slot, and
// reads the first row of each.
var backlogSQL = `
SELECT s.i, c.n, ` + wire.Instant("f.created_at") + `
FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS s(slot, after, upto, i)
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (
        SELECT o.position FROM {table} o
        WHERE o.slot = s.slot AND o.position > s.after AND o.position <= s.upto
        ORDER BY o.slot, o.position LIMIT $4
    ) x
) c
LEFT JOIN LATERAL (
    SELECT o.created_at FROM {table} o
    WHERE o.slot = s.slot AND o.position > s.after AND o.position <= s.upto
    ORDER BY o.slot, o.position LIMIT 1
) f ON true`

var _ adapters.LaneBacklogger = (*Source)(nil)

// Backlog implements [adapters.OperatorSource]. Rows that are not visible yet do not
// count, nor do late ones below the cursors.
func (s *Source) Backlog(ctx context.Context, spans []adapters.Span, most int) (b adapters.Backlog, err error) {
	each, err := s.Backlogs(ctx, spans, most)
	for _, n := range each {
		b.Add(n)
	}
	return b.Upto(most), err
}

// Backlogs implements [adapters.LaneBacklogger].
func (s *Source) Backlogs(ctx context.Context, spans []adapters.Span, most int) ([]adapters.Backlog, error) {
	out := make([]adapters.Backlog, len(spans))
	err := s.base.Count(ctx, func(tx pgx.Tx) error {
		rows, err := s.queryBacklog(ctx, tx, spans, most)
		if err != nil {
			return err
		}
		var i, n int
		var oldest *time.Time
		_, err = pgx.ForEachRow(rows, []any{&i, &n, &oldest}, func() error {
			b := &out[i-1]
			if b.Rows = n; oldest != nil {
				b.Oldest = *oldest
			}
			*b = b.Upto(most)
			return nil
		})
		return err
	})
	return out, s.base.Explain("count rows", err)
}

func (s *Source) queryBacklog(ctx context.Context, tx pgx.Tx, spans []adapters.Span, most int) (pgx.Rows, error) {
	slots, after, upto := make([]int16, len(spans)), make([]int64, len(spans)), make([]int64, len(spans))
	for i, sp := range spans {
		slots[i], after[i], upto[i] = int16(sp.Slot), sp.After, sp.Upto
		if sp.Upto == 0 {
			upto[i] = math.MaxInt64
		}
	}
	return tx.Query(ctx, sqltext.Fill(backlogSQL, sqltext.Names{"table": s.base.Quoted}), slots, after, upto, most+1)
}
