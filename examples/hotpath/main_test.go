package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHotPath(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	for _, want := range []string{"welcome, heron\n", "welcome, crane\nwelcome, heron\n"} {
		var out bytes.Buffer
		if err := run(t.Context(), url, &out); err != nil || out.String() != want {
			t.Errorf("the program wrote %q and ended with %v; want %q", out.String(), err, want)
		}
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		// The next run finds an event that a killed one has left.
		_, err = conn.Exec(t.Context(), `INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, status, available_at, created_at)
			VALUES (gen_random_uuid(), 'USER_CREATED', 'USER', '1', '{"Name": "crane"}', 0, now(), now())`)
		if err := errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}
