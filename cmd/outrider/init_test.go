package main

import (
	"fmt"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// The indexes that reading a table of the application needs are created by one
// command, also where an earlier attempt has failed and left an invalid one.
func TestInitCreatesMissingIndexes(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	url := testenv.Postgres(t)
	s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  shop: {type: postgres, layout: custom, table: events, url: %q, columns: {id: id, type: "=e", payload: payload, position: no, xid: xid}}
destinations:
  nowhere: {type: discard}
routes:
  all: {from: shop, to: nowhere}
`, url))
	runSQL(t, url, `CREATE TABLE events (no bigint NOT NULL, id text NOT NULL, payload json NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id())`)
	runSQL(t, url, `INSERT INTO events (no, id, payload) VALUES (1, 'a', '{}'), (1, 'b', '{}')`)
	for _, st := range []step{
		{args: "init", code: 1, out: []string{"belongs to the application"}, err: []string{"an index is missing to read what is new by position", "outrider init --indexes"}},
		{args: "init --indexes", code: 1, err: []string{"creating index", "could not create unique index"}},
	} {
		st.run(t, s)
	}
	runSQL(t, url, `DELETE FROM events WHERE id = 'b'`)
	for _, st := range []step{
		{args: "init --indexes", out: []string{`created index "public"."events_outrider_no_idx"`, `created index "public"."events_outrider_xid_no_idx"`, "created the state tables"}, err: []string{"this takes minutes"}},
		{args: "init --indexes", out: []string{`table "public"."events" has the indexes that reading needs`}},
		{args: "doctor", out: []string{"its columns, indexes and privileges are as reading needs them"}},
	} {
		st.run(t, s)
	}
}
