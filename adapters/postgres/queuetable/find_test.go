package queuetable

import (
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
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
		if len(found.Rows) != 2 || found.Searched != "" {
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

// TestG1_KeysOfEveryType: an id names one row whatever the type of keys is.
func TestG1_KeysOfEveryType(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	const uuid = "7f3c9a1e-1111-4222-8333-444455556666"
	lookalikes := []string{"8xyz", "1e1", "08", "+8", " 8", "8.0", "8 ", uuid}
	e.exec(`CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
	for kind, keys := range map[string]struct{ ids, others []string }{
		"bigint":              {[]string{"7", "8", "10", "9007199254740992", "9007199254740993"}, lookalikes},
		"numeric":             {[]string{"7", "8.0", "10"}, []string{"8", "8.00", "1e1", "8xyz", uuid}},
		"uuid":                {[]string{uuid, "7f3c9a1e-1111-4222-8333-444455556667"}, []string{uuid[:35], "{" + uuid + "}", uuid + " ", "7"}},
		"text":                {[]string{"8", "08", "a", "A"}, []string{"a ", "á", "8 "}},
		"text COLLATE nocase": {[]string{"a", "b"}, []string{"A", "a ", "á"}},
		"bytea":               {[]string{`\x6162`, `\x00`}, []string{"ab", `\x61`, `\x616`, "6162"}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := e.custom(t)
			e.each(`ALTER TABLE {t} ALTER "Event Id" TYPE ` + kind + ` USING NULL::` + strings.Fields(kind)[0])
			for _, id := range keys.ids {
				e.each(`INSERT INTO {t} ("Event Id", event_type, body, state, created) VALUES (` + pg.Literal(id) + `, 't', '{}', 3, now())`)
			}
			q := e.queue()
			t.Cleanup(func() { pgtest.Must(t, q.Close()) })
			adaptertest.QueueIDs(t, q, keys.ids, keys.others...)
		})
	}
}
