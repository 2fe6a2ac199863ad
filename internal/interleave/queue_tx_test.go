package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueTxScenarios deliver rows of a queue into a table of its database, in the transaction that settles them.
var queueTxScenarios = []*scenario{
	{
		name: "a delivery in a transaction beside a recovery", setup: claimed("g1", "g2"), drain: emptiedOnce,
		roles: []role{does(relayA, calls{deliversTx}), does(another, calls{recovers, claims, deliversTx})},
	},
	{
		name: "a delivery in a transaction over a lost connection", setup: free("g1", "g2"), drain: emptiedOnce,
		roles: []role{cut(does(relayA, calls{claims, deliversTx})), does(relayB, calls{claims, deliversTx})},
	},
	{
		name: "a delivery in a transaction beside a session that locks a row", setup: claimed("g1", "g2"), drain: emptiedOnce,
		roles: []role{locks, does(relayA, calls{deliversTx}), does(another, calls{recovers})},
	},
}

// queueTxMutants are changes of the statements of such a transaction.
var queueTxMutants = []*mutant{
	alsoBy(queueMutants, "settle: any time of the claim", "a delivery in a transaction beside a recovery"),
	alsoBy(queueMutants, "settle: delivered rows wait again", "a delivery in a transaction over a lost connection"),
}

// queueTxDatabase has a table for deliveries beside the queue's.
func queueTxDatabase(t *testing.T) string {
	t.Helper()
	url := queueDatabase(t)
	_, err := pooled(t, url).Exec(context.Background(), "CREATE TABLE sink (id text NOT NULL)")
	must(t, err)
	return url
}

// queueTxWorld opens queues on such a database.
func queueTxWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := queueWorld(t, url, m)
	w.clean = append(w.clean, "DELETE FROM sink")
	return w
}

// deliversTx delivers what is held, without the rows whose claims are lost or which others have locked: then nothing was written, and the rest is given again.
func deliversTx(r *relay) error {
	results := r.results(outbox.OutcomeDelivered)
	var lost []*adapters.Claim
	for len(results) > 0 {
		var ids []string
		for _, row := range r.held {
			if !slices.Contains(lost, row.Claim) {
				ids = append(ids, row.ID)
			}
		}
		gone, err := again(func() ([]*adapters.Claim, error) {
			return r.queue.(adapters.TxQueue).Transact(r.w.ctx, results, func(ctx context.Context, tx any) error { return sink(ctx, tx, ids...) })
		})
		if locked, ok := errors.AsType[*adapters.LockedError](err); ok { // its claim is held, and counts as stuck some time
			gone, err = locked.Claims, nil
		}
		if errors.Is(err, adapters.ErrConflict) {
			continue
		}
		if err != nil {
			return fmt.Errorf("deliver: %w", err)
		}
		if len(gone) == 0 {
			break
		}
		lost = append(lost, gone...)
		results = slices.DeleteFunc(results, func(c adapters.ClaimResult) bool { return slices.Contains(gone, c.Claim) })
	}
	r.settled(outbox.OutcomeDelivered, lost)
	return nil
}

// emptiedOnce drains the queue, and counts what was delivered.
func emptiedOnce(w *world) error {
	err := emptiedBy(w, deliversTx)
	for _, e := range w.committed {
		err = errors.Join(err, w.want("deliveries of "+e.id, 1, "sink WHERE id = '"+e.id+"'"))
	}
	return err
}
