package logtable

import (
	"fmt"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

func TestLogBacklogCountsTheSlotsOfTheSpans(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	e.Exec(`CREATE TABLE events (n bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, xid xid8 DEFAULT pg_current_xact_id(),
		event_id text, kind text, customer text, extra jsonb, body bytea, made timestamptz DEFAULT clock_timestamp())`)
	l := &logEnv{Env: e, cfg: Config{Layout: LayoutCustom, Table: "events", Columns: Columns{
		Position: "n", XID: "xid", ID: "event_id", Payload: "body", Type: "kind", Group: "customer", Headers: "extra", CreatedAt: "made"}}}
	src := l.open()
	l.makeIndexes()
	e.Exec(`INSERT INTO events (event_id, kind, customer, extra, body)
		SELECT 'e' || i, 't', 'c' || i, '{"a": 1}', '1' FROM generate_series(1, 100) i`)
	bySlot := map[int]int{}
	for i := 11; i <= 100; i++ { // the cursors stand at position 10
		bySlot[adapters.SlotOf(fmt.Sprintf("c%d", i), "")]++
	}
	var spans []adapters.Span
	want := 0
	for slot := range adapters.Slots / 2 {
		spans = append(spans, adapters.Span{Slot: slot, After: 10})
		want += bySlot[slot]
	}
	b, err := src.Backlog(t.Context(), spans, 1000)
	pgtest.Must(t, err)
	if b.Rows != want || b.More || b.Oldest.IsZero() {
		t.Errorf("got %+v, want %d rows", b, want)
	}
	if b, err = src.Backlog(t.Context(), spans, 5); err != nil || b.Rows != 5 || !b.More {
		t.Errorf("at most 5: %+v, %v", b, err)
	}
}
