package owntable

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// Spans that are counted at once have the rows that each has alone, and the sum has no row twice.
func TestBacklogsOfManySpans(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	src := e.source(e.URL, "")
	e.Exec(`INSERT INTO outrider_outbox (type, payload, message_group) SELECT 't', '{}', 'g' || i FROM generate_series(1, 200) AS i`)
	var spans []adapters.Span
	for slot := range adapters.Slots {
		spans = append(spans, adapters.Span{Slot: slot, After: 100}, adapters.Span{Slot: slot, Upto: 60}, adapters.Span{Slot: slot, After: 60, Upto: 100})
	}
	const most = 5
	all, err := src.Backlogs(t.Context(), spans, most)
	pgtest.Must(t, err)
	rows, cut := 0, false
	for i, span := range spans {
		alone, err := src.Backlog(t.Context(), []adapters.Span{span}, most)
		pgtest.Must(t, err)
		if all[i] != alone {
			t.Errorf("%+v has %+v, alone %+v", span, all[i], alone)
		}
		rows, cut = rows+alone.Rows, cut || alone.More
	}
	if !cut || rows >= 200 {
		t.Errorf("%d rows were counted although a span counts %d at most", rows, most)
	}
	if sum, err := src.Backlog(t.Context(), spans, 1000); err != nil || sum.Rows != 200 || sum.More || sum.Oldest.IsZero() {
		t.Errorf("in all %+v, %v", sum, err)
	}
}
