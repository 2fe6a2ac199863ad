package logtable

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// tight is a source that takes its rows for large now and then, so that its
// scans are cut at places where no lane's limit is.
type tight struct {
	*Source
	fetches int
}

func (s *tight) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	s.fetches++
	s.rowBytes = []float64{firstRowBytes, logBytes / 20, logBytes / 3}[s.fetches%3]
	return s.Source.Fetch(ctx, reads, take)
}

// TestG1_G2_G3_LogCursorUnderStress is TestG1_G2_G3_CursorUnderStress for tables
// without slots.
func TestG1_G2_G3_LogCursorUnderStress(t *testing.T) {
	t.Parallel()
	for name := range logTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newLogEnv(t, name)
			pgtest.StressCursor(t, &pgtest.StressWriters{E: e.Env, Write: e.writeVersion}, e.Lanes(&tight{Source: e.log}, adapters.StartBeginning, 3))
		})
	}
}

// TestG1_G2_G3_LogBoundedReadCatchesUp is TestG1_G2_G3_BoundedReadCatchesUp for
// tables without slots.
func TestG1_G2_G3_LogBoundedReadCatchesUp(t *testing.T) {
	t.Parallel()
	for name := range logTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newLogEnv(t, name)
			pgtest.StressBound(t, &pgtest.StressWriters{E: e.Env, Write: e.writeVersion}, &tight{Source: e.log})
		})
	}
}

// TestG1_G7_LogPagesALargeLateTransaction commits more late rows than a read
// takes, in all slots: they come in pages, in order, before anything fresh.
func TestG1_G7_LogPagesALargeLateTransaction(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "watermill")
	late := e.Begin()
	const rows = 900
	for i := range rows {
		_, err := late.Exec(e.Ctx, e.insert, fmt.Sprint("g", i%50), fmt.Sprintf(`"late %d"`, i))
		pgtest.Must(t, err)
	}
	e.publish("g1", "passes")
	l := e.Lanes(e.log, adapters.StartBeginning, 2)
	pgtest.WantPayloads(t, l.All(t), "passes")
	pgtest.Must(t, late.Commit(e.Ctx))
	e.publish("g1", "fresh")
	last, pages := map[string]int64{}, 0
	seen := map[string]bool{}
	for drained := false; !drained; pages++ {
		var got []*adapters.Row
		var err error
		got, drained, err = l.Next(e.Ctx, nil)
		pgtest.Must(t, err)
		for _, row := range got {
			fresh := string(row.Payload) == `"fresh"`
			if row.Late == fresh || !fresh && row.Position <= last[row.Group] || fresh && row.Position <= last["g1"] {
				t.Errorf("group %s: %s at %d (late %t) came behind %d", row.Group, row.Payload, row.Position, row.Late, last[row.Group])
			}
			last[row.Group] = row.Position
			seen[string(row.Payload)] = true
		}
	}
	if len(seen) != rows+1 || pages < 10 {
		t.Errorf("%d rows came in %d pages, want %d in more", len(seen), pages, rows+1)
	}
}

// TestG7_LogKeepsABoundedAmount reads rows that are larger than the source
// expected: it ends early and continues behind what it kept.
func TestG7_LogKeepsABoundedAmount(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "custom")
	const rows, size = 30, 1 << 20
	for i := range rows {
		e.publish(fmt.Sprint("g", i%5), strings.Repeat("x", size))
	}
	l := e.Lanes(e.log, adapters.StartBeginning, 100)
	got, most := 0, 0
	for drained := false; !drained; {
		page, all, err := l.Next(e.Ctx, nil)
		pgtest.Must(t, err)
		got, most, drained = got+len(page), max(most, len(page)), all
	}
	if got != rows || most > logBytes/size+1 {
		t.Errorf("%d rows came, up to %d at a time; want %d, up to %d", got, most, rows, logBytes/size+1)
	}
}

// TestG8_LogLanesMeetAgain lets all lanes stand at different places, as after a
// restart: once they have caught up they share one cohort and one segment.
func TestG8_LogLanesMeetAgain(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "watermill")
	e.Exec(`INSERT INTO watermill_orders (uuid, payload, metadata, transaction_id)
		SELECT i::text, '"x"', json_build_object('customer', 'g' || i % 100), pg_current_xact_id() FROM generate_series(1, 2000) i`)
	l := e.Lanes(e.log, adapters.StartBeginning, 10)
	first, _, err := l.Next(e.Ctx, nil)
	pgtest.Must(t, err)
	for _, row := range first {
		l.From[row.Slot] = row.After()
	}
	plan, err := planLog(l.Reads(nil), firstRowBytes)
	pgtest.Must(t, err)
	if len(plan.segments) < 5 {
		t.Fatalf("the lanes stand at %d places, so the test shows nothing", len(plan.segments))
	}
	if rows := len(first) + len(l.All(t)); rows != 2000 {
		t.Errorf("%d rows, want 2000", rows)
	}
	plan, err = planLog(l.Reads(nil), firstRowBytes)
	pgtest.Must(t, err)
	if len(plan.cohorts) != 1 || len(plan.segments) != 1 {
		t.Errorf("lanes that have caught up are %d cohorts with %d segments, want one", len(plan.cohorts), len(plan.segments))
	}
}

// TestLogRestoredRowsAreRead: transaction ids that do not exist here, of rows
// that were restored from a dump, and none at all, hide no row and repeat none.
func TestLogRestoredRowsAreRead(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "custom")
	e.Exec(`ALTER TABLE "Shop"."Event Log" ALTER COLUMN tx DROP NOT NULL`)
	for _, tx := range []string{"NULL", strconv.FormatInt(math.MaxInt64, 10), "-1", "900000000000", "3"} {
		e.Exec(`INSERT INTO "Shop"."Event Log" ("customer""s", body, tx) VALUES (1, '"` + tx + `"', ` + tx + `)`)
	}
	l := e.Lanes(e.log, adapters.StartBeginning, 2)
	pgtest.WantPayloads(t, l.All(t), "NULL", strconv.FormatInt(math.MaxInt64, 10), "-1", "900000000000", "3")
	e.publish("g1", "next")
	pgtest.WantPayloads(t, l.All(t), "next")
	pgtest.WantPayloads(t, l.All(t))
}
