package router

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/internal/testenv"
)

// notified makes the tables notify, and makes Outrider's indexes.
func (f *flowcatalyst) notified(indexes bool) (tables []string) {
	f.t.Helper()
	pool, err := pgxpool.New(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	defer pool.Close()
	tables = []string{"outbox_events", "outbox_dispatch_jobs"}
	if _, err = postgres.InitWake(f.t.Context(), pool, tables...); err == nil && indexes {
		_, err = queuetable.Init(f.t.Context(), pool, *layout.FlowCatalyst().Queue, false, layout.FlowCatalyst().Queue.Tables...)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return tables
}

// late opens a transaction that has inserted a row while the claimer sleeps; what it returns commits it. A claimer that a notification of
// before has woken again would not sleep while the transaction is open, so the row is then inserted in another one.
func (f *flowcatalyst) late(table, id, group string) (commit func()) {
	f.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	exec := func(sql string) {
		f.t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			f.t.Fatal(err)
		}
	}
	for awake := true; awake; {
		f.awaitSleep(table)
		exec(fmt.Sprintf(`BEGIN; INSERT INTO %s (id, type, message_group, payload, status, created_at)
			VALUES ('%s', 'EVENT', '%s', '{"type":"order.created"}', 'PENDING', localtimestamp)`, table, id, group))
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')`).Scan(&awake)
		if err != nil {
			f.t.Fatal(err)
		}
		if awake {
			exec("ROLLBACK")
		}
	}
	return func() {
		f.t.Helper()
		exec("COMMIT")
		_ = conn.Close(ctx)
	}
}

// A row that commits late is behind what was read before, and only the reading of
// everything finds it. A claimer that sleeps is woken for it once, and would not
// look again before an hour has gone: it must not take a look that left something
// out for one that found nothing. So too with slow round trips to the database,
// which make it read less at a time, and with many rows in front that nobody wants.
func TestG13_ARowThatCommitsLateIsNotLeftToThePoll(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		delay    time.Duration // each way
		unwanted int
		indexes  bool
	}{
		{0, 0, true}, {500 * time.Microsecond, 0, true}, {3 * time.Millisecond, 0, true}, {3 * time.Millisecond, 0, false},
		{0, 100_000, true}, {3 * time.Millisecond, testenv.Size(10_000, 100_000), true}, {0, 5_000, false},
	} {
		t.Run(fmt.Sprintf("%v, %d unwanted, indexes %v", 2*tt.delay, tt.unwanted, tt.indexes), func(t *testing.T) {
			t.Parallel()
			f := newFlowcatalyst(t)
			_, f.through = newWire(t, f.url, tt.delay)
			f.alter = func(r *Route) { r.Match = func(row *adapters.Row) bool { return row.Type != "unwanted" } }
			tables := f.notified(tt.indexes)
			f.exec(fmt.Sprintf(`INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
				SELECT 'u' || i, 'EVENT', 'u' || i %% 50, '{"type":"unwanted"}', 'PENDING', localtimestamp - interval '1 day' + i * interval '1 ms'
				FROM generate_series(1, %d) AS i`, tt.unwanted))
			stop := f.startWith(postgres.WakeNotify, Poll{Batch: 500, Min: time.Hour, Max: time.Hour})
			const rounds = 4
			for i := range rounds {
				table := tables[i%2]
				f.awaitSleep(tables...)
				commit := f.late(table, fmt.Sprintf("l%d", i), "late")
				f.insert(table, string(table[7]), 1, i, 1)
				f.await("status = 'COMPLETED'", 2*i+1)
				f.awaitSleep(tables...)
				commit()
				f.await("status = 'COMPLETED'", 2*i+2)
			}
			stop()
			f.checkOrdered(2 * rounds)
			if n := f.count("status = 'PENDING' AND processed_at IS NULL"); n != tt.unwanted {
				t.Errorf("%d rows are as they were, want the %d that nobody wants", n, tt.unwanted)
			}
		})
	}
}
