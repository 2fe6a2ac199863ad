package postgres

import (
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

// A payload of nothing but brackets, which PostgreSQL keeps as text, is a row that
// cannot be decoded. It used to take the process with it, again and again: telling
// whether it is JSON used up the stack.
func TestG1_APayloadOfBracketsIsOneBadRow(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.fill(e.tables[0].Name, 2, 1, "PENDING")
	e.exec(e.sql(e.tables[0].Name, `UPDATE {t} SET {set:payload} = repeat('[', 15000000) WHERE {set:key} = (SELECT min({set:key}) FROM {t})`))
	q := e.queue()
	defer func() { must(t, q.Close()) }()
	rows := claimAll(t, q)
	if len(rows) != 2 || rows[1].Err != nil {
		t.Fatalf("claimed %d rows, the healthy one with %v", len(rows), rows[len(rows)-1].Err)
	}
	wantError(t, rows[0].Err, "payload", "not valid JSON", "10000 deep")
	settle(t, q, outbox.ClaimResult{Claim: rows[0].Claim, Outcome: outbox.Dead, Attempts: 1, Error: rows[0].Err.Error()})
}
