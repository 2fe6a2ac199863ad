package owntable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// writeVersion writes the next version of a group under the group's lock, which
// like a row's lock lasts until commit but gives the transaction no id.
func writeVersion(ctx context.Context, tx pgx.Tx, group int) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", group); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO outrider_outbox (type, message_group, payload, version)
		SELECT 't', $1, to_json(v::text), v FROM (SELECT coalesce(max(version), 0) + 1 AS v FROM outrider_outbox WHERE message_group = $1) n`,
		fmt.Sprint("g", group))
	return err
}

// stressEnv is a table whose rows have a version beside their payload.
func stressEnv(t *testing.T) *sourceEnv {
	e := newSourceEnv(t)
	e.Exec("ALTER TABLE outrider_outbox ADD COLUMN version int NOT NULL")
	e.Exec("CREATE INDEX ON outrider_outbox (message_group, version)")
	return e
}

// TestG1_G2_G3_CursorUnderStress reads three rows of each slot at a time while
// transactions commit out of order. Now and then it settles only some of what
// it got, forgets the rest and resumes from the cursor behind the last settled
// row, which often is inside a window of late rows.
func TestG1_G2_G3_CursorUnderStress(t *testing.T) {
	t.Parallel()
	e := stressEnv(t)
	pgtest.StressCursor(t, &pgtest.StressWriters{E: e.Env, Write: writeVersion}, e.Lanes(e.src, adapters.StartBeginning, 3))
}

// TestG1_G2_G3_RangeScansUnderStress does the same with two of three reads by range scans, of
// which some are too wide for the limits and some have one position.
func TestG1_G2_G3_RangeScansUnderStress(t *testing.T) {
	t.Parallel()
	e := stressEnv(t)
	tail, r, scans := e.Lanes(e.src, adapters.StartBeginning, 3), rand.New(rand.NewPCG(5, 6)), 0
	tail.Ahead = func() int64 {
		if r.IntN(3) == 0 {
			return 0
		}
		scans++
		return 1 + r.Int64N(60)
	}
	pgtest.StressCursor(t, &pgtest.StressWriters{E: e.Env, Write: writeVersion}, tail)
	if e.src.rangeScan == nil || scans < 20 {
		t.Errorf("%d fetches were to be range scans; the test has shown nothing", scans)
	}
}

// TestG1_G2_G3_BoundedReadCatchesUp lets a second cursor fall behind the tail
// and catch up with where the tail is, again and again. Each time it must end
// exactly at the tail's cursor, having delivered what the tail has.
func TestG1_G2_G3_BoundedReadCatchesUp(t *testing.T) {
	t.Parallel()
	e := stressEnv(t)
	pgtest.StressBound(t, &pgtest.StressWriters{E: e.Env, Write: writeVersion}, e.src)
}
