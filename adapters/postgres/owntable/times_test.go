package owntable

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// A row of a time that a message cannot carry is read with an error, and stops neither the rows beside it, nor a restart behind it, nor
// those who look at it.
func TestG6_RowsOfAnyTimeInALog(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"created_at", "occurred_at"} {
		e := newSourceEnv(t)
		for i, at := range []string{"infinity", "-infinity", "4713-01-02 00:00:00 BC", "55000-01-01", "294276-12-31 23:00:00", "2026-01-01", "9999-12-31 23:59:59", "0001-01-01 BC"} {
			e.Exec(`INSERT INTO outrider_outbox (id, type, message_group, payload, `+column+`) VALUES ($1, 't', $1, '1', $2::text::timestamptz)`, string(rune('a'+i)), at)
		}
		spans := []adapters.Span{}
		for slot := range adapters.Slots {
			spans = append(spans, adapters.Span{Slot: slot})
		}
		b, err := e.src.Backlog(e.Ctx, spans, 100)
		if _, unreadable := json.Marshal(b.Oldest); err != nil || b.Rows != 8 || unreadable != nil {
			t.Errorf("backlog: %+v, %v", b, err)
		}
		rows := e.Lanes(e.src, adapters.StartBeginning, 10).All(t)
		if len(rows) != 8 {
			t.Fatalf("%d rows were read", len(rows))
		}
		for _, row := range rows {
			if good := row.ID >= "f"; good != (row.Err == nil) {
				t.Errorf("%s %s: %v", column, row.ID, row.Err)
			}
			if _, err := json.Marshal([]time.Time{row.CreatedAt, row.OccurredAt}); err != nil {
				t.Errorf("%s: %v", row.ID, err)
			}
			pgtest.Must(t, e.src.Validate(e.Ctx, row.After()))
			found, err := e.src.Find(e.Ctx, row.ID, 10)
			if err != nil || len(found.Rows) != 1 {
				t.Fatalf("find: %+v, %v", found, err)
			}
			if _, err := found.Rows[0].Row.CreatedAt.MarshalJSON(); err != nil {
				t.Errorf("%s: %v", row.ID, err)
			}
		}
	}
}
