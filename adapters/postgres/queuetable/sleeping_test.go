package queuetable

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// waits inserts rows, each of a group of its own, that are due in an hour.
func (e *queueEnv) waits(n int) {
	e.t.Helper()
	e.each(`INSERT INTO {t} ("Event Id", event_type, aggregate, body, state, tries, created, next_try_at)
		SELECT 'w' || i, 't', 'w' || i, '{}', 0, 1, now() - interval '1 hour', now() + interval '1 hour' FROM generate_series(1, $1::int) i`, n)
}

// fresh inserts a row that is due, of a group, created so long ago.
func (e *queueEnv) fresh(key, group, ago string) {
	e.t.Helper()
	e.each(`INSERT INTO {t} ("Event Id", event_type, aggregate, body, state, created) VALUES ($1, 't', $2, '{}', 0, now() - $3::interval)`, key, group, ago)
}

// claimedSoon claims until there is a row, and returns the keys.
func claimedSoon(t *testing.T, q *Queue) []string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: slots(), Limit: 100, Wants: 1})
		pgtest.Must(t, err)
		if len(rows) > 0 {
			return idsOf(rows)
		}
	}
	return nil
}

// TestG8_G13_GroupsThatWaitCostClaimsNothing: once they were looked at, no claim looks at them, and a row of another group is found by the next one.
func TestG8_G13_GroupsThatWaitCostClaimsNothing(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).custom(t)
	const n = 3000
	e.waits(n)
	var seen recorder
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables, Layout: e.layout, Tracer: &seen})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, q.Close()) }()
	claim := func() (keys []string) {
		t.Helper()
		seen.statements = nil
		rows, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: 100, Wants: 1})
		pgtest.Must(t, err)
		return idsOf(rows)
	}
	for range 2 * n {
		if claim(); len(q.tables[0].asleep.groups) == n && len(q.tables[0].ring) == 0 {
			break
		}
	}
	if asleep := len(q.tables[0].asleep.groups); asleep != n {
		t.Fatalf("%d of %d groups sleep", asleep, n)
	}
	for range 20 {
		claim()
		for _, s := range seen.statements {
			if s.sql == q.tables[0].text.look {
				t.Fatal("a claim looked at groups that wait")
			}
		}
	}
	if due := q.Coverage().Due; time.Until(due) < 50*time.Minute {
		t.Errorf("something is due at %v", due)
	}
	e.fresh("new", "n", "0")
	if got := claim(); !slices.Equal(got, []string{"new"}) {
		t.Errorf("the next claim brought %v, want the new row", got)
	}
	looks := 0
	for _, s := range seen.statements {
		if s.sql == q.tables[0].text.look {
			looks++
		}
	}
	if looks > 3 || strings.Count(seen.statements[len(seen.statements)-1].sql, "UPDATE") == 0 {
		t.Errorf("it took %d looks, the last statement of %d is %s", looks, len(seen.statements), seen.statements[len(seen.statements)-1].sql)
	}
}

// TestG2_G13_TheTableWakesAGroup: whatever others do to the row that a group waits for is seen, and nothing goes before the row as long as it waits.
func TestG2_G13_TheTableWakesAGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		want   []string
	}{
		"made due":         {`UPDATE {t} t SET next_try_at = now() WHERE {key} = 'w1'`, []string{"w1", "behind"}},
		"due soon":         {`UPDATE {t} t SET next_try_at = now() + interval '50 milliseconds' WHERE {key} = 'w1'`, []string{"w1", "behind"}},
		"deleted":          {`DELETE FROM {t} t WHERE {key} = 'w1'`, []string{"behind"}},
		"ended":            {`UPDATE {t} t SET {set_status} = 1 WHERE {key} = 'w1'`, []string{"behind"}},
		"something before": {`INSERT INTO {t} ("Event Id", event_type, aggregate, body, state, created) VALUES ('before', 't', 'w1', '{}', 0, now() - interval '2 hours')`, []string{"before"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).custom(t)
			e.waits(2)
			q := opened(t, e)
			e.fresh("behind", "w1", "0")
			e.fresh("other", "o", "0")
			if got := claimedSoon(t, q); !slices.Equal(got, []string{"other"}) {
				t.Fatalf("claimed %v, want the row of the group that does not wait", got)
			}
			if len(q.tables[0].asleep.groups) != 2 {
				t.Fatalf("%d groups sleep, want 2", len(q.tables[0].asleep.groups))
			}
			e.each(c.change)
			if got := claimedSoon(t, q); !slices.Equal(got, c.want) {
				t.Errorf("claimed %v, want %v", got, c.want)
			}
		})
	}
}
