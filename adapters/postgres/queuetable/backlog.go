package queuetable

import (
	"context"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Unfinished implements [adapters.OperatorQueue]. Without an index by age it is
// not known which row is the oldest once there are more than are counted. A
// table's time zone is taken for that of the session, as everywhere.
func (q *Queue) Unfinished(ctx context.Context, most int) (adapters.Backlog, error) {
	var b adapters.Backlog
	known := true
	for _, t := range q.tables {
		if err := t.find(ctx, q.pool); err != nil {
			return adapters.Backlog{}, queueError(t.name, "count rows", err)
		}
		indexes, err := t.indexes(ctx, q.pool)
		if err != nil {
			return adapters.Backlog{}, queueError(t.name, "count rows", err)
		}
		var n int
		var oldest *time.Time
		if err := q.pool.QueryRow(ctx, t.sql.unfinished(indexes), most+1).Scan(&n, &oldest); err != nil {
			return adapters.Backlog{}, queueError(t.name, "count rows", err)
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
// Parameter: limit. Rows that are being processed and not in that index are in no order,
// so the limit does not hold for them.
func (q *queueSQL) unfinished(indexes queueIndexes) string {
	counted := "SELECT {created} AS created FROM {t} t WHERE {status} IN ({unfinished}) LIMIT $1"
	switch {
	case indexes.heldAged:
		counted = "SELECT {created} AS created FROM {t} t WHERE {status} IN ({unfinished}) ORDER BY {created}, {key} LIMIT $1"
	case indexes.aged:
		counted = `(SELECT {created} AS created FROM {t} t WHERE {status} IN ({waiting}) ORDER BY {created}, {key} LIMIT $1)
      UNION ALL (SELECT {created} FROM {t} t WHERE {status} = {processing} LIMIT greatest($1, ` + strconv.Itoa(heldMost) + `))`
	}
	return q.fill("SELECT count(*), min(" + wire.Instant("s.created") + ")\nFROM (" + counted + ") s")
}
