package queuetable

import (
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// What waits and what is being processed is unfinished, in all tables together.
func TestUnfinishedCountsWhatIsLeftToDo(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		ours bool      // the index by age
		more time.Time // the oldest, when there are more than are counted
	}{"original index": {false, time.Time{}}, "own indexes": {true, first}} {
		t.Run(name, func(t *testing.T) {
			e := base.flowCatalyst(t, tt.ours)
			e.url += "&timezone=UTC"
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			events, jobs := e.tables[0].Name, e.tables[1].Name
			check := func(most int, want adapters.Backlog) {
				t.Helper()
				got, err := q.Unfinished(e.ctx, most)
				pgtest.Must(t, err)
				got.Oldest = got.Oldest.UTC()
				if got != want {
					t.Errorf("at most %d: got %+v, want %+v", most, got, want)
				}
			}
			check(10, adapters.Backlog{})
			e.fill(events, 2, 1, "COMPLETED") // the first two milliseconds
			e.fill(events, 1, 1, "FAILED")
			check(10, adapters.Backlog{})
			e.fill(events, 3, 2, "PENDING")
			check(10, adapters.Backlog{Rows: 3, Oldest: first.Add(4 * time.Millisecond)})
			e.fill(jobs, 4, 4, "PROCESSING")
			e.exec("UPDATE " + jobs + " SET created_at = timestamp '2026-01-01' WHERE message_group = 'order-3'") // the last group's row is the oldest
			check(7, adapters.Backlog{Rows: 7, Oldest: first})
			check(6, adapters.Backlog{Rows: 6, More: true, Oldest: first})
			check(2, adapters.Backlog{Rows: 2, More: true, Oldest: tt.more})
		})
	}
}

// Which row is the oldest does not depend on the plan, if there is an index by age.
func TestUnfinishedFindsTheOldestByWhateverPlan(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	e.fill(e.tables[0].Name, 9, 1, "PENDING")
	e.exec("UPDATE " + e.tables[0].Name + " SET created_at = timestamp '2025-06-01' WHERE id LIKE '%9'") // the last in the table is the oldest
	tx, err := e.pool.Begin(e.ctx)
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, tx.Rollback(e.ctx)) }()
	_, err = tx.Exec(e.ctx, "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off")
	pgtest.Must(t, err)
	var n int
	var oldest time.Time
	pgtest.Must(t, tx.QueryRow(e.ctx, q.tables[0].sql.unfinished(queueIndexes{aged: true, heldAged: true}), 3).Scan(&n, &oldest))
	if n != 3 || oldest.Year() != 2025 {
		t.Errorf("%d rows, the oldest from %v; want 3, and 2025", n, oldest)
	}
}
