package owntable

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// Applications date rows as they like: ahead, in a transaction that commits late, and anew. That proves nothing.
func TestDatesOfRowsProveNothing(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	valid := func(when string, l *pgtest.Lanes) {
		t.Helper()
		for slot, c := range l.From {
			if err := e.src.Validate(e.Ctx, c); err != nil {
				t.Errorf("%s, slot %d: %v", when, slot, err)
			}
		}
	}
	late := e.Begin()
	_, err := late.Exec(e.Ctx, `INSERT INTO outrider_outbox (type, message_group, payload, created_at) VALUES ('t', 'g', '"late"', now() + interval '2 hours')`)
	pgtest.Must(t, err)
	tail := e.Lanes(e.src, adapters.StartBeginning, 10)
	for _, p := range []string{"1", "2", "3"} {
		insert(t, e.Pool, "g", p)
		tail.Drain(t)
	}
	pgtest.Must(t, late.Commit(e.Ctx))
	tail.Drain(t)
	_, err = e.src.Retain(e.Ctx, adapters.Retention{Mode: adapters.RetainRows, Batch: 64}, []adapters.RouteCursors{tail.Settled("r")})
	pgtest.Must(t, err)
	e.Exec("DELETE FROM outrider_outbox WHERE payload #>> '{}' <> 'late'") // should retention keep the last one
	valid("a late row that is dated ahead is the only one left", tail)

	e.Exec(`INSERT INTO outrider_outbox (type, message_group, payload, created_at) VALUES ('t', 'g', '"ahead"', now() + interval '3 hours')`)
	tail.Drain(t)
	e.Exec("UPDATE outrider_outbox SET created_at = clock_timestamp() WHERE payload #>> '{}' = 'ahead'")
	valid("the row was dated anew", tail)

	e.Exec("SELECT setval(pg_get_serial_sequence('outrider_outbox', 'position'), 1)")
	valid("the sequence was restarted", tail)
	e.Exec("DELETE FROM outrider_outbox")
	pgtest.WantError(t, e.src.Validate(e.Ctx, tail.From[slotOfGroup(t, e, "g")]), "its last position is 1", "outrider rebase")
}

// slotOfGroup is the slot that the server computes.
func slotOfGroup(t *testing.T, e *sourceEnv, group string) (slot int) {
	t.Helper()
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT (hashtextextended($1, 0) & 15)::int", group).Scan(&slot))
	return slot
}
