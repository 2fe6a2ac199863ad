package queuetable

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// fill inserts n rows, spread over groups, each a moment younger than the one
// before it.
func (e *queueEnv) fill(table string, n, groups int, status string) {
	e.t.Helper()
	e.exec(e.sql(table, `INSERT INTO {t} ({set_key}, {set_type}, {set_group}, {set_payload}, {set_status}, {set_created})
SELECT lpad((i + c.n)::text, 13, '0'), 'EVENT', 'order-' || i % $2, '{"type": "order.created", "id": "' || i || '", "padding": "' || repeat('x', 100) || '"}',
       `+pg.Literal(status)+`, timestamp '2026-01-01' + (i + c.n) * interval '1 ms'
FROM (SELECT count(*) AS n FROM {t}) AS c, generate_series(1, $1::int) AS i`), n, groups)
}

// BenchmarkQueue claims and settles rows in 200 groups, beside what the
// original's statements take for the same without keeping any order.
func BenchmarkQueue(b *testing.B) {
	const rows, batch = 20_000, 500
	drains := map[string]func(*queueEnv){"original index": drainQueue(rows, batch), "own indexes": drainQueue(rows, batch),
		"floor": func(e *queueEnv) { drainFloor(e, rows, batch) }}
	for name, drain := range drains {
		b.Run(name, func(b *testing.B) {
			e := newQueueEnv(b).flowCatalyst(b, name == "own indexes")
			for b.Loop() {
				b.StopTimer()
				e.exec("TRUNCATE " + e.tables[0].Name)
				e.fill(e.tables[0].Name, rows, 200, "PENDING")
				b.StartTimer()
				drain(e)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "µs/row")
		})
	}
}

func drainQueue(rows, batch int) func(*queueEnv) {
	return func(e *queueEnv) {
		q := e.queue()
		defer func() { pgtest.Must(e.t, q.Close()) }()
		for done := 0; done < rows; {
			claimed, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: batch})
			pgtest.Must(e.t, err)
			results := make([]adapters.ClaimResult, len(claimed))
			for i, row := range claimed {
				results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}
			}
			lost, err := q.Settle(e.ctx, results)
			if err != nil || len(lost) > 0 {
				e.t.Fatalf("%d lost, %v", len(lost), err)
			}
			done += len(claimed)
		}
	}
}

func drainFloor(e *queueEnv, rows, batch int) {
	conn, err := pgx.Connect(e.ctx, e.url)
	pgtest.Must(e.t, err)
	defer func() { pgtest.Must(e.t, conn.Close(e.ctx)) }()
	table := e.tables[0].Name
	claim := strings.NewReplacer("LIMIT 7", fmt.Sprint("LIMIT ", batch), "RETURNING t.id", "RETURNING t.id, t.payload, coalesce(t.message_group, 'default')").
		Replace(flowCatalystSystem.in(table, flowCatalystSystem.claim))
	for done := 0; done < rows; {
		found, err := conn.Query(e.ctx, claim)
		pgtest.Must(e.t, err)
		var ids []string
		var id, payload, group string
		_, err = pgx.ForEachRow(found, []any{&id, &payload, &group}, func() error {
			ids = append(ids, id)
			return nil
		})
		pgtest.Must(e.t, err)
		_, err = conn.Exec(e.ctx, flowCatalystSystem.in(table, flowCatalystSystem.done), ids)
		pgtest.Must(e.t, err)
		done += len(ids)
	}
}

func slots() []int {
	all := make([]int, adapters.Slots)
	for i := range all {
		all[i] = i
	}
	return all
}
