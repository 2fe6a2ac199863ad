package queuetable

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
)

// unwantedEnv is a table with rows that nobody wants, or not now, and a queue of
// which the statements are noted.
type unwantedEnv struct {
	*queueEnv
	q      *Queue
	seen   recorder
	req    adapters.ClaimRequest
	groups int
	added  int
}

func newUnwantedEnv(t *testing.T, ours bool, groups int) *unwantedEnv {
	t.Helper()
	e := &unwantedEnv{queueEnv: newQueueEnv(t).flowCatalyst(t, ours), groups: groups}
	var err error
	e.q, err = New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Tracer: &e.seen})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, e.q.Close()) })
	e.req = adapters.ClaimRequest{Slots: slots(), Limit: 500, PerGroup: 250, Bytes: 32 << 20, Wants: 1,
		Match: func(row *adapters.Row) bool { return row.Type == "wanted" },
		Later: func(*adapters.Row) bool { return false },
	}
	return e
}

// add adds n rows of a type, spread over groups, at once.
func (e *unwantedEnv) add(kind string, n, groups int) {
	e.t.Helper()
	e.exec(fmt.Sprintf(`INSERT INTO %s (id, type, message_group, payload, status, created_at)
		SELECT lpad((i + $1)::text, 13, '0'), 'EVENT', 'order-' || i %% $2, '{"type": "%s"}', 'PENDING', localtimestamp + i * interval '1 microsecond'
		FROM generate_series(1, $3::int) AS i`, e.tables[0].Name, kind), e.added, groups, n)
	e.added += n
}

// claim claims once, within a bounded number of statements, and settles; it
// returns the keys, and how many looks there were.
func (e *unwantedEnv) claim() (keys []string, looks int) {
	e.t.Helper()
	e.seen.statements = nil
	rows, err := e.q.Claim(e.ctx, e.req)
	pgtest.Must(e.t, err)
	const most = claimSteps + 20 // which a burst of many rows in one group may take beyond that
	if n := len(e.seen.statements); n > most {
		e.t.Fatalf("a claim took %d statements, want at most %d", n, most)
	}
	for _, s := range e.seen.statements {
		if s.sql == e.q.tables[0].text.look {
			looks++
		}
	}
	for _, row := range rows {
		keys = append(keys, row.ID)
	}
	if lost := settleAll(e.t, e.q, rows); lost != "" {
		e.t.Fatalf("settle: %s were lost", lost)
	}
	return keys, looks
}

// rest claims until everything that was there when it was called has been looked
// at, and returns the keys of what was claimed.
func (e *unwantedEnv) rest() (keys []string) {
	e.t.Helper()
	called := time.Now()
	for end := called.Add(time.Minute); e.q.Coverage().Since.Before(called); {
		got, _ := e.claim()
		keys = append(keys, got...)
		if time.Now().After(end) {
			e.t.Fatal("the queue has not looked at everything")
		}
		if len(got) == 0 {
			time.Sleep(min(time.Until(e.q.Coverage().Next), time.Second))
		}
	}
	return keys
}

// untouched checks that so many rows wait as if nobody had looked at them.
func (e *unwantedEnv) untouched(want int) {
	e.t.Helper()
	var n int
	pgtest.Must(e.t, e.pool.QueryRow(e.ctx, "SELECT count(*) FROM "+e.tables[0].Name+
		" WHERE status = 'PENDING' AND retry_count = 0 AND processed_at IS NULL AND error_message IS NULL").Scan(&n))
	if n != want {
		e.t.Errorf("%d rows are untouched, want %d", n, want)
	}
}

// idle checks that claims which find nothing leave what nobody wants alone.
func (e *unwantedEnv) idle() {
	e.t.Helper()
	for range 20 {
		if keys, looks := e.claim(); len(keys) > 0 || looks > 0 {
			e.t.Fatalf("an idle claim brought %v, and looked %d times at rows that nobody wants", keys, looks)
		}
	}
}

// arrive adds a wanted row to each of three groups and checks that they are claimed.
func (e *unwantedEnv) arrive() {
	const groups = 3
	e.t.Helper()
	first := e.added + 1
	e.add("wanted", groups, groups)
	keys := e.rest()
	slices.Sort(keys)
	var want []string
	for i := range groups {
		want = append(want, fmt.Sprintf("%013d", first+i))
	}
	if !slices.Equal(keys, want) {
		e.t.Errorf("%d rows were claimed (%.60s), want the %d wanted ones (%.60s)", len(keys), strings.Join(keys, " "), len(want), strings.Join(want, " "))
	}
}

// TestG13_RowsThatNobodyWantsCostNothing: they are looked at once, in bounded
// portions, present at the start and added while running, and wanted rows get past
// them.
func TestG13_RowsThatNobodyWantsCostNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows    int
		numbers []int // of groups
	}{
		{2_000, []int{1, 50, 200, 1_000, 8_000}},
		{testenv.Size(20_000, 100_000), []int{1, testenv.Size(200, 50), testenv.Size(200, 1_000), 8_000}},
	} {
		rows := c.rows
		for _, groups := range slices.Compact(c.numbers) {
			t.Run(fmt.Sprintf("%d rows in %d groups", rows, groups), func(t *testing.T) {
				t.Parallel()
				e := newUnwantedEnv(t, true, groups)
				if rows == 2_000 {
					e.req.Limit = 25 // so that it takes many looks
				}
				e.add("unwanted", rows/2, groups)
				e.arrive()
				e.idle()
				e.add("unwanted", rows/2, groups)
				e.arrive()
				e.idle()
				e.untouched(rows)
				if n := e.q.Coverage().Unwanted; n != rows {
					t.Errorf("%d rows are said to be unwanted, want %d", n, rows)
				}
			})
		}
	}
}

// TestG13_RowsThatNobodyWantsDoNotStopAnybody on tables with the original's index
// only, of which all is read again and again, group by group.
func TestG13_RowsThatNobodyWantsDoNotStopAnybody(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 50, 8_000} {
		t.Run(fmt.Sprintf("%d groups", groups), func(t *testing.T) {
			t.Parallel()
			const rows = 10_000
			e := newUnwantedEnv(t, false, groups)
			e.add("unwanted", rows, groups)
			e.arrive()
			e.add("unwanted", rows, groups)
			e.arrive()
			e.untouched(2 * rows)
		})
	}
}

// TestG13_WhatIsClosedIsClaimedWhenItOpens: rows of a paused route cost nothing
// either, and are all found when it is resumed, in order.
func TestG13_WhatIsClosedIsClaimedWhenItOpens(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 50, 8_000} {
		t.Run(fmt.Sprintf("%d groups", groups), func(t *testing.T) {
			t.Parallel()
			const rows = 3_000
			e := newUnwantedEnv(t, true, groups)
			e.req.Later = func(row *adapters.Row) bool { return row.Type == "paused" }
			e.add("paused", rows, groups)
			e.add("unwanted", rows, groups)
			e.arrive()
			e.idle()
			e.untouched(2 * rows)
			e.req.Wants, e.req.Match = 2, func(row *adapters.Row) bool { return row.Type != "unwanted" }
			keys, looks := []string(nil), 0
			for tries := 0; len(keys) < rows && tries < 100; tries++ {
				got, n := e.claim()
				keys, looks = append(keys, got...), looks+n
			}
			if len(keys) != rows {
				t.Errorf("%d of %d rows were claimed when their route was resumed", len(keys), rows)
			}
			e.untouched(rows)
		})
	}
}

// TestG13_AnotherInstancesRowsCostNothing until their lanes come here.
func TestG13_AnotherInstancesRowsCostNothing(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 50, 8_000} {
		t.Run(fmt.Sprintf("%d groups", groups), func(t *testing.T) {
			t.Parallel()
			const rows = 3_000
			e := newUnwantedEnv(t, true, groups)
			e.req.Match, e.req.Later = nil, nil
			e.req.Slots = nil
			for slot := range adapters.Slots {
				if slot != adapters.SlotOf("EVENT:order-0", "") {
					e.req.Slots = append(e.req.Slots, slot)
				}
			}
			ours := map[bool]int{}
			for i := range rows {
				slot := adapters.SlotOf(fmt.Sprintf("EVENT:order-%d", (i+1)%groups), "")
				ours[slices.Contains(e.req.Slots, slot)]++
			}
			e.add("wanted", rows, groups)
			if n := len(e.rest()); n != ours[true] {
				t.Errorf("%d rows were claimed, %d are ours", n, ours[true])
			}
			e.idle()
			e.untouched(ours[false])
			e.req.Slots, e.req.Wants = slots(), 2
			if n := len(e.rest()); n != ours[false] {
				t.Errorf("%d rows were claimed when their lanes came, want %d", n, ours[false])
			}
		})
	}
}

// A claim whose memory is used up does not look further: what it read would not fit.
func TestG8_AClaimWithoutMemoryLooksOnce(t *testing.T) {
	t.Parallel()
	e := newUnwantedEnv(t, true, 0)
	e.add("wanted", 2000, 50)
	if keys, _ := e.claim(); len(keys) != 500 { // from now on it knows groups, and how large payloads are
		t.Fatalf("claimed %d rows, want 500", len(keys))
	}
	e.req.Bytes = 1
	if keys, looks := e.claim(); len(keys) != 1 || looks != 1 {
		t.Errorf("claimed %d rows in %d looks; want one of each", len(keys), looks)
	}
}
