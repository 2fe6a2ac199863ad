package statestore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestLanesMoveAtOnceWhenTheOwnersConnectionDrops(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	owner := joinedState(t, url, "a")
	old := acquireAll(t, owner, "a")
	other := joinedState(t, url, "b")
	if got := acquireAll(t, other, "b"); len(got) != 0 {
		t.Fatalf("b acquired %d lanes of a living owner", len(got))
	}
	killLease(t, connect(t, url))
	if got := acquireAll(t, other, "b"); len(got) != adapters.Slots { // a's lease runs for an hour
		t.Fatalf("b acquired %d lanes after a's connection was gone", len(got))
	}
	fenced, err := owner.Settle(t.Context(), settlements(old, 5))
	if err != nil || len(fenced) != adapters.Slots {
		t.Fatalf("the former owner settled: fenced %d, %v", len(fenced), err)
	}
	owned, err := owner.Renew(t.Context(), "a", time.Hour)
	if err != nil || len(owned) != 0 {
		t.Fatalf("the former owner renewed %d lanes, %v", len(owned), err)
	}
}

func TestRenewTakesTheLockAgain(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	owner := joinedState(t, url, "a")
	acquireAll(t, owner, "a")
	killLease(t, connect(t, url))
	owned, err := owner.Renew(t.Context(), "a", time.Hour)
	if err != nil || len(owned) != adapters.Slots {
		t.Fatalf("renewed %d lanes, %v", len(owned), err)
	}
	if got := acquireAll(t, joinedState(t, url, "b"), "b"); len(got) != 0 {
		t.Fatalf("b acquired %d lanes of an owner that is back", len(got))
	}
}

func TestOneIDOneProcess(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	joinedState(t, url, "a")
	err := openState(t, url).Join(t.Context(), "a", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "id of its own") {
		t.Fatalf("a second process joined with the id of a living one: %v", err)
	}
}

// Where the lock is on another server, as in a cluster, the lease alone says who lives.
func TestOnAnotherServerTheLeaseCounts(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	acquireAll(t, joinedState(t, url, "a"), "a")
	other, db := joinedState(t, url, "b"), connect(t, url)
	execute(t, db, `UPDATE outrider_instance SET server = 'elsewhere' WHERE id = 'a'`)
	killLease(t, db)
	if got := acquireAll(t, other, "b"); len(got) != 0 {
		t.Fatalf("b acquired %d lanes of an owner whose lease runs", len(got))
	}
	execute(t, db, `UPDATE outrider_instance SET lease_until = 0 WHERE id = 'a'`)
	if got := acquireAll(t, other, "b"); len(got) != adapters.Slots {
		t.Fatalf("b acquired %d lanes after the lease was over", len(got))
	}
}

// A network that swallows everything leaves the lock with a connection that is there for the server alone.
func TestALockThatALostConnectionHoldsIsFreed(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	through := newCutter(t, url)
	owner := joinedState(t, through.url, "a")
	acquireAll(t, owner, "a")
	before := value[int64](t, connect(t, url), `SELECT is_used_lock(`+instanceLock+`)`)
	through.silence()
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := owner.Renew(limited, "a", time.Hour); err == nil {
		t.Fatal("renewed without an answer")
	}
	through.restore()
	owned, err := owner.Renew(t.Context(), "a", time.Hour)
	if err != nil || len(owned) != adapters.Slots {
		t.Fatalf("renewed %d lanes, %v", len(owned), err)
	}
	if after := value[int64](t, connect(t, url), `SELECT is_used_lock(`+instanceLock+`)`); after == before || after == 0 {
		t.Errorf("connection %d holds the lock, it was %d", after, before)
	}
}

func TestG12_StateErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	const canary = "c4nary"
	for _, url := range []string{"mysql://u:" + canary + "@127.0.0.1:1/db", "mysql://u:" + canary + "#x@127.0.0.1:1/db", "mysql://u:" + canary + "%zz@127.0.0.1:1/db",
		"mysql://u:x@" + canary + "@127.0.0.1:1/db", "mysql://u@127.0.0.1:1/db?password=" + canary} {
		state, err := openOnly(t, url)
		if err == nil {
			_ = state.Close()
			t.Errorf("%s: no error", url)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("the password is in %q", err)
		}
	}
}
