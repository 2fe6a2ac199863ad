package outridertest_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/handlers/batches"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outridertest"
)

// asked is a latch that counts how often it was asked whether it is healthy.
type asked struct {
	*outridertest.Latch
	times atomic.Int64
}

func (a *asked) IsHealthy() bool {
	a.times.Add(1)
	return a.Latch.IsHealthy()
}

// placed publishes orders in a transaction.
func placed(t *testing.T, kit *outridertest.Kit, numbers ...int) {
	t.Helper()
	must(t, outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error {
		for _, n := range numbers {
			if err := place(ctx, tx, kit.Client, "customer-7", n); err != nil {
				return err
			}
		}
		return nil
	}))
}

// A publisher that is not healthy is a destination that is down: however long that takes, no attempt counts and nothing is dead.
func TestUnhealthyPublisherCostsNoAttempts(t *testing.T) {
	t.Parallel()
	latch := &asked{Latch: outridertest.NewLatch(3)}
	latch.SetHealthy(false)
	kit := start(t, outridertest.WithDestination(batches.Destination(latch)))
	placed(t, kit, 1, 2, 3)
	for latch.times.Load() < outridertest.Attempts { // each would have been an attempt
		if t.Context().Err() != nil {
			t.Fatal("the publisher was not asked again")
		}
		time.Sleep(time.Millisecond)
	}
	if latch.Left() != 3 {
		t.Error("events were published to a publisher that is not healthy")
	}
	latch.SetHealthy(true)
	latch.Await(t)
	for i, e := range latch.Events() {
		if want := []string{"1", "2", "3"}[i]; e.AggregateID() != want {
			t.Errorf("event %d is of order %s", i+1, e.AggregateID())
		}
	}
	if dead := kit.Dead(); len(dead) > 0 {
		t.Errorf("%d events are dead: %s", len(dead), dead[0].LastError)
	}
}

func TestLatchOpensForEachExpectation(t *testing.T) {
	t.Parallel()
	latch := outridertest.NewLatch(1)
	if latch.AwaitWithin(time.Millisecond) {
		t.Error("the latch opened before an event came")
	}
	kit := start(t, outridertest.WithDestination(batches.Destination(latch)))
	placed(t, kit, 1)
	latch.Await(t)
	latch.Expect(2)
	placed(t, kit, 2, 3)
	latch.Await(t)
	if got := latch.Events(); len(got) != 2 || got[0].AggregateID() != "2" || latch.Left() != 0 {
		t.Errorf("the latch has %v, %d are left", got, latch.Left())
	}
}
