package operate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// operator returns an operator on a database with n dead messages of 1 KiB each.
func operator(t *testing.T, n int) (*operate.Operator, *pgx.Conn) {
	t.Helper()
	url := testenv.Postgres(t)
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q}}
destinations: {nowhere: {type: discard}}
routes: {orders: {from: app, to: nowhere}}
`, url))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, op.Close()) })
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close(context.Background())) })
	for _, statement := range []string{
		"INSERT INTO outrider_cursor (route, slot) SELECT 'orders', generate_series(0, 15)",
		fmt.Sprintf(`INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, last_error, event_id, event_type,
			position, metadata, payload) SELECT 'orders', i %% 16, i, 'g' || i, 'dead', 9, '', 'e' || i, 't', i, '{}',
			convert_to(repeat('x', 1024), 'UTF8') FROM generate_series(1, %d) i`, n),
	} {
		_, err = conn.Exec(t.Context(), statement)
		must(t, err)
	}
	return op, conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Redriving many messages takes steps of bounded size, each audited, and no
// memory for their content. It runs alone, because what it measures is the process's.
func TestG7_ManyMessagesAreRedrivenInSteps(t *testing.T) {
	const n = 30_500
	op, conn := operator(t, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	told := 0
	changed, err := op.ChangeParked(t.Context(), adapters.ParkedCommand{Action: adapters.ParkedRedrive,
		Filter: adapters.ParkedFilter{Status: adapters.ParkedDead}, By: "me"}, operate.RateLimit{Progress: func(n int) { told = n }})
	runtime.ReadMemStats(&after)
	if err != nil || changed != n || told != n {
		t.Fatalf("redrove %d, was told of %d, %v", changed, told, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > n*1024/4 {
		t.Errorf("%d bytes were allocated for %d messages of 1 KiB: their content was read", used, n)
	}
	var steps, most, total, left int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*), max(changed), sum(changed) FROM outrider_audit
		WHERE by = 'me' AND action = 'redrive' AND filter->>'status' = 'dead'`).Scan(&steps, &most, &total))
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM outrider_parked WHERE status <> 'retrying' OR attempts > 0`).Scan(&left))
	if steps != 31 || most != adapters.DefaultParkedStep || total != n || left != 0 {
		t.Errorf("%d steps of at most %d, %d in all, %d messages were left out", steps, most, total, left)
	}
}

// A limit bounds the whole command, and a command that is called off says how far
// it came.
func TestALimitAndAnEndBoundACommand(t *testing.T) {
	t.Parallel()
	op, conn := operator(t, 100)
	purge := adapters.ParkedCommand{Action: adapters.ParkedPurge, All: true, Filter: adapters.ParkedFilter{Limit: 7}}
	if n, err := op.ChangeParked(t.Context(), purge, operate.RateLimit{Rate: 5000}); err != nil || n != 7 {
		t.Errorf("purged %d, %v; want 7", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	purge.Filter.Limit = 0
	n, err := op.ChangeParked(ctx, purge, operate.RateLimit{Rate: 10, Progress: func(int) { cancel() }})
	if !errors.Is(err, context.Canceled) || n != 10 {
		t.Errorf("purged %d, %v; want the first step of 10", n, err)
	}
	var left int
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outrider_parked").Scan(&left))
	if left != 100-7-10 {
		t.Errorf("%d are left", left)
	}
}

// A list reads no payloads: of a thousand messages with a megabyte each it would need a gigabyte. One that is shown has them.
func TestG7_ListsReadNoPayloads(t *testing.T) {
	t.Parallel()
	op, _ := operator(t, 40)
	list, err := op.Parked(t.Context(), adapters.ParkedFilter{})
	must(t, err)
	page, err := op.ParkedAfter(t.Context(), adapters.ParkedFilter{}, list[0].At)
	must(t, err)
	for _, m := range append(list, page...) {
		if !m.Bare || m.Payload != nil || m.Size != 1024 {
			t.Errorf("%s is listed with %d of %d bytes", m.ID, len(m.Payload), m.Size)
		}
	}
	whole, err := op.ParkedWhole(t.Context(), adapters.ParkedFilter{}, 10<<10)
	must(t, err)
	for i, m := range whole {
		if fits := i < 9; m.Bare == fits || (len(m.Payload) == 1024) != fits {
			t.Errorf("message %d of 1 KiB of at most 10 KiB has %d bytes", i, len(m.Payload))
		}
	}
	if len(list) != 40 || len(page) != 39 || len(whole) != 40 {
		t.Errorf("%d, %d and %d messages", len(list), len(page), len(whole))
	}
}
