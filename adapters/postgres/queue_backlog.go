package postgres

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

var _ outbox.UnfinishedCounter = (*Queue)(nil)

// Unfinished implements [outbox.UnfinishedCounter]. Without an index by age it is
// not known which row is the oldest once there are more than are counted. A
// table's time zone is taken for that of the session, as everywhere.
func (q *Queue) Unfinished(ctx context.Context, most int) (outbox.Backlog, error) {
	var b outbox.Backlog
	known := true
	for _, t := range q.tables {
		indexes, err := t.indexes(ctx, q.pool)
		if err != nil {
			return outbox.Backlog{}, queueError(t.name, "count rows", err)
		}
		var n int
		var oldest *time.Time
		if err := q.pool.QueryRow(ctx, t.sql.unfinished(indexes.aged), most+1).Scan(&n, &oldest); err != nil {
			return outbox.Backlog{}, queueError(t.name, "count rows", err)
		}
		b.Rows += n
		known = known && (indexes.aged || n <= most)
		if oldest != nil && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
			b.Oldest = *oldest
		}
	}
	if b.Rows > most {
		b.Rows, b.More = most, true
	}
	if !known {
		b.Oldest = time.Time{}
	}
	return b, nil
}

// unfinished counts what is unfinished, and finds the oldest of what it counts:
// along the index by age, where there is one, that is the oldest of all.
// Parameter: limit.
func (q *queueSQL) unfinished(aged bool) string {
	order := ""
	if aged {
		order = "\n      ORDER BY {created}, {key}"
	}
	return q.fill(`SELECT count(*), min(s.created)::timestamptz
FROM (SELECT {created} AS created FROM {t} t
      WHERE {status} IN ({unfinished})` + order + `
      LIMIT $1) s`)
}
