package outbox_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestPublishIntoYantrasTable(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testenv.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `CREATE TABLE outbox_messages (id uuid PRIMARY KEY, aggregate_id varchar(255) NOT NULL, aggregate_type varchar(50) NOT NULL,
		event_type varchar(50) NOT NULL, payload jsonb NOT NULL, status varchar(20) NOT NULL, created_at timestamp NOT NULL, processed_at timestamp)`)
	must(t, err)
	c, err := outbox.NewClient(outbox.ClientConfig{Layout: "yantra"})
	must(t, err)
	own, err := outbox.New("workflow.triggered").RawJSON([]byte(`{"n":1}`)).Aggregate("workflow_execution", "17").Group("17").Build()
	must(t, err)
	given, err := outbox.New("workflow.triggered").RawJSON([]byte(`{"n":2}`)).Aggregate("workflow_execution", "18").ID("6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11").Build()
	must(t, err)
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return c.Publish(t.Context(), tx, own, given) }))
	rows, err := pool.Query(t.Context(), `SELECT concat_ws(' ', payload->>'n', aggregate_type, aggregate_id, event_type, status, created_at <= clock_timestamp(), processed_at),
		id FROM outbox_messages ORDER BY created_at, id`)
	must(t, err)
	var got []string
	var text string
	var id [16]byte
	_, err = pgx.ForEachRow(rows, []any{&text, &id}, func() error { got = append(got, text+" "+ulid.ULID(id).String()); return nil })
	must(t, err)
	want := []string{"1 workflow_execution 17 workflow.triggered pending t " + own.ID(), "2 workflow_execution 18 workflow.triggered pending t 3FFR7ZRARZ99SSYPHDHDQQY30H"}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %q, want %q", got, want)
	}

	plain := func() *outbox.Builder { return outbox.New("t").RawJSON([]byte("{}")) }
	for name, b := range map[string]*outbox.Builder{
		"aggregate: is missing":            plain(),
		"id: is neither a UUID nor a ULID": plain().Aggregate("a", "1").ID("e-1"),
		"group: the table has no column":   plain().Aggregate("a", "1").Group("2"),
		"headers: the table has no column": plain().Aggregate("a", "1").Header("k", "v"),
		"tenant: the table has no column":  plain().Aggregate("a", "1").Tenant("x"),
		"tags: the table has no column":    plain().Aggregate("a", "1").Tag("k", "v"),
		"payload: is bytes":                outbox.New("t").Aggregate("a", "1").Bytes([]byte{0xff}),
		"aggregate type: is 51 characters": plain().Aggregate("aaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaaaaaaaab", "1"),
	} {
		e, err := b.Build()
		must(t, err)
		_, _, err = c.InsertQuery(e)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}
