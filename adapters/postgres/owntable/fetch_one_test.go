package owntable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/internal/testenv"
)

// slotBySlot is a source of which two of three fetches are one for each slot, as those of the hot path.
type slotBySlot struct {
	*Source
	r *rand.Rand
}

func (s slotBySlot) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) (out []adapters.ReadResult, err error) {
	if s.r.IntN(3) == 0 {
		return s.Source.Fetch(ctx, reads, take)
	}
	for i := range reads {
		got, err := s.Source.Fetch(ctx, reads[i:i+1], func(_ int, row *adapters.Row) bool { return take(i, row) })
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// TestG1_G2_G3_SlotsReadAloneUnderStress is TestG1_G2_G3_CursorUnderStress with slots that are read one at a time.
func TestG1_G2_G3_SlotsReadAloneUnderStress(t *testing.T) {
	t.Parallel()
	e := stressEnv(t)
	src := slotBySlot{e.src, rand.New(rand.NewPCG(7, 8))}
	pgtest.StressCursor(t, &pgtest.StressWriters{E: e.Env, Write: writeVersion}, e.Lanes(src, adapters.StartBeginning, 3))
}

// In one snapshot the statement for a single read says what the one for many says, with rows that are late, that commit meanwhile, whose
// transaction ids are no longer or not yet known, and below the base. What it refuses to answer has late rows, or had them in the making.
func TestG1_ASingleReadIsAsOneOfMany(t *testing.T) {
	t.Parallel()
	e := stressEnv(t)
	e.Exec(`INSERT INTO outrider_outbox (xid, type, message_group, payload, version)
		SELECT CASE i % 3 WHEN 0 THEN '3'::xid8 WHEN 1 THEN '9000000000'::xid8 ELSE pg_current_xact_id() END, 't', 'old-' || i % 40, '{}', i FROM generate_series(1, 200) AS i`)
	writers := &pgtest.StressWriters{E: e.Env, Write: writeVersion}
	var failed error
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() { failed = writers.Run(e.Ctx, 8, testenv.Size(30, 300)); close(done) })
	defer wg.Wait()

	start, err := e.src.Start(e.Ctx, adapters.Start{Kind: adapters.StartBeginning})
	pgtest.Must(t, err)
	cursors, r := []adapters.Cursor{start}, rand.New(rand.NewPCG(9, 10))
	alone, late, rows := 0, 0, 0
	for over := false; !over; {
		over = pgtest.Ended(done)
		read := adapters.Read{Slot: r.IntN(adapters.Slots), From: cursors[r.IntN(len(cursors))], Limit: 1 + r.IntN(300)}
		if r.IntN(5) == 0 {
			read.From.Base = read.From.Position / 2
		}
		many, _, _ := answer(t, e.src, read, false)
		one, refused, next := answer(t, e.src, read, true)
		if !slices.Equal(many, one) {
			t.Fatalf("from %+v: alone\n%v, among many\n%v", read.From, one, many)
		}
		switch rows += len(one); {
		case refused:
			late++
		default:
			alone++
		}
		if next.Window == "" {
			cursors = append(cursors, next)[max(0, len(cursors)-30):]
		}
	}
	pgtest.Must(t, failed)
	if t.Logf("%d answers alone, %d refused, %d rows", alone, late, rows); alone == 0 || late == 0 || rows == 0 {
		t.Error("the test has shown nothing")
	}
}

// answer runs one read in the snapshot of the read before it, if that was among many. Refused: the statement for one read left it to
// the other. What comes back is the snapshot, the rows and the end.
func answer(t *testing.T, s *Source, read adapters.Read, alone bool) (out []string, refused bool, next adapters.Cursor) {
	t.Helper()
	conn, err := s.base.Connected(t.Context(), nil)
	pgtest.Must(t, err)
	reads := []adapters.Read{read}
	plans, err := s.planReads(reads)
	pgtest.Must(t, err)
	f := fetch{source: s, reads: reads, plans: plans, done: make([]reader.Progress, 1), decoder: &s.base.Decoder,
		take: func(_ int, row *adapters.Row) bool {
			out = append(out, fmt.Sprint(row.Position, " ", row.Late, " ", row.ID, " ", string(row.Payload)))
			return true
		}}
	if alone {
		count := 0
		_, err = conn.Stream(t.Context(), s.fetchOneStatement(t, conn), fetchOneParams(&plans[0]), func(values [][]byte) (bool, error) {
			if count++; count == 1 {
				refused = values[reader.FetchLate][0] != 0
			}
			return true, nil
		})
		pgtest.Must(t, err)
		_, err = f.runOne(t.Context(), conn)
		pgtest.Must(t, err)
		_, err = conn.Conn.Exec(t.Context(), "COMMIT")
	} else {
		_, err = conn.Conn.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ")
		pgtest.Must(t, err)
		_, err = conn.Stream(t.Context(), conn.Fetch, fetchParams(plans), f.row)
	}
	pgtest.Must(t, err)
	res := f.results()[0]
	return append(out, fmt.Sprintf("%+v at %s", res, f.own)), refused, res.Next
}

// fetchOneStatement is the statement for a single read, prepared if need be.
func (s *Source) fetchOneStatement(t *testing.T, conn *reader.Conn) *reader.Statement {
	t.Helper()
	if s.fetchOne == nil {
		st, err := conn.Prepare(t.Context(), "outrider_fetch_one", forTable(fetchOneSQL, s.base.Quoted, s.limits))
		pgtest.Must(t, err)
		s.fetchOne = st
	}
	return s.fetchOne
}
