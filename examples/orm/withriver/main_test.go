package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachOrderIsShippedOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	var out strings.Builder
	if err := run(t.Context(), url, &out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"order 1 goes to heron\n", "order 2 goes to kite\n"} {
		if strings.Count(out.String(), line) != 1 {
			t.Errorf("got %q, want %q once", out.String(), line)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var got string
	err = conn.QueryRow(t.Context(), `SELECT concat_ws(' ', (SELECT count(*) FROM orders), (SELECT string_agg(DISTINCT status, ',') FROM outbox_messages),
		(SELECT count(*) FROM river_job), (SELECT count(*) FROM river_job r JOIN outbox_messages m ON m.id::text = r.metadata->'outrider'->>'event_id'))`).Scan(&got)
	if want := "2 processed 2 2"; err != nil || got != want {
		t.Errorf("orders, statuses of their rows, jobs, and jobs of these rows are %q, want %q (%v)", got, want, err)
	}
}
