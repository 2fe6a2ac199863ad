package queuetable

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

// TestG1_KeysOfEveryType: an id names one row whatever the type of keys is, and rows whose keys differ only by their type are two rows.
func TestG1_KeysOfEveryType(t *testing.T) {
	t.Parallel()
	lookalikes := []string{"8xyz", "1e1", "08", "+8", " 8", "8.0", "'8'", "x'08'", "7f3c9a1e-1111-4222-8333-444455556666"}
	for declared, keys := range map[string]struct {
		inserted []any
		ids      []string
		others   []string
	}{
		"integer":     {[]any{7, 8, 10}, []string{"7", "8", "10"}, lookalikes},
		"numeric":     {[]any{7, 8, 10, 0.5, "12ab"}, []string{"7", "8", "10", "0.5", "12ab"}, append(lookalikes, "12", ".5", "0.50")},
		"text":        {[]any{"8", "08", []byte("8"), "x'38'", "'x'"}, []string{"8", "08", "x'38'", "'x''38'''", "'''x'''"}, []string{"x", "x'08'", "8.0"}},
		"text NOCASE": {[]any{"a", "8"}, []string{"a", "8"}, append(lookalikes, "A", "a ")},
		"":            {[]any{8, "8", []byte("8"), "a", 0.5, "0.5"}, []string{"8", "'8'", "x'38'", "a", "0.5", "'0.5'"}, []string{"08", "8.0", "8xyz", "A"}},
		"blob":        {[]any{[]byte{0, 1}, []byte{0, 2}, []byte("ab"), "ab"}, []string{"x'0001'", "x'0002'", "x'6162'", "ab"}, []string{"x'00'", "6162", "X'6162'", "x'616'"}},
	} {
		t.Run(declared, func(t *testing.T) {
			t.Parallel()
			e := custom(t, strings.ReplaceAll(declared, "NOCASE", "COLLATE NOCASE"), "int", "text", "")
			q := e.queue()
			t.Cleanup(func() { must(t, q.Close()) })
			insert := func(state int) {
				for _, key := range keys.inserted {
					e.exec(`INSERT INTO "Out Box" ("Event Id", event_type, body, state, created) VALUES (?, 't', '{}', ?, '2026-01-01T00:00:00.000Z')`, key, state)
				}
			}
			insert(0)
			rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: allSlots(), Limit: 100})
			if must(t, err); len(rows) != len(keys.ids) {
				t.Errorf("claimed %d rows of %d", len(rows), len(keys.ids))
			}
			results := make([]adapters.ClaimResult, len(rows))
			for i, row := range rows {
				results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}
			}
			lost, err := q.Settle(t.Context(), results)
			if must(t, err); len(lost) > 0 {
				t.Errorf("%d results are lost", len(lost))
			}
			var done int
			must(t, e.db.QueryRow(`SELECT count(*) FROM "Out Box" WHERE state = 1`).Scan(&done))
			if done != len(keys.ids) {
				t.Errorf("%d rows are done, want %d", done, len(keys.ids))
			}
			e.exec(`DELETE FROM "Out Box"`)
			insert(3)
			adaptertest.QueueIDs(t, q, keys.ids, keys.others...)
		})
	}
}

func allSlots() (all []int) {
	for slot := range adapters.Slots {
		all = append(all, slot)
	}
	return all
}
