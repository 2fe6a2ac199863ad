package queuetable

import (
	"errors"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// A payload of nothing but brackets, which PostgreSQL keeps as text, is a row that
// cannot be decoded. It used to take the process with it, again and again: telling
// whether it is JSON used up the stack.
func TestG1_APayloadOfBracketsIsOneBadRow(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.fill(e.tables[0].Name, 2, 1, "PENDING")
	e.exec(e.sql(e.tables[0].Name, `UPDATE {t} SET {set_payload} = repeat('[', 15000000) WHERE {set_key} = (SELECT min({set_key}) FROM {t})`))
	q := e.queue()
	defer func() { pgtest.Must(t, q.Close()) }()
	rows := claimAll(t, q)
	if len(rows) != 2 || rows[1].Err != nil {
		t.Fatalf("claimed %d rows, the healthy one with %v", len(rows), rows[len(rows)-1].Err)
	}
	pgtest.WantError(t, rows[0].Err, "payload", "not valid JSON", "10000 deep")
	settle(t, q, adapters.ClaimResult{Claim: rows[0].Claim, Outcome: outbox.OutcomeDead, Attempts: 1, Error: rows[0].Err.Error()})
}

// A payload beyond the limit stays where it is, whatever its column's type; the row
// comes in its turn, takes no room, and the others of its group come with it.
func TestG7_APayloadThatIsTooLargeStaysInItsQueue(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	for typ, using := range map[string]string{"text": "{set_payload}", "json": "{set_payload}::json", "jsonb": "{set_payload}::jsonb",
		"bytea": "convert_to({set_payload}, 'UTF8')"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			e := e.flowCatalyst(t, true)
			table := e.tables[0].Name
			e.fill(table, 3, 1, "PENDING")
			e.exec(e.sql(table, `UPDATE {t} SET {set_payload} = to_json(repeat('x', 17000000))::text WHERE {set_key} = (SELECT min({set_key}) FROM {t})`))
			e.exec(e.sql(table, "ALTER TABLE {t} ALTER COLUMN {set_payload} TYPE "+typ+" USING "+using))
			q := e.queue()
			defer func() { pgtest.Must(t, q.Close()) }()
			rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: slots(), Limit: 500, Bytes: 1 << 20})
			pgtest.Must(t, err)
			if len(rows) != 3 || rows[1].Err != nil || rows[2].Err != nil {
				t.Fatalf("claimed %d rows: %+v", len(rows), rows)
			}
			if !errors.Is(rows[0].Err, adapters.ErrTooLarge) || rows[0].Size() > 1<<10 {
				t.Errorf("the large one holds %d bytes, with the error %v", rows[0].Size(), rows[0].Err)
			}
			pgtest.WantError(t, rows[0].Err, rows[0].ID, "payload", "max_row", "16777216", "set its status back")
			settle(t, q, adapters.ClaimResult{Claim: rows[0].Claim, Outcome: outbox.OutcomeDead, Attempts: 1, Error: rows[0].Err.Error()})
		})
	}
}
