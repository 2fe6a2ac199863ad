package queuetable

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// TestG3_G13_ADeliveryIsRolledBackForALockedRow: a transaction that delivers and settles names the row that another session has locked, whose claim
// stays, and the others can be delivered without it.
func TestG3_G13_ADeliveryIsRolledBackForALockedRow(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).framework(t)
	e.event("1", "User", "17", 4*time.Second)
	e.event("2", "User", "18", 3*time.Second)
	q := opened(t, e)
	var results []adapters.ClaimResult
	for _, row := range claimAll(t, q) {
		results = append(results, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered, Lane: adapters.LaneRef{Route: "suite", Slot: row.Slot}, Epoch: 1})
	}
	session := e.begin(t)
	_, err := session.Exec(e.ctx, e.sql(e.tables[0].Name, "SELECT FROM {t} t WHERE {key} = '1' FOR UPDATE"))
	pgtest.Must(t, err)
	deliver := func(context.Context, any) error { return nil }
	_, err = q.Transact(e.ctx, results, deliver)
	if locked, ok := errors.AsType[*adapters.LockedError](err); !ok || len(locked.Claims) != 1 || locked.Claims[0].Key != "1" {
		t.Fatalf("the error is %v, want row 1 locked", err)
	}
	for _, r := range results {
		if r.Claim.Key == "2" {
			lost, err := q.Transact(e.ctx, []adapters.ClaimResult{r}, deliver)
			pgtest.Must(t, err)
			if len(lost) > 0 {
				t.Error("the other row was lost")
			}
		}
	}
	pgtest.Must(t, session.Rollback(e.ctx))
	for _, r := range results {
		if r.Claim.Key == "1" {
			lost, err := q.Settle(e.ctx, []adapters.ClaimResult{r})
			pgtest.Must(t, err)
			if len(lost) > 0 {
				t.Error("the claim of the locked row was lost")
			}
		}
	}
}
