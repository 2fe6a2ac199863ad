package queuetable

import (
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// A row is found by its id in every table, with its status in plain words.
func TestARowIsFoundByItsID(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	for id, status := range map[string]string{"w": "PENDING", "p": "PROCESSING", "c": "COMPLETED", "f": "FAILED", "x": "ODD"} {
		e.each(`INSERT INTO {t} (id, type, message_group, payload, status, retry_count, created_at, processed_at, error_message)
			VALUES ($1, 'EVENT', 'g', '{"type": "order.created"}', $2, 2, timestamp '2026-01-01', timestamp '2026-02-01', 'refused')`, id, status)
	}
	q := opened(t, e)
	for id, want := range map[string]adapters.RowStatus{"w": adapters.RowWaiting, "p": adapters.RowProcessing, "c": adapters.RowDone, "f": adapters.RowDead, "x": adapters.RowOther} {
		found, err := q.Find(e.ctx, id, 10)
		pgtest.Must(t, err)
		if len(found.Rows) != 2 || found.Looked != "" {
			t.Fatalf("%s: %+v", id, found)
		}
		f := found.Rows[0]
		if f.Status != want || f.Row.ID != id || f.Row.Type != "order.created" || f.Row.Group != "EVENT:g" || f.Row.Kind != "EVENT" || f.Table == found.Rows[1].Table ||
			f.Attempts != 2 || f.Error != "refused" || f.Row.CreatedAt.Year() != 2026 || f.Claimed.Month() != time.February || (f.Done.IsZero() == (want == adapters.RowDone)) {
			t.Errorf("%s: %+v", id, f)
		}
	}
	if found, err := q.Find(e.ctx, "none", 10); err != nil || len(found.Rows) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
