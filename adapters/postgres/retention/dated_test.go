package retention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// A row that is dated in the future holds nothing back. It goes with the next one
// that is old enough; where there is none, it is told, with a statement that helps.
func TestRetentionGoesOnPastRowsDatedInTheFuture(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	dated := func(group, payload, at string) {
		e.Exec("INSERT INTO outrider_outbox (type, message_group, payload, created_at) VALUES ('t', $1, to_json($2::text), "+at+")", group, payload)
	}
	const old, young = "clock_timestamp() - interval '2 hours'", "clock_timestamp()"
	dated("g", "a", old)
	dated("g", "b", "'infinity'")
	dated("g", "c", "clock_timestamp() + interval '3000 years'")
	dated("g", "d", old)
	dated("g", "ahead", "clock_timestamp() + interval '1 hour'")
	dated("g", "skewed", "clock_timestamp() + interval '1 minute'")
	dated("g", "young", young)
	tail.Drain(t)
	hour := everything
	hour.Keep = time.Hour
	if did := e.retain(e.src, hour, tail.Settled("r")); did.Rows != 4 || did.DatedAhead.By < 59*time.Minute {
		t.Errorf("removed %+v, want 4 rows and the next told", did)
	}
	e.wantLeft("ahead", "skewed", "young")
	step, err := e.src.Retain(e.Ctx, adapters.Retention{Mode: adapters.RetainRows, Keep: time.Hour, DryRun: true}, nil)
	pgtest.Must(t, err)
	if d := step.DatedAhead; d.Position != 5 || d.Fix == "" {
		t.Errorf("what the doctor asks: %+v", d)
	} else {
		e.Exec(d.Fix)
	}
	if did := e.retain(e.src, hour, tail.Settled("r")); did.DatedAhead.By != 0 {
		t.Errorf("after the fix: %+v", did)
	}
}

// What fills many pages is gone through, and found again when a row behind is old.
func TestManyRowsDatedInTheFuture(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	e.Exec(`INSERT INTO outrider_outbox (type, message_group, payload, created_at)
		SELECT 't', 'g', '"x"', clock_timestamp() + interval '1 day' FROM generate_series(1, 50)`)
	tail.Drain(t)
	if did := e.retain(e.src, everything, tail.Settled("r")); did.Rows != 0 || did.DatedAhead.By == 0 {
		t.Errorf("%+v; want nothing removed, and it told", did)
	}
	insert(t, e.Pool, "g", "old enough, with keep: 0s")
	tail.Drain(t)
	for range 2 { // the second sweep knows what is old
		e.retain(e.src, everything, tail.Settled("r"))
	}
	e.wantLeft()
}

func TestPartitionsWithRowsDatedInTheFuture(t *testing.T) {
	t.Parallel()
	e := newPartitionedEnv(t, 10)
	tail := e.Lanes(e.src, adapters.StartBeginning, 100)
	for i := 1; i < 45; i++ { // of the first some, of the second all; the last are young
		at := "clock_timestamp() - interval '2 hours'"
		switch {
		case i%10 == 9 || i >= 10 && i < 20:
			at = "clock_timestamp() + interval '2 hours'"
		case i >= 40:
			at = "clock_timestamp()"
		}
		e.Exec("INSERT INTO outrider_outbox (type, message_group, payload, created_at) VALUES ('t', $1, '1', "+at+")", fmt.Sprint("g", i))
	}
	tail.Drain(t)
	hour := wholePartitions
	hour.Keep = time.Hour
	if did := e.retain(e.src, hour, tail.Settled("r")); did.Partitions != 4 || did.DatedAhead.By != 0 {
		t.Errorf("%+v; want 4 partitions dropped", did)
	}
	e.wantLows(45, 55, 65, 75)
}
