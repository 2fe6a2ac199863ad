package queuetable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// CountDead implements [adapters.OperatorQueue].
func (q *Queue) CountDead(ctx context.Context, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	for _, t := range q.tables {
		sql, err := q.described(ctx, t)
		if err != nil {
			return nil, false, queueError(t.name, "count dead rows", err)
		}
		if kinds && sql.layout.TypeInPayload {
			return nil, false, fmt.Errorf("table %s: the type of a row is in its payload: %w", t.name, errors.ErrUnsupported)
		}
		rows, err := q.pool.Query(ctx, sql.countDead(kinds), most+1)
		if err != nil {
			return nil, false, queueError(t.name, "count dead rows", err)
		}
		seen := 0
		var c adapters.DeadCount
		_, err = pgx.ForEachRow(rows, []any{&c.Row.Type, &c.Row.AggregateType, &c.Row.Tenant, &c.Rows}, func() error {
			c.Row.Kind = t.kind
			if sql.layout.KindInType {
				c.Row.Kind = c.Row.Type
			}
			if seen += c.Rows; seen > most {
				more = true
				c.Rows -= seen - most
			}
			counts = append(counts, c)
			return nil
		})
		if err != nil {
			return nil, false, queueError(t.name, "count dead rows", err)
		}
	}
	return counts, more, nil
}

// countDead counts along the index of dead rows. Parameter: limit.
func (q *queueSQL) countDead(kinds bool) string {
	columns, groups := "'' AS a, '' AS b, '' AS c", "'', '', ''"
	if kinds {
		c := &q.layout.Columns
		text := func(column, name string) string {
			if column == "" {
				return "''"
			}
			return "left(coalesce(" + name + "::text, ''), " + strconv.Itoa(queue.LongestError) + ")"
		}
		columns = strings.Join([]string{text(c.Type, "{type}") + " AS a", text(c.AggregateType, "{aggregate_type}") + " AS b", text(c.Tenant, "{tenant}") + " AS c"}, ", ")
		groups = "s.a, s.b, s.c"
	}
	group := ""
	if kinds {
		group = " GROUP BY s.a, s.b, s.c"
	}
	return q.fill("SELECT " + groups + ", count(*)::int FROM (SELECT " + columns + " FROM {t} t WHERE {status} IN ({dead}) ORDER BY {created}, {key} LIMIT $1) s" + group)
}

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
