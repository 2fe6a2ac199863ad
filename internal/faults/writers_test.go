package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/internal/testenv"
)

// writers commit messages until they are stopped, as applications do: in
// transactions of one to four messages of a group, whose writers take turns;
// one in ten is rolled back, and one writer in turn keeps its transaction open
// for a second or two while the others continue.
type writers struct {
	t       *testing.T
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	patient bool // whether a failing server is waited for
}

const (
	writerCount  = 8
	writerGroups = 48
)

// writerPause is the time from one transaction of a writer to the next: 50 per second in all, 200 in a full run.
var writerPause = time.Duration(testenv.Brief(160, 40)) * time.Millisecond

// write starts writers. Patient ones try again when the server does not answer.
func write(t *testing.T, pool *pgxpool.Pool, patient bool) *writers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{t: t, cancel: cancel, patient: patient}
	for i := range writerCount {
		w.wg.Go(func() { w.run(ctx, pool, i) })
	}
	t.Cleanup(w.stop)
	return w
}

// stop ends the writers; transactions that are open are rolled back.
func (w *writers) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *writers) run(ctx context.Context, pool *pgxpool.Pool, writer int) {
	tick := time.NewTicker(writerPause)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		// The writers take turns at being slow, so that at nearly every
		// moment a transaction is open that began long ago.
		slow := n%(25*writerCount) == 25*writer
		if err := w.transaction(ctx, pool, slow); err != nil && ctx.Err() == nil {
			if !w.patient {
				w.t.Errorf("writer %d: %v", writer, err)
				return
			}
			pause(ctx, 50*time.Millisecond)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (w *writers) transaction(ctx context.Context, pool *pgxpool.Pool, slow bool) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	// After a commit this does nothing.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	n := 1 + rand.IntN(4)
	if err := insert(ctx, tx, fmt.Sprint("g", rand.IntN(writerGroups)), n); err != nil {
		return err
	}
	if slow {
		pause(ctx, time.Second+rand.N(time.Second))
	}
	if rand.IntN(10) == 0 {
		return nil
	}
	// Without ctx: the outcome of a cancelled COMMIT would be unknown.
	return tx.Commit(context.WithoutCancel(ctx))
}
