package queuetable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
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
