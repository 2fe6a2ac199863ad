package operate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/internal/testenv"
)

// twoStores is an operator on two databases with a state store each. The first has a queue, too. Both have parked messages, and
// the queue dead rows in its two tables; routes of the second database sort before those of the first.
func twoStores(t *testing.T) *operate.Operator {
	t.Helper()
	first, second := testenv.Postgres(t), testenv.Postgres(t)
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
sources:
  one: {type: postgres, url: %q}
  queue: {type: postgres, url: %q, layout: flowcatalyst}
  two: {type: postgres, url: %q}
destinations: {nowhere: {type: discard}}
routes: {m_one: {from: one, to: nowhere}, q: {from: queue, to: nowhere}, a_two: {from: two, to: nowhere}}
`, first, first, second))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	for url, route := range map[string]string{first: "m_one", second: "a_two"} {
		conn, err := pgx.Connect(t.Context(), url)
		must(t, err)
		for _, statement := range []string{
			"INSERT INTO outrider_cursor (route, slot) SELECT '" + route + "', generate_series(0, 15)",
			`INSERT INTO outrider_parked (route, slot, seq, status, attempts, last_error, event_id, event_type, position, metadata, payload)
SELECT '` + route + `', i % 3, i, 'dead', 9, '', '` + route + `' || i, 't', i, '{}', '' FROM generate_series(1, 7) i`,
			`INSERT INTO outrider_audit (by, action, filter, changed, at) SELECT '` + route + `' || i, 'redrive', '{}', 1, now() - (i + CASE '` + route + `' WHEN 'm_one' THEN 0.5 ELSE 0 END) * interval '1 min'
FROM generate_series(9, 1, -1) i`,
		} {
			_, err = conn.Exec(t.Context(), statement)
			must(t, err)
		}
		if url == first {
			for _, table := range []string{"outbox_events", "outbox_dispatch_jobs"} {
				_, err = conn.Exec(t.Context(), `INSERT INTO `+table+` (id, type, message_group, payload, status, retry_count, created_at)
SELECT 'd' || i, 'EVENT', 'g', '{}', 'FAILED', 3, timestamp '2026-01-01' FROM generate_series(1, 5) i`)
				must(t, err)
			}
		}
		must(t, conn.Close(context.WithoutCancel(t.Context())))
	}
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, op.Close()) })
	return op
}

// Pages follow each other through the state stores and through the tables of queues, whatever their size: each message once, in
// the order of the whole list.
func TestPagesOfParkedMessagesGoOnInEveryStoreAndTable(t *testing.T) {
	t.Parallel()
	op := twoStores(t)
	name := func(p *operate.ParkedMessage) string {
		return fmt.Sprint(p.Route, p.Table, "/", p.Slot, "/", p.Seq, "/", p.ID)
	}
	whole, err := op.Parked(t.Context(), adapters.ParkedFilter{Limit: 1000})
	must(t, err)
	var want []string
	for i := range whole {
		want = append(want, name(&whole[i]))
	}
	if len(want) != 7+7+5+5 {
		t.Fatalf("the list has %d messages: %v", len(want), want)
	}
	for _, size := range []int{1, 2, 5, 7, 24, 100} {
		var got []string
		place := ""
		for {
			after, err := operate.ParsePageToken(place)
			must(t, err)
			page, err := op.ParkedAfter(t.Context(), adapters.ParkedFilter{Limit: size}, after)
			must(t, err)
			if len(page) == 0 {
				break
			}
			for i := range page {
				got = append(got, name(&page[i]))
			}
			place = page[len(page)-1].At.String()
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d are\n%v\nwant\n%v", size, got, want)
		}
	}
	for _, text := range []string{"a/1", "a/4096/1", "~", "~e30/x", "a/x/1", "~!", operate.PageToken{Source: "gone"}.String(),
		operate.PageToken{Source: "queue", Dead: adapters.DeadKey{Table: "outbox_events", Created: "soon", Key: "d1"}}.String()} {
		after, err := operate.ParsePageToken(text)
		if err == nil {
			_, err = op.ParkedAfter(t.Context(), adapters.ParkedFilter{}, after)
		}
		if !errors.Is(err, operate.ErrPageToken) || server.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Audit records of several stores are one list, the newest first, on pages as on one.
func TestPagesOfTheAuditLogGoOnInEveryStore(t *testing.T) {
	t.Parallel()
	op := twoStores(t)
	var want []string
	for i := 1; i <= 9; i++ {
		want = append(want, fmt.Sprint("a_two", i), fmt.Sprint("m_one", i))
	}
	for _, size := range []int{1, 2, 5, 18, 100} {
		var got []string
		before := ""
		for {
			records, next, err := op.Audit(t.Context(), before, size)
			must(t, err)
			for _, r := range records {
				got = append(got, r.By)
			}
			if before = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d are %v, want %v", size, got, want)
		}
	}
	for _, before := range []string{"1", "1.x", "-1.2", "1.2.3"} {
		if _, _, err := op.Audit(t.Context(), before, 1); !errors.Is(err, operate.ErrPageToken) {
			t.Errorf("%q: %v", before, err)
		}
	}
}
