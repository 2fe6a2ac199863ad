package statestore_test

import (
	"context"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// crabletLock is the key that Crablet's leader election uses.
const crabletLock = 4856221667890123456

func newLeaderLock(t *testing.T, url string) *statestore.LeaderLock {
	t.Helper()
	lock, err := statestore.NewLeaderLock(t.Context(), statestore.LeaderConfig{URL: url, Key: crabletLock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Close)
	return lock
}

func tryLock(t *testing.T, lock *statestore.LeaderLock) <-chan struct{} {
	t.Helper()
	lost, err := lock.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// eventuallyLocked tries until the lock is taken; only the test's end bounds it.
func eventuallyLocked(t *testing.T, lock *statestore.LeaderLock) <-chan struct{} {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if lost := tryLock(t, lock); lost != nil {
			return lost
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the lock is never free")
		}
	}
}

func TestOneHoldsTheLeaderLock(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	a, b := newLeaderLock(t, dsn), newLeaderLock(t, dsn)
	lost := tryLock(t, a)
	if lost == nil || tryLock(t, b) != nil {
		t.Fatal("want the lock to be a's")
	}
	if _, err := a.TryLock(t.Context()); err == nil {
		t.Error("a took the lock twice")
	}
	a.Unlock()
	<-lost
	eventuallyLocked(t, b)
	if tryLock(t, a) != nil {
		t.Error("a has the lock beside b")
	}
	b.Close()
	lost = eventuallyLocked(t, a)
	select {
	case <-lost:
		t.Error("the lock is said to be lost")
	default:
	}
}

// Crablet takes its lock by pg_try_advisory_lock in a session of its own.
func TestCrabletAndTheLeaderStandByForEachOther(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	crablet := connect(t, dsn)
	if !value[bool](t, crablet, `SELECT pg_try_advisory_lock($1)`, int64(crabletLock)) {
		t.Fatal("the lock is not free")
	}
	lock := newLeaderLock(t, dsn)
	if tryLock(t, lock) != nil {
		t.Fatal("there are two leaders")
	}
	if err := crablet.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventuallyLocked(t, lock)
	if value[bool](t, connect(t, dsn), `SELECT pg_try_advisory_lock($1)`, int64(crabletLock)) {
		t.Error("there are two leaders")
	}
}

func TestTheLeaderLearnsThatItsConnectionDropped(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	lock := newLeaderLock(t, dsn)
	lost := tryLock(t, lock)
	const end = `SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
WHERE application_name = 'outrider-leader' AND datname = current_database()`
	if !value[bool](t, connect(t, dsn), end) {
		t.Fatal("the connection did not end")
	}
	<-lost
	eventuallyLocked(t, lock) // by a new connection
}

// A lock outlives the waits in which its connection is watched.
func TestTheLeaderLockIsKept(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	lock := newLeaderLock(t, dsn)
	lost := tryLock(t, lock)
	timer := time.NewTimer(5 * time.Second) // two pings
	defer timer.Stop()
	select {
	case <-lost:
		t.Fatal("the lock was lost")
	case <-timer.C:
	}
	if tryLock(t, newLeaderLock(t, dsn)) != nil {
		t.Fatal("there are two leaders")
	}
}
